package caddymodule

import (
	"context"
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
			u.lives(second.AccessToken)
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
			u.lives(bystander.AccessToken)
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
	u.lives(got.AccessToken, byPassword.AccessToken)
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
			u.send(u.t, "GET", "/oauth/account", "", "Cookie", "session="+cookie).is(u.t, http.StatusSeeOther, "the account page with the old cookie")
			if elsewhere.isSignedIn() != test.othersRemain {
				u.t.Errorf("another browser is signed in: %t", !test.othersRemain)
			}
			u.lives(bystander.AccessToken)
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
		u.lives(minted)
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
	check(u.t, json.Unmarshal([]byte(a.body), &body))
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
			for _, absent := range []string{"sid", "org", "role", "amr"} {
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
	u.sub("of a user who was disabled", func(u *userDoor) {
		id := u.addUser("disabled@acme.example", "acme", store.RoleMember)
		got := u.userTokens(r, "disabled@acme.example")
		check(u.t, u.app().registry.People.SetUserStatus(u.t.Context(), id, store.UserDisabled))
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

// TestT132NobodyIsMeant: revoking a user, family, client or organisation that does not exist → 404, exit status 1, nothing recorded; with
// `force` → recorded. A user whose tokens may still be valid can be revoked without it.
func TestT132NobodyIsMeant(t *testing.T) {
	u := openUsers(t, append([]string{"user u-max {", "user u-left {\n\t\t\temail left@acme.example\n\t\t\tpassword HASH\n\t\t\torganisation acme\n\t\t\trole member\n\t\t}\n\t\tuser u-max {"}, onDiskPeople...)...)
	removed := u.addUser("removed@acme.example", "acme", store.RoleMember)
	u.ok("user", "remove", removed)
	u.reload(peopleSite(onDiskPeople...)) // u-left is no longer declared
	before := u.app().node.Revocations.Len()
	for _, id := range []string{"nobody", "conf", "ADA", "u-ada ", "gatehouse"} {
		body := u.must(http.StatusNotFound, "POST", "/oauth/revocations", `{"user":"`+id+`"}`)
		holdWords(t, "the answer", body, "there is no user")
		if _, err := u.gatehouse.run("", "token", "revoke", "--user", id); err == nil || !strings.Contains(err.Error(), "nothing was revoked") {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, kind := range []string{"family", "client", "organisation"} {
		holdWords(t, "the answer", u.must(http.StatusNotFound, "POST", "/oauth/revocations", `{"`+kind+`":"nobody"}`), "there is no "+kind)
	}
	if n := u.app().node.Revocations.Len(); n != before {
		t.Errorf("%d revocations were recorded", n-before)
	}
	for _, kind := range []string{"family", "client"} {
		u.ok("token", "revoke", "--"+kind, "nobody", "--force")
	}
	u.must(http.StatusBadRequest, "POST", "/oauth/revocations", `{"jti":"nobody","force":true}`)
	u.must(http.StatusNoContent, "POST", "/oauth/revocations", `{"client":"gatehouse"}`)
	for _, id := range []string{removed, "u-left", "u-max"} {
		u.must(http.StatusNoContent, "POST", "/oauth/revocations", `{"user":"`+id+`"}`)
	}
	u.must(http.StatusNoContent, "POST", "/oauth/revocations", `{"user":"partner|7","force":true}`)
	u.ok("token", "revoke", "--user", "partner|7", "--force")
}

// endings are the operator's actions on a user that invalidate everything issued before.
func (g *gatehouse) endings() map[string]func(id string) error {
	registry, ctx := g.app().registry, context.Background()
	return map[string]func(id string) error{
		"disabled": func(id string) error { return registry.People.SetUserStatus(ctx, id, store.UserDisabled) },
		"locked":   func(id string) error { return registry.People.SetUserStatus(ctx, id, store.UserLocked) },
		"disabled-and-enabled": func(id string) error {
			if err := registry.People.SetUserStatus(ctx, id, store.UserDisabled); err != nil {
				return err
			}
			return registry.People.SetUserStatus(ctx, id, store.UserActive)
		},
		"another-password": func(id string) error {
			return registry.People.SetPassword(ctx, id, oauth.NewSecret("another "+peoplePassword))
		},
		"demoted":  func(id string) error { return registry.People.SetRole(ctx, id, store.RoleMember) },
		"promoted": func(id string) error { return registry.People.SetRole(ctx, id, store.RoleAdmin) },
		"revoked":  func(id string) error { return registry.People.RevokeUser(ctx, id) },
		"removed":  func(id string) error { return registry.People.RemoveUser(ctx, id) },
	}
}

// TestT61T91A71A83M24M25WhatEndsAUserEndsAllOfTheirs: a user is disabled, deleted, moved or gets another password or role → codes,
// refresh tokens, sessions, open consent pages and what admins created for them, or they as admins, are dead.
func TestT61T91A71A83M24M25WhatEndsAUserEndsAllOfTheirs(t *testing.T) {
	d := openAdmin(t, passwordRefresh...)
	r := requestOf("conf")
	bystander, waiting := d.mintFor("u-grace"), r.exchange(d.code(r, ada))
	for name, end := range d.endings() {
		d.sub(name, func(d *adminDoor) {
			manager, admin := name+"@acme.example", name+"-admin@acme.example"
			id, adminID := d.addUser(manager, "acme", store.RoleGroupManager), d.addUser(admin, "acme", store.RoleAdmin)
			own := d.userTokens(r, admin)
			session := d.browserOf(admin).cookie("accessToken")
			ofClient := []tokens{
				d.userTokens(r, manager), d.gives(r.asPassword(manager, peoplePassword)), d.mintFor(id), d.gives(r.refresh(d.mintFor(id).RefreshToken)),
				own, d.created(own.AccessToken, mintRequest{id: "u-grace"}),
				d.gives(r.refresh(d.created(own.AccessToken, mintRequest{id: "u-grace"}).RefreshToken)),
			}
			inSession := d.gives(nobodysClient.refresh(d.created(session, mintRequest{id: "u-grace"}).RefreshToken))
			living := []string{session, inSession.AccessToken}
			for _, held := range ofClient {
				living = append(living, held.AccessToken)
			}
			d.lives(living...)
			code, b := d.code(r, manager), d.browserOf(manager)
			page := b.consentFor(d.t, r)

			for _, id := range []string{id, adminID} {
				check(d.t, end(id))
			}

			d.gone(living...)
			for _, held := range ofClient {
				d.denied(r.refresh(held.RefreshToken), badGrant("refresh_token_revoked"))
			}
			d.denied(nobodysClient.refresh(inSession.RefreshToken), badGrant("refresh_token_revoked"))
			d.denied(r.exchange(code), badGrant("code_expired"))
			d.refused(own.AccessToken, mintRequest{id: "u-grace"}, revokedToken)
			b.signsInAgain(d.t, b.decide(page, "allow"))
			if name == "another-password" {
				for password, want := range map[string]int{peoplePassword: http.StatusOK, "another " + peoplePassword: http.StatusSeeOther} {
					d.browser().signInPage(manager, password).is(d.t, want, "signing in")
				}
			}
		})
	}
	d.gives(r.refresh(bystander.RefreshToken))
	d.gives(waiting)
}

// TestT61T91M25WhatIsDeclaredOtherwiseEnds: an operator takes a user or a client out of the Caddyfile, or changes a
// user's role or organisation there. Their tokens, including those that an admin created for them, then end with the
// reload, and not at their own expiry weeks later. Unchanged users and clients keep theirs.
func TestT61T91M25WhatIsDeclaredOtherwiseEnds(t *testing.T) {
	now := setClock(t)
	d := openAdmin(t)
	r := requestOf("conf")
	stays, waiting := d.userTokens(r, ada), d.code(r, ada)
	ended := map[string]tokens{
		"another role": d.userTokens(r, "grace@acme.example"), "created for another role": d.mintFor("u-grace"),
		"removed": d.userTokens(r, "ben@acme.example"), "created for one who is removed": d.mintFor("u-ben"),
		"another organisation": d.userTokens(r, maxim),
	}
	ofClient, code := d.userTokens(requestOf("pub"), ada), d.code(r, maxim)

	text := peopleSite("organisation acme\n\t\t\trole member", "organisation rival\n\t\t\trole member")
	text = strings.Replace(text, "role group_manager", "role member", 1)
	d.reload(cutBlock(t, cutBlock(t, text, "user u-ben {"), "client pub {"))

	for name, held := range ended {
		d.sub(name, func(d *adminDoor) {
			if d.alive(held.AccessToken) {
				d.t.Error("the access token lives on")
			}
			d.denied(r.refresh(held.RefreshToken), badGrant(""))
		})
	}
	if d.alive(ofClient.AccessToken) {
		t.Error("the token of a client that is removed lives on")
	}
	d.denied(r.exchange(code), badGrant(""))
	d.refused(d.admin, mintRequest{id: "u-ben"}, userNotFound)
	d.refused(d.admin, mintRequest{id: "u-grace"}, roleNotAllowed)
	if !d.alive(stays.AccessToken) || !d.browserOf(ada).isSignedIn() {
		t.Error("the token, or the session, of a user who stays is dead")
	}
	d.gives(r.refresh(stays.RefreshToken))
	d.gives(r.exchange(waiting))

	// A user who is declared again starts anew, but not in the same second.
	d.wait(now, 2*time.Second)
	d.reload(peopleSite())
	if d.alive(ended["removed"].AccessToken) || !d.alive(d.userTokens(r, "ben@acme.example").AccessToken) {
		t.Error("the old token of a user who came back lives again, or the new one is dead")
	}
}

// cutBlock removes a block from a Caddyfile.
func cutBlock(t *testing.T, text, head string) string {
	t.Helper()
	start := strings.Index(text, "\t\t"+head)
	if start < 0 {
		t.Fatalf("no block %q", head)
	}
	length := strings.Index(text[start:], "\n\t\t}\n")
	return text[:start] + text[start+length+len("\n\t\t}\n"):]
}

// signsInAgain checks that an answer leads to the sign-in page without a session.
func (b *browser) signsInAgain(t *testing.T, p page) {
	t.Helper()
	if p.status != http.StatusSeeOther || p.location().Path != "/oauth/login" || p.location().Host != "" {
		t.Fatalf("%d %q", p.status, p.header.Get("Location"))
	}
	p = b.open(p.header.Get("Location"))
	if _, fields := formIn(t, p); !fields.Has("password") || b.isSignedIn() {
		t.Errorf("no sign-in page, or still signed in: %d", p.status)
	}
}
