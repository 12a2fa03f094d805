package caddymodule

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// These tests cover who may obtain a token, and for whom: rows M1 to M10, M24 and M29.

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

// TestM5OnlyAnAdmin: a caller without the admin role → 403.
func TestM5OnlyAnAdmin(t *testing.T) {
	d := openAdmin(t)
	d.stored(store.User{ID: "u-none", Organisation: "acme", PasswordHash: oauth.NewSecret(peopleHash())})
	d.stored(store.User{ID: "u-owner", Organisation: "acme", Role: "owner", PasswordHash: oauth.NewSecret(peopleHash())})
	d.stored(store.User{ID: "u-Admin", Organisation: "acme", Role: "Admin", PasswordHash: oauth.NewSecret(peopleHash())})
	for _, caller := range []string{"u-none", "u-owner", "u-Admin", "u-grace", "u-ben", "u-max", "u-rita"} {
		d.sub(caller, func(d *adminDoor) {
			token := d.operatorToken("conf", caller, "trusted public")
			for _, target := range []string{"u-grace", "u-nobody", "u-rita", caller} {
				d.refused(token, mintRequest{id: target}, adminRequired)
			}
			d.refused(token, mintRequest{id: "u-grace", body: "{", headers: map[string]string{"Content-Type": "text/plain"}}, adminRequired)
		})
	}
	d.sub("nobody", func(d *adminDoor) {
		token := d.issue(issuer.Grant{
			Type: oauth.AuthorizationCode, User: &store.User{ID: "u-nobody", Organisation: "acme", Role: store.RoleAdmin},
			Scopes: oauth.Scopes{"trusted"}, Family: &store.TokenFamily{ID: "none"},
		})
		d.refused(token, mintRequest{id: "u-grace"}, adminRequired)
	})
	d.mintFor("u-grace")
}

// TestM7ForeignUsersAreUnknown: a target in another organisation → 404, identical to an unknown id.
func TestM7ForeignUsersAreUnknown(t *testing.T) {
	d := openAdmin(t)
	d.stored(store.User{ID: "u-rick", Organisation: "rival", Role: store.RoleAdmin, PasswordHash: oauth.NewSecret(peopleHash())})
	d.stored(store.User{ID: "u-off1", Organisation: "acme", Role: store.RoleGroupManager, Status: store.UserDisabled})
	d.manager("u-live")
	rick := d.operatorToken("conf", "u-rick", "trusted public")
	anonymous := func(a answer) string {
		id, _, _ := strings.Cut(strings.SplitN(a.body, `"id":"`, 2)[1], `"`)
		a.header.Del("Date")
		return strings.ReplaceAll(a.body, id, "ID") + " " + url.Values(a.header).Encode()
	}
	unknown := anonymous(d.refused(rick, mintRequest{id: "u-zero"}, userNotFound))
	for _, id := range []string{"u-ada", "u-grace", "u-ben", "u-max", "u-live", "u-off1", "U-RITA", "conf", "gatehouse", "acme", "me"} {
		if got := anonymous(d.refused(rick, mintRequest{id: id}, userNotFound)); got != unknown {
			t.Errorf("%s: %s\nan unknown user: %s", id, got, unknown)
		}
	}
	if got := anonymous(d.refused(d.admin, mintRequest{id: "u-rita"}, userNotFound)); got != unknown {
		t.Errorf("u-rita: %s\nan unknown user: %s", got, unknown)
	}
	if org := claims(t, d.created(rick, mintRequest{id: "u-rita"}).AccessToken)["org"]; org != "rival" {
		t.Errorf("org %v", org)
	}
	d.mintFor("u-live")
}

// TestM8M9OnlyTwoRolesAreActedFor: a member, admin, owner, oneself, or a role in another spelling as target → 403.
func TestM8M9OnlyTwoRolesAreActedFor(t *testing.T) {
	d := openAdmin(t)
	for _, role := range []store.Role{
		store.RoleAdmin, "owner", "Group_Manager", "GROUP_MANAGER", " group_manager", "group_manager ", "group_manager\n", "group-manager", "groupmanager",
		"group_mаnager", "group_manager\u200b", "business_managers", "group_manager,business_manager", "",
	} {
		id := oauth.NewID()
		d.stored(store.User{ID: id, Organisation: "acme", Role: role, PasswordHash: oauth.NewSecret(peopleHash())})
		d.refused(d.admin, mintRequest{id: id}, roleNotAllowed)
	}
	for _, id := range []string{"u-ada", "u-max"} {
		d.refused(d.admin, mintRequest{id: id}, roleNotAllowed)
	}
}

// TestM10InactiveUsers: a deleted target → 404; disabled, locked or only invited → 422.
func TestM10InactiveUsers(t *testing.T) {
	d := openAdmin(t)
	registry := d.app().registry
	for name, status := range map[string]store.UserStatus{"disabled": store.UserDisabled, "locked": store.UserLocked} {
		d.sub(name, func(d *adminDoor) {
			d.manager("u-" + name)
			d.mintFor("u-" + name)
			if err := registry.People.SetUserStatus(d.t.Context(), "u-"+name, status); err != nil {
				d.t.Fatal(err)
			}
			d.refused(d.admin, mintRequest{id: "u-" + name}, userInactive)
			if err := registry.People.SetUserStatus(d.t.Context(), "u-"+name, store.UserActive); err != nil {
				d.t.Fatal(err)
			}
			d.mintFor("u-" + name)
		})
	}
	d.sub("invited only", func(d *adminDoor) {
		d.stored(store.User{ID: "u-invited", Organisation: "acme", Role: store.RoleBusinessManager})
		d.refused(d.admin, mintRequest{id: "u-invited"}, userInactive)
	})
	d.sub("deleted", func(d *adminDoor) {
		d.manager("u-gone")
		if err := registry.People.RemoveUser(d.t.Context(), "u-gone"); err != nil {
			d.t.Fatal(err)
		}
		d.refused(d.admin, mintRequest{id: "u-gone"}, userNotFound)
	})
}

