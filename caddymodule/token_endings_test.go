package caddymodule

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// These tests cover what ends a user's tokens, and what the neighbours of the token endpoint then say of them.

// revoke posts a token to the revocation endpoint.
func (u *userDoor) revoke(r request, token string, more ...string) answer {
	u.t.Helper()
	u.decisions(u.t)
	return u.ask(u.t, "/oauth/revoke", with(r.refresh(""), append([]string{"token", token, "grant_type", "", "refresh_token", ""}, more...)...).Encode())
}

// TestT95RevokingEitherTokenEndsTheFamily: revocation of an access or a refresh token, whatever the hint → 200, and the whole family is dead;
// of another client's → 403.
func TestT95RevokingEitherTokenEndsTheFamily(t *testing.T) {
	u := openUsers(t, append(onDiskPeople, passwordRefresh...)...)
	r, pub := requestOf("conf"), requestOf("pub")
	for name, test := range map[string]struct {
		r    request
		pick func(first, second tokens) string
		more []string
	}{
		"access token":         {r, func(_, second tokens) string { return second.AccessToken }, nil},
		"refresh token":        {r, func(_, second tokens) string { return second.RefreshToken }, nil},
		"a used refresh token": {r, func(first, _ tokens) string { return first.RefreshToken }, nil},
		"wrong hint": {r, func(_, second tokens) string { return second.RefreshToken },
			[]string{"token_type_hint", "access_token"}},
		"wrong hint, access token": {r, func(_, second tokens) string { return second.AccessToken },
			[]string{"token_type_hint", "refresh_token"}},
		"unknown hint":                  {r, func(_, second tokens) string { return second.RefreshToken }, []string{"token_type_hint", "x"}},
		"public client, access token":   {pub, func(_, second tokens) string { return second.AccessToken }, nil},
		"public client's refresh token": {pub, func(_, second tokens) string { return second.RefreshToken }, nil},
		"no client, access token":       {nobodysClient, func(_, second tokens) string { return second.AccessToken }, nil},
		"no client, refresh token":      {nobodysClient, func(_, second tokens) string { return second.RefreshToken }, nil},
	} {
		u.sub(name, func(u *userDoor) {
			obtain := func() tokens { return u.userTokens(test.r, ada) }
			if test.r.clientID == "" { // no client can authenticate here: the holder may revoke it
				obtain = func() tokens { return u.gives(test.r.asPassword(ada, peoplePassword)) }
			}
			first, bystander := obtain(), obtain()
			second := u.gives(test.r.refresh(first.RefreshToken))
			if !u.alive(second.AccessToken) {
				u.t.Fatal("a fresh token is dead")
			}
			u.revoked(u.t, u.revoke(test.r, test.pick(first, second), test.more...), true)
			u.gone(first.AccessToken, second.AccessToken)
			u.denied(test.r.refresh(second.RefreshToken), badGrant("refresh_token_revoked"))
			for _, ended := range []string{second.AccessToken, second.RefreshToken} {
				if a := u.revoke(test.r, ended); test.r.clientID == "" { // its owner is no longer known
					u.hold(u.t, a, badClient("client_credentials_missing"))
				} else {
					u.revoked(u.t, a, false)
				}
			}
			if !u.alive(bystander.AccessToken) {
				u.t.Error("another family died")
			}
		})
	}
	got := u.userTokens(r, ada)
	byPassword := u.gives(nobodysClient.asPassword(ada, peoplePassword))
	notYours := outcome{403, "unauthorized_client", "token_of_another_client", "You are not authorized to revoke this token", false}
	for name, token := range map[string]string{
		"access token": got.AccessToken, "refresh token": got.RefreshToken,
		"access token without a client": byPassword.AccessToken, "refresh token without a client": byPassword.RefreshToken,
	} {
		u.sub("another client's "+name, func(u *userDoor) {
			u.hold(u.t, u.revoke(requestOf("other"), token), notYours)
			u.hold(u.t, u.revoke(pub, token), notYours)
			u.hold(u.t, u.revoke(r, token, "client_secret", "wrong"), badClient("client_authentication_failed"))
			if token == got.AccessToken || token == got.RefreshToken { // the other tokens can be revoked by their holder
				u.hold(u.t, u.revoke(r, token, "client_secret", "", "client_id", ""), badClient("client_credentials_missing"))
			}
		})
	}
	u.sub("unknown", func(u *userDoor) {
		code := u.code(r, ada)
		for _, token := range []string{"x", code, got.RefreshToken[1:], got.RefreshToken + "x", strings.ToLower(got.RefreshToken), u.browserOf(ada).cookie("session")} {
			u.revoked(u.t, u.revoke(r, token), false)
		}
		u.gives(r.exchange(code))
	})
	if !u.alive(got.AccessToken) || !u.alive(byPassword.AccessToken) {
		t.Error("a token died")
	}
}

