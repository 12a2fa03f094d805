package tokenissuer_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// signInFor is the password grant.
func (f *flow) signInFor(clientID, email, password string) (Tokens, error) {
	r := TokenRequest{GrantType: oauth.PasswordGrant, Email: email, Password: oauth.NewSecret(password), Client: ClientAuthentication{Address: "192.0.2.1"}}
	if clientID != "" {
		r.Client = f.credentials(clientID)
	}
	return f.exchange(r)
}

func TestT69ThePasswordGrant(t *testing.T) {
	f := newFlow(t)
	for _, client := range []string{"conf", ""} {
		tokens, err := f.signInFor(client, "ada@acme.example", userPassword)
		f.must(err)
		f.alive(tokens)
		sameScopes(t, tokens.Scopes, oauth.ScopePublic)
		if tokens.ExpiresIn != 2419200*time.Second || !tokens.RefreshToken.IsEmpty() || tokens.Claims.Subject != "u-ada" || tokens.Claims.IsServerToken() || !tokens.Claims.AuthTime.Equal(tokentest.Start) {
			t.Errorf("%q: %+v, %+v", client, tokens, tokens.Claims)
		}
	}
	tokens, err := f.exchange(TokenRequest{GrantType: oauth.PasswordGrant, Username: "ada@acme.example", Password: oauth.NewSecret(userPassword), Scope: "trusted public"})
	f.must(err)
	sameScopes(t, tokens.Scopes, oauth.ScopeTrusted, oauth.ScopePublic)
}

