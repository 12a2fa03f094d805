package tokenissuer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestT79ASignInBringsTheHashUpToDate: the old hash is gone, the user's state is the same, and nothing that was granted
// ends.
func TestT79ASignInBringsTheHashUpToDate(t *testing.T) {
	legacy, err := bcrypt.GenerateFromPassword([]byte(userPassword), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	for name, hash := range map[string]oauth.Secret{"bcrypt": oauth.NewSecret(string(legacy)), "weak argon2id": cheapHash()} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t)
			f.must(f.registry.SetPasswordHash(t.Context(), "u-ada", hash))
			tokens, before := f.tokens("conf", "refresh_token"), f.user("ada")
			_, err := f.signInFor("", "ada@acme.example", "wrong password")
			tokentest.WantCode(t, err, oauth.InvalidGrant)
			if f.user("ada").PasswordHash.Reveal() != hash.Reveal() {
				t.Fatal("a wrong password was hashed")
			}
			_, err = f.signInFor("", "ada@acme.example", userPassword)
			f.must(err)
			after := f.user("ada")
			if got := after.PasswordHash.Reveal(); !strings.HasPrefix(got, "$argon2id$v=19$m=19456,t=2,p=1$") || after.Version != before.Version {
				t.Errorf("%s, version %s, was %s", passwords.SchemeOf(after.PasswordHash), after.Version, before.Version)
			}
			_, err = f.signInFor("", "ada@acme.example", userPassword)
			f.must(err)
			if f.user("ada").PasswordHash.Reveal() != after.PasswordHash.Reveal() {
				t.Error("a hash that is up to date was made again")
			}
			f.alive(tokens)
			_, err = f.refresh("conf", tokens.RefreshToken)
			f.must(err)
			schemes, err := f.store.Store.PasswordSchemes(t.Context())
			f.must(err)
			if name == "bcrypt" && strings.Contains(strings.Join(schemes, " "), "$2a$") {
				t.Errorf("the old hash is still there: %v", schemes)
			}
		})
	}
}

// TestT101WhatEveryGrantAnswers: what the wire makes its body of.
func TestT101WhatEveryGrantAnswers(t *testing.T) {
	f := newFlow(t)
	f.wait(700 * time.Millisecond)
	code := f.tokens("conf", "trusted public refresh_token")
	next, err := f.refresh("conf", code.RefreshToken)
	f.must(err)
	password, err := f.signInFor("conf", "ada@acme.example", userPassword)
	f.must(err)
	server, err := f.exchange(TokenRequest{GrantType: oauth.ClientCredentials, Client: f.credentials("conf")})
	f.must(err)
	minted, err := f.mint("grace")
	f.must(err)
	for name, v := range map[string]struct {
		tokens  Tokens
		expires time.Duration
		scope   string
		refresh bool
	}{
		"authorization_code": {code, 6 * time.Hour, "trusted public refresh_token", true}, "refresh_token": {next, 6 * time.Hour, "trusted public refresh_token", true},
		"password": {password, 28 * day, "public", false}, "client_credentials": {server, 2 * time.Hour, "public", false}, "admin-created": {minted, 28 * day, "trusted public", true},
	} {
		got := v.tokens
		if got.AccessToken.IsEmpty() || got.ExpiresIn != v.expires || got.Scopes.String() != v.scope || got.RefreshToken.IsEmpty() == v.refresh || !got.CreatedAt.Equal(tokentest.Start) || !got.CreatedAt.Equal(got.Claims.IssuedAt) {
			t.Errorf("%s: %+v", name, got)
		}
		if got.Claims.IsServerToken() != (name == "client_credentials") {
			t.Errorf("%s: %+v", name, got.Claims)
		}
	}
}