// TestT96T132WhatEndsEverythingOfAUser: sign-out everywhere, a new password or an operator's `revoke --user` → all
// families of the user are dead on every node, as is what an admin created; a plain sign-out leaves what consent let
// stay signed in. A plain sign-out also leaves other browsers, and the tokens that an admin has created for the user.
// The others leave nothing, including the tokens that the user has created as an admin.
func TestT96T132WhatEndsEverythingOfAUser(t *testing.T) {
	u := openUsers(t, append(onDiskPeople, passwordRefresh...)...)
	r := requestOf("conf")
	another := u.userTokens(r, ada).AccessToken
	for name, test := range map[string]struct {
		end          func(u *userDoor, b *browser, id string)
		othersRemain bool // other browsers' sessions, and tokens that an admin created
	}{
		"sign-out": {func(u *userDoor, b *browser, _ string) { b.signOut() }, true},
		"sign out everywhere": {func(u *userDoor, b *browser, _ string) {
			holdChanged(u.t, b.change("everywhere", "1"), "/oauth/logout")
		}, false},
		"command": {func(u *userDoor, _ *browser, id string) { u.ok("token", "revoke", "--user", id) }, false},
	} {
		u.sub(name, func(u *userDoor) {
			email := strings.ReplaceAll(name, " ", "-") + "@acme.example"
			id := u.addUser(email, "acme", store.RoleAdmin)
			b, elsewhere := u.browser(), u.browser()
			code := b.authorize(r, email).location().Query().Get("code")
			elsewhere.authorize(r, email)
			byCode, other := u.gives(r.exchange(code)), u.userTokens(requestOf("other"), email)
			byPassword := u.gives(nobodysClient.asPassword(email, peoplePassword))
			created, bystander := u.createdByAdmin(other.AccessToken, "u-grace"), u.createdByAdmin(another, "u-grace")
			refreshed := u.gives(requestOf("other").refresh(u.createdByAdmin(other.AccessToken, "u-ben").RefreshToken))
			unused := u.code(r, email)
			session, cookie := b.cookie("accessToken"), b.cookie("session")
			u.remember("session cookie", cookie, elsewhere.cookie("session"))
			u.remember("access token", session, elsewhere.cookie("accessToken"))

			test.end(u, b, id)

			u.gone(byCode.AccessToken, other.AccessToken, byPassword.AccessToken, session)
			u.denied(r.refresh(byCode.RefreshToken), badGrant("refresh_token_revoked"))
			u.denied(requestOf("other").refresh(other.RefreshToken), badGrant("refresh_token_revoked"))
			u.denied(nobodysClient.refresh(byPassword.RefreshToken), badGrant("refresh_token_revoked"))
			u.denied(r.exchange(unused), badGrant("code_expired"))
			// The old cookie is invalid even if the browser has kept it.
			if a := u.send(u.t, "GET", "/oauth/account", "", "Cookie", "session="+cookie); a.status != http.StatusSeeOther {
				u.t.Errorf("the account page with the old cookie: %d", a.status)
			}
			if elsewhere.isSignedIn() != test.othersRemain {
				u.t.Errorf("another browser is signed in: %t", !test.othersRemain)
			}
			if !u.alive(bystander.AccessToken) {
				u.t.Error("another admin's token died")
			}
			if test.othersRemain {
				u.gives(requestOf("other").refresh(created.RefreshToken))
				return
			}
			u.gone(created.AccessToken, refreshed.AccessToken)
			for _, token := range []string{created.RefreshToken, refreshed.RefreshToken} {
				u.denied(requestOf("other").refresh(token), badGrant("refresh_token_revoked"))
			}
		})
	}
	// A token whose family the store has dropped ends when its actor is revoked.
	u.sub("without its family", func(u *userDoor) {
		minted := u.issue(issuer.Grant{
			Type: store.AdminCreated, User: &store.User{ID: "u-grace", Organisation: "acme", Role: "group_manager"}, Family: &store.TokenFamily{ID: "gone", Actor: store.Actor{Subject: "u-ada", ClientID: "conf"}},
			Scopes: oauth.Scopes{"trusted", "public"},
		})
		if !u.alive(minted) {
			u.t.Fatal("a fresh token is refused")
		}
		u.must(http.StatusNoContent, "POST", "/oauth/revocations", `{"user":"u-ada"}`)
		u.gone(minted)
		u.wantInactive(r, minted)
	})
}

// introspected returns the introspection response that a client gets for a token.
func (u *userDoor) introspected(r request, token string, more ...string) map[string]any {
	u.t.Helper()
	u.decisions(u.t)
	a := u.ask(u.t, "/oauth/introspect", with(r.refresh(""), append([]string{"token", token, "grant_type", "", "refresh_token", ""}, more...)...).Encode())
	u.hold(u.t, a, granted())
	var body map[string]any
	if err := json.Unmarshal([]byte(a.body), &body); err != nil {
		u.t.Fatal(err)
	}
	return body
}