// TestT70OneAnswerForEveryFailure, after the same work: a hash under every scheme in use.
func TestT70OneAnswerForEveryFailure(t *testing.T) {
	f := newFlow(t)
	f.must(f.registry.SetUserStatus(t.Context(), "u-bob", store.UserDisabled))
	f.must(f.registry.SetUserStatus(t.Context(), "u-mia", store.UserLocked))
	_, err := f.registry.AddUser(t.Context(), store.User{ID: "u-new", Email: "new@acme.example", Organisation: "acme"}, oauth.Secret{})
	f.must(err)
	refusal := func(email, password string) *oauth.Error {
		f.store.asked()
		_, err := f.signInFor("conf", email, password)
		tokentest.WantCode(t, err, oauth.InvalidGrant)
		for _, step := range f.store.asked() {
			if step == "RehashPassword" || step == "AddFamily" {
				t.Errorf("%s: the store was asked for %s", email, step)
			}
		}
		return oauth.AsError(err)
	}
	want := refusal("ada@acme.example", "wrong password")
	for name, got := range map[string]*oauth.Error{
		"unknown": refusal("nobody@acme.example", userPassword), "disabled": refusal("bob@acme.example", userPassword), "locked": refusal("mia@acme.example", userPassword),
		"invited": refusal("new@acme.example", userPassword), "no address": refusal("not an address", userPassword), "an id": refusal("u-ada", userPassword),
	} {
		if got.Code != want.Code || got.Reason != want.Reason || got.Description != want.Description || got.RetryAfter != want.RetryAfter {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// TestT71OneAccountHasOneSpelling, for finding the user and for counting.
func TestT71OneAccountHasOneSpelling(t *testing.T) {
	f := newFlow(t)
	_, err := f.registry.AddUser(t.Context(), store.User{ID: "u-kim", Email: "kim.é+tag@acme.example", Organisation: "acme", PasswordHash: cheapHash()}, oauth.Secret{})
	f.must(err)
	spellings := []string{
		"kim.é+tag@acme.example", "KIM.É+TAG@ACME.EXAMPLE", "kim.e\u0301+tag@acme.example", "\u212aim.é+tag@acme.example", " kim.é+tag@acme.example ", "kim.é+tag@acme.example.", "kim.é+tag@acme.example. .",
		"kim.é+tag@acme.exampl\uff45", "kim.é+tag@acme.example\u2024", "kim.é+tag@acme.example\u00a0",
	}
	for _, spelling := range spellings {
		if _, err := f.signInFor("", spelling, userPassword); err != nil {
			t.Errorf("%q: %v", spelling, err)
		}
	}
	for i := range 10 {
		_, err := f.signInFor("", spellings[i%len(spellings)], "wrong password")
		tokentest.WantCode(t, err, oauth.InvalidGrant)
	}
	for _, spelling := range spellings {
		_, err := f.signInFor("", spelling, userPassword)
		tokentest.WantCode(t, err, oauth.RateLimited)
	}
	for _, another := range []string{"k\u0131m.é+tag@acme.example", "kim.é@acme.example", "kimé+tag@acme.example", "kim.é+tag@acme.example@acme.example"} {
		if _, err := f.signInFor("", another, userPassword); oauth.AsError(err).Code != oauth.InvalidGrant {
			t.Errorf("%q: %v", another, err)
		}
	}
}

// TestT72OneBucketForAllDoors: the page and the grant count together, for accounts that do not exist too.
func TestT72OneBucketForAllDoors(t *testing.T) {
	for _, email := range []string{"ada@acme.example", "nobody@acme.example"} {
		f := newFlow(t)
		page := SignInAttempt{Email: strings.ToUpper(email), Password: oauth.NewSecret("wrong password"), Address: "198.51.100.7"}
		for i := range 10 {
			var err error
			if i%2 == 0 {
				_, err = f.SignIn(t.Context(), page)
			} else {
				_, err = f.signInFor("conf", email, "wrong password")
			}
			tokentest.WantCode(t, err, oauth.InvalidGrant)
		}
		f.wait(20 * time.Second)
		for range 3 {
			_, err := f.signInFor("", email, userPassword)
			tokentest.WantCode(t, err, oauth.RateLimited)
			_, err = f.SignIn(t.Context(), page)
			tokentest.WantCode(t, err, oauth.RateLimited)
			if after := oauth.AsError(err).RetryAfter; after != 40*time.Second {
				t.Errorf("retry after %s", after)
			}
		}
		f.wait(40 * time.Second)
		_, err := f.SignIn(t.Context(), page)
		tokentest.WantCode(t, err, oauth.InvalidGrant)
	}
}

func TestT73ParallelGuessesAreBounded(t *testing.T) {
	f := newFlow(t)
	f.AddressLimit = Limit{}
	errs := tokentest.Together(200, func(int) error { _, err := f.signInFor("", "ada@acme.example", "wrong password"); return err })
	judged := 0
	for _, err := range errs {
		if oauth.AsError(err).Code == oauth.InvalidGrant {
			judged++
		}
	}
	if judged > 10 {
		t.Errorf("%d guesses were judged", judged)
	}
}

// TestT75OnePasswordForManyAccounts: the address is throttled, and no account is.
func TestT75OnePasswordForManyAccounts(t *testing.T) {
	f := newFlow(t)
	spray := func(i int) error {
		_, err := f.signInFor("", strings.Repeat("x", i+1)+"@acme.example", "Spring2027!")
		return err
	}
	for i := range 29 {
		tokentest.WantCode(t, spray(i), oauth.InvalidGrant)
	}
	_, err := f.signInFor("", "ada@acme.example", "Spring2027!")
	tokentest.WantCode(t, err, oauth.InvalidGrant)
	tokentest.WantCode(t, spray(30), oauth.RateLimited)
	_, err = f.SignIn(t.Context(), SignInAttempt{Email: "ada@acme.example", Password: oauth.NewSecret(userPassword), Address: "198.51.100.7"})
	f.must(err)
}

// TestT76AKnownDeviceIsNotLockedOutByOthers, and its cookie is good for its own account alone.
func TestT76AKnownDeviceIsNotLockedOutByOthers(t *testing.T) {
	f := newFlow(t)
	device, err := f.Device(f.user("ada"))
	f.must(err)
	attempt := func(email, password string, device oauth.Secret) error {
		_, err := f.SignIn(t.Context(), SignInAttempt{Email: email, Password: oauth.NewSecret(password), Address: "198.51.100.7", Device: device})
		return err
	}
	for range 10 {
		_, err := f.signInFor("", "ada@acme.example", "wrong password")
		tokentest.WantCode(t, err, oauth.InvalidGrant)
	}
	tokentest.WantCode(t, attempt("ada@acme.example", userPassword, oauth.Secret{}), oauth.RateLimited)
	f.must(attempt("ada@acme.example", userPassword, device))
	for name, other := range map[string]oauth.Secret{"made up": oauth.NewSecret("x"), "another installation's": func() oauth.Secret { g := newFlow(t); d, _ := g.Device(g.user("ada")); return d }()} {
		if err := attempt("ada@acme.example", userPassword, other); oauth.AsError(err).Code != oauth.RateLimited {
			t.Errorf("%s: %v", name, err)
		}
	}
	eves, err := f.Device(f.user("eve"))
	f.must(err)
	tokentest.WantCode(t, attempt("ada@acme.example", userPassword, eves), oauth.RateLimited)
	// The device has a limit as well.
	f.AddressLimit = Limit{}
	for range 10 {
		tokentest.WantCode(t, attempt("ada@acme.example", "wrong password", device), oauth.InvalidGrant)
	}
	tokentest.WantCode(t, attempt("ada@acme.example", userPassword, device), oauth.RateLimited)
	f.wait(time.Minute)
	f.must(attempt("ada@acme.example", userPassword, oauth.Secret{}))
}

// TestT145ADeviceOfAnEarlierOwner: when a removed user's id belongs to somebody else, browsers that the former owner has signed
// in with are strangers.
func TestT145ADeviceOfAnEarlierOwner(t *testing.T) {
	f := newFlow(t)
	fill := func(device oauth.Secret) error {
		for range 10 {
			_, err := f.signInFor("", "ada@acme.example", "wrong password")
			tokentest.WantCode(t, err, oauth.InvalidGrant)
		}
		_, err := f.SignIn(t.Context(), SignInAttempt{
			Email: "ada@acme.example", Password: oauth.NewSecret(userPassword), Address: "198.51.100.7", Device: device,
		})
		return err
	}
	owner := *f.user("ada")
	former, err := f.Device(&owner)
	f.must(err)
	f.must(f.registry.RemoveUser(t.Context(), owner.ID))
	f.wait(36 * 24 * time.Hour)
	_, err = f.registry.AddUser(t.Context(), store.User{
		ID: owner.ID, Email: owner.Email, Organisation: owner.Organisation, Role: owner.Role, PasswordHash: cheapHash(),
	}, oauth.Secret{})
	f.must(err)
	if f.user("ada").Version != owner.Version {
		t.Fatal("the versions differ: the test shows nothing")
	}
	tokentest.WantCode(t, fill(former), oauth.RateLimited)
	f.wait(time.Hour)
	own, err := f.Device(f.user("ada"))
	f.must(err)
	f.must(fill(own))
}

// TestSuccessIsNotCounted: who signs in often is not throttled, and does not make others' failures forgotten.
func TestSuccessIsNotCounted(t *testing.T) {
	f := newFlow(t)
	for range 9 {
		_, err := f.signInFor("", "ada@acme.example", "wrong password")
		tokentest.WantCode(t, err, oauth.InvalidGrant)
	}
	for range 15 {
		_, err := f.signInFor("", "ada@acme.example", userPassword)
		f.must(err)
	}
	_, err := f.signInFor("", "ada@acme.example", "wrong password")
	tokentest.WantCode(t, err, oauth.InvalidGrant)
	_, err = f.signInFor("", "ada@acme.example", userPassword)
	tokentest.WantCode(t, err, oauth.RateLimited)
}

// hundredfold counts a proved password as a hundred: 600 hashes would take long.
type hundredfold struct{ store.AttemptCounter }

func (h hundredfold) Failures(ctx context.Context, bucket string, now time.Time) (n int, until time.Time) {
	n, until = h.AttemptCounter.Failures(ctx, bucket, now)
	if strings.HasPrefix(bucket, "proved") {
		n *= 100
	}
	return n, until
}

// TestT121ProofsAreBounded before anything is hashed, for those who have proved the password themselves. Others are told
// nothing that they would not be told of an account that does not exist.
func TestT121ProofsAreBounded(t *testing.T) {
	f := newFlow(t)
	attempt := func(address, password string) error {
		_, err := f.SignIn(t.Context(), SignInAttempt{Email: "ada@acme.example", Password: oauth.NewSecret(password), Address: address})
		return err
	}
	f.Attempts = hundredfold{f.Attempts}
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

func TestT77PasswordsThatAreNotHashed(t *testing.T) {
	f := newFlow(t)
	for name, password := range map[string]string{"long": strings.Repeat("a", 1025), "very long": strings.Repeat("a", 1<<20), "NUL": userPassword + "\x00"} {
		f.store.asked()
		_, err := f.signInFor("", "ada@acme.example", password)
		if oauth.AsError(err).Code != oauth.InvalidRequest || len(f.store.asked()) != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := f.signInFor("", "ada@acme.example", strings.Repeat("a", 1024))
	tokentest.WantCode(t, err, oauth.InvalidGrant)
}

func TestT104ThePasswordGrantsLimits(t *testing.T) {
	f := newFlow(t)
	ask := func(edit func(*TokenRequest)) error {
		r := TokenRequest{GrantType: oauth.PasswordGrant, Email: "ada@acme.example", Password: oauth.NewSecret(userPassword), Client: f.credentials("conf")}
		edit(&r)
		_, err := f.exchange(r)
		return err
	}
	for name, v := range map[string]struct {
		edit func(*TokenRequest)
		want oauth.ErrorCode
	}{
		"client not allowed": {func(r *TokenRequest) { r.Client = f.credentials("other") }, oauth.UnauthorizedClient}, "wrong client": {func(r *TokenRequest) { r.Client.Readings[0].Secret = oauth.NewSecret("x") }, oauth.InvalidClient},
		"unknown client": {func(r *TokenRequest) { r.Client = ClientAuthentication{PublicID: "x"} }, oauth.InvalidClient}, "email is not username": {func(r *TokenRequest) { r.Username = "eve@acme.example" }, oauth.InvalidRequest},
		"no address": {func(r *TokenRequest) { r.Email = "" }, oauth.InvalidRequest}, "no password": {func(r *TokenRequest) { r.Password = oauth.Secret{} }, oauth.InvalidRequest}, "scope": {func(r *TokenRequest) { r.Scope = "reports" }, oauth.InvalidScope},
	} {
		if err := ask(v.edit); oauth.AsError(err).Code != v.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	f.must(ask(func(r *TokenRequest) { r.Username = r.Email }))
	f.PasswordGrant.Refresh = true
	for _, client := range []string{"conf", ""} {
		tokens, err := f.signInFor(client, "ada@acme.example", userPassword)
		f.must(err)
		r := TokenRequest{GrantType: oauth.RefreshTokenGrant, RefreshToken: tokens.RefreshToken}
		if client != "" {
			r.Client = f.credentials(client)
		}
		next, err := f.exchange(r)
		if err != nil || next.ExpiresIn != 28*day {
			t.Errorf("%q: %v, %v", client, next.ExpiresIn, err)
		}
		_, err = f.refresh("other", next.RefreshToken)
		tokentest.WantCode(t, err, oauth.InvalidGrant)
	}
	f.PasswordGrant = nil
	tokentest.WantCode(t, ask(func(*TokenRequest) {}), oauth.UnsupportedGrantType)
}
