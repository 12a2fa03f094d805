package caddymodule

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// adaHash is a bcrypt hash of the password "correct-horse" with the minimum cost.
const adaHash = "$2a$04$jxx5KdE/HQJA3PCznHrn5uJ5yfnQY/KKEbMxaxqg8rcb5gMim3g1y"

// aUser returns a user that is valid except for lines.
func aUser(lines string) string {
	return "user u-ada {\nemail ada@acme.example\npassword " + adaHash + "\norganisation acme\n" + lines + "\n}"
}

// withPassword returns the user u-ada and its organisation.
func withPassword(hash string) string {
	return "organisation acme\n" + strings.Replace(aUser(""), adaHash, hash, 1)
}

// userMembers returns a client, an organisation and a user with the given members.
func userMembers(members string) string {
	return `"clients":[{"id":"app","secret":"x"}],"organisations":[{"id":"acme"}],"users":[{"id":"u-ada","email":"ada@acme.example",` + members + `}]`
}

const roleUsage = `write a role as role <name> ["<words>"] [manages <role>...], at Caddyfile:3`

// refusedPeople holds the invalid forms of `role`, `organisation` and `user`.
var refusedPeople = refusedBlock{
	adapted: []refusal{
		{`organisation`, `wrong argument count or unexpected line ending after 'organisation', at Caddyfile:3`},
		{`organisation a b c`, `wrong argument count or unexpected line ending after 'c', at Caddyfile:3`},
		{`organisation ""`, `organisation : organisation id: use 1 to 255 bytes of text without control characters, at Caddyfile:3`},
		{`organisation a ""`, `organisation a: the name is empty; is a variable unset?, at Caddyfile:3`},
		{`organisation a "  "`, `organisation a: organisation name: write more than spaces, or leave it out, at Caddyfile:3`},
		{`organisation a ` + strings.Repeat("x", 256), `organisation a: organisation name: use at most 255 bytes of text without control characters, at Caddyfile:3`},
		{"organisation a\norganisation a A", `organisation a is set twice, at Caddyfile:4`},
		{`user`, `wrong argument count or unexpected line ending after 'user', at Caddyfile:3`},
		{`user a b`, `wrong argument count or unexpected line ending after 'a', at Caddyfile:3`},
		{"user \"\" {\nemail a@b.example\npassword " + adaHash + "\norganisation acme\n}", `user : user id: use 1 to 255 bytes of text without control characters, at Caddyfile:3`},
		{"user u-ada {\npassword " + adaHash + "\norganisation acme\n}", `user u-ada: "" is no e-mail address: write it as ada@example.com, at Caddyfile:3`},
		{"user u-ada {\nemail\n}", `wrong argument count or unexpected line ending after 'email', at Caddyfile:4`},
		{"user u-ada {\nemail ada\n}", `user u-ada: "ada" is no e-mail address: write it as ada@example.com, at Caddyfile:4`},
		{"user u-ada {\nemail Ada@Acme.Example\n}", `user u-ada: e-mail address "Ada@Acme.Example": write it as "ada@acme.example", at Caddyfile:4`},
		{aUser("email ada@acme.example"), `email is set twice, at Caddyfile:7`},
		{aUser("password {env.X}"), `password is set twice, at Caddyfile:7`},
		{aUser("organisation other"), `organisation is set twice, at Caddyfile:7`},
		{aUser("name"), `wrong argument count or unexpected line ending after 'name', at Caddyfile:7`},
		{aUser("name A\nname B"), `name is set twice, at Caddyfile:8`},
		{`role`, `wrong argument count or unexpected line ending after 'role', at Caddyfile:3`},
		{`role ""`, `role "": use 1 to 64 bytes of printable text without commas and without spaces around it, at Caddyfile:3`},
		{`role a,b`, `role "a,b": use 1 to 64 bytes of printable text without commas and without spaces around it, at Caddyfile:3`},
		{`role ` + strings.Repeat("x", 65), `role "` + strings.Repeat("x", 65) + `": use 1 to 64 bytes of printable text without commas and without spaces around it, at Caddyfile:3`},
		{`role " boss"`, `role " boss": use 1 to 64 bytes of printable text without commas and without spaces around it, at Caddyfile:3`},
		{`role boss ""`, `role boss: the words are empty; is a variable unset?, at Caddyfile:3`},
		{`role boss "The boss" clerk`, roleUsage},
		{`role boss manages`, roleUsage},
		{`role boss "The boss" manages`, roleUsage},
		{"role boss\nrole boss manages boss", `role boss is set twice, at Caddyfile:4`},
		{aUser("role admin\nrole member"), `role is set twice, at Caddyfile:8`},
		{aUser("disabled"), `unknown user option "disabled", at Caddyfile:7`},
		{aUser("") + "\n" + aUser(""), `user u-ada is set twice, at Caddyfile:9`},
		{aUser("") + "\n" + strings.Replace(aUser(""), "u-ada", "u-two", 1), `user u-two: user u-ada has the same e-mail address, at Caddyfile:9`},
		{"user u-ada {\npassword written-out-secret\n}", "user u-ada: use a password hash as `caddy hash-password` prints it: bcrypt or argon2id, at Caddyfile:4"},
		{"user u-ada {\npassword \"\"\n}", `the value is empty; is a variable unset?, at Caddyfile:4`},
		{"user u-ada {\npassword {$UNSET_X}\n}", `wrong argument count or unexpected line ending after 'password', at Caddyfile:4`},
		{"user u-ada {\npassword env.ADA\n}", `user u-ada: "env.ADA" looks like a placeholder without its braces: write {env.ADA}, at Caddyfile:4`},
		{"user u-ada {\npassword file./run/ada\n}", `user u-ada: "file./run/ada" looks like a placeholder without its braces: write {file./run/ada}, at Caddyfile:4`},
		{"user u-ada {\npassword x{env.ADA}\n}", `user u-ada: a placeholder must be the whole password, at Caddyfile:4`},
		{"user u-ada {\npassword {http.request.header.x}\n}", `{http.request.header.x} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:4`},
		{"user u-ada {\npassword $argon2id$v=19$m=999999,t=1,p=1$c2FsdHNhbHQ$c2FsdHNhbHRzYWx0c2FsdA\n}", `user u-ada: the argon2id hash costs too much: use at most m=262144 and t=16, at Caddyfile:4`},
	},
	loaded: []namedRefusal{
		{"no password", "user u-ada {\nemail ada@acme.example\n}", "user \"u-ada\": a declared user needs a password, for no provider is in sign_in: give the hash that `caddy hash-password` prints, at Caddyfile:5"},
		{"password unset", withPassword("{env.GATEHOUSE_TEST_UNSET}"), `user "u-ada": password: `},
		{"password file missing", withPassword("{file.DIR/missing}"), `user "u-ada": password: `},
		{"password file empty", withPassword("{file.DIR/empty}"), `user "u-ada": password: `},
		{"password file is a plain password", withPassword("{file.DIR/plain}"), `user "u-ada": password: use a password hash as`},
		{"organisation not declared", aUser(""), `user "u-ada": organisation "acme" is not declared: add ` + "`organisation acme`"},
	},
	json: []refusal{
		{`"organisations":[{"id":""}]`, `organisation "": organisation id: use 1 to 255 bytes`},
		{`"organisations":[{"id":"acme"},{"id":"acme"}]`, `organisation "acme" is declared twice`},
		{userMembers(`"organisation":"other","password_hash":"` + adaHash + `"`), `user "u-ada": organisation "other" is not declared: add ` + "`organisation other`"},
		{userMembers(`"organisation":"acme"`), `user "u-ada": a declared user needs a password`},
		{userMembers(`"organisation":"acme","password_hash":"correct-horse"`), `user "u-ada": password: use a password hash as`},
		{userMembers(`"organisation":"acme","password_hash":"{env.GATEHOUSE_TEST_UNSET}"`), `user "u-ada": password: `},
		{userMembers(`"organisation":"acme","password_hash":"{http.request.header.x}"`), "comes from the request"},
		{userMembers(`"organisation":"acme","password":"correct-horse"`), `unknown field "password"`},
		{`"roles":[{"name":"a"},{"name":"a"}]`, `role a is declared twice`},
		{`"roles":[{"name":"a","manages":["b"]}]`, `role a manages: unknown role "b": use a`},
		{`"roles":[{"name":"a\u200b"}]`, `use 1 to 64 bytes of printable text`},
		{userMembers(`"organisation":"acme","role":"boss","password_hash":"` + adaHash + `"`), `user "u-ada": unknown role "boss"`},
		{userMembers(`"organisation":"acme","password_hash":"` + adaHash + `"},{"id":"u-ada","email":"b@acme.example","organisation":"acme","password_hash":"` + adaHash + `"`), `user "u-ada": it is declared twice`},
		{userMembers(`"organisation":"acme","password_hash":"` + adaHash + `"},{"id":"u-bob","email":"ada@acme.example","organisation":"acme","password_hash":"` + adaHash + `"`), `user "u-bob": user "u-ada" has the same e-mail address`},
		{userMembers(`"organisation":"acme","password_hash":"` + adaHash + `"},{"id":"app","email":"b@acme.example","organisation":"acme","password_hash":"` + adaHash + `"`), `user "app": a client has this id`},
	},
}

