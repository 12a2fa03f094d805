package grants_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/issuer/grants"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// TestRememberedFamiliesSpareTheStoreItsQuestions: a valid credential issued here takes one step of the store.
func TestRememberedFamiliesSpareTheStoreItsQuestions(t *testing.T) {
	f := newFlow(t)
	steps := func() []string {
		return slices.DeleteFunc(f.store.asked(), func(step string) bool { return step != "Family" && step != "User" })
	}
	code := f.code("conf", parameters("refresh_token"))
	steps()
	tokens, err := f.redeem("conf", code)
	f.must(err)
	for range 3 {
		tokens, err = f.refresh("conf", tokens.RefreshToken)
		f.must(err)
	}
	if asked := steps(); len(asked) > 0 {
		t.Errorf("the store was asked for %v", asked)
	}
	f.alive(tokens)

	f.Remembered = token.NewFamilyCache() // a family is cached once it was read
	for range 2 {
		tokens, err = f.refresh("conf", tokens.RefreshToken)
		f.must(err)
	}
	if asked := steps(); !slices.Equal(asked, []string{"Family", "User"}) {
		t.Errorf("the store was asked for %v", asked)
	}
}

// behind lists actions of another node that this node has not learned of. They change the store but not this node's cache. Each gets a
// family whose newest tokens and code this node has cached.
var behind = []struct {
	name    string
	do      func(f *flow, held issuer.Tokens, code oauth.Secret)
	refresh string // the reason of the refusal, or "" if it is accepted
	redeem  string
}{
	{"nothing", func(*flow, issuer.Tokens, oauth.Secret) {}, "", ""},
	{"used a moment ago", func(f *flow, held issuer.Tokens, code oauth.Secret) {
		f.elsewhere(func() { _, err := f.refresh("conf", held.RefreshToken); f.must(err) })
		f.elsewhere(func() { _, err := f.redeem("conf", code); f.must(err) })
	}, "", oauth.ErrCodeReplayed.Reason},
	{"used long ago", func(f *flow, held issuer.Tokens, code oauth.Secret) {
		f.elsewhere(func() { _, err := f.refresh("conf", held.RefreshToken); f.must(err) })
		f.wait(time.Minute)
	}, oauth.ErrRefreshReused.Reason, ""},
	{"successor used", func(f *flow, held issuer.Tokens, code oauth.Secret) {
		f.elsewhere(func() {
			next, err := f.refresh("conf", held.RefreshToken)
			f.must(err)
			_, err = f.refresh("conf", next.RefreshToken)
			f.must(err)
		})
	}, oauth.ErrRefreshReused.Reason, ""},
	{"families ended", func(f *flow, held issuer.Tokens, _ oauth.Secret) {
		_, err := f.store.Families.EndFamilies(f.tb.Context(), store.FamilyFilter{UserID: held.Claims.Subject}, store.Ending{At: f.clock(), Until: f.clock().Add(time.Hour)})
		f.must(err)
	}, "refresh_token_revoked", "code_expired"},
	{"user disabled", func(f *flow, held issuer.Tokens, _ oauth.Secret) {
		status := store.UserDisabled
		_, err := f.store.Users.ChangeUser(f.tb.Context(), held.Claims.Subject, store.UserChange{Edit: func(u *store.User) error { u.Status = status; return nil }}, store.Ending{At: f.clock(), Until: f.clock().Add(time.Hour)})
		f.must(err)
	}, "refresh_token_revoked", "code_expired"},
	{"user removed", func(f *flow, held issuer.Tokens, _ oauth.Secret) {
		_, err := f.store.Users.RemoveUser(f.tb.Context(), held.Claims.Subject, store.Ending{At: f.clock(), Until: f.clock().Add(time.Hour)})
		f.must(err)
	}, "refresh_token_revoked", "code_expired"},
	{"families dropped", func(f *flow, _ issuer.Tokens, _ oauth.Secret) {
		_, err := f.store.Housekeeping.Drop(f.tb.Context(), store.ExpiringFamilies, f.clock().Add(400*24*time.Hour))
		f.must(err)
	}, "refresh_token_unknown", "code_unknown"},
	{"verifiers guessed", func(f *flow, _ issuer.Tokens, code oauth.Secret) {
		for range 5 {
			f.must(f.store.Families.CountCodeFailure(f.tb.Context(), code.Reveal()[:22]))
		}
	}, "", "code_expired"},
}

