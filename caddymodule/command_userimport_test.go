package caddymodule

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestX64TablesOfPeople: `user import` of a table with new people, changed ones, declared ones, mistakes and one address twice → a line for
// each that says what was done or why not; again → nothing changes; --dry-run stores nothing and says the same; what `user export` writes
// comes in again unchanged, and has no hash.
func TestX64TablesOfPeople(t *testing.T) {
	g := startGatehouse(t, strings.Replace(staffed, "role admin", "role admin\n\t\t\tgroups staff", 1))
	file := filepath.Join(t.TempDir(), "people.csv")
	imports := func(table string, args ...string) (string, error) {
		t.Helper()
		check(t, os.WriteFile(file, []byte(table), 0o600))
		return g.run("", append([]string{"user", "import", file}, args...)...)
	}
	table := strings.Join([]string{
		"email,name,username,organisation,role,groups,status,password_hash",
		`bob@acme.example,Bob,bobby,acme,group_manager,"staff,board",,` + `"` + adaHash + `"`,
		`Carol@ACME.example,"=Carol ""C""",,,,,disabled,`,
		`carol@acme.example,Twice,,,,,,`,
		`dan@acme.example,Dan,,nobody's,,,,`,
		`eve@acme.example,Eve,,,boss,,,`,
		`fay@acme.example,Fay,,,,,asleep,`,
		`gil@acme.example,Gil,,,,,,{PBKDF2}x`,
		`no address,Hal,,,,,,`,
		`ada@acme.example,Ada L,,,,,,`,
		`ivy@acme.example,"Ivy,,,,,,`,
	}, "\n")
	want := []string{
		"line 2: bob@acme.example added", "line 3: Carol@ACME.example added", "line 4: carol@acme.example refused: the address is that of line 3",
		`line 5: dan@acme.example refused: there is no organisation "nobody's": add it first`, `line 6: eve@acme.example refused: unknown role "boss"`,
		`line 7: fay@acme.example refused: unknown status "asleep"`, "line 8: gil@acme.example refused: use a password hash as", `line 9: no address refused: "no address" is no e-mail address`,
		"line 10: ada@acme.example refused: it is declared in the configuration", "line 11: refused: a quotation mark stands alone",
	}
	compare := func(what, out string, want ...string) {
		t.Helper()
		lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		if len(lines) != len(want) {
			t.Errorf("%s: %q, want %q", what, lines, want)
			return
		}
		for i := range want {
			if !strings.HasPrefix(lines[i], want[i]) {
				t.Errorf("%s: %q, want %q", what, lines[i], want[i])
			}
		}
	}
	before := g.must(http.StatusOK, "GET", "/oauth/users", "")
	out, err := imports(table, "--dry-run")
	compare("dry run", out, want...)
	if err == nil || err.Error() != "8 lines were refused" || g.must(http.StatusOK, "GET", "/oauth/users", "") != before {
		t.Errorf("dry run: %v", err)
	}
	out, _ = imports(table)
	compare("first", out, want...)
	g.staffTokens("bob@acme.example", adaPassword)
	want[0], want[1] = "line 2: bob@acme.example unchanged", "line 3: Carol@ACME.example unchanged"
	out, _ = imports(table)
	compare("again", out, want...)

	exported := g.ok("user", "export")
	for _, line := range []string{
		"email,name,username,organisation,role,groups,status\n", "ada@acme.example,ada@acme.example,,acme,admin,staff,active\n",
		"bob@acme.example,Bob,bobby,acme,group_manager,\"staff,board\",active\n", `carol@acme.example,"'=Carol ""C""",,,member,,disabled` + "\n",
	} {
		if !strings.Contains(exported, line) {
			t.Errorf("no %s in\n%s", line, exported)
		}
	}
	if strings.Contains(exported, "$argon2") || strings.Contains(exported, "$2") {
		t.Errorf("a hash is in\n%s", exported)
	}
	out, err = imports(exported, "--update")
	if err != nil || strings.Count(out, " unchanged\n") != 3 || strings.Count(out, "\n") != 3 {
		t.Errorf("what was exported: %v\n%s", err, out)
	}
	if out := g.ok("user", "export", "--state", "disabled"); strings.Count(out, "\n") != 2 {
		t.Errorf("a part:\n%s", out)
	}

	change := "email,name,groups,password_hash\nbob@acme.example,Robert,board,\"" + adaHash + "\"\ncarol@acme.example,,,\"" + adaHash + "\"\n"
	out, err = imports(change)
	compare("without --update", out, "line 2: bob@acme.example differs: name, groups (--update changes it)", "line 3: carol@acme.example differs: password_hash (--update")
	check(t, err)
	access, _ := g.staffTokens("bob@acme.example", adaPassword)
	out, err = imports(change, "--update", "--dry-run")
	compare("a dry update", out, "line 2: bob@acme.example updated: name, groups", "line 3: carol@acme.example updated: password_hash")
	if err != nil || g.gate(access) != http.StatusOK {
		t.Errorf("a dry update: %v", err)
	}
	out, err = imports(change, "--update", "--json")
	if err != nil || strings.Count(out, `"result":"updated"`) != 2 || !strings.Contains(out, `"line":2`) || g.gate(access) != http.StatusUnauthorized {
		t.Errorf("an update: %v %s, and the gate answers %d to a token of before", err, out, g.gate(access))
	}
	out, err = imports(change, "--update")
	compare("the update again", out, "line 2: bob@acme.example unchanged", "line 3: carol@acme.example unchanged")
	check(t, err)
}

