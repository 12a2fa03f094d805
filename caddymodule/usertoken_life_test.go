package caddymodule

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// These tests cover the rights of a created token and what ends it: rows M21, M27, M33 and M35.

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

// TestM27EndingsAreIndependent: the target's own sessions and the created family → end apart; `revoke --user` ends both.
func TestM27EndingsAreIndependent(t *testing.T) {
	d := openAdmin(t)
	r := requestOf("conf")
	own, minted := d.userTokens(r, "grace@acme.example"), d.mintFor("u-grace")
	d.sub("the target signs out", func(d *adminDoor) {
		d.browserOf("grace@acme.example").signOut()
		d.gone(own.AccessToken)
		d.lives(minted.AccessToken)
		minted = d.gives(r.refresh(minted.RefreshToken))
	})
	d.sub("the admin's own end", func(d *adminDoor) {
		token := d.operatorToken("conf", "u-ada", "trusted")
		created := d.created(token, mintRequest{id: "u-grace"})
		d.revoked(d.t, d.revoke(r, token), true)
		d.gone(token)
		d.lives(created.AccessToken, minted.AccessToken)
	})
	d.sub("the created family", func(d *adminDoor) {
		own = d.userTokens(r, "grace@acme.example")
		another := d.mintFor("u-grace")
		d.revoked(d.t, d.revoke(r, minted.RefreshToken), true)
		d.gone(minted.AccessToken)
		d.denied(r.refresh(minted.RefreshToken), badGrant("refresh_token_revoked"))
		d.lives(own.AccessToken, another.AccessToken, d.admin)
		minted = another
	})
	d.sub("the target signs out everywhere", func(d *adminDoor) {
		holdChanged(d.t, d.browserOf("grace@acme.example").change("everywhere", "1"), "/oauth/logout")
		d.gone(own.AccessToken, minted.AccessToken)
		d.denied(r.refresh(own.RefreshToken), badGrant(""))
		d.denied(r.refresh(minted.RefreshToken), badGrant(""))
		d.lives(d.admin)
	})
}

// TestM33M35Audit: a created or refused token → one audit line with admin, target, client, address, jti and result; a repeated request → a second
// token, both audited, each revocable by its jti.
func TestM33M35Audit(t *testing.T) {
	d := openAdmin(t)
	d.decisions(t)
	a := d.mint(d.admin, mintRequest{id: "u-grace", query: "?x=hunter2"})
	first := d.tokensIn(a).AccessToken
	claim := claims(t, first)
	d.leaves(t, map[string]any{
		"msg": "token created by an admin", "level": "info", "admin": "u-ada", "subject": "u-grace", "organisation": "acme", "client_id": "conf",
		"address": "127.0.0.1", "jti": claim["jti"], "family": claim["sid"], "scope": "trusted public", "method": "POST",
		"path": "/api/v1/organisations/me/users/u-grace/access_tokens",
	})
	again, families := d.mintFor("u-grace"), d.app().issuer.Families
	check(t, families.Revoke(t.Context(), families.RevocationOf(store.RevokeToken, claim["jti"].(string))))
	d.gone(first)
	d.lives(again.AccessToken, d.admin)
	for name, c := range map[string]struct {
		token string
		r     mintRequest
		want  map[string]any
	}{
		"no token":    {"", mintRequest{id: "u-grace"}, map[string]any{"status": 401.0, "error": "unauthorized", "reason": "token_missing", "admin": nil}},
		"bad token":   {d.admin + "x", mintRequest{id: "u-grace"}, map[string]any{"status": 401.0, "error": "invalid_token", "admin": nil}},
		"no admin":    {d.operatorToken("other", "u-max", "trusted"), mintRequest{id: "u-grace"}, map[string]any{"status": 403.0, "reason": "caller_is_no_admin", "admin": "u-max", "client_id": "other"}},
		"media type":  {d.admin, mintRequest{id: "u-grace", headers: map[string]string{"Content-Type": "text/plain"}}, map[string]any{"status": 415.0, "admin": "u-ada", "client_id": "conf"}},
		"unknown":     {d.admin, mintRequest{id: "u-nobody"}, map[string]any{"status": 404.0, "reason": "target_unknown", "admin": "u-ada", "target": "u-nobody", "client_id": "conf"}},
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
