package caddymodule

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestCommandUser takes a user through `caddy oauth user`, by the id and by the address.
func TestCommandUser(t *testing.T) {
	g := startGatehouse(t, durableStaffed)
	const email = "bob@acme.example"
	input := func(stdin string, args ...string) string {
		t.Helper()
		out, err := g.run(stdin, args...)
		if err != nil {
			t.Fatalf("caddy oauth %s: %v", strings.Join(args, " "), err)
		}
		return out
	}
	out := input("first password \r\nsecond line", "user", "add", "--email", "Bob@Acme.example", "--org", "acme", "--role", "group_manager",
		"--id", "u/b o", "--name", "Bob Builder", "--password-stdin")
	if out != "user  u/b o\n" {
		t.Errorf("add printed %q", out)
	}
	access, _ := g.staffTokens(email, "first password ") // the password includes the space and excludes the line end
	shown := g.ok("user", "show", "u/b o")
	for word, want := range map[string]string{
		"id": "u/b o", "e-mail": email, "name": "Bob Builder", "organisation": "acme", "role": "group_manager", "source": "store", "state": "active",
	} {
		if got := printed(t, shown, word); got != want {
			t.Errorf("show says %s %q, want %q", word, got, want)
		}
	}
	if out := g.ok("user", "set-role", "BOB@acme.example", "member"); out != "" || g.gate(access) != http.StatusUnauthorized {
		t.Errorf("set-role printed %q, and the gate answers %d", out, g.gate(access))
	}
	if out := g.ok("token", "revoke", "--user", email); out != "" || !strings.Contains(g.ok("token", "mint", "--client", "conf", "--user", email, "--scope", "public"), ".") {
		t.Errorf("revoke printed %q, or no token was minted", out)
	}
	if out := input("another password\n", "user", "set-password", email, "--password-stdin"); out != "" {
		t.Errorf("set-password printed %q", out)
	}
	if status, _ := g.staffSignIn(email, "first password "); status != http.StatusBadRequest {
		t.Errorf("the old password: %d", status)
	}
	for _, change := range []struct{ command, state string }{{"disable", "disabled"}, {"enable", "active"}, {"lock", "locked"}, {"enable", "active"}} {
		if out := g.ok("user", change.command, email); out != "" {
			t.Errorf("%s printed %q", change.command, out)
		}
		if got := printed(t, g.ok("user", "show", "u/b o"), "state"); got != change.state {
			t.Errorf("after %s the state is %s", change.command, got)
		}
	}
	g.staffTokens(email, "another password")
	g.ok("user", "remove", email)
	if strings.Contains(g.logs(), `"kind":"user","id":"bob@`) {
		t.Error("the audit log names an address")
	}
	if out := g.ok("user", "list"); strings.Contains(out, "u/b o") || !hasLine(out, []string{"u-ada", "ada@acme.example", "admin", "config", "active"}) {
		t.Errorf("list printed\n%s", out)
	}
}

