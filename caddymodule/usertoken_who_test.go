package caddymodule

import (
	"net/url"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
)

// These tests cover who may obtain a token: rows M1 and M3. For whom, package grants decides.

var (
	adminRequired  = plainRefusal(403, "admin_required", "caller_is_no_admin")
	userNotFound   = plainRefusal(404, "user_not_found", "target_unknown")
	roleNotAllowed = plainRefusal(403, "target_role_not_allowed", "target_role")
	userInactive   = plainRefusal(422, "user_inactive", "target_inactive")
	invalidToken   = tokenRefusal(401, "invalid_token", invalidTokenChallenge)
	revokedToken   = tokenRefusal(401, "invalid_token", `, error="invalid_token", error_description="The access token was revoked"`)
)

// TestM1AdminObtainsATokenForAMember: an admin asks for a token for a group or business manager → 201 with the flat body, no-store.
func TestM1AdminObtainsATokenForAMember(t *testing.T) {
	d := openAdmin(t)
	ownClient := request{scope: "trusted public"}
	for name, of := range map[string]struct {
		client request
		admin  func(*adminDoor) string
	}{
		"code flow, confidential client": {requestOf("conf"), func(d *adminDoor) string {
			return d.userTokens(requestOf("conf"), "ada@acme.example").AccessToken
		}},
		"code flow, public client": {requestOf("pub"), func(d *adminDoor) string {
			return d.userTokens(requestOf("pub"), "ada@acme.example").AccessToken
		}},
		"password grant, client": {requestOf("conf"), func(d *adminDoor) string {
			return d.gives(requestOf("conf").asPassword("ada@acme.example", peoplePassword)).AccessToken
		}},
		"password grant, no client": {ownClient, func(d *adminDoor) string {
			return d.gives(ownClient.asPassword("ada@acme.example", peoplePassword)).AccessToken
		}},
		"refreshed": {requestOf("conf"), func(d *adminDoor) string {
			first := d.userTokens(requestOf("conf"), "ada@acme.example")
			return d.gives(requestOf("conf").refresh(first.RefreshToken)).AccessToken
		}},
		"operator": {requestOf("other"), func(d *adminDoor) string { return d.operatorToken("other", "u-ada", "trusted public") }},
	} {
		d.sub(name, func(d *adminDoor) {
			token := of.admin(d)
			for _, id := range []string{"u-grace", "u-ben"} {
				got := d.created(token, mintRequest{id: id})
				if got.ExpiresIn != 2419200 || got.Scope != "trusted public" || !d.alive(got.AccessToken) {
					d.t.Errorf("%d s, scope %q, alive %t", got.ExpiresIn, got.Scope, d.alive(got.AccessToken))
				}
				again := d.gives(of.client.refresh(got.RefreshToken))
				if again.ExpiresIn != 2419200 || again.Scope != "trusted public" || claims(d.t, again.AccessToken)["sub"] != id || !d.alive(again.AccessToken) {
					d.t.Errorf("refreshed: %+v", claims(d.t, again.AccessToken))
				}
			}
		})
	}
	d.sub("a client that may not refresh", func(d *adminDoor) {
		got := d.created(d.operatorToken("legacy", "u-ada", "trusted"), mintRequest{id: "u-grace"})
		d.denied(requestOf("legacy").refresh(got.RefreshToken), outcome{status: 400, code: "unauthorized_client"})
	})
}

// TestM3BadTokens: an expired, revoked or garbage admin token → 401.
func TestM3BadTokens(t *testing.T) {
	c := setClock(t)
	d := openAdmin(t)
	for name, bad := range map[string]string{
		"garbage": "x", "three parts": "a.b.c", "bad signature": d.admin[:len(d.admin)-8] + "AAAAAAAA",
		"a client's secret": confSecret, "a refresh token": d.mintFor("u-grace").RefreshToken,
	} {
		d.sub(name, func(d *adminDoor) { d.refused(bad, mintRequest{id: "u-grace"}, invalidToken) })
	}
	d.sub("revoked", func(d *adminDoor) {
		token := d.operatorToken("conf", "u-ada", "trusted")
		d.created(token, mintRequest{id: "u-grace"})
		if status, _, body := d.post("/oauth/revoke", url.Values{"token": {token}, "client_id": {"conf"}, "client_secret": {confSecret}}); status != 200 {
			d.t.Fatal(status, body)
		}
		d.refused(token, mintRequest{id: "u-grace"}, revokedToken)
	})
	d.sub("two tokens", func(d *adminDoor) {
		malformed := `, error="invalid_request", error_description="` + contract["invalid_request"] + `"`
		d.refused(d.admin, mintRequest{id: "u-grace", query: "?access_token=" + d.admin}, tokenRefusal(400, "invalid_request", malformed))
		d.refused("", mintRequest{id: "u-grace", headers: map[string]string{"Authorization": "Bearer  x"}}, tokenRefusal(400, "invalid_request", malformed))
	})
	d.sub("expired", func(d *adminDoor) {
		d.mintFor("u-grace")
		c.advance(6*time.Hour + 10*time.Second)
		d.app().node.Revocations.MarkFresh(node.Clock())
		d.refused(d.admin, mintRequest{id: "u-grace"},
			tokenRefusal(401, "invalid_token", `, error="invalid_token", error_description="The access token expired"`))
	})
}
