package grants

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

func (a *authority) authenticate(c clients.Authentication) (*store.Client, error) {
	return a.Authenticate(context.Background(), c)
}

func (a *authority) refusesClient(t *testing.T, c clients.Authentication) {
	t.Helper()
	client, err := a.authenticate(c)
	tokentest.WantCode(t, err, oauth.InvalidClient)
	if text := oauth.AsError(err).Description; client != nil || text != oauth.NewError(oauth.InvalidClient, "").Description {
		t.Errorf("%v, %q", client, text)
	}
}

// TestT11AnEmptySecretMatchesNothing: an empty secret does not match even a stored digest of the empty string.
func TestT11AnEmptySecretMatchesNothing(t *testing.T) {
	a := newAuthority(t)
	a.directory.put(&store.Client{ID: "hollow", Type: store.ConfidentialClient, Secrets: digestsOf("")})
	a.directory.put(&store.Client{ID: "zero", Type: store.ConfidentialClient, Secrets: make([]store.ClientSecret, 1)})
	a.directory.put(&store.Client{ID: "none", Type: store.ConfidentialClient})
	for _, id := range []string{"hollow", "zero", "none"} {
		a.refusesClient(t, clients.Authentication{PublicID: id})
		a.refusesClient(t, withSecret(id, ""))
		a.refusesClient(t, withSecret(id, "x"))
	}
}

// TestT17EveryRefusalAsksTheDirectoryOnce: the work must not reveal whether a client exists.
func TestT17EveryRefusalAsksTheDirectoryOnce(t *testing.T) {
	a := newAuthority(t)
	if _, err := a.authenticate(withSecret("conf", tokentest.ClientSecret)); err != nil { // conf is cached now
		t.Fatal(err)
	}
	a.directory.questions()
	for _, id := range []string{"conf", "gone", "off", "pub", "other"} {
		a.refusesClient(t, withSecret(id, "wrong"))
		if n := a.directory.questions(); n != 1 {
			t.Errorf("%s: the directory was asked %d times", id, n)
		}
	}
}

// TestT21TryingManyIDsIsBounded: 200 client ids tried from one address → 429; another address → served. An address has ten times the
// failures of one client, whatever ids it tries.
func TestT21TryingManyIDsIsBounded(t *testing.T) {
	a := newAuthority(t)
	for i := range 200 {
		a.refusesClient(t, withSecret(fmt.Sprint("guess", i), "x"))
	}
	_, err := a.authenticate(withSecret("one more", "x"))
	tokentest.WantCode(t, err, oauth.RateLimited)
	elsewhere := withSecret("conf", tokentest.ClientSecret)
	elsewhere.Address = "198.51.100.7"
	if _, err := a.authenticate(elsewhere); err != nil {
		t.Errorf("another address is locked out: %v", err)
	}
}

func TestT21OneFailureARequest(t *testing.T) {
	a := newAuthority(t)
	c := clients.Authentication{Address: "192.0.2.1", Readings: []clients.Credential{{ID: "conf", Secret: oauth.NewSecret("x")}, {ID: "co+nf", Secret: oauth.NewSecret("y")}}}
	a.refusesClient(t, c)
	const counts = 2 // for the client at its address, and for the address
	if a.attempts.counted != counts || len(a.attempts.buckets) != counts {
		t.Errorf("%d failures in %d buckets", a.attempts.counted, len(a.attempts.buckets))
	}
	if _, err := a.authenticate(clients.Authentication{}); err == nil || a.attempts.counted != counts {
		t.Error("a request without credentials was counted")
	}
	a.directory.fault = store.Unavailable(errors.New("down"))
	_, err := a.authenticate(withSecret("other", "wrong"))
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
	if a.attempts.counted != counts {
		t.Error("an outage was counted as a failure")
	}
}

