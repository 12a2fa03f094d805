package caddymodule

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestT132RevokingAPersonEndsWhatTheyCreated: an admin's tokens for members are the admin's access, whoever they act for.
func TestT132RevokingAPersonEndsWhatTheyCreated(t *testing.T) {
	u := openUsers(t, onDiskPeople...)
	r := requestOf("conf")
	for name, end := range map[string]func(u *userDoor, b *browser, id string){
		"operator": func(u *userDoor, _ *browser, id string) {
			u.must(http.StatusNoContent, "POST", "/oauth/revocations", `{"user":"`+id+`"}`)
		},
		"command": func(u *userDoor, _ *browser, id string) { u.ok("token", "revoke", "--user", id) },
		"sign out everywhere": func(u *userDoor, b *browser, _ string) {
			action, fields := formIn(u.t, b.open("/oauth/account"))
			fields.Del("application")
			fields.Del("session")
			fields.Set("everywhere", "1")
			if p := b.send(action, fields); p.status != http.StatusSeeOther {
				u.t.Fatalf("%d %s", p.status, p.body)
			}
		},
	} {
		u.sub(name, func(u *userDoor) {
			email := strings.ReplaceAll(name, " ", "-") + "@acme.example"
			id := u.addUser(email, "acme", store.RoleAdmin)
			b := u.browser()
			b.gatehouse = u.gatehouse
			own := u.gives(r.exchange(b.authorize(r, email).location().Query().Get("code")))
			created := u.createdByAdmin(own.AccessToken, "u-grace")
			refreshed := u.gives(r.refresh(u.createdByAdmin(own.AccessToken, "u-ben").RefreshToken))
			bystander := u.createdByAdmin(u.userTokens(r, ada).AccessToken, "u-grace")
			end(u, b, id)
			u.gone(own.AccessToken, created.AccessToken, refreshed.AccessToken)
			for _, token := range []string{created.RefreshToken, refreshed.RefreshToken} {
				u.denied(r.refresh(token), badGrant("refresh_token_revoked"))
			}
			if !u.alive(bystander.AccessToken) {
				u.t.Error("another admin's token died")
			}
		})
	}
	// What is left of a family that the store does not know any more is hit by the revocation of its actor.
	u.sub("without its family", func(u *userDoor) {
		minted := u.issue(tokenissuer.Grant{
			Type: store.AdminCreated, User: &store.User{ID: "u-grace", Organisation: "acme", Role: "group_manager"}, FamilyID: "gone",
			Actor: store.Actor{Subject: "u-ada", ClientID: "conf"}, Scopes: oauth.Scopes{"trusted", "public"},
		})
		if !u.alive(minted) {
			u.t.Fatal("a fresh token is refused")
		}
		u.must(http.StatusNoContent, "POST", "/oauth/revocations", `{"user":"u-ada"}`)
		u.gone(minted)
		form := with(r.refresh(""), "token", minted, "grant_type", "", "refresh_token", "")
		if a := u.ask(u.t, "/oauth/introspect", form.Encode()); strings.TrimSpace(a.body) != `{"active":false}` {
			u.t.Errorf("introspected: %s", a.body)
		}
	})
}

// TestT132NobodyIsMeant: a misspelled id must not look like a revocation. Those whose tokens may live can be named.
func TestT132NobodyIsMeant(t *testing.T) {
	u := openUsers(t, append([]string{"user u-max {", "user u-left {\n\t\t\temail left@acme.example\n\t\t\tpassword HASH\n\t\t\torganisation acme\n\t\t\trole member\n\t\t}\n\t\tuser u-max {"}, onDiskPeople...)...)
	removed := u.addUser("removed@acme.example", "acme", store.RoleMember)
	u.ok("user", "remove", removed)
	u.reload(peopleSite(onDiskPeople...)) // u-left is declared no more
	before := u.app().node.Revocations.Len()
	for _, id := range []string{"nobody", "conf", "ADA", "u-ada ", "gatehouse"} {
		body := u.must(http.StatusNotFound, "POST", "/oauth/revocations", `{"user":"`+id+`"}`)
		if !strings.Contains(body, "there is no user") {
			t.Errorf("%q: %s", id, body)
		}
		if _, err := u.gatehouse.run("", "token", "revoke", "--user", id); err == nil || !strings.Contains(err.Error(), "nothing was revoked") {
			t.Errorf("%q: %v", id, err)
		}
	}
	if n := u.app().node.Revocations.Len(); n != before {
		t.Errorf("%d revocations were recorded", n-before)
	}
	for _, id := range []string{removed, "u-left", "u-max"} {
		u.must(http.StatusNoContent, "POST", "/oauth/revocations", `{"user":"`+id+`"}`)
	}
	u.must(http.StatusNoContent, "POST", "/oauth/revocations", `{"user":"partner|7","force":true}`)
	u.ok("token", "revoke", "--user", "partner|7", "--force")
}
