package caddymodule

import (
	"net/http"
	"strings"
	"testing"
)

// TestG133CommandUserUpdate: an update of some members of a user, by id or by address → these alone change, and the audit log says so; role,
// organisation, groups or status changed → existing tokens and sessions end. A change of name or address ends nothing.
func TestG133CommandUserUpdate(t *testing.T) {
	g := startGatehouse(t, durableStaffed)
	g.ok("org", "add", "globex", "--name", "Globex Corp")
	if _, err := g.run("bobs-password\n", "user", "add", "--email", "bob@acme.example", "--org", "acme", "--role", "group_manager", "--id", "u-bob",
		"--group", "ops", "--group", "Web Team", "--password-stdin"); err != nil {
		t.Fatal(err)
	}
	want := decoded[userView](t, g.ok("user", "show", "u-bob", "--json"))
	for _, step := range []struct {
		args    []string
		as      func(*userView)
		changed string // as in the audit line
		ends    bool
	}{
		{[]string{"u-bob", "--name", "Bob Builder"}, func(u *userView) { u.Name = "Bob Builder" }, `["name"]`, false},
		{[]string{"bob@acme.example", "--email", "Robert@Acme.Example"}, func(u *userView) { u.Email = "robert@acme.example" }, `["email"]`, false},
		{[]string{"Robert@ACME.example ", "--name", "R", "--email", "r@acme.example"}, func(u *userView) { u.Name, u.Email = "R", "r@acme.example" }, `["name","email"]`, false},
		{[]string{"u-bob", "--name", ""}, func(u *userView) { u.Name = "r@acme.example" }, `["name"]`, false},
		{[]string{"u-bob", "--role", "member"}, func(u *userView) { u.Role = "member" }, `["role"],"role":"member"`, true},
		{[]string{"u-bob", "--role", ""}, func(u *userView) { u.Role = "" }, `["role"],"role":""`, true},
		{[]string{"u-bob", "--org", "globex"}, func(u *userView) { u.Organisation = "globex" }, `["organisation"],"organisation":"globex"`, true},
		{[]string{"u-bob", "--org", ""}, func(u *userView) { u.Organisation = "" }, `["organisation"],"organisation":""`, true},
		{[]string{"r@acme.example", "--group", "hr"}, func(u *userView) { u.Groups = []string{"hr"} }, `["groups"],"groups":["hr"]`, true},
		{[]string{"u-bob", "--group", ""}, func(u *userView) { u.Groups = nil }, `["groups"],"groups":[]`, true},
		{[]string{"u-bob", "--name", "Bob", "--email", "bob@acme.example", "--role", "admin", "--org", "acme", "--group", "a", "--group", "b", "--status", "active"}, func(u *userView) {
			u.Name, u.Email, u.Role, u.Organisation, u.Groups = "Bob", "bob@acme.example", "admin", "acme", []string{"a", "b"}
		}, `["name","email","role","status","organisation","groups"],"role":"admin","status":"active","organisation":"acme","groups":["a","b"]`, true},
		{[]string{"u-bob", "--status", "locked"}, func(u *userView) { u.Status = "locked" }, `["status"],"status":"locked"`, true},
	} {
		access := strings.TrimSpace(g.ok("token", "mint", "--client", "conf", "--user", "u-bob"))
		if out := g.ok(append([]string{"user", "update"}, step.args...)...); out != "" {
			t.Errorf("%q printed %q", step.args, out)
		}
		step.as(&want)
		got := g.ok("user", "show", want.Email, "--json")
		if shown := decoded[userView](t, got); !sameView(shown, want) {
			t.Errorf("%q: %s", step.args, got)
		}
		if status := g.gateOf(access); status != map[bool]int{false: http.StatusOK, true: http.StatusUnauthorized}[step.ends] {
			t.Errorf("%q: the gate says %d", step.args, status)
		}
		if line := `"msg":"user updated","subject":"u-bob","changed":` + step.changed + `,"by":"operator"`; !strings.Contains(g.logs(), line) {
			t.Errorf("%q: no line with %s", step.args, line)
		}
	}
	if strings.Contains(g.logs(), `"msg":"user updated","subject":"bob@acme.example"`) {
		t.Error("the audit log names an address")
	}
}