// wantInactive checks that introspection tells a client only that tokens are inactive.
func (u *userDoor) wantInactive(r request, tokens ...string) {
	u.t.Helper()
	for _, token := range tokens {
		if body := u.introspected(r, token); len(body) != 1 || body["active"] != false {
			u.t.Errorf("%v, want inactive", body)
		}
	}
}

// TestT106IntrospectionOfUserTokens: introspection of a user's access or refresh token by its client → active, with the user; used, expired,
// of a disabled user or another client's → inactive.
func TestT106IntrospectionOfUserTokens(t *testing.T) {
	now := setClock(t)
	u := openUsers(t)
	r, other := requestOf("conf"), requestOf("other")
	u.sub("active", func(u *userDoor) {
		got := u.userTokens(r, ada)
		claim := claims(u.t, got.AccessToken)
		for _, hint := range []string{"", "access_token", "refresh_token", "x"} {
			body := u.introspected(r, got.AccessToken, "token_type_hint", hint)
			want := maps.Clone(claim)
			for _, absent := range []string{"sid", "org", "role", "auth_time"} {
				delete(want, absent)
			}
			want["active"], want["token_type"], want["token_use"], want["username"] = true, "Bearer", "access_token", ada
			if !maps.Equal(body, want) {
				u.t.Errorf("access token, hint %q: %v, want %v", hint, body, want)
			}
			body = u.introspected(r, got.RefreshToken, "token_type_hint", hint)
			if iat, _ := body["iat"].(float64); iat == float64(got.CreatedAt+1) || iat == float64(got.CreatedAt-1) {
				body["iat"] = float64(got.CreatedAt) // the two were created in different seconds
			}
			want = map[string]any{
				"active": true, "scope": got.Scope, "client_id": "conf", "iat": float64(got.CreatedAt), "sub": "u-ada", "iss": u.url, "username": ada, "token_use": "refresh_token",
			}
			if !maps.Equal(body, want) {
				u.t.Errorf("refresh token, hint %q: %v, want %v", hint, body, want)
			}
		}
		if names := slices.Sorted(maps.Keys(u.introspected(r, u.createdByAdmin(got.AccessToken, "u-grace").AccessToken))); len(names) != 12 {
			u.t.Errorf("of a token created by an admin: %v", names)
		}
		u.wantInactive(other, got.AccessToken, got.RefreshToken)
		bearer := u.ask(u.t, "/oauth/introspect", "token="+got.RefreshToken, "Authorization", "Bearer "+got.AccessToken)
		if bearer.status != http.StatusOK || !strings.Contains(bearer.body, `"active":true`) {
			u.t.Errorf("asked with the access token: %d %s", bearer.status, bearer.body)
		}
		self := u.ask(u.t, "/oauth/introspect", "token="+got.AccessToken, "Authorization", "Bearer "+got.AccessToken)
		if self.status != http.StatusUnauthorized || !strings.Contains(self.header.Get("Www-Authenticate"), `error="invalid_token"`) {
			u.t.Errorf("a token about itself: %d %s", self.status, self.body)
		}
		refresh := u.ask(u.t, "/oauth/introspect", "token="+got.AccessToken, "Authorization", "Bearer "+got.RefreshToken)
		if refresh.status != http.StatusUnauthorized {
			u.t.Errorf("asked with a refresh token: %d %s", refresh.status, refresh.body)
		}
	})
	u.sub("a refresh token that was used", func(u *userDoor) {
		first := u.userTokens(r, ada)
		second := u.gives(r.refresh(first.RefreshToken))
		third := u.gives(r.refresh(second.RefreshToken))
		u.wantInactive(r, first.RefreshToken)
		if u.introspected(r, third.RefreshToken)["active"] != true {
			u.t.Error("the successor is inactive")
		}
		u.wait(now, 31*time.Second)
		u.wantInactive(r, second.RefreshToken)
	})
	u.sub("of a user who was disabled", func(u *userDoor) {
		id := u.addUser("disabled@acme.example", "acme", store.RoleMember)
		got := u.userTokens(r, "disabled@acme.example")
		if err := u.app().registry.People.SetUserStatus(u.t.Context(), id, store.UserDisabled); err != nil {
			u.t.Fatal(err)
		}
		u.wantInactive(r, got.AccessToken, got.RefreshToken)
	})
	u.sub("expired", func(u *userDoor) {
		got := u.userTokens(r, ada)
		u.wait(now, 6*time.Hour+time.Minute)
		u.wantInactive(r, got.AccessToken)
		if u.introspected(r, got.RefreshToken)["active"] != true {
			u.t.Error("the refresh token is inactive")
		}
		u.wait(now, 30*24*time.Hour)
		u.wantInactive(r, got.RefreshToken)
	})
}
