package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

var lifeChecks = []check{
	{"Ping", func(t *testing.T, s tokenissuer.Store) { must(t, s.Ping(t.Context())) }},
	{"CancelledCallsDoNothing", cancelledCallsDoNothing},
	{"ClosedStoreFails", closedStoreFails},
	{"EverythingAtOnce", everythingAtOnce},
}

// call is one method of the store with valid arguments, on a store that holds the client "app".
type call struct {
	name string
	do   func(ctx context.Context) error
}

func calls(s tokenissuer.Store) []call {
	sealed := key("k", tokenissuer.ES256, now)
	sealed.SealedWith = "kek"
	return []call{
		{"Ping", s.Ping},
		{"Client", func(ctx context.Context) error { _, err := s.Client(ctx, "app"); return err }},
		{"Clients", func(ctx context.Context) error { _, err := s.Clients(ctx); return err }},
		{"AddClient", func(ctx context.Context) error { return s.AddClient(ctx, client("new")) }},
		{"RotateClientSecret", func(ctx context.Context) error { return s.RotateClientSecret(ctx, "app", secret("new", now), now) }},
		{"DisableClient", func(ctx context.Context) error { return s.DisableClient(ctx, "app", revocation("app")) }},
		{"EnableClient", func(ctx context.Context) error { return s.EnableClient(ctx, "app") }},
		{"RemoveClient", func(ctx context.Context) error { return s.RemoveClient(ctx, "app", revocation("app")) }},
		{"SigningKeys", func(ctx context.Context) error { _, err := s.SigningKeys(ctx); return err }},
		{"AddFirstSigningKey", func(ctx context.Context) error {
			return s.AddFirstSigningKey(ctx, key("rs", tokenissuer.RS256, now))
		}},
		{"SealSigningKey", func(ctx context.Context) error { return s.SealSigningKey(ctx, sealed) }},
		{"Revoke", func(ctx context.Context) error { return s.Revoke(ctx, revocation("revoked")) }},
		{"Revocations", func(ctx context.Context) error { _, _, err := s.Revocations(ctx, 0); return err }},
		{"DropRevocations", func(ctx context.Context) error { return s.DropRevocations(ctx, now.Add(48*time.Hour)) }},
	}
}

// cancelledCallsDoNothing: a caller that has given up gets an error that says so, and nothing has happened.
func cancelledCallsDoNothing(t *testing.T, s tokenissuer.Store) {
	plain := key("k", tokenissuer.ES256, now)
	must(t, s.AddClient(t.Context(), client("app")))
	must(t, s.AddFirstSigningKey(t.Context(), plain))
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range calls(s) {
		if err := c.do(cancelled); !errors.Is(err, context.Canceled) {
			t.Errorf("%s returned %v, want the context's error", c.name, err)
		}
	}
	list, err := s.Clients(t.Context())
	must(t, err)
	if len(list) != 1 {
		t.Fatalf("%d clients are stored, want one", len(list))
	}
	sameClient(t, list[0], client("app"))
	sameKeys(t, storedKeys(t, s), plain)
	if revoked := recorded(t, s); len(revoked) != 0 {
		t.Errorf("revoked is %v, want nothing", revoked)
	}
	must(t, s.AddClient(t.Context(), client("new"))) // the cancelled call did not take the id
}

// closedStoreFails: after Close every call returns an error. A sentinel would be an answer, and there is none.
func closedStoreFails(t *testing.T, s tokenissuer.Store) {
	must(t, s.AddClient(t.Context(), client("app")))
	must(t, s.Close())
	for _, c := range calls(s) {
		err := c.do(t.Context())
		if err == nil || errors.Is(err, tokenissuer.ErrNotFound) || errors.Is(err, tokenissuer.ErrTaken) {
			t.Errorf("%s on a closed store returned %v", c.name, err)
		}
	}
}

// everythingAtOnce: every method meets every other; -race looks on.
func everythingAtOnce(t *testing.T, s tokenissuer.Store) {
	const each = 4
	for i := range each {
		must(t, s.AddClient(t.Context(), client(fmt.Sprint("app ", i))))
	}
	methods := calls(s)
	errs := race(each*len(methods), func(i int) error {
		c, id := methods[i%len(methods)], fmt.Sprint("app ", i%each)
		err := errors.Join(
			c.do(t.Context()),
			s.RotateClientSecret(t.Context(), id, secret(fmt.Sprint(i), now), now),
			s.DisableClient(t.Context(), id, revocation(id)),
			s.EnableClient(t.Context(), id),
		)
		got, readErr := s.Client(t.Context(), id)
		if readErr != nil {
			return readErr
		}
		if len(got.Secrets) != 1 {
			return fmt.Errorf("client %q was seen in the middle of a rotation, with %d secrets", id, len(got.Secrets))
		}
		return err
	})
	for _, err := range errs {
		if err != nil && !errors.Is(err, tokenissuer.ErrNotFound) && !errors.Is(err, tokenissuer.ErrTaken) {
			t.Error(err)
		}
	}
}
