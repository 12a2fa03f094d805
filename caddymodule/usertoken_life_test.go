package caddymodule

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// These tests cover the rights of a created token and what ends it: rows M21, M23, M27, M33 and M35.

// TestM21ACreatedTokenIsItsTargetsOnly: a member's token used as an admin's or to act for a third → 403; else exactly the target's
// rights.
func TestM21ACreatedTokenIsItsTargetsOnly(t *testing.T) {
	d := openAdmin(t)
	minted := d.mintFor("u-grace")
	d.refused(minted.AccessToken, mintRequest{id: "u-grace"}, adminRequired)
	d.refused(minted.AccessToken, mintRequest{id: "u-ben"}, adminRequired)
	refreshed := d.gives(requestOf("conf").refresh(minted.RefreshToken))
	d.refused(refreshed.AccessToken, mintRequest{id: "u-ben"}, adminRequired)
	actor := d.issue(issuer.Grant{
		Type: store.AdminCreated, User: &store.User{ID: "u-ada", Organisation: "acme", Role: store.RoleAdmin},
		Scopes: oauth.Scopes{"trusted", "public"}, Family: &store.TokenFamily{ID: "none", Actor: store.Actor{Subject: "u-adam", ClientID: "conf"}}})
	d.remember("access token", actor)
	d.refused(actor, mintRequest{id: "u-grace"}, adminRequired)

	if status, _, _ := d.get("/api/x", minted.AccessToken); status != http.StatusOK {
		t.Fatalf("the gate: %d", status)
	}
	seen := d.upstream.one(t)
	for name, want := range map[string]string{
		"X-Auth-Subject": "u-grace", "X-Auth-Client": "conf", "X-Auth-Organisation": "acme", "X-Auth-Role": "group_manager", "X-Auth-Scope": "trusted public",
	} {
		if got := seen.Header.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if _, _, body := d.get("/oauth/token/info", minted.AccessToken); member(t, body, "resource_owner_id") != "u-grace" {
		t.Errorf("token info: %s", body)
	}
	// A target that becomes an admin gets an admin's rights by signing in, not through tokens created before.
	d.manager("u-climber")
	early := d.mintFor("u-climber")
	check(t, d.app().registry.People.SetRole(t.Context(), "u-climber", store.RoleAdmin))
	d.refused(early.AccessToken, mintRequest{id: "u-grace"}, revokedToken)
}

// TestM23Claims: a member's token → sub and organisation of the target, `act` with the admin and the client.
func TestM23Claims(t *testing.T) {
	d := openAdmin(t)
	own := claims(t, d.admin)
	first, second := d.mintFor("u-ben"), d.mintFor("u-ben")
	claim := claims(t, first.AccessToken)
	for name, want := range map[string]any{
		"iss": d.url, "aud": d.url, "sub": "u-ben", "client_id": "conf", "scope": "trusted public", "org": "acme", "role": "business_manager",
	} {
		if claim[name] != want {
			t.Errorf("%s: %v, want %v", name, claim[name], want)
		}
	}
	if _, proved := claim["auth_time"]; proved {
		t.Error("auth_time of a user who proved nothing")
	}
	if act, _ := json.Marshal(claim["act"]); string(act) != `{"client_id":"conf","sub":"u-ada"}` {
		t.Errorf("act %s", act)
	}
	for _, name := range []string{"jti", "sid"} {
		if claim[name] == nil || claim[name] == own[name] || claim[name] == claims(t, second.AccessToken)[name] {
			t.Errorf("%s %v is not the token's own", name, claim[name])
		}
	}
	header, _, _ := strings.Cut(first.AccessToken, ".")
	if text, err := base64.RawURLEncoding.DecodeString(header); err != nil || member(t, string(text), "typ") != "at+jwt" || member(t, string(text), "alg") != "ES256" {
		t.Errorf("header %s, %v", text, err)
	}
	refreshed := d.gives(requestOf("conf").refresh(first.RefreshToken))
	again := claims(t, refreshed.AccessToken)
	if act, _ := json.Marshal(again["act"]); string(act) != `{"client_id":"conf","sub":"u-ada"}` || again["sid"] != claim["sid"] || again["jti"] == claim["jti"] {
		t.Errorf("refreshed: %v", again)
	}
	if f := d.familyOf(first.AccessToken); f.Origin != store.AdminCreated || f.UserID != "u-ben" || f.Actor.Subject != "u-ada" {
		t.Errorf("family %+v", f)
	}
}

// TestM27EndingsAreIndependent: the target's own sessions and the created family → end apart; `revoke --user` ends both.
func TestM27EndingsAreIndependent(t *testing.T) {
	d := openAdmin(t)
	r := requestOf("conf")
	own, minted := d.userTokens(r, "grace@acme.example"), d.mintFor("u-grace")
	revoke := func(d *adminDoor, token string) {
		d.t.Helper()
		if status, _, body := d.post("/oauth/revoke", url.Values{"token": {token}, "client_id": {"conf"}, "client_secret": {confSecret}}); status != 200 {
			d.t.Fatal(status, body)
		}
	}
	d.sub("the target signs out", func(d *adminDoor) {
		d.browserOf("grace@acme.example").signOut()
		d.gone(own.AccessToken)
		if !d.alive(minted.AccessToken) {
			d.t.Error("the created token ended with the target's own")
		}
		minted = d.gives(r.refresh(minted.RefreshToken))
	})
	d.sub("the admin's own end", func(d *adminDoor) {
		token := d.operatorToken("conf", "u-ada", "trusted")
		created := d.created(token, mintRequest{id: "u-grace"})
		revoke(d, token)
		d.gone(token)
		if !d.alive(created.AccessToken) || !d.alive(minted.AccessToken) {
			d.t.Error("a created token ended with the admin's own")
		}
	})
	d.sub("the created family", func(d *adminDoor) {
		own = d.userTokens(r, "grace@acme.example")
		another := d.mintFor("u-grace")
		revoke(d, minted.RefreshToken)
		d.gone(minted.AccessToken)
		d.denied(r.refresh(minted.RefreshToken), badGrant("refresh_token_revoked"))
		if !d.alive(own.AccessToken) || !d.alive(another.AccessToken) || !d.alive(d.admin) {
			d.t.Error("other tokens ended with one created family")
		}
		minted = another
	})
	d.sub("another client revokes", func(d *adminDoor) {
		form := url.Values{"token": {minted.AccessToken}, "client_id": {"other"}, "client_secret": {"other-" + confSecret}}
		if status, _, _ := d.post("/oauth/revoke", form); status != http.StatusForbidden || !d.alive(minted.AccessToken) {
			d.t.Errorf("status %d, alive %t", status, d.alive(minted.AccessToken))
		}
	})
	d.sub("the target signs out everywhere", func(d *adminDoor) {
		holdChanged(d.t, d.browserOf("grace@acme.example").change("everywhere", "1"), "/oauth/logout")
		d.gone(own.AccessToken, minted.AccessToken)
		d.denied(r.refresh(own.RefreshToken), badGrant(""))
		d.denied(r.refresh(minted.RefreshToken), badGrant(""))
		if !d.alive(d.admin) {
			d.t.Error("the admin's token ended with the target's")
		}
	})
}

// TestM33Audit: a created or refused token → one audit line with admin, target, client, address, jti and result.
func TestM33Audit(t *testing.T) {
	d := openAdmin(t)
	d.decisions(t)
	a := d.mint(d.admin, mintRequest{id: "u-grace", query: "?x=hunter2"})
	claim := claims(t, d.tokensIn(a).AccessToken)
	d.leaves(t, map[string]any{
		"msg": "token created by an admin", "level": "info", "admin": "u-ada", "subject": "u-grace", "organisation": "acme", "client_id": "conf",
		"address": "127.0.0.1", "jti": claim["jti"], "family": claim["sid"], "scope": "trusted public", "method": "POST",
		"path": "/api/v1/organisations/me/users/u-grace/access_tokens",
	})
	for name, c := range map[string]struct {
		token string
		r     mintRequest
		want  map[string]any
	}{
		"no token":    {"", mintRequest{id: "u-grace"}, map[string]any{"status": 401.0, "error": "unauthorized", "reason": "token_missing", "admin": nil}},
		"bad token":   {d.admin + "x", mintRequest{id: "u-grace"}, map[string]any{"status": 401.0, "error": "invalid_token", "admin": nil}},
		"no admin":    {d.operatorToken("other", "u-max", "trusted"), mintRequest{id: "u-grace"}, map[string]any{"status": 403.0, "reason": "caller_is_no_admin", "admin": "u-max", "client_id": "other"}},
		"media type":  {d.admin, mintRequest{id: "u-grace", headers: map[string]string{"Content-Type": "text/plain"}}, map[string]any{"status": 415.0, "admin": "u-ada", "client_id": "conf"}},
		"document":    {d.admin, mintRequest{id: "u-grace", body: "{"}, map[string]any{"status": 400.0, "error": "invalid_json", "admin": "u-ada", "client_id": "conf"}},
		"two ids":     {d.admin, mintRequest{id: "u-grace", body: reference("u-ben")}, map[string]any{"status": 409.0, "error": "id_conflict", "admin": "u-ada"}},
		"unknown":     {d.admin, mintRequest{id: "u-nobody"}, map[string]any{"status": 404.0, "reason": "target_unknown", "admin": "u-ada", "target": "u-nobody", "client_id": "conf"}},
		"foreign":     {d.admin, mintRequest{id: "u-rita"}, map[string]any{"status": 404.0, "reason": "target_unknown", "admin": "u-ada", "target": "u-rita"}},
		"wrong role":  {d.admin, mintRequest{id: "u-max"}, map[string]any{"status": 403.0, "reason": "target_role", "admin": "u-ada", "target": "u-max"}},
		"wrong place": {d.admin, mintRequest{id: "u-max", path: "/api/v1/organisations/rival/users/u-rita/access_tokens", body: reference("u-rita")}, map[string]any{"status": 404.0, "reason": "path_unknown", "admin": "u-ada"}},
	} {
		d.sub(name, func(d *adminDoor) {
			d.decisions(d.t)
			d.mint(c.token, c.r)
			maps.Copy(c.want, map[string]any{"msg": "token for a member refused", "level": "info", "address": "127.0.0.1", "method": "POST"})
			d.leaves(d.t, c.want)
		})
	}
	d.sub("a body in the log", func(d *adminDoor) {
		d.mint(d.admin, mintRequest{id: "u-grace", body: `{"data":{"id":"hunter2","type":"hunter2"}}`})
		d.mint(d.admin, mintRequest{id: "u-grace", body: `{"hunter2":1,"hunter2":2}`})
		if strings.Contains(d.logs(), "hunter2") {
			d.t.Error("the log holds what a body or a query said")
		}
	})
}

// TestM35ALostAnswer: a repeated request → a second token, both audited, each revocable by its jti.
func TestM35ALostAnswer(t *testing.T) {
	d := openAdmin(t)
	d.decisions(t)
	d.mint(d.admin, mintRequest{id: "u-grace"})
	lost, _ := d.audited()["jti"].(string)
	kept := d.mintFor("u-grace")
	if lost == "" || lost == claims(t, kept.AccessToken)["jti"] {
		t.Fatalf("jti %q is not the first token's own", lost)
	}
	other := d.mintFor("u-grace")
	families := d.app().issuer.Families
	check(t, families.Revoke(t.Context(), families.RevocationOf(store.RevokeToken, claims(t, other.AccessToken)["jti"].(string))))
	d.gone(other.AccessToken)
	if !d.alive(kept.AccessToken) || !d.alive(d.admin) {
		t.Error("more than the one token was revoked")
	}
}
