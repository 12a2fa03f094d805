package grants_test

import (
	"context"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/issuer/grants"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// open signs a user in and returns the session with its cookie.
func (f *flow) open(name string) (*signin.Session, oauth.Secret) {
	f.tb.Helper()
	s, cookie, err := f.OpenSession(f.tb.Context(), signin.SignedIn{User: f.user(name), AuthTime: f.clock()}, "a browser", "")
	f.must(err)
	return s, cookie
}

// signedIn reports whether the cookie still has a session.
func (f *flow) signedIn(cookie oauth.Secret) bool {
	f.tb.Helper()
	s, err := f.Session(f.tb.Context(), cookie)
	f.must(err)
	return s != nil
}

// TestASessionIsSeenOnceAnHour: the use of a session is recorded once an hour, so that a page view does not cost a write.
func TestASessionIsSeenOnceAnHour(t *testing.T) {
	f := newFlow(t)
	_, cookie := f.open("ada")
	writes := func() (n int) {
		f.store.asked()
		if !f.signedIn(cookie) {
			t.Fatal("signed out")
		}
		for _, step := range f.store.asked() {
			if step == "TouchFamily" {
				n++
			}
		}
		return n
	}
	f.wait(time.Hour)
	if n := writes(); n != 0 {
		t.Errorf("%d writes within the hour", n)
	}
	f.wait(time.Second)
	if n := writes(); n != 1 {
		t.Errorf("%d writes after it", n)
	}
	if n := writes(); n != 0 {
		t.Errorf("%d writes beside it", n)
	}
	for _, step := range []string{"Family", "User"} {
		f.store.fail(step, false)
		if s, err := f.Session(t.Context(), cookie); s != nil || oauth.AsError(err).Code != oauth.TemporarilyUnavailable {
			t.Errorf("%s fails: %v, %v", step, s, err)
		}
	}
}

// TestA71ASessionThatEndsBesideAQuestion: a session that was unused for two days ends while a token of it is requested. Its revocation is
// kept only as long as its tokens could live, so no further token may be issued.
func TestA71ASessionThatEndsBesideAQuestion(t *testing.T) {
	f := newFlow(t)
	s, cookie := f.open("ada")
	f.wait(2 * day)
	f.store.meanwhile("TouchFamily", func() { f.must(f.EndSession(t.Context(), s)) })
	if f.signedIn(cookie) {
		t.Error("a session that has just ended lives")
	}
	// A later end revokes what was issued, for as long as that lives.
	s, cookie = f.open("ada")
	f.wait(2 * day)
	seen, err := f.Session(t.Context(), cookie)
	f.must(err)
	tokens, err := sessionToken(f.Server, seen)
	f.must(err)
	f.must(f.EndSession(t.Context(), s))
	f.wait(6*time.Hour - time.Second)
	f.Revocations.Expire(f.clock())
	f.dead(tokens)
}

// TestT96ASignOutThatFailedCanBeRepeated: the session ends last.
func TestT96ASignOutThatFailedCanBeRepeated(t *testing.T) {
	f := newFlow(t)
	s, cookie := f.open("ada")
	application := f.tokens("conf", "trusted")
	f.store.fail("EndFamilies", false)
	tokentest.WantCode(t, f.SignOut(t.Context(), s), oauth.TemporarilyUnavailable)
	f.store.fail("", false)
	if !f.signedIn(cookie) {
		t.Fatal("the session has ended, and the application's tokens live")
	}
	f.must(f.SignOut(t.Context(), s))
	f.dead(application)
}

func TestTheTokenOfASession(t *testing.T) {
	f := newFlow(t)
	s, _ := f.open("grace")
	tokens, err := sessionToken(f.Server, s)
	f.must(err)
	got := tokens.Claims
	if got.Subject != "u-grace" || got.ClientID != store.BuiltInClientID || got.FamilyID != s.Family.ID || got.Role != "group_manager" || tokens.ExpiresIn != 6*time.Hour || !tokens.RefreshToken.IsEmpty() {
		t.Errorf("%+v, %+v", tokens, got)
	}
	if !got.Scopes.Has(oauth.ScopeTrusted) || got.Scopes.Has(oauth.ScopeRefreshToken) || got.Scopes.Has(oauth.ScopeOfflineAccess) {
		t.Errorf("scopes %v", got.Scopes)
	}
	if got.IsServerToken() {
		t.Error("it passes for a server token")
	}
}

// TestNobodyAuthenticatesAsOurOwnClient: no client can authenticate as the built-in one, even if a store has a registration with that id.
func TestNobodyAuthenticatesAsOurOwnClient(t *testing.T) {
	f := newFlow(t)
	if _, _, err := f.registry.Clients.AddClient(t.Context(), store.Client{ID: store.BuiltInClientID}); err == nil {
		t.Error("it was registered")
	}
	if _, err := f.registry.People.AddUser(t.Context(), store.User{ID: store.BuiltInClientID, Email: "x@acme.example", Organisation: "acme"}, oauth.Secret{}); err == nil {
		t.Error("a user of that id was registered")
	}
	for name, all := range map[string]store.Declarations{
		"client": {Clients: []*store.Client{{ID: store.BuiltInClientID, Type: store.PublicClient, Grants: []oauth.GrantType{oauth.AuthorizationCode}}}},
		"user":   {Users: []*store.User{{ID: store.BuiltInClientID, Email: "x@acme.example", Organisation: "acme", Role: store.RoleMember, Status: store.UserActive}}},
	} {
		if _, err := store.NewStaticDirectory(all); err == nil {
			t.Errorf("a %s of that id was declared", name)
		}
	}
	f.addClient(&store.Client{ID: store.BuiltInClientID, Type: store.PublicClient})
	for _, a := range []clients.Authentication{{PublicID: store.BuiltInClientID}, f.credentials(store.BuiltInClientID)} {
		for _, g := range []oauth.GrantType{oauth.PasswordGrant, oauth.RefreshTokenGrant, oauth.AuthorizationCode, oauth.ClientCredentials} {
			_, err := f.exchange(Request{GrantType: g, Client: a, Login: PasswordParameters{Email: "ada@acme.example", Password: oauth.NewSecret(userPassword)}})
			tokentest.WantCode(t, err, oauth.InvalidClient)
		}
	}
}

func TestAccountListsWhatMayActForAUser(t *testing.T) {
	f := newFlow(t)
	ctx := context.Background()
	s, _ := f.open("ada")
	f.tokens("conf", "public")
	f.wait(time.Minute)
	next := f.tokens("conf", "trusted")
	f.tokens("pub", "public")
	f.must(f.EndFamilies(ctx, store.FamilyFilter{ID: f.tokens("other", "public").Claims.FamilyID}))
	f.wait(time.Minute)
	_, err := f.refresh("conf", next.RefreshToken)
	f.must(err)
	allowed, err := people.Accounts{Sessions: f.Server.Sessions}.Of(ctx, f.user("ada"))
	f.must(err)
	if len(allowed.Applications) != 2 || allowed.Applications[0].Client.ID != "conf" || allowed.Applications[1].Client.ID != "pub" {
		t.Fatalf("%+v", allowed.Applications)
	}
	conf := allowed.Applications[0]
	if conf.Scopes.Missing(oauth.ScopePublic, oauth.ScopeTrusted) != "" || !conf.Since.Equal(tokentest.Start) || !conf.LastUsed.Equal(f.clock()) {
		t.Errorf("%+v", conf)
	}
	sessions := len(allowed.Sessions)
	if sessions < 1 {
		t.Fatal("no session")
	}
	f.ended(people.Accounts{Sessions: f.Server.Sessions}.RevokeApplication(ctx, f.user("ada"), "conf"))
	if f.ended(f.EndSessionOf(ctx, f.user("eve"), s.Family.ID)) {
		t.Error("a session of another user ended")
	}
	allowed, err = people.Accounts{Sessions: f.Server.Sessions}.Of(ctx, f.user("ada"))
	if f.must(err); len(allowed.Applications) != 1 || len(allowed.Sessions) != sessions {
		t.Errorf("%d applications, %d sessions", len(allowed.Applications), len(allowed.Sessions))
	}
	f.dead(next)
	f.ended(f.EndSessionOf(ctx, f.user("ada"), s.Family.ID))
	allowed, err = people.Accounts{Sessions: f.Server.Sessions}.Of(ctx, f.user("ada"))
	if f.must(err); len(allowed.Sessions) != sessions-1 {
		t.Errorf("%d sessions", len(allowed.Sessions))
	}
	f.must(f.EndPerson(ctx, f.user("ada").ID))
	allowed, err = people.Accounts{Sessions: f.Server.Sessions}.Of(ctx, f.user("ada"))
	if f.must(err); len(allowed.Applications)+len(allowed.Sessions) != 0 {
		t.Errorf("%+v", allowed)
	}
	_, err = people.Accounts{Sessions: f.Server.Sessions}.RevokeApplication(ctx, f.user("ada"), "")
	tokentest.WantCode(t, err, oauth.InvalidRequest)
}

// TestS114WhatBeganBeforeARevocationIsNotNewer: a session that was looked up before the revocation gives only revoked tokens, even if they
// are made after it in the same second. A new sign-in gives valid ones.
func TestS114WhatBeganBeforeARevocationIsNotNewer(t *testing.T) {
	for name, revocation := range map[string]func(*flow) store.Revocation{
		"user": func(f *flow) store.Revocation { return f.RevocationOf(store.RevokeUser, "u-ada") },
		"organisation": func(f *flow) store.Revocation {
			return f.RevocationOf(store.RevokeOrganisation, f.user("ada").Organisation)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t)
			f.time.Add(300 * time.Millisecond)
			derived := func(s *signin.Session) (token issuer.Tokens, code oauth.Secret) {
				t.Helper()
				token, err := sessionToken(f.Server, s)
				f.must(err)
				r, err := f.read("conf", parameters("public"))
				f.must(err)
				code, err = f.Approve(t.Context(), &r, f.client("conf"), s, r.Scopes)
				f.must(err)
				return token, code
			}
			before := f.session("ada")
			f.time.Add(300 * time.Millisecond)
			f.must(f.Revoke(t.Context(), revocation(f)))
			token, code := derived(before)
			f.dead(token)
			if _, err := f.redeem("conf", code); oauth.AsError(err).Code != oauth.InvalidGrant {
				t.Errorf("the code of before: %v", err)
			}
			after := f.session("ada")
			token, code = derived(after)
			f.alive(token)
			redeemed, err := f.redeem("conf", code)
			f.must(err)
			f.alive(redeemed)
			if ahead := token.Claims.IssuedAt.Sub(f.clock()); ahead <= 0 || ahead > time.Second {
				t.Errorf("issued %s ahead", ahead)
			}
			f.time.Add(time.Second)
			later, err := sessionToken(f.Server, f.session("ada"))
			f.must(err)
			if later.Claims.IssuedAt.After(f.clock()) {
				t.Error("a second later tokens are still dated ahead")
			}
		})
	}
}