// elsewhere runs do on a newly started node.
func (f *flow) elsewhere(do func()) {
	here := f.Server
	f.Server = f.node()
	do()
	f.Server = here
}

// TestWhatIsRememberedGivesNothing: a node with a stale cached family returns the same as a node that reads the store, whatever happened to
// the family elsewhere.
func TestWhatIsRememberedGivesNothing(t *testing.T) {
	testWhatIsRemembered(t, func(f *flow) issuer.Tokens { return f.tokens("conf", "refresh_token") })
}

// TestQ171WhatIsRememberedGivesNothingAgain: a refresh token remembered as good here that another node used up or ended → refused as
// where nothing is remembered.
func TestQ171WhatIsRememberedGivesNothingAgain(t *testing.T) {
	testWhatIsRemembered(t, func(f *flow) issuer.Tokens {
		const server = "https://mcp.example.com/mcp"
		f.Parts.Resources.Publish([]string{server}, []string{server})
		p := parameters("refresh_token")
		p.Resources = []string{server}
		first, err := f.redeem("conf", f.code("conf", p))
		f.must(err)
		held, err := f.refresh("conf", first.RefreshToken)
		f.must(err)
		again, err := f.refresh("conf", held.RefreshToken)
		if f.must(err); !again.Repeated || again.RefreshToken.Reveal() != held.RefreshToken.Reveal() {
			f.tb.Error("it was used up")
		}
		return held
	})
}

func testWhatIsRemembered(t *testing.T, hold func(*flow) issuer.Tokens) {
	for _, c := range behind {
		t.Run(c.name, func(t *testing.T) {
			f := newFlow(t)
			held := hold(f)
			code := f.code("conf", parameters("refresh_token"))
			c.do(f, held, code)
			check := func(what, reason string, err error) {
				t.Helper()
				switch {
				case reason == "" && err != nil:
					t.Errorf("%s: %v", what, err)
				case reason != "":
					wantReason(t, err, oauth.InvalidGrant, reason)
				}
			}
			for range 2 { // the second time nothing is cached
				_, err := f.refresh("conf", held.RefreshToken)
				check("refresh", c.refresh, err)
				if c.refresh == oauth.ErrRefreshReused.Reason {
					c.refresh = "refresh_token_revoked"
				}
			}
			_, err := f.redeem("conf", code)
			check("code", c.redeem, err)
		})
	}
}

// disabledUsers is a directory in which every user was disabled without ending any family.
type disabledUsers struct{ store.Directory }

func (d disabledUsers) User(ctx context.Context, id string) (*store.User, error) {
	user, err := d.Directory.User(ctx, id)
	if err != nil {
		return nil, err
	}
	disabled := *user
	disabled.Status = store.UserDisabled
	return &disabled, nil
}

// TestASuccessorIsRepeatedForStandingUsersOnly: the user is also checked if the token seemed the newest by the cache, because then no step
// of the store checks the user.
func TestASuccessorIsRepeatedForStandingUsersOnly(t *testing.T) {
	f := newFlow(t)
	held := f.tokens("conf", "refresh_token")
	f.elsewhere(func() { _, err := f.refresh("conf", held.RefreshToken); f.must(err) })
	f.Directory = disabledUsers{f.Directory}
	for range 2 { // the second time nothing is cached
		_, err := f.refresh("conf", held.RefreshToken)
		wantReason(t, err, oauth.InvalidGrant, "user_changed")
	}
}

// TestARefreshWithoutAClientIsOneStep: the cached family shows that the token was issued without a client.
func TestARefreshWithoutAClientIsOneStep(t *testing.T) {
	f := newFlowOf(t, func(s *issuer.Settings) { s.PasswordGrant = &issuer.PasswordRules{Refresh: true} })
	tokens, err := f.signInFor("", "ada@acme.example", userPassword)
	f.must(err)
	f.store.asked()
	_, err = f.exchange(Request{GrantType: oauth.RefreshTokenGrant, Refresh: RefreshParameters{Token: tokens.RefreshToken}})
	f.must(err)
	if asked := f.store.asked(); !slices.Equal(asked, []string{"RotateRefreshToken"}) {
		t.Errorf("the store was asked for %v", asked)
	}
}