// TestX65GroupsOfManyUsers: `user group add` and `remove` of users by id, address and file → what became of each, one step each; a declared and
// an unknown user are refused with the reason, and the others are changed; again → nothing changes, and no token ends.
func TestX65GroupsOfManyUsers(t *testing.T) {
	g := startGatehouse(t, staffed)
	g.ok("user", "add", "--id", "u-bob", "--email", "bob@acme.example", "--group", "board", "--password-hash", adaHash)
	g.ok("user", "add", "--id", "u-eve", "--email", "eve@acme.example")
	file := filepath.Join(t.TempDir(), "staff")
	check(t, os.WriteFile(file, []byte("\ufeffeve@acme.example\r\n\nu-ada\nnobody\n"), 0o600))
	old, _ := g.staffTokens("bob@acme.example", adaPassword)
	out, err := g.run("", "user", "group", "add", "staff", "--user", "u-bob", "--from", file)
	if err == nil || err.Error() != "2 users were refused" || out != "u-bob updated: groups\neve@acme.example updated: groups\n"+
		"u-ada refused: it is declared in the configuration: change it there\nnobody refused: there is no such user\n" {
		t.Errorf("%v\n%s", err, out)
	}
	if g.gate(old) != http.StatusUnauthorized {
		t.Error("a token knows the groups of before")
	}
	access, _ := g.staffTokens("bob@acme.example", adaPassword)
	if out := g.ok("user", "group", "add", "staff", "--user", "bob@acme.example"); out != "bob@acme.example unchanged\n" || g.gate(access) != http.StatusOK {
		t.Errorf("again: %s, and the gate answers %d", out, g.gate(access))
	}
	if got := printed(t, g.ok("user", "show", "u-bob"), "groups"); got != "board, staff" {
		t.Errorf("groups %s", got)
	}
	if out, err := g.run("u-bob\nu-eve\n", "user", "group", "remove", "staff", "--from", "-"); err != nil || strings.Count(out, "updated") != 2 {
		t.Errorf("%v %s", err, out)
	}
	if got := printed(t, g.ok("user", "show", "u-bob"), "groups"); got != "board" {
		t.Errorf("groups %s", got)
	}
	for _, wrong := range []struct {
		args []string
		says string
	}{
		{[]string{"staff"}, "name the users"}, {[]string{"a,b", "--user", "u-bob"}, "without commas"}, {[]string{"staff", "--from", "/nowhere"}, "no such file"},
	} {
		if _, err := g.run("", append([]string{"user", "group", "add"}, wrong.args...)...); err == nil || !strings.Contains(err.Error(), wrong.says) {
			t.Errorf("%q: %v", wrong.args, err)
		}
	}
}