func TestT95RevokingEitherTokenEndsTheFamily(t *testing.T) {
	for name, which := range map[string]func(first, next Tokens) oauth.Secret{
		"access token": func(_, next Tokens) oauth.Secret { return next.AccessToken }, "newest refresh token": func(_, next Tokens) oauth.Secret { return next.RefreshToken }, "used refresh token": func(first, _ Tokens) oauth.Secret { return first.RefreshToken },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t)
			first, stranger := f.tokens("pub", "refresh_token"), f.tokens("pub", "refresh_token")
			next, err := f.refresh("pub", first.RefreshToken)
			f.must(err)
			token := which(first, next)
			_, err = f.RevokeFor(t.Context(), f.client("conf"), token)
			tokentest.WantCode(t, err, oauth.TokenNotYours)
			f.store.fail("EndFamilies", false)
			_, err = f.RevokeFor(t.Context(), f.client("pub"), token)
			tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
			f.alive(next)
			f.store.fail("", false)
			found, err := f.RevokeFor(t.Context(), f.client("pub"), token)
			f.must(err)
			if found == nil || found.FamilyID != next.Claims.FamilyID {
				t.Errorf("%+v", found)
			}
			f.dead(first)
			f.dead(next)
			_, err = f.refresh("pub", next.RefreshToken)
			tokentest.WantCode(t, err, oauth.InvalidGrant)
			if again, err := f.RevokeFor(t.Context(), f.client("pub"), token); again != nil || err != nil {
				t.Errorf("a second time: %+v, %v", again, err)
			}
			f.alive(stranger)
		})
	}
	f := newFlow(t)
	tokens := f.tokens("conf", "refresh_token")
	f.store.fail("Family", false)
	_, err := f.RevokeFor(t.Context(), f.client("conf"), tokens.RefreshToken)
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable) // never a 200
}