// TestM24AdminsOfThisMoment: an admin demoted or moved after signing in → 403 on the next call. A change on this node
// also ends the admin's tokens, so the answer is that of a revoked token. A change on another node shows first in the
// directory.
func TestM24AdminsOfThisMoment(t *testing.T) {
	d := openAdmin(t)
	registry := d.app().registry
	for _, name := range []string{"demoted", "disabled", "locked", "removed"} {
		d.sub(name, func(d *adminDoor) {
			id := d.addUser(name+"@acme.example", "acme", store.RoleAdmin)
			token := d.unrevoked(id, "acme")
			d.created(token, mintRequest{id: "u-grace"})
			if err := d.endings()[name](id); err != nil {
				d.t.Fatal(err)
			}
			d.refused(token, mintRequest{id: "u-grace"}, adminRequired)
		})
	}
	d.sub("the token says another organisation", func(d *adminDoor) {
		token := d.unrevoked("u-ada", "rival")
		d.refused(token, mintRequest{id: "u-rita"}, userNotFound)
		d.created(token, mintRequest{id: "u-grace"})
	})
	d.sub("the client was disabled", func(d *adminDoor) {
		d.register(d.t, store.Client{
			ID: "app", Scopes: oauth.Scopes{"trusted", "public"}, Grants: []oauth.GrantType{oauth.AuthorizationCode},
		})
		token := d.operatorToken("app", "u-ada", "trusted")
		minted := d.created(token, mintRequest{id: "u-grace"})
		if err := registry.Clients.DisableClient(d.t.Context(), "app"); err != nil {
			d.t.Fatal(err)
		}
		d.refused(token, mintRequest{id: "u-grace"}, revokedToken)
		d.gone(minted.AccessToken)
	})
	d.sub("the organisation was removed", func(d *adminDoor) {
		if _, err := registry.People.AddOrganisation(d.t.Context(), store.Organisation{ID: "brief"}); err != nil {
			d.t.Fatal(err)
		}
		for id, role := range map[string]store.Role{"u-boss": store.RoleAdmin, "u-aide": store.RoleGroupManager} {
			d.stored(store.User{ID: id, Organisation: "brief", Role: role, PasswordHash: oauth.NewSecret(peopleHash())})
		}
		token := d.operatorToken("conf", "u-boss", "trusted")
		minted := d.created(token, mintRequest{id: "u-aide"})
		for _, id := range []string{"u-aide", "u-boss"} {
			if err := registry.People.RemoveUser(d.t.Context(), id); err != nil {
				d.t.Fatal(err)
			}
		}
		if err := registry.People.RemoveOrganisation(d.t.Context(), "brief"); err != nil {
			d.t.Fatal(err)
		}
		d.refused(token, mintRequest{id: "u-aide"}, revokedToken)
		d.refused(d.unrevoked("u-boss", "brief"), mintRequest{id: "u-aide"}, adminRequired)
		d.gone(minted.AccessToken)
	})
	d.sub("an operator moves the admin by a reload", func(d *adminDoor) {
		d.mintFor("u-grace")
		moved := strings.Replace(peopleBlock, "organisation acme\n\t\t\trole admin", "organisation rival\n\t\t\trole admin", 1)
		if moved == peopleBlock {
			d.t.Fatal("the configuration has another shape")
		}
		d.reload(strings.ReplaceAll(moved, "HASH", peopleHash()))
		d.refused(d.admin, mintRequest{id: "u-grace"}, revokedToken)
		token := d.operatorToken("conf", "u-ada", "trusted")
		d.refused(token, mintRequest{id: "u-grace"}, userNotFound)
		d.created(token, mintRequest{id: "u-rita"})
	})
}

// TestM29OneOrganisationAUser: a user of two organisations → only the admin's own context.
func TestM29OneOrganisationAUser(t *testing.T) {
	d := openAdmin(t)
	id := d.addUser("two@acme.example", "acme", store.RoleGroupManager)
	for name, u := range map[string]store.User{
		"the same id": {ID: id, Email: "else@rival.example"}, "the same address": {ID: "u-two", Email: "TWO@acme.example"},
		"a declared id": {ID: "u-grace", Email: "g@rival.example"}, "a declared address": {ID: "u-g", Email: "Grace@Acme.example."},
	} {
		u.Organisation, u.Role = "rival", store.RoleGroupManager
		if _, err := d.app().registry.People.AddUser(t.Context(), u, oauth.Secret{}); err == nil {
			t.Errorf("%s: in a second organisation", name)
		}
	}
	if got := claims(t, d.mintFor(id).AccessToken); got["org"] != "acme" || got["role"] != "group_manager" {
		t.Errorf("claims %v", got)
	}
	d.stored(store.User{ID: "u-rick", Organisation: "rival", Role: store.RoleAdmin, PasswordHash: oauth.NewSecret(peopleHash())})
	d.refused(d.operatorToken("conf", "u-rick", "trusted"), mintRequest{id: id}, userNotFound)
	if status, _, _ := d.get("/api/x", d.mintFor("u-grace").AccessToken); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	if seen := d.upstream.one(t); seen.Header.Get("X-Auth-Organisation") != "acme" {
		t.Errorf("organisation %q", seen.Header.Get("X-Auth-Organisation"))
	}
}
