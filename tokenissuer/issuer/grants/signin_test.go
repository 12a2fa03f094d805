package grants_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/issuer/grants"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// signInFor performs the password grant.
func (f *flow) signInFor(clientID, email, password string) (issuer.Tokens, error) {
	r := Request{GrantType: oauth.PasswordGrant, Login: PasswordParameters{Email: email, Password: oauth.NewSecret(password)}, Client: clients.Authentication{Address: "192.0.2.1"}}
	if clientID != "" {
		r.Client = f.credentials(clientID)
	}
	return f.exchange(r)
}

// TestT145ADeviceOfAnEarlierOwner: a locked account and a browser that a former owner of the user id signed in with → 429, the browser is
// not known.
func TestT145ADeviceOfAnEarlierOwner(t *testing.T) {
	f := newFlow(t)
	fill := func(device oauth.Secret) error {
		for range 10 {
			_, err := f.signInFor("", "ada@acme.example", "wrong password")
			tokentest.WantCode(t, err, oauth.InvalidGrant)
		}
		_, err := f.SignIn(t.Context(), signin.Attempt{
			Email: "ada@acme.example", Password: oauth.NewSecret(userPassword), Address: "198.51.100.7", Device: device,
		})
		return err
	}
	owner := *f.user("ada")
	former, err := f.Device(signin.SignedIn{User: &owner})
	f.must(err)
	f.must(f.registry.People.RemoveUser(t.Context(), owner.ID))
	f.wait(36 * 24 * time.Hour)
	_, err = f.registry.People.AddUser(t.Context(), store.User{
		ID: owner.ID, Email: owner.Email, Organisation: owner.Organisation, Role: owner.Role, PasswordHash: cheapHash(),
	}, oauth.Secret{})
	f.must(err)
	if f.user("ada").Version != owner.Version {
		t.Fatal("the versions differ: the test shows nothing")
	}
	tokentest.WantCode(t, fill(former), oauth.RateLimited)
	f.wait(time.Hour)
	own, err := f.Device(signin.SignedIn{User: f.user("ada")})
	f.must(err)
	f.must(fill(own))
}

// hundredfold counts a proved password as a hundred, because 600 hashes would take long.
type hundredfold struct{ store.AttemptCounter }

func (h hundredfold) Failures(ctx context.Context, bucket string, now time.Time) (n int, until time.Time) {
	n, until = h.AttemptCounter.Failures(ctx, bucket, now)
	if strings.HasPrefix(bucket, "proved") {
		n *= 100
	}
	return n, until
}

// TestT121ProofsAreBounded: sign-ins are bounded before anything is hashed, for an address that has proved the password itself. Other
// addresses learn no more than they would of an account that does not exist.
func TestT121ProofsAreBounded(t *testing.T) {
	f := newFlow(t)
	attempt := func(address, password string) error {
		_, err := f.SignIn(t.Context(), signin.Attempt{Email: "ada@acme.example", Password: oauth.NewSecret(password), Address: address})
		return err
	}
	f.Families.Limits.Attempts = hundredfold{f.Families.Limits.Attempts}
	f.must(attempt("198.51.100.2", userPassword))
	for range 5 {
		f.must(attempt("198.51.100.1", userPassword))
	}
	f.store.asked()
	for _, address := range []string{"198.51.100.1", "198.51.100.2"} {
		tokentest.WantCode(t, attempt(address, userPassword), oauth.RateLimited)
		tokentest.WantCode(t, attempt(address, "wrong password"), oauth.RateLimited)
	}
	if steps := f.store.asked(); slices.Contains(steps, "PasswordSchemes") || slices.Contains(steps, "RehashPassword") {
		t.Errorf("asked for %v", steps)
	}
	tokentest.WantCode(t, attempt("198.51.100.3", "wrong password"), oauth.InvalidGrant)
	f.must(attempt("198.51.100.3", userPassword))
	tokentest.WantCode(t, attempt("198.51.100.3", userPassword), oauth.RateLimited)
	f.wait(time.Minute)
	f.must(attempt("198.51.100.1", userPassword))
}

func TestAnOutageIsNoFailedAttempt(t *testing.T) {
	f := newFlow(t)
	for _, step := range []string{"UserByEmail", "PasswordSchemes"} {
		f.store.fail(step, false)
		for range 15 {
			_, err := f.signInFor("", "ada@acme.example", "wrong password")
			tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
		}
	}
	f.store.fail("AddFamily", false)
	_, err := f.signInFor("", "ada@acme.example", userPassword)
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
	f.store.fail("RehashPassword", false)
	_, err = f.signInFor("", "ada@acme.example", userPassword)
	f.must(err)
}