// TestT68DeclaredOnceAsClientOnceAsUser checks that a client and a user cannot share an id, in whatever order they are declared. A token
// whose subject is its client acts for no user.
func TestT68DeclaredOnceAsClientOnceAsUser(t *testing.T) {
	user := strings.Replace(aUser(""), "u-ada", "both", 1)
	for name, test := range map[string]refusal{
		"user last":          {"client both s\n" + user, `user both: a client and a user cannot have the same id, at Caddyfile:4`},
		"client last":        {user + "\nclient both s", `client both: a client and a user cannot have the same id, at Caddyfile:9`},
		"in different cases": {user + "\nclient Both s", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := adapt("{\n\toauth {\n" + test.option + "\nissuer https://a.example\n\t}\n}\n")
			if test.want != "" {
				checkRefusal(t, err, "parsing caddyfile tokens for 'oauth': "+test.want)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestReadPeople checks that declared users are in the directory and that the issuer knows the schemes of their hashes. The issuer spends
// the same work on an unknown address.
func TestReadPeople(t *testing.T) {
	const argon = "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHQ$c2FsdHNhbHRzYWx0c2FsdA"
	path := filepath.Join(t.TempDir(), "bob")
	if err := os.WriteFile(path, []byte(argon+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := readMembers(t, `,"organisations":[{"id":"acme","name":"Acme Ltd"},{"id":"globex"}],"users":[
		{"id":"u-ada","email":"ada@acme.example","organisation":"acme","role":"admin","password_hash":"`+adaHash+`"},
		{"id":"u-bob","email":"bob@globex.example","name":"Bob","organisation":"globex","password_hash":"{file.`+path+`}"}]`)
	if !slices.Equal(s.Issuer.DeclaredSchemes, []string{"$2a$04", "$argon2id$v=19$m=64,t=1,p=1"}) {
		t.Errorf("schemes %q", s.Issuer.DeclaredSchemes)
	}
	ada, err := s.Issuer.Declared.User(t.Context(), "u-ada")
	if err != nil || ada.Role != store.RoleAdmin || ada.Name != "ada@acme.example" || !ada.IsActive() || !ada.Declared {
		t.Errorf("ada is %+v, %v", ada, err)
	}
	bob, err := s.Issuer.Declared.UserByEmail(t.Context(), "bob@globex.example")
	if err != nil || bob.ID != "u-bob" || bob.Role != store.RoleMember || bob.PasswordHash.Reveal() != argon {
		t.Errorf("bob is %+v, %v", bob, err)
	}
	for id, name := range map[string]string{"acme": "Acme Ltd", "globex": "globex"} {
		if o, err := s.Issuer.Declared.Organisation(t.Context(), id); err != nil || o.Name != name || !o.Declared {
			t.Errorf("%s is %+v, %v", id, o, err)
		}
	}
}
