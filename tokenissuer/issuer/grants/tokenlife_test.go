package grants_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/issuer/grants"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestT95AnExpiredAccessTokenEndsItsFamily: a client that signs out late holds a refresh token that is valid for months.
func TestT95AnExpiredAccessTokenEndsItsFamily(t *testing.T) {
	f := newFlow(t)
	tokens, stranger := f.tokens("pub", "refresh_token"), f.tokens("pub", "refresh_token")
	server, err := f.exchange(Request{GrantType: oauth.ClientCredentials, Client: f.credentials("conf")})
	f.must(err)
	f.wait(tokens.ExpiresIn + time.Minute)
	_, err = f.Minter.Verifier.VerifyForIssuer(tokens.AccessToken.Reveal())
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
	_, before, err := f.store.Revocations.Revocations(t.Context(), store.FeedPosition{})
	f.must(err)
	if again, err := f.RevokeFor(t.Context(), f.client("pub"), tokens.AccessToken); again != nil || err != nil {
		t.Errorf("a second time: %+v, %v", again, err)
	}
	if _, after, err := f.store.Revocations.Revocations(t.Context(), store.FeedPosition{}); err != nil || after != before {
		t.Errorf("which writes something: %+v became %+v (%v)", before, after, err)
	}
}

// TestT89AnExpiredTokenOfWhatAnotherNodeHasEnded: once this node has reported that the family has ended, it does not accept the family's
// newer token either.
func TestT89AnExpiredTokenOfWhatAnotherNodeHasEnded(t *testing.T) {
	f := newFlow(t)
	expired := f.tokens("pub", "refresh_token")
	f.wait(expired.ExpiresIn + time.Minute)
	younger, err := f.refresh("pub", expired.RefreshToken)
	f.must(err)
	here := f.node()
	here.Refresh = func(ctx context.Context) error {
		known, _, err := f.store.Revocations.Revocations(ctx, store.FeedPosition{})
		here.Revocations.Add(known...)
		return err
	}
	_, err = f.RevokeFor(t.Context(), f.client("pub"), younger.RefreshToken)
	f.must(err)
	if _, err := here.Minter.Verifier.VerifyForIssuer(younger.AccessToken.Reveal()); err != nil {
		t.Fatalf("this node knows already: %v", err)
	}
	_, err = here.IssuedTokens.RevokeFor(t.Context(), f.client("pub"), expired.AccessToken)
	f.must(err)
	_, err = here.Minter.Verifier.VerifyForIssuer(younger.AccessToken.Reveal())
	tokentest.WantCode(t, err, oauth.InvalidToken)
}

// TestT95AnExpiredTokenWithoutAClient: revoking it ends nothing, because no client authenticates and an old token from a log would suffice.
func TestT95AnExpiredTokenWithoutAClient(t *testing.T) {
	f := newFlow(t)
	s, _ := f.open("grace")
	tokens, err := sessionToken(f.Server, s)
	f.must(err)
	f.wait(tokens.ExpiresIn + time.Minute)
	if _, err := f.RevokingClient(t.Context(), clients.Authentication{}, tokens.AccessToken); err == nil {
		t.Error("nobody has to prove who it is")
	}
}

// TestT89WhatAnotherNodeHasEnded: a node that was asked to end a family, and has reported that it has ended, does not accept its tokens
// either.
func TestT89WhatAnotherNodeHasEnded(t *testing.T) {
	for name, which := range map[string]func(issuer.Tokens) oauth.Secret{
		"access token": func(held issuer.Tokens) oauth.Secret { return held.AccessToken }, "refresh token": func(held issuer.Tokens) oauth.Secret { return held.RefreshToken },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t)
			tokens, here := f.tokens("pub", "refresh_token"), f.node()
			away := store.Unavailable(errors.New("away"))
			here.Refresh = func(ctx context.Context) error {
				known, _, err := f.store.Revocations.Revocations(ctx, store.FeedPosition{})
				here.Revocations.Add(known...)
				return errors.Join(err, away)
			}
			_, err := f.RevokeFor(t.Context(), f.client("pub"), which(tokens))
			f.must(err)
			if _, err := here.Minter.Verifier.VerifyForIssuer(tokens.AccessToken.Reveal()); err != nil {
				t.Fatalf("this node knows already: %v", err)
			}
			// The family of an access token is ended and recorded again, without reading the feed.
			if name == "refresh token" {
				_, err = here.IssuedTokens.RevokeFor(t.Context(), f.client("pub"), which(tokens))
				tokentest.WantCode(t, err, oauth.TemporarilyUnavailable) // never a 200
			}
			away = nil
			_, err = here.IssuedTokens.RevokeFor(t.Context(), f.client("pub"), which(tokens))
			f.must(err)
			_, err = here.Minter.Verifier.VerifyForIssuer(tokens.AccessToken.Reveal())
			tokentest.WantCode(t, err, oauth.InvalidToken)
		})
	}
}

// TestF20WhatIsDeclaredNoMoreEnds: Reconcile ends what users and clients of an earlier configuration hold.
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
			if _, err := f.Minter.Verifier.Verify(tokens.AccessToken.Reveal(), f.Audience); (err == nil) != v.lives {
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
	if _, err := f.registry.People.User(t.Context(), "u-decl"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%v", err)
	}
}