// TestCommandUserAndOrganisationJSON checks that --json prints JSON and never a hash, and that a user without a password is told how to get
// one.
func TestCommandUserAndOrganisationJSON(t *testing.T) {
	g := startGatehouse(t, staffed)
	globex := decoded[organisationView](t, g.ok("org", "add", "globex", "--name", "Globex", "--json"))
	if globex.ID != "globex" || globex.Name != "Globex" || globex.Source != "store" || globex.CreatedAt.IsZero() {
		t.Errorf("added %+v", globex)
	}
	if out := g.ok("org", "add", "a/b c", "--name", "Other Corp"); out != "organisation  a/b c\n" {
		t.Errorf("add printed %q", out)
	}
	if out := g.ok("org", "list"); strings.Count(out, "\n") != 4 || !strings.HasPrefix(out, "ID") || !hasLine(out, []string{"acme", "Acme Ltd", "config"}) || !hasLine(out, []string{"a/b", "Other Corp", "store"}) {
		t.Errorf("list printed\n%s", out)
	}
	if out := g.ok("org", "remove", "a/b c"); out != "" {
		t.Errorf("remove printed %q", out)
	}
	if all := decoded[[]organisationView](t, g.ok("org", "list", "--json")); len(all) != 2 || all[0].ID != "acme" || all[1].ID != "globex" {
		t.Errorf("listed %+v", all)
	}
	added := decoded[userView](t, g.ok("user", "add", "--email", "bob@globex.example", "--org", "globex", "--role", "member", "--json"))
	if added.ID == "" || added.Name != "bob@globex.example" || added.HasPassword || added.Status != store.UserActive || added.Source != "store" {
		t.Errorf("added %+v", added)
	}
	hashed := decoded[userView](t, g.ok("user", "add", "--email", "carol@globex.example", "--org", "globex", "--role", "admin", "--password-hash", adaHash, "--json"))
	if !hashed.HasPassword {
		t.Errorf("added %+v", hashed)
	}
	g.staffTokens("carol@globex.example", adaPassword)
	out := g.ok("user", "list", "--json")
	if all := decoded[[]userView](t, out); len(all) != 3 || strings.Contains(out, "$") {
		t.Errorf("listed %s", out)
	}
	if _, err := g.run("", "org", "remove", "globex"); err == nil || err.Error() != "the organisation still has users: remove them first" {
		t.Errorf("got %v", err)
	}
	if out := g.ok("user", "add", "--email", "dan@acme.example", "--id", "u-dan"); !strings.Contains(out, "caddy oauth user set-password u-dan --password-stdin") ||
		!strings.Contains(out, "cannot sign in before a password is set") || printed(t, g.ok("user", "show", "u-dan"), "state") != "no password" {
		t.Errorf("add printed\n%s", out)
	}
	if shown := decoded[userView](t, g.ok("user", "show", added.ID, "--json")); !reflect.DeepEqual(shown, added) {
		t.Errorf("shown %+v, added %+v", shown, added)
	}
}

// TestCommandErrorsAboutPeople checks that a mistake exits with code 1 and one readable sentence, and that no flag takes a password.
func TestCommandErrorsAboutPeople(t *testing.T) {
	g := startGatehouse(t, staffed)
	add := []string{"user", "add", "--email", "bob@acme.example", "--org", "acme", "--role", "member"}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"org", "add"}, "accepts 1 arg(s), received 0"},
		{[]string{"org", "add", "x"}, `required flag(s) "name" not set`},
		{[]string{"org", "show", "acme"}, `unknown command "show" for "caddy oauth org"`},
		{[]string{"user", "add"}, `required flag(s) "email" not set`},
		{append(slices.Clone(add), "--password", "x"), "unknown flag: --password"},
		{append(slices.Clone(add), "--password-stdin"), "the first line of standard input holds no password"},
		{append(slices.Clone(add), "--password-stdin", "--password-hash", adaHash), "if any flags in the group [password-stdin password-hash] are set none of the others can be; [password-hash password-stdin] were all set"},
		{append(slices.Clone(add), "--password-hash", "plain"), "use a password hash as `caddy hash-password` prints it: bcrypt or argon2id"},
		{[]string{"user", "set-password", "u-ada"}, `required flag(s) "password-stdin" not set`},
		{[]string{"user", "set-password", "u-ada", "a-new-password"}, "accepts 1 arg(s), received 2"},
		{[]string{"user", "set-role", "u-ada"}, "accepts 2 arg(s), received 1"},
		{[]string{"user", "set-role", "u-ada", "member"}, "it is declared in the configuration: change it there"},
		{[]string{"token", "mint", "--client", "conf", "--user", "nobody"}, `there is no user "nobody"`},
		{[]string{"token", "mint", "--client", "conf", "--user", ""}, `there is no user ""`},     // and no server token
		{[]string{"user", "list", "--org", ""}, "organisation: give one value, or leave it out"}, // and not all users
	} {
		out, err := g.run("", test.args...)
		if err == nil || err.Error() != test.want {
			t.Errorf("caddy oauth %q: %v, want %s", test.args, err, test.want)
		}
		if out != "" {
			t.Errorf("caddy oauth %q printed %s", test.args, out)
		}
	}
}
