package caddymodule

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestX57UserListFindsPeople: `user list` with each filter → the people that all filters select, of the configuration too, however many pages
// the admin API makes of them; --json has the same.
func TestX57UserListFindsPeople(t *testing.T) {
	g := startGatehouse(t, staffed)
	g.ok("user", "add", "--id", "u-bob", "--email", "Bob@Globex.example", "--name", "Robert", "--role", "group_manager", "--group", "staff", "--password-hash", adaHash)
	g.ok("user", "add", "--id", "u-eve", "--email", "eve@acme.example", "--preferred-username", "Adalind", "--org", "acme")
	g.ok("user", "disable", "u-bob")
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "u-ada u-bob u-eve"},
		{[]string{"--search", "ADA"}, "u-ada u-eve"},
		{[]string{"--search", "bob@"}, "u-bob"},
		{[]string{"--search", "rob"}, "u-bob"},
		{[]string{"--org", "acme"}, "u-ada u-eve"},
		{[]string{"--organisation", "acme", "--role", "admin"}, "u-ada"},
		{[]string{"--group", "staff"}, "u-bob"},
		{[]string{"--state", "disabled"}, "u-bob"},
		{[]string{"--state", "invited"}, "u-eve"},
		{[]string{"--state", "active"}, "u-ada"},
		{[]string{"--provider", "corp"}, ""},
		{[]string{"--without-factor", "--search", "a"}, "u-ada u-eve"},
	} {
		var got []string
		for _, u := range decoded[[]userView](t, g.ok(append([]string{"user", "list", "--json"}, test.args...)...)) {
			got = append(got, u.ID)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%q lists %q, want %s", test.args, got, test.want)
		}
	}
	s := g.app().node.Store()
	want := []string{"u-ada", "u-bob", "u-eve"}
	for i := range 150 {
		id := fmt.Sprintf("v%04d", i)
		check(t, s.Users.AddUser(t.Context(), &store.User{ID: id, Email: id + "@example.com", Status: store.UserActive, Role: store.RoleMember}, true))
		want = append(want, id)
	}
	var got []string
	pages := 0
	for path := "/oauth/users?without_factor=true"; path != ""; pages++ {
		status, header, body := g.operate("GET", path, "")
		users := decoded[[]userView](t, body)
		if status != http.StatusOK || len(users) > 101 { // the configuration declares one
			t.Fatalf("%s: %d, %d users", path, status, len(users))
		}
		for _, u := range users {
			got = append(got, u.ID)
		}
		link, isNext := strings.CutSuffix(header.Get("Link"), `>; rel="next"`)
		if path = strings.TrimPrefix(link, "<"); !isNext {
			break
		}
		if next, err := url.Parse(path); err != nil || next.Query().Get("without_factor") != "true" {
			t.Fatalf("the next page is %s", path)
		}
	}
	if pages != 1 || !slices.Equal(got, want) {
		t.Errorf("%d further pages have %q", pages, got)
	}
}