func sameView(a, b userView) bool {
	return a.ID == b.ID && a.Email == b.Email && a.Name == b.Name && a.Organisation == b.Organisation && a.Role == b.Role && a.Status == b.Status &&
		strings.Join(a.Groups, ",") == strings.Join(b.Groups, ",") && a.Source == b.Source && a.HasPassword == b.HasPassword
}

// TestUserUpdatesThatAreRefused checks that a refused update says why and changes nothing.
func TestUserUpdatesThatAreRefused(t *testing.T) {
	g := startGatehouse(t, durableStaffed)
	for _, id := range []string{"u-bob", "u-eve"} {
		g.must(http.StatusCreated, "POST", "/oauth/users", `{"id":"`+id+`","email":"`+id+`@acme.example","organisation":"acme","password_hash":"`+adaHash+`"}`)
	}
	before := g.must(http.StatusOK, "GET", "/oauth/users", "")
	access := strings.TrimSpace(g.ok("token", "mint", "--client", "conf", "--user", "u-bob"))
	for _, test := range []struct {
		user, body string
		status     int
		want       string
	}{
		{"u-bob", `{}`, 400, "name what to change"},
		{"u-bob", `{"identities":""}`, 400, "name what to change"},
		{"u-bob", `{"identities":null}`, 400, "name what to change"},
		{"u-bob", `{"status":null}`, 400, "status: use active, disabled or locked"},
		{"u-bob", `{"email":"u-eve@acme.example","role":"admin"}`, 409, "another user has the e-mail address"},
		{"u-bob", `{"email":"ADA@acme.example"}`, 409, "another user has the e-mail address"},
		{"u-bob", `{"email":"bob"}`, 400, "is no e-mail address"},
		{"u-bob", `{"email":""}`, 400, "is no e-mail address"},
		{"u-bob", `{"name":"a\u0000"}`, 400, "user name"},
		{"u-bob", `{"role":"boss"}`, 400, `unknown role \"boss\"`},
		{"u-bob", `{"status":"gone"}`, 400, `unknown status \"gone\"`},
		{"u-bob", `{"organisation":"nowhere","name":"B"}`, 400, `there is no organisation \"nowhere\": add it first`},
		{"u-bob", `{"groups":["a,b"]}`, 400, `group \"a,b\"`},
		{"u-bob", `{"id":"u-other"}`, 400, "id"},
		{"u-bob", `{"password":"another-password"}`, 400, "password"},
		{"u-bob", `{"Name":"B"}`, 400, "Name"},
		{"u-ada", `{"name":"Ada"}`, 409, "it is declared in the configuration: change it there"},
		{"ada@acme.example", `{"name":"Ada"}`, 409, "it is declared in the configuration: change it there"},
		{"nobody", `{"name":"N"}`, 404, "there is no such user"},
		{"nobody@acme.example", `{"name":"N"}`, 404, "there is no such user"},
	} {
		if status, _, body := g.operate("PATCH", "/oauth/users/"+test.user, test.body); status != test.status || !strings.Contains(body, test.want) {
			t.Errorf("%s %s: %d %s", test.user, test.body, status, body)
		}
	}
	if status, _, body := g.operateAs("text/plain", "PATCH", "/oauth/users/u-bob", `{"name":"B"}`); status != http.StatusUnsupportedMediaType {
		t.Errorf("as text: %d %s", status, body)
	}
	if after := g.must(http.StatusOK, "GET", "/oauth/users", ""); after != before {
		t.Errorf("before %s\nafter %s", before, after)
	}
	if status := g.gateOf(access); status != http.StatusOK {
		t.Errorf("the gate says %d", status)
	}
	if _, err := g.run("", "user", "update", "u-bob"); err == nil || !strings.Contains(err.Error(), "name what to change") {
		t.Errorf("got %v", err)
	}
}
