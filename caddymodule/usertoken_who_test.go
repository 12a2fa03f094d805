package caddymodule

import (
	"reflect"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Who may obtain a token. For whom, package grants decides.

var (
	adminRequired  = plainRefusal(403, "admin_required", "caller_is_no_admin")
	userNotFound   = plainRefusal(404, "user_not_found", "target_unknown")
	roleNotAllowed = plainRefusal(403, "target_role_not_allowed", "target_role")
	invalidToken   = tokenRefusal(401, "invalid_token", invalidTokenChallenge)
	revokedToken   = tokenRefusal(401, "invalid_token", `, error="invalid_token", error_description="The access token was revoked"`)
)

// TestM1M23AdminObtainsATokenForAMember: an admin asks for a token for a group or business manager → 201 with the flat body, no-store; sub and
// organisation of the target, `act` with the admin and the client, also after a refresh.
func TestM1M23AdminObtainsATokenForAMember(t *testing.T) {
	d := openAdmin(t)
	own := claims(t, d.admin)
	for name, of := range map[string]struct {
		client request
		id     string // of the client in the claims
		admin  func(*adminDoor) string
	}{
		"code flow, public client":  {requestOf("pub"), "pub", func(d *adminDoor) string { return d.userTokens(requestOf("pub"), ada).AccessToken }},
		"password grant, no client": {nobodysClient, store.BuiltInClientID, func(d *adminDoor) string { return d.gives(nobodysClient.asPassword(ada, peoplePassword)).AccessToken }},
		"refreshed": {requestOf("conf"), "conf", func(d *adminDoor) string {
			return d.gives(requestOf("conf").refresh(d.userTokens(requestOf("conf"), ada).RefreshToken)).AccessToken
		}},
		"operator": {requestOf("other"), "other", func(d *adminDoor) string { return d.operatorToken("other", "u-ada", "trusted public") }},
	} {
		d.sub(name, func(d *adminDoor) {
			token := of.admin(d)
			for id, role := range map[string]string{"u-grace": "group_manager", "u-ben": "business_manager"} {
				first := d.created(token, mintRequest{id: id})
				again := d.gives(of.client.refresh(first.RefreshToken))
				for _, got := range []tokens{first, again} {
					if got.ExpiresIn != 2419200 || !d.alive(got.AccessToken) {
						d.t.Errorf("%d s, alive %t", got.ExpiresIn, d.alive(got.AccessToken))
					}
					claim := claims(d.t, got.AccessToken)
					for name, want := range map[string]any{
						"iss": d.url, "aud": d.url, "sub": id, "client_id": of.id, "scope": "trusted public", "org": "acme", "role": role, "auth_time": nil,
						"act": map[string]any{"sub": "u-ada", "client_id": of.id}, "sid": claims(d.t, first.AccessToken)["sid"],
					} {
						if !reflect.DeepEqual(claim[name], want) {
							d.t.Errorf("%s: %v, want %v", name, claim[name], want)
						}
					}
				}
				if one, two := claims(d.t, first.AccessToken), claims(d.t, again.AccessToken); one["jti"] == two["jti"] || one["sid"] == own["sid"] {
					d.t.Errorf("%v and %v are not the tokens' own", one, two)
				}
				if f := d.familyOf(first.AccessToken); f.Origin != store.AdminCreated || f.User.ID != id || f.Actor.Subject != "u-ada" {
					d.t.Errorf("family %+v", f)
				}
			}
		})
	}
	d.sub("a client that may not refresh", func(d *adminDoor) {
		got := d.created(d.operatorToken("legacy", "u-ada", "trusted"), mintRequest{id: "u-grace"})
		d.denied(requestOf("legacy").refresh(got.RefreshToken), outcome{status: 400, code: "unauthorized_client"})
	})
}
