package caddymodule

import (
	"strings"
	"testing"
)

// adaHash is a bcrypt hash of the password "correct-horse", of the least cost.
const adaHash = "$2a$04$jxx5KdE/HQJA3PCznHrn5uJ5yfnQY/KKEbMxaxqg8rcb5gMim3g1y"

// refusedLifetimes are refused within `oauth {`, as refusedOAuth are.
var refusedLifetimes = []refusal{
	{"tokens {\nrefresh 401d\n}", `token lifetime refresh 9624h0m0s: use 1s to 400d, at Caddyfile:4`},
	{"tokens {\nrefresh 0\n}", `token lifetime refresh 0s: use at least 1s, at Caddyfile:4`},
	{"tokens {\nrefresh 90d\nrefresh 91d\n}", `refresh is set twice, at Caddyfile:5`},
	{"tokens {\nrefresh_idle 401d\n}", `token lifetime refresh_idle 9624h0m0s: use 1s to 400d, at Caddyfile:4`},
	{"tokens {\nrefresh_idle\n}", `wrong argument count or unexpected line ending after 'refresh_idle', at Caddyfile:4`},
	{"tokens {\nrefresh_grace 6m\n}", `token lifetime refresh_grace 6m0s: use 0 to 5m, at Caddyfile:4`},
	{"tokens {\nrefresh_grace -1s\n}", `token lifetime refresh_grace: use 0 to 5m, at Caddyfile:4`},
	{"tokens {\nrefresh_grace -1ns\n}", `token lifetime refresh_grace: use 0 to 5m, at Caddyfile:4`},
	{"tokens {\nrefresh_grace off\n}", `"off" is no duration: write it as 90s, 15m, 2h or 28d, at Caddyfile:4`},
	{"tokens {\nrefresh_grace 30s same\n}", `unknown option "same" of refresh_grace: use same_address, at Caddyfile:4`},
	{"tokens {\nrefresh_grace same_address\n}", `"same_address" is no duration: write it as 90s, 15m, 2h or 28d, at Caddyfile:4`},
	{"tokens {\nrefresh_grace 30s same_address more\n}", `wrong argument count or unexpected line ending after 'more', at Caddyfile:4`},
	{"tokens {\nrefresh_grace 0 same_address\n}", `token lifetime refresh_grace: 0 refuses every repeat, leave same_address out, at Caddyfile:4`},
	{"tokens {\nrefresh_grace 0\nrefresh_grace 30s\n}", `refresh_grace is set twice, at Caddyfile:5`},
	{"tokens {\ncode 11m\n}", `token lifetime code 11m0s: use 1s to 10m, at Caddyfile:4`},
	{"tokens {\ncode 500ms\n}", `token lifetime code 500ms: use 1s to 10m, at Caddyfile:4`},
	{"client a s {\ntokens {\nrefresh_grace 6m\n}\n}", `token lifetime refresh_grace 6m0s: use 0 to 5m, at Caddyfile:5`},
	{"client a s {\ntokens {\ncode 0\n}\n}", `token lifetime code 0s: use at least 1s, at Caddyfile:5`},
	{`password_grant on`, `wrong argument count or unexpected line ending after 'on', at Caddyfile:3`},
	{"password_grant {\nnonsense\n}", `unknown password_grant option "nonsense", at Caddyfile:4`},
	{"password_grant {\nrefresh_tokens yes\n}", `wrong argument count or unexpected line ending after 'yes', at Caddyfile:4`},
	{"password_grant\npassword_grant", `password_grant is set twice, at Caddyfile:4`},
}

// aUser is a user that is refused only for what stands in lines.
func aUser(lines string) string {
	return "user u-ada {\nemail ada@acme.example\npassword " + adaHash + "\norganisation acme\n" + lines + "\n}"
}

const roleUsage = `write a role as role <name> ["<words>"] [manages <role>...], at Caddyfile:3`

// refusedPeople are refused within `oauth {`, as refusedOAuth are.
var refusedPeople = []refusal{
	{`organisation`, `wrong argument count or unexpected line ending after 'organisation', at Caddyfile:3`},
	{`organisation a b c`, `wrong argument count or unexpected line ending after 'c', at Caddyfile:3`},
	{`organisation ""`, `organisation : organisation id: use 1 to 255 bytes of text without control characters, at Caddyfile:3`},
	{`organisation a ""`, `organisation a: the name is empty; is a variable unset?, at Caddyfile:3`},
	{`organisation a "  "`, `organisation a: organisation name: write more than spaces, or leave it out, at Caddyfile:3`},
	{`organisation a ` + strings.Repeat("x", 256), `organisation a: organisation name: use at most 255 bytes of text without control characters, at Caddyfile:3`},
	{"organisation a\norganisation a A", `organisation a is set twice, at Caddyfile:4`},
	{`user`, `wrong argument count or unexpected line ending after 'user', at Caddyfile:3`},
	{`user a b`, `wrong argument count or unexpected line ending after 'a', at Caddyfile:3`},
	{`user u-ada`, "user u-ada: a declared user needs a password: give the hash that `caddy hash-password` prints, at Caddyfile:3"},
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
}

// TestT68DeclaredOnceAsClientOnceAsUser: a token whose subject is its client acts for no user, so no id is both, in
// whatever order they are declared.
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

const (
	loginUsage  = "write limits as `login 10/1m per account` and `login 30/1m per ip`, or as `login off`, at Caddyfile:4"
	clientUsage = "write a limit as `client 20/1m per ip`, or as `client off`, at Caddyfile:4"
)