// TestT95AnExpiredAccessTokenEndsItsFamily: who signs out late holds a refresh token that is good for months.
func TestT95AnExpiredAccessTokenEndsItsFamily(t *testing.T) {
	f := newFlow(t)
	tokens, stranger := f.tokens("pub", "refresh_token"), f.tokens("pub", "refresh_token")
	server, err := f.exchange(TokenRequest{GrantType: oauth.ClientCredentials, Client: f.credentials("conf")})
	f.must(err)
	f.wait(tokens.ExpiresIn + time.Minute)
	_, err = f.Verifier.VerifyForIssuer(tokens.AccessToken.Reveal())
	tokentest.WantCode(t, err, oauth.InvalidToken)
	_, err = f.RevokeFor(t.Context(), f.client("conf"), tokens.AccessToken)
	tokentest.WantCode(t, err, oauth.TokenNotYours)
	text := tokens.AccessToken.Reveal()
	forged := text[:len(text)-2] + map[bool]string{true: "AA", false: "BA"}[text[len(text)-2] != 'A']
	for name, dead := range map[string]struct {
		client string
		token  oauth.Secret
	}{"forged": {"pub", oauth.NewSecret(forged)}, "a server token, which has no family": {"conf", server.AccessToken}} {
		if found, err := f.RevokeFor(t.Context(), f.client(dead.client), dead.token); found != nil || err != nil {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
	}
	refreshed, err := f.refresh("pub", tokens.RefreshToken)
	f.must(err)
	if found, err := f.RevokeFor(t.Context(), f.client("pub"), tokens.AccessToken); found != nil || err != nil {
		t.Errorf("one of before a refresh: %+v, %v", found, err)
	}
	f.alive(refreshed)
	f.wait(refreshed.ExpiresIn + time.Minute)
	tokens = refreshed
	found, err := f.RevokeFor(t.Context(), f.client("pub"), tokens.AccessToken)
	f.must(err)
	if found == nil || found.FamilyID != tokens.Claims.FamilyID {
		t.Errorf("%+v", found)
	}
	f.dead(refreshed)
	_, err = f.refresh("pub", refreshed.RefreshToken)
	tokentest.WantCode(t, err, oauth.InvalidGrant)
	_, err = f.refresh("pub", stranger.RefreshToken)
	f.must(err)
	_, before, err := f.store.Revocations(t.Context(), 0)
	f.must(err)
	if again, err := f.RevokeFor(t.Context(), f.client("pub"), tokens.AccessToken); again != nil || err != nil {
		t.Errorf("a second time: %+v, %v", again, err)
	}
	if _, after, err := f.store.Revocations(t.Context(), 0); err != nil || after != before {
		t.Errorf("which writes something: %d became %d (%v)", before, after, err)
	}
}

// TestT89AnExpiredTokenOfWhatAnotherNodeHasEnded: the family's younger token is not accepted either, once this node has said
// that it is over.
func TestT89AnExpiredTokenOfWhatAnotherNodeHasEnded(t *testing.T) {
	f := newFlow(t)
	expired := f.tokens("pub", "refresh_token")
	f.wait(expired.ExpiresIn + time.Minute)
	younger, err := f.refresh("pub", expired.RefreshToken)
	f.must(err)
	here := f.node()
	here.Refresh = func(ctx context.Context) error {
		known, _, err := f.store.Revocations(ctx, 0)
		here.Revocations.Add(known...)
		return err
	}
	_, err = f.RevokeFor(t.Context(), f.client("pub"), younger.RefreshToken)
	f.must(err)
	if _, err := here.Verifier.VerifyForIssuer(younger.AccessToken.Reveal()); err != nil {
		t.Fatalf("this node knows already: %v", err)
	}
	_, err = here.RevokeFor(t.Context(), f.client("pub"), expired.AccessToken)
	f.must(err)
	_, err = here.Verifier.VerifyForIssuer(younger.AccessToken.Reveal())
	tokentest.WantCode(t, err, oauth.InvalidToken)
}

// TestT95AnExpiredTokenWithoutAClient ends nothing: whoever finds one in an old log needs no credential of a client.
func TestT95AnExpiredTokenWithoutAClient(t *testing.T) {
	f := newFlow(t)
	s, _ := f.open("grace")
	tokens, err := f.SessionToken(s)
	f.must(err)
	f.wait(tokens.ExpiresIn + time.Minute)
	if _, err := f.RevokingClient(t.Context(), ClientAuthentication{}, tokens.AccessToken); err == nil {
		t.Error("nobody has to prove who it is")
	}
}

// TestT89WhatAnotherNodeHasEnded is not accepted by a node that was asked to end it, too, and has said that it is over.
func TestT89WhatAnotherNodeHasEnded(t *testing.T) {
	for name, which := range map[string]func(Tokens) oauth.Secret{
		"access token": func(held Tokens) oauth.Secret { return held.AccessToken }, "refresh token": func(held Tokens) oauth.Secret { return held.RefreshToken },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t)
			tokens, here := f.tokens("pub", "refresh_token"), f.node()
			away := errors.New("away")
			here.Refresh = func(ctx context.Context) error {
				known, _, err := f.store.Revocations(ctx, 0)
				here.Revocations.Add(known...)
				return errors.Join(err, away)
			}
			_, err := f.RevokeFor(t.Context(), f.client("pub"), which(tokens))
			f.must(err)
			if _, err := here.Verifier.VerifyForIssuer(tokens.AccessToken.Reveal()); err != nil {
				t.Fatalf("this node knows already: %v", err)
			}
			// The family of an access token is ended, and recorded, once more, without a look at the feed.
			if name == "refresh token" {
				_, err = here.RevokeFor(t.Context(), f.client("pub"), which(tokens))
				tokentest.WantCode(t, err, oauth.TemporarilyUnavailable) // never a 200
			}
			away = nil
			_, err = here.RevokeFor(t.Context(), f.client("pub"), which(tokens))
			f.must(err)
			_, err = here.Verifier.VerifyForIssuer(tokens.AccessToken.Reveal())
			tokentest.WantCode(t, err, oauth.InvalidToken)
		})
	}
}

