// Package storetest tests implementations of store.Store. A test of an implementation is one line:
//
//	func TestMemory(t *testing.T) { storetest.Run(t, func(t *testing.T) store.Store { return openMemory(t).Store }) }
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
		clientChecks, secretChecks, revokeClientChecks, userChecks, userChangeChecks, organisationChecks,
		familyChecks, familyUserChecks, standingChecks, codeChecks, refreshChecks, endingChecks, logoutChecks, hostSessionChecks, identityChecks, unlinkingChecks, personalTokenChecks, familyRaceChecks, dropChecks,
		keyChecks, revocationChecks, feedChecks, declarationChecks, leaseChecks, sizeChecks, sharedAttemptChecks, strangeChecks, lifeChecks,
	)
}

// check is one test of the suite, with one of the functions.
type check struct {
	name string
	test func(t *testing.T, s store.Store) // on an empty store
	// beside is about concurrent callers. Run passes one store as both a and b, and RunDurable passes two stores on one empty place.
	beside func(t *testing.T, a, b store.Store)
	// reopened is for RunDurable alone. Every call of open opens a store on the same place.
	reopened func(t *testing.T, open func() store.Store)
}

// Run tests a store. Each test calls open for an empty store of its own, and closes it.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, c := range contract() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			// After a test of Close, the result of a second Close does not matter.
			t.Cleanup(func() { _ = s.Close() })
			if c.beside != nil {
				c.beside(t, s, s)
				return
			}
			c.test(t, s)
		})
	}
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

// sameClient compares two clients, times to the millisecond, and treats empty and nil lists alike.
func sameClient(t *testing.T, got, want *store.Client) {
	t.Helper()
	if got.ID != want.ID || got.Name != want.Name || got.Type != want.Type || got.FirstParty != want.FirstParty || got.PKCE != want.PKCE ||
		got.RevokePrevious != want.RevokePrevious || !reflect.DeepEqual(got.ClientOpenID, want.ClientOpenID) || got.ClientKeys != want.ClientKeys ||
		got.Lifetimes != want.Lifetimes || got.Disabled != want.Disabled || got.Declared != want.Declared ||
		!slices.Equal(got.Grants, want.Grants) || !slices.Equal(got.Scopes, want.Scopes) ||
		!slices.Equal(got.RedirectURIs, want.RedirectURIs) || !slices.Equal(got.CORSOrigins, want.CORSOrigins) || !sameTime(got.CreatedAt, want.CreatedAt) ||
		got.Origin != want.Origin || !sameTime(got.LastUsedAt, want.LastUsedAt) {
		t.Errorf("client is\n%+v, want\n%+v", got, want)
	}
	sameSecrets(t, got.Secrets, want.Secrets)
}

// sameSecrets compares secrets in order.
func sameSecrets(t *testing.T, got, want []store.ClientSecret) {
	t.Helper()
	if !slices.EqualFunc(got, want, func(a, b store.ClientSecret) bool {
		return a.Digest == b.Digest && sameTime(a.CreatedAt, b.CreatedAt) && sameTime(a.ExpiresAt, b.ExpiresAt)
	}) {
		t.Errorf("secrets are\n%s\nwant\n%s", describe(got), describe(want))
	}
}

func describe(secrets []store.ClientSecret) (text string) {
	for _, s := range secrets {
		text += fmt.Sprintf("  %x made %v ends %v\n", s.Digest[:4], s.CreatedAt, s.ExpiresAt)
	}
	return text
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

func name(r store.Revocation) string { return string(r.Kind) + " " + r.ID }

func sameRevocation(t *testing.T, got, want store.Revocation) {
	t.Helper()
	if name(got) != name(want) || !sameTime(got.IssuedUntil, want.IssuedUntil) || !sameTime(got.ExpiresAt, want.ExpiresAt) {
		t.Errorf("revocation is\n%+v, want\n%+v", got, want)
	}
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
