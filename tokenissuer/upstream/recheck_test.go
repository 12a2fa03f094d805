package upstream

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

// TestP191WhatBecameOfAnAccount: a refresh token redeemed → the account as it is now and the next token; refused → gone; any other failure, an
// answer about another person, a forged or stale one → the provider could not be asked.
func TestP191WhatBecameOfAnAccount(t *testing.T) {
	const sub = "248289761001"
	// After these the refresh token was redeemed, so that the next one must be kept.
	redeemed := []string{"another person", "userinfo of another person", "another audience", "an old ID token", "a forged ID token"}
	groups := func(s *Settings) { s.GroupsClaim = "groups" }
	for name, c := range map[string]struct {
		edit   func(*idp)
		token  string
		reason string // empty: an account
		check  func(signin.Account) bool
	}{
		"the same": {func(*idp) {}, refreshToken, "", func(a signin.Account) bool {
			return a.Subject == sub && a.Email == "jane@example.com" && a.EmailVerified && a.RefreshToken.Reveal() == "the next one" && !a.NamedOnly
		}},
		"no new token": {func(p *idp) { p.refreshed = map[string]any{"refresh_token": nil} }, refreshToken, "", func(a signin.Account) bool {
			return a.RefreshToken.IsEmpty()
		}},
		"other groups": {func(p *idp) { p.claims["groups"] = []string{"staff"} }, refreshToken, "", func(a signin.Account) bool {
			return slices.Equal(a.Groups, []string{"staff"})
		}},
		"no groups": {func(*idp) {}, refreshToken, "", func(a signin.Account) bool { return a.Groups != nil && len(a.Groups) == 0 }},
		"userinfo alone": {func(p *idp) {
			p.refreshed, p.userinfo = map[string]any{"id_token": nil}, map[string]any{"email": "new@example.com", "email_verified": true, "name": "Jane", "groups": []string{"a"}}
		}, refreshToken, "", func(a signin.Account) bool {
			return a.Subject == sub && a.Email == "new@example.com" && slices.Equal(a.Groups, []string{"a"})
		}},
		"userinfo without groups": {func(p *idp) {
			p.refreshed, p.userinfo = map[string]any{"id_token": nil}, map[string]any{"email": "new@example.com", "email_verified": true, "name": "Jane"}
		}, refreshToken, "", func(a signin.Account) bool {
			return a.Subject == sub && a.NamedOnly && a.RefreshToken.Reveal() == "the next one"
		}},
		"tokens alone": {func(p *idp) {
			p.refreshed, p.metadata["userinfo_endpoint"] = map[string]any{"id_token": nil}, nil
		}, refreshToken, "", func(a signin.Account) bool { return a.Subject == sub && a.NamedOnly }},
		"refused": {func(*idp) {}, "a token that was revoked", ErrGone.Reason, nil},
		"refused without a reason": {func(p *idp) {
			p.answer("/token", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) })
		}, refreshToken, ErrMisconfigured.Reason, nil},
		"another client": {func(p *idp) {
			p.answer("/token", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusUnauthorized)
				_, _ = w.Write([]byte(`{"error":"invalid_client"}`))
			})
		}, refreshToken, ErrMisconfigured.Reason, nil},
		"down": {func(p *idp) {
			p.answer("/token", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
		}, refreshToken, ErrUnavailable.Reason, nil},
		"another person":             {func(p *idp) { p.claims["sub"] = "else" }, refreshToken, ErrMisconfigured.Reason, nil},
		"userinfo of another person": {func(p *idp) { p.refreshed, p.userinfo = map[string]any{"id_token": nil}, map[string]any{"sub": "else"} }, refreshToken, ErrMisconfigured.Reason, nil},
		"another audience":           {func(p *idp) { p.claims["aud"] = "else" }, refreshToken, ErrMisconfigured.Reason, nil},
		"an old ID token":            {func(p *idp) { p.claims["exp"] = p.clock.Now().Unix() - 3600 }, refreshToken, ErrMisconfigured.Reason, nil},
		"a forged ID token":          {func(p *idp) { p.refreshed = map[string]any{"id_token": hmacToken([]byte("x"), "{}")} }, refreshToken, ErrMisconfigured.Reason, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newIDP(t)
			c.edit(p)
			account, err := p.provider(groups).Recheck(t.Context(), sub, oauth.NewSecret(c.token))
			if c.reason != "" {
				wantReason(t, err, c.reason)
				wantNoSecret(t, err.Error())
				if keeps := slices.Contains(redeemed, name); keeps != (account.RefreshToken.Reveal() == "the next one") {
					t.Errorf("beside the error the next token is %q", account.RefreshToken.Reveal())
				}
				return
			}
			if err != nil || !c.check(account) {
				t.Errorf("%+v, %v", account, err)
			}
		})
	}
}

// TestP192RefreshTokensAreKeptWhereTheyAreUsed: a sign-in at a provider that is asked again → its refresh token; at any other → none.
func TestP192RefreshTokensAreKeptWhereTheyAreUsed(t *testing.T) {
	for _, keeps := range []bool{true, false} {
		p := newIDP(t)
		account, err := p.signIn(p.provider(func(s *Settings) { s.KeepsRefreshToken = keeps }))
		if err != nil || account.RefreshToken.IsEmpty() == keeps {
			t.Errorf("%t: %v, %v", keeps, account, err)
		}
	}
	for issuer, want := range map[string]string{google: "offline", "https://login.example.com": ""} {
		if got := (&Settings{Issuer: issuer, KeepsRefreshToken: true}).accessType(); got != want {
			t.Errorf("access_type of %s: %q", issuer, got)
		}
	}
	p := newIDP(t)
	if _, err := p.provider(nil).Recheck(t.Context(), "x", oauth.Secret{}); !errors.Is(err, signin.ErrNoToken) || p.count("/token") > 0 {
		t.Errorf("without a token: %v", err)
	}
}
