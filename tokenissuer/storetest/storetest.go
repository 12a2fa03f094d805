// Package storetest tests implementations of store.Store. A test of an implementation is one line:
//
//	func TestMemory(t *testing.T) { storetest.Run(t, func(t *testing.T) store.Store { return openMemory(t) }) }
//
// Run it with -race: half of the contract is about concurrent callers.
package storetest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// racers is the number of concurrent callers where the contract names a winner.
const racers = 32

// contract returns the checks that every store must pass.
func contract() []check {
	return slices.Concat(
		clientChecks, clientSearchChecks, secretChecks, revokeClientChecks, userChecks, userChangeChecks, userSearchChecks, organisationChecks,
		familyChecks, familyUserChecks, standingChecks, codeChecks, refreshChecks, endingChecks, logoutChecks, mailChecks, hostSessionChecks,
		identityChecks, unlinkingChecks, personalTokenChecks, importChecks, factorChecks, deviceChecks, familyRaceChecks, dropChecks, keyChecks, revocationChecks, feedChecks,
		declarationChecks, auditChecks, leaseChecks, sizeChecks, sharedAttemptChecks, strangeChecks, lifeChecks,
	)
}

// check is one test of the suite, with one of the functions. Each gets an empty store.
type check struct {
	name string
	test func(t *testing.T, s store.Store)
	// races is about concurrent callers.
	races func(t *testing.T, s store.Store)
	// beside is about concurrent callers, too. Run passes one store as both a and b, and RunDurable passes two stores on one empty place.
	beside func(t *testing.T, a, b store.Store)
	// reopened is for RunDurable alone. Every call of open opens a store on the same place.
	reopened func(t *testing.T, open func() store.Store)
}

// Run tests a store. Each check calls open for an empty store of its own, and closes it.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, c := range contract() {
		run(t, c, open)
	}
}

// RunSequential is Run without the checks about concurrent callers, for a store that serializes its steps by the code that another test
// runs them on.
func RunSequential(t *testing.T, open func(t *testing.T) store.Store) {
	for _, c := range contract() {
		if c.test != nil {
			run(t, c, open)
		}
	}
}

func run(t *testing.T, c check, open func(t *testing.T) store.Store) {
	t.Run(c.name, func(t *testing.T) {
		t.Parallel()
		s := open(t)
		// After a test of Close, the result of a second Close does not matter.
		t.Cleanup(func() { _ = s.Close() })
		switch {
		case c.test != nil:
			c.test(t, s)
		case c.races != nil:
			c.races(t, s)
		default:
			c.beside(t, s, s)
		}
	})
}

// now has parts below a millisecond, to test how a store rounds.
var now = time.Now().UTC().Truncate(time.Hour).Add(12*time.Minute + 34*time.Second + 567891*time.Microsecond)

// client returns a registration in which every field has a distinct value.
func client(id string) *store.Client {
	return &store.Client{
		ID:   id,
		Name: "Étude “" + id + "” 📦",
		Type: store.ConfidentialClient,
		Secrets: []store.ClientSecret{
			{Digest: digest(id + " first"), CreatedAt: now.Add(-time.Hour), ExpiresAt: now.Add(time.Hour)},
			{Digest: digest(id + " second"), CreatedAt: now},
			{Hash: oauth.NewSecret("$2a$12$of " + id), CreatedAt: now},
		},
		Grants:       []oauth.GrantType{oauth.ClientCredentials, oauth.AuthorizationCode},
		Scopes:       oauth.Scopes{"public", "read:<things>'&"},
		RedirectURIs: []string{"https://app.example/callback?a=1&b=<2>", "com.example.app:/back"},
		CORSOrigins:  []string{"https://app.example", "http://localhost:3000"},
		FirstParty:   true,
		PKCE:         oauth.PKCEOptional, RevokePrevious: true,
		ClientOpenID: store.ClientOpenID{
			IDTokenAlgorithm: oauth.EdDSA, PostLogoutRedirectURIs: []string{"https://app.example/bye?é='\"", "com.example.app:/bye"},
			BackchannelLogoutURI: "https://app.example/backchannel?a=1", BackchannelLogoutSessionRequired: true, ResponseModes: []string{"form_post"}, DefaultMaxAge: new(int64),
		},
		ClientKeys: store.ClientKeys{JWKS: "{\"keys\":[\"é'\"]}", JWKSURI: "https://app.example/keys?a=1"},
		Exchange: []store.ExchangeRule{
			{Audiences: []string{"https://stock.example/é", "billing"}, From: []string{"https://app.example"}, Scopes: oauth.Scopes{"read:<things>'&"}},
			{Audiences: []string{"ledger"}},
		},
		Lifetimes: store.Lifetimes{
			AuthorizationCode: 90 * time.Minute, ClientCredentials: time.Second, Password: 24 * time.Hour, AdminCreated: time.Hour,
		},
		CreatedAt: now.Add(-2 * time.Hour),
	}
}

func digest(secret string) [sha256.Size]byte { return oauth.NewSecret(secret).Digest() }

// revocation returns a revocation of every token of a client that was issued until now.
func revocation(clientID string) store.Revocation {
	return store.Revocation{
		Kind: store.RevokeClient, ID: clientID, IssuedUntil: now, ExpiresAt: now.Add(24 * time.Hour),
	}
}

