package caddymodule

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestT132NobodyIsMeant: revoking an id that does not exist → 404, exit status 1, nothing recorded; with `force` →
// recorded. A user whose tokens may still be valid can be revoked without it.
func TestT132NobodyIsMeant(t *testing.T) {
	u := openUsers(t, append([]string{"user u-max {", "user u-left {\n\t\t\temail left@acme.example\n\t\t\tpassword HASH\n\t\t\torganisation acme\n\t\t\trole member\n\t\t}\n\t\tuser u-max {"}, onDiskPeople...)...)
	removed := u.addUser("removed@acme.example", "acme", store.RoleMember)
	u.ok("user", "remove", removed)
	u.reload(peopleSite(onDiskPeople...)) // u-left is no longer declared
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