func TestT21ParallelFailuresAreCountedToo(t *testing.T) {
	a := newAuthority(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	codes := make(map[oauth.ErrorCode]int)
	for range 200 {
		wg.Go(func() {
			_, err := a.authenticate(withSecret("conf", "wrong"))
			mu.Lock()
			codes[oauth.AsError(err).Code]++
			mu.Unlock()
		})
	}
	wg.Wait()
	if codes[oauth.InvalidClient] != 20 || codes[oauth.RateLimited] != 180 {
		t.Errorf("%v", codes)
	}
}

func TestNobodyCountsWithoutALimit(t *testing.T) {
	a := newAuthority(t)
	a.Families.Limits.ClientLimit = attempts.Limit{}
	for range 100 {
		a.refusesClient(t, withSecret("conf", "wrong"))
	}
	a.Families.Limits.Attempts, a.Families.Limits.ClientLimit = nil, attempts.Limit{Failures: 1, Window: time.Minute}
	for range 100 {
		a.refusesClient(t, withSecret("conf", "wrong"))
	}
	if a.attempts.counted != 0 {
		t.Errorf("%d failures counted", a.attempts.counted)
	}
}

func TestAuthenticatedClientsAreRememberedForASecond(t *testing.T) {
	a := newAuthority(t)
	ask := func(want int) {
		t.Helper()
		if _, err := a.authenticate(withSecret("conf", tokentest.ClientSecret)); err != nil {
			t.Fatal(err)
		}
		if n := a.directory.questions(); n != want {
			t.Errorf("the directory was asked %d times, want %d", n, want)
		}
	}
	ask(1)
	ask(0)
	a.gate.Add(time.Second - 1)
	ask(0)
	a.gate.Add(1)
	ask(1)
	a.Authenticated.Forget("conf")
	ask(1)
	// A change by another node goes unnoticed for a second at most.
	changed := *a.client("conf")
	changed.Disabled = true
	a.directory.put(&changed)
	ask(0)
	a.gate.Add(time.Second)
	a.refusesClient(t, withSecret("conf", tokentest.ClientSecret))
	// A refusal is not cached.
	changed.Disabled = false
	fresh := changed
	a.directory.put(&fresh)
	ask(2) // one for the refusal, one for this call
	// A new secret works at once, although the client is cached with the old one.
	rotated := fresh
	rotated.Secrets = append(slices.Clone(fresh.Secrets), digestsOf("brand-new")...)
	a.directory.put(&rotated)
	a.directory.questions()
	if _, err := a.authenticate(withSecret("conf", "brand-new")); err != nil {
		t.Errorf("a new secret is refused: %v", err)
	}
	// Forget makes a disabled client refused at once.
	rotated.Disabled = true
	off := rotated
	a.directory.put(&off)
	a.Authenticated.Forget("conf")
	a.refusesClient(t, withSecret("conf", tokentest.ClientSecret))
}

func TestRememberedClientsStillNeedTheirSecret(t *testing.T) {
	a := newAuthority(t)
	if _, err := a.authenticate(withSecret("conf", tokentest.ClientSecret)); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{"", "x", tokentest.ClientSecret + "x", tokentest.ClientSecret[:42], "other-" + tokentest.ClientSecret} {
		a.refusesClient(t, withSecret("conf", wrong))
	}
	a.refusesClient(t, withSecret("other", tokentest.ClientSecret))
	a.refusesClient(t, clients.Authentication{PublicID: "conf"})
}

func TestADeclaredClientSurvivesAFailingStore(t *testing.T) {
	a := newAuthority(t)
	declared, err := store.NewStaticDirectory(store.Declarations{Clients: []*store.Client{{ID: "decl", Type: store.ConfidentialClient, Secrets: digestsOf(tokentest.ClientSecret), Grants: []oauth.GrantType{oauth.ClientCredentials}, Scopes: oauth.Scopes{oauth.ScopePublic}}}})
	if err != nil {
		t.Fatal(err)
	}
	a.Directory, a.Declared = store.OverlayDirectory{Declared: declared, Stored: a.directory}, declared
	if _, err := a.authenticate(withSecret("conf", tokentest.ClientSecret)); err != nil {
		t.Fatal(err)
	}
	a.directory.fault = store.Unavailable(errors.New("down"))
	if c, err := a.authenticate(withSecret("decl", tokentest.ClientSecret)); err != nil || !c.Declared {
		t.Errorf("%v, %v", c, err)
	}
	a.refusesClient(t, withSecret("decl", "wrong"))
	if _, err := a.authenticate(withSecret("conf", tokentest.ClientSecret)); err != nil {
		t.Errorf("a remembered client fails with the store: %v", err)
	}
	a.gate.Add(time.Second)
	_, err = a.authenticate(withSecret("conf", tokentest.ClientSecret))
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
	_, err = a.authenticate(withSecret("gone", "x"))
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
}

// TestT17ADeclaredClientAsksNobody: with correct credentials, a declared client needs no look-up. With wrong ones, the directory is read as
// for an unknown client.
func TestT17ADeclaredClientAsksNobody(t *testing.T) {
	a := newAuthority(t)
	declared, err := store.NewStaticDirectory(store.Declarations{Clients: []*store.Client{
		{ID: "decl", Type: store.ConfidentialClient, Secrets: digestsOf(tokentest.ClientSecret), Grants: []oauth.GrantType{oauth.ClientCredentials}, Scopes: oauth.Scopes{oauth.ScopePublic}},
		{ID: "app", Type: store.PublicClient, Grants: []oauth.GrantType{oauth.AuthorizationCode}, RedirectURIs: []string{"https://app.example/"}, Scopes: oauth.Scopes{oauth.ScopePublic}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	a.Directory, a.Declared = store.OverlayDirectory{Declared: declared, Stored: a.directory}, declared
	for _, c := range []struct {
		name string
		with clients.Authentication
		good bool
		asks int
	}{
		{"right secret", withSecret("decl", tokentest.ClientSecret), true, 0},
		{"public", clients.Authentication{PublicID: "app"}, true, 0},
		{"wrong secret", withSecret("decl", "wrong"), false, 1},
		{"no secret", clients.Authentication{PublicID: "decl"}, false, 1},
		{"unknown", withSecret("gone", tokentest.ClientSecret), false, 1},
		{"unknown, no secret", clients.Authentication{PublicID: "gone"}, false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			a.directory.questions()
			client, err := a.authenticate(c.with)
			if (err == nil) != c.good || c.good && !client.Declared {
				t.Errorf("%v, %v", client, err)
			}
			if n := a.directory.questions(); n != c.asks {
				t.Errorf("the directory was asked %d times, want %d", n, c.asks)
			}
		})
	}
}