// must ends the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ok returns the result of a call, which must succeed: ok(s.User(ctx, id))(t).
func ok[T any](result T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return result
	}
}

// errOf returns the error of a call.
func errOf[T any](_ T, err error) error { return err }

func mustBe(t *testing.T, err, sentinel error) {
	t.Helper()
	if !errors.Is(err, sentinel) {
		t.Fatalf("got error %v, want %v", err, sentinel)
	}
}

// read returns a client, which must exist.
func read(t *testing.T, s store.ClientDirectory, id string) *store.Client {
	t.Helper()
	c, err := s.Client(t.Context(), id)
	if err != nil {
		t.Fatalf("reading client %q: %v", id, err)
	}
	return c
}

// race calls f in n goroutines at once and returns their errors.
func race(n int, f func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	group.Wait()
	return errs
}

// all calls f in n goroutines at once. Each call must succeed.
func all(t *testing.T, n int, f func(i int) error) {
	t.Helper()
	must(t, errors.Join(race(n, f)...))
}

// besideTheEnd calls end and the other functions at once. The end must succeed, and the others may be refused with that error. It returns
// the result of the end, and for each of the others whether it succeeded.
func besideTheEnd[T any](t *testing.T, refused error, end func() (T, error), others ...func() error) (ended T, done []bool) {
	t.Helper()
	errs := race(1+len(others), func(i int) (err error) {
		if i > 0 {
			return others[i-1]()
		}
		ended, err = end()
		return err
	})
	must(t, errs[0])
	for _, err := range errs[1:] {
		if err != nil {
			mustBe(t, err, refused)
		}
		done = append(done, err == nil)
	}
	return ended, done
}

func oneWinner(t *testing.T, errs []error, sentinel error) {
	t.Helper()
	winners := 0
	for _, err := range errs {
		if err == nil {
			winners++
		} else if !errors.Is(err, sentinel) {
			t.Errorf("a loser got %v, want %v", err, sentinel)
		}
	}
	if winners != 1 {
		t.Fatalf("%d of %d callers won, want exactly one", winners, len(errs))
	}
}

// same compares two records: all fields, times to the millisecond, and empty lists like nil ones.
func same[T any](t *testing.T, got, want T) {
	t.Helper()
	if !alike(reflect.ValueOf(got), reflect.ValueOf(want)) {
		t.Errorf("%T is\n%s, want\n%s", got, shown(reflect.ValueOf(got)), shown(reflect.ValueOf(want)))
	}
}

func shown(v reflect.Value) (text string) {
	if v.Kind() != reflect.Slice {
		return fmt.Sprintf("%+v", reflect.Indirect(v))
	}
	for i := range v.Len() {
		text += shown(v.Index(i)) + "\n"
	}
	return text
}

func alike(a, b reflect.Value) bool {
	if at, is := a.Interface().(time.Time); is {
		return sameTime(at, b.Interface().(time.Time))
	}
	switch {
	case a.Kind() == reflect.Pointer && !a.IsNil() && !b.IsNil():
		return alike(a.Elem(), b.Elem())
	case a.Kind() == reflect.Slice:
		for i := range min(a.Len(), b.Len()) {
			if !alike(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return a.Len() == b.Len()
	case a.Kind() == reflect.Struct && a.Type() != reflect.TypeFor[oauth.Secret]():
		for i := range a.NumField() {
			if !alike(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// wantClients compares stored clients with these.
func wantClients(t *testing.T, s store.ClientDirectory, want ...*store.Client) {
	t.Helper()
	for _, c := range want {
		same(t, read(t, s, c.ID), c)
	}
}

func sameTime(a, b time.Time) bool {
	return a.IsZero() == b.IsZero() && a.Sub(b).Abs() < time.Millisecond
}

// recorded returns all revocations, by kind and id.
func recorded(t *testing.T, s store.RevocationStore) map[string]store.Revocation {
	t.Helper()
	list, _, err := s.Revocations(t.Context(), store.FeedPosition{})
	must(t, err)
	byName := make(map[string]store.Revocation, len(list))
	for _, r := range list {
		if _, twice := byName[name(r)]; twice {
			t.Errorf("%s is listed twice", name(r))
		}
		byName[name(r)] = r
	}
	return byName
}

// nothingRevoked checks that the feed is empty.
func nothingRevoked(t *testing.T, s store.RevocationStore) {
	t.Helper()
	wantSize(t, recorded(t, s), 0)
}

func name(r store.Revocation) string { return string(r.Kind) + " " + r.ID }

// wantSize checks the length of a list or a map.
func wantSize(t *testing.T, list any, want int) {
	t.Helper()
	if n := reflect.ValueOf(list).Len(); n != want {
		t.Fatalf("there are %d, want %d: %+v", n, want, list)
	}
}

// with returns a record after an edit.
func with[T any](record *T, edit func(*T)) *T {
	edit(record)
	return record
}

// edit returns a change of a user that ends tokens.
func edit(set func(u *store.User)) store.UserChange {
	return store.UserChange{Edit: func(u *store.User) error { set(u); return nil }}
}

// tell returns a change of what applications learn about a user.
func tell(set func(u *store.User)) store.UserChange {
	change := edit(set)
	change.KeepsTokens = true
	return change
}