func TestT106IntrospectionOfAFamily(t *testing.T) {
	f := newFlow(t)
	first := f.tokens("conf", "trusted refresh_token")
	look := func(client string, token oauth.Secret) *Introspection {
		t.Helper()
		got, err := f.Introspect(t.Context(), Asker{ClientID: client}, token)
		f.must(err)
		return got
	}
	if got := look("conf", first.AccessToken); got == nil || got.Access.ID != first.Claims.ID || got.Username != "ada@acme.example" || got.Family != nil {
		t.Errorf("access token: %+v", got)
	}
	got := look("conf", first.RefreshToken)
	if got == nil || got.Access != nil || got.Family.ID != first.Claims.FamilyID || got.Username != "ada@acme.example" || !got.ExpiresAt.Equal(tokentest.Start.Add(30*day)) {
		t.Errorf("refresh token: %+v", got)
	}
	next, err := f.refresh("conf", first.RefreshToken)
	f.must(err)
	server, err := f.exchange(TokenRequest{GrantType: oauth.ClientCredentials, Client: f.credentials("conf")})
	f.must(err)
	if got := look("conf", server.AccessToken); got == nil || got.Username != "" || !got.Access.IsServerToken() {
		t.Errorf("server token: %+v", got)
	}
	for name, v := range map[string]struct {
		client string
		token  oauth.Secret
	}{
		"another client's used refresh token": {"other", first.RefreshToken}, "another client's refresh token": {"other", next.RefreshToken}, "another client's access token": {"other", next.AccessToken},
		"code": {"conf", f.code("conf", parameters(""))}, "nothing": {"conf", oauth.Secret{}},
	} {
		if got := look(v.client, v.token); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := look("conf", first.RefreshToken); got == nil {
		t.Error("a refresh token that would be served again is inactive")
	}
	f.Refresh = nil
	f.store.fail("Family", false)
	_, err = f.Introspect(t.Context(), Asker{ClientID: "conf"}, next.RefreshToken)
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
	f.store.fail("", false)
	f.wait(31 * time.Second)
	if got := look("conf", first.RefreshToken); got != nil {
		t.Errorf("used, after the grace: %+v", got)
	}
	f.wait(30*day - 31*time.Second)
	if got := look("conf", next.RefreshToken); got != nil {
		t.Errorf("idle for 30 days: %+v", got)
	}
	f.must(f.registry.SetRole(t.Context(), "u-ada", store.RoleMember))
	if got := look("conf", next.RefreshToken); got != nil {
		t.Errorf("the user has changed: %+v", got)
	}
}

// TestF20WhatIsDeclaredNoMoreEnds: Settle takes what an earlier configuration's users and clients hold.
func TestF20WhatIsDeclaredNoMoreEnds(t *testing.T) {
	base := store.User{ID: "u-decl", Email: "decl@acme.example", Organisation: "acme", Role: store.RoleGroupManager, PasswordHash: cheapHash()}
	for name, v := range map[string]struct {
		edit  func(*store.User)
		lives bool
	}{
		"nothing": {func(*store.User) {}, true}, "role": {func(u *store.User) { u.Role = store.RoleMember }, false}, "gone": {func(u *store.User) { u.ID, u.Email = "u-other", "other@acme.example" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t)
			f.must(f.declare(base))
			f.must(f.registry.Reconcile(t.Context()))
			tokens, err := f.redeem("conf", f.codeOf("decl", "conf", parameters("refresh_token")))
			f.must(err)
			changed := base
			v.edit(&changed)
			f.must(f.declare(changed))
			f.must(f.registry.Reconcile(t.Context()))
			if _, err := f.Verifier.Verify(tokens.AccessToken.Reveal(), f.Audience); (err == nil) != v.lives {
				t.Errorf("%v", err)
			}
			if _, err := f.refresh("conf", tokens.RefreshToken); (err == nil) != v.lives {
				t.Errorf("%v", err)
			}
		})
	}
	f := newFlow(t)
	if err := f.declare(store.User{ID: "u-decl"}); err == nil {
		t.Error("a user without an address was declared")
	}
	if _, err := f.registry.User(t.Context(), "u-decl"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%v", err)
	}
}