// refusedLogins are refused within `oauth {`, as refusedOAuth are.
var refusedLogins = []refusal{
	{"limits {\nlogin\n}", loginUsage},
	{"limits {\nlogin 10/1m\n}", loginUsage},
	{"limits {\nlogin 10/1m per client\n}", loginUsage},
	{"limits {\nlogin 10/1m for account\n}", loginUsage},
	{"limits {\nlogin 10 per account\n}", loginUsage},
	{"limits {\nlogin off per account\n}", loginUsage},
	{"limits {\nclient 10/1m per account\n}", clientUsage},
	{"limits {\nlogin 0/1m per account\n}", `"0" is no number, at Caddyfile:4`},
	{"limits {\nlogin 10/1ms per ip\n}", `"1ms" is no window: write it as 30s, 1m or 1h, at Caddyfile:4`},
	{"limits {\nlogin 10/1m per account\nlogin 11/1m per account\n}", `limits login per account is set twice, at Caddyfile:5`},
	{"limits {\nlogin 10/1m per ip\nlogin 11/1m per ip\n}", `limits login per ip is set twice, at Caddyfile:5`},
	{"limits {\nlogin 10/1m per ip\nlogin off\n}", `limits login per ip is set twice, at Caddyfile:5`},
	{"limits {\nlogin off\nlogin 10/1m per account\n}", `limits login per account is set twice, at Caddyfile:5`},
	{"limits {\ngrants 60/1m per client\n}", "write a limit as `grants 60/1m per user`, or as `grants off`, at Caddyfile:4"},
	{"limits {\nrevocations 60/1m per user\n}", "write a limit as `revocations 60/1m per client`, or as `revocations off`, at Caddyfile:4"},
	{"limits {\ngrants off\ngrants 60/1m per user\n}", "limits grants is set twice, at Caddyfile:5"},
	{"limits {\nlogin off\nlogin off\n}", `limits login per account is set twice, at Caddyfile:5`},
}

// refusedBrand are refused within `oauth {`, as refusedOAuth are.
var refusedBrand = []refusal{
	{`brand`, `wrong argument count or unexpected line ending after 'brand', at Caddyfile:3`},
	{`brand a b`, `wrong argument count or unexpected line ending after 'b', at Caddyfile:3`},
	{`brand ""`, `the brand is empty; is a variable unset?, at Caddyfile:3`},
	{"brand A\nbrand B", `brand is set twice, at Caddyfile:4`},
	{"brand A {\nnonsense\n}", `unknown brand option "nonsense", at Caddyfile:4`},
	{"brand A {\nlogo\n}", `wrong argument count or unexpected line ending after 'logo', at Caddyfile:4`},
	{"brand A {\nlogo a.png b.png\n}", `wrong argument count or unexpected line ending after 'a.png', at Caddyfile:4`},
	{"brand A {\nlogo a.png\nlogo b.png\n}", `logo is set twice, at Caddyfile:5`},
	{"brand A {\nlogo a.gif\n}", `logo a.gif: use a file that ends in .svg, .png, .jpg or .webp, at Caddyfile:4`},
	{"brand A {\nlogo https://x.example/logo\n}", `logo https://x.example/logo: use a file that ends in .svg, .png, .jpg or .webp, at Caddyfile:4`},
	{"brand A {\nlogo {http.request.uri.path}\n}", `{http.request.uri.path} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:4`},
}

const aliasUsage = ": use one exact path that starts with a slash, as clients send it, at Caddyfile:3"

func TestAdaptRefusesOptionsOfTheServer(t *testing.T) {
	for directive, want := range map[string]string{
		"oauth_server trusted":                                  "wrong argument count or unexpected line ending after 'trusted', at Caddyfile:2",
		"oauth_server /x trusted":                               "wrong argument count or unexpected line ending after 'trusted', at Caddyfile:2",
		"oauth_server @typo":                                    "unrecognized matcher name: @typo",
		"oauth_server {\n\tnonsense\n}":                         `unknown oauth_server option "nonsense", at Caddyfile:3`,
		"oauth_server {\n\ttoken_alias\n}":                      "wrong argument count or unexpected line ending after 'token_alias', at Caddyfile:3",
		"oauth_server {\n\ttoken_alias /a /b\n}":                "wrong argument count or unexpected line ending after '/a', at Caddyfile:3",
		"oauth_server {\n\ttoken_alias /a\n\ttoken_alias /b\n}": "token_alias is set twice, at Caddyfile:4",
		"oauth_server {\n\ttoken_alias token\n}":                `token_alias "token"` + aliasUsage,
		"oauth_server {\n\ttoken_alias https://a.example/t\n}":  `token_alias "https://a.example/t"` + aliasUsage,
		"oauth_server {\n\ttoken_alias //a.example/t\n}":        `token_alias "//a.example/t"` + aliasUsage,
		"oauth_server {\n\ttoken_alias /t*\n}":                  `token_alias "/t*"` + aliasUsage,
		"oauth_server {\n\ttoken_alias /t?x=1\n}":               `token_alias "/t?x=1"` + aliasUsage,
		"oauth_server {\n\ttoken_alias {path}\n}":               `token_alias "{http.request.uri.path}"` + aliasUsage,
		"oauth_server {\n\ttoken_alias \"/a b\"\n}":             `token_alias "/a b"` + aliasUsage,
		"oauth_server {\n\ttoken_alias /oauth\n}":               "token_alias /oauth: paths below /oauth/ are the issuer's own, at Caddyfile:3",
		"oauth_server {\n\ttoken_alias /oauth/refresh\n}":       "token_alias /oauth/refresh: paths below /oauth/ are the issuer's own, at Caddyfile:3",
	} {
		_, err := adapt("http://a.example {\n" + directive + "\n}\n")
		checkRefusal(t, err, "parsing caddyfile tokens for 'oauth_server': "+want)
	}
}
