package caddymodule

import (
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

// aProvider returns a `sign_in` with one provider, which begins on line 4. The given lines begin on line 6.
func aProvider(lines string) string {
	return "sign_in {\nprovider corp https://login.example {\nclient gw {env.HOME}\n" + lines + "\n}\n}"
}

// providerMembers returns the JSON members of a `sign_in` with one provider.
func providerMembers(more string) string {
	return `"sign_in":{"providers":[{"name":"corp","url":"https://login.example","client_id":"gw","client_secret":"0123456789"` + more + `}]}`
}

// TestP91AnOrganisationThatNobodyHas checks that loading fails if neither the configuration nor the store has the organisation.
func TestP91AnOrganisationThatNobodyHas(t *testing.T) {
	const site = "{\n\tadmin ADMIN\n\toauth {\n\t\tissuer http://ADDR\n\t\tORG\n\t}\n}\nhttp://ADDR {\n\toauth_server\n}\n"
	with := strings.Replace(site, "ORG", aProvider("create organisation acme"), 1)
	g := startGatehouse(t, strings.Replace(with, "organisation acme", "", 1))
	err := g.tryReload(with)
	if err == nil || !strings.Contains(err.Error(), "provider corp: there is no organisation \"acme\": declare it, or add it with `caddy oauth org add`, at Caddyfile:6") {
		t.Errorf("got %v", err)
	}
	g.ok("org", "add", "acme", "--name", "Acme")
	g.reload(with)
}

// TestP90P91SignInThatCannotWork: a provider's secret from the request, empty or written out; `sign_in` without any way to sign in; two of
// one name, two defaults → refused with file and line, no secret repeated.
func TestP90P91SignInThatCannotWork(t *testing.T) {
	emptyHome(t)
	for _, r := range refusedSignIn.loaded {
		t.Run(r.name, func(t *testing.T) { checkRefused(t, validate(t, wrapped(r.option, "")), r.want) })
	}
}

// refusedSignIn holds the invalid forms of `sign_in`: rows P90 and P91.
var refusedSignIn = refusedBlock{
	adapted: []refusal{
		{`sign_in now`, `wrong argument count or unexpected line ending after 'now', at Caddyfile:3`},
		{"sign_in {\nfacebook f\n}", `unknown sign_in option "facebook", at Caddyfile:4`},
		{"sign_in {\npassword off\n}", `wrong argument count or unexpected line ending after 'off', at Caddyfile:4`},
		{"sign_in {\nprovider\n}", "write it as `provider <name> <issuer> [default] { … }`, at Caddyfile:4"},
		{"sign_in {\nprovider corp\n}", "write it as `provider <name> <issuer> [default] { … }`, at Caddyfile:4"},
		{"sign_in {\nprovider corp default\n}", "write it as `provider <name> <issuer> [default] { … }`, at Caddyfile:4"},
		{"sign_in {\nprovider corp https://a.example x\n}", "write it as `provider <name> <issuer> [default] { … }`, at Caddyfile:4"},
		{"sign_in {\nldap staff\n}", "write it as `ldap <name> <url> { … }`, at Caddyfile:4"},
		{"sign_in {\nldap staff ldaps://ldap.example.com {\n\n}\n}", `provider staff: user_base is missing: name the entry below which people are, as ou=people,dc=example,dc=com, at Caddyfile:4`},
		{"sign_in {\nldap staff ldap://ldap.example.com {\nuser_base dc=x\n}\n}", `provider staff: "ldap://ldap.example.com" would send passwords in the clear: use ldaps://, or say start_tls; insecure allows it, at Caddyfile:4`},
		{"sign_in {\nldap staff ldaps://ldap.example.com {\nuser_base dc=x\nstart_tls\n}\n}", `provider staff: start_tls is for ldap://: ldaps:// is secured from the first byte on, at Caddyfile:4`},
		{"sign_in {\nldap staff ldaps://ldap.example.com {\nuser_base dc=x\nuser_filter (mail=*{email})\n}\n}", `provider staff: user_filter: filter "(mail=*{email})": an asterisk beside a placeholder would find people who were not named, at Caddyfile:4`},
		{"sign_in {\nldap staff ldaps://ldap.example.com {\nuser_base dc=x\nuser_filter (mail=ada)\n}\n}", `provider staff: user_filter "(mail=ada)" finds the same people whoever signs in: it must have {email} or {username}, at Caddyfile:4`},
		{"sign_in {\nldap staff ldaps://ldap.example.com {\nuser_base people\n}\n}", `provider staff: user_base "people" is not a distinguished name: write one, as ou=people,dc=example,dc=com, at Caddyfile:4`},
		{"sign_in {\nldap staff ldaps://ldap.example.com {\nuser_base dc=x\nbind_dn cn=a\n}\n}", `provider staff: bind_dn and bind_password belong together: a name without a password is an anonymous bind, at Caddyfile:4`},
		{"sign_in {\nldap staff ldaps://ldap.example.com {\nuser_base dc=x\ngroup_depth 0\n}\n}", `group_depth "0": use a whole number above zero, at Caddyfile:6`},
		{"sign_in {\nldap staff ldaps://ldap.example.com {\nuser_base dc=x\ngroup_depth 21\n}\n}", `provider staff: group_depth 21: use 1 to 20, at Caddyfile:4`},
		{"sign_in {\nldap staff ldaps://ldap.example.com {\nuser_base dc=x\nallow group staff\n}\n}", `provider staff: allow group needs to know people's groups: add group_base, or groups in attributes, at Caddyfile:4`},
		{"sign_in {\nldap staff ldaps://ldap.example.com {\nuser_base dc=x\ndefault\n}\n}", `provider staff: people are not sent to a directory, they type its password here: take default and domains away, at Caddyfile:4`},
		{"sign_in {\nldap staff ldaps://ldap.example.com {\nuser_base dc=x\nallow_private_network\n}\n}", `provider staff: a directory may be at any address, private ones too: take allow_private_network away, at Caddyfile:4`},
		{"sign_in {\nldap staff ldaps://ldap.example.com {\nattributes {\nmail x\n}\n}\n}", `unknown attribute "mail", at Caddyfile:6`},
		{"sign_in {\nldap staff ldaps://ldap.example.com {\nscopes openid\n}\n}", `ldap has no option "scopes", at Caddyfile:5`},
		{"sign_in {\ngithub\n}", "write it as `github <name> [<url>] [default] { … }`, at Caddyfile:4"},
		{"sign_in {\nprovider a/b https://a.example {\nclient a {env.HOME}\n}\n}", `provider a/b: "a/b" is no name for a provider: use up to 64 letters, digits, - and _, at Caddyfile:4`},
		{"sign_in {\nprovider .. https://a.example {\nclient a {env.HOME}\n}\n}", `provider ..: ".." is no name for a provider: use up to 64 letters, digits, - and _, at Caddyfile:4`},
		{"sign_in {\nprovider corp {http.request.host} {\n}\n}", `{http.request.host} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:4`},
		{"sign_in {\nprovider corp http://login.example {\nclient a {env.HOME}\nallow_private_network\n}\n}", `provider corp: issuer "http://login.example" must be https, at Caddyfile:4`},
		{"sign_in {\nprovider corp http://127.0.0.1:1 {\nclient a {env.HOME}\n}\n}", `provider corp: issuer "http://127.0.0.1:1": a loopback address needs allow_private_network, at Caddyfile:4`},
		{"sign_in {\nprovider corp https://login.example {\n}\n}", "provider corp: client is missing: say what we are called there, as in `client <id> <secret>`, at Caddyfile:4"},
		{"sign_in {\nprovider corp https://login.example {\nclient gw\n}\n}", `wrong argument count or unexpected line ending after 'gw', at Caddyfile:5`},
		{"sign_in {\nprovider corp https://login.example {\nclient gw {http.request.header.x}\n}\n}", `{http.request.header.x} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:5`},
		{"sign_in {\nprovider corp https://login.example {\nclient gw env.SECRET\n}\n}", `provider corp: "env.SECRET" looks like a placeholder without its braces: write {env.SECRET}, at Caddyfile:5`},
		{aProvider("client b {env.HOME}"), `client is set twice, at Caddyfile:6`},
		{aProvider("secret x"), `provider has no option "secret", at Caddyfile:6`},
		{aProvider("scopes"), `wrong argument count or unexpected line ending after 'scopes', at Caddyfile:6`},
		{aProvider("scopes \"a b\""), `"a b" is no scope, at Caddyfile:6`},
		{aProvider("allow"), `wrong argument count or unexpected line ending after 'allow', at Caddyfile:6`},
		{aProvider("allow email_domain"), `wrong argument count or unexpected line ending after 'email_domain', at Caddyfile:6`},
		{aProvider("allow user ada"), "allow \"user\": write it as `allow email_domain example.com`, `allow group staff` or `allow unverified_email`, at Caddyfile:6"},
		{aProvider("allow email_domain *.example.com"), `"*.example.com" cannot stand behind the @ of an e-mail address: write a domain, as example.com, at Caddyfile:6`},
		{aProvider("allow email_domain Example.com"), `domain "Example.com": write it as "example.com", at Caddyfile:6`},
		{aProvider("allow group staff"), "provider corp: allow group needs to know people's groups: add `groups claim <claim>`, at Caddyfile:4"},
		{aProvider("groups roles"), "write it as `groups claim <claim>`, at Caddyfile:6"},
		{aProvider("groups claim {env.X}"), `{env.X}: a rule compares with text and replaces no placeholder, at Caddyfile:6`},
		{aProvider("link always"), `unknown way to link "always": use never or verified_email, at Caddyfile:6`},
		{aProvider("create user"), "create … user: write it as `create organisation <id> role <role>`, at Caddyfile:6"},
		{aProvider("create role"), "create … role: write it as `create organisation <id> role <role>`, at Caddyfile:6"},
		{aProvider("create role a role b"), "create … role: write it as `create organisation <id> role <role>`, at Caddyfile:6"},
		{aProvider("create\ncreate"), `create is set twice, at Caddyfile:7`},
		{aProvider("domains example.com/"), `"example.com/" cannot stand behind the @ of an e-mail address: write a domain, as example.com, at Caddyfile:6`},
		{aProvider("}\nprovider corp https://b.example {"), `provider corp is there twice, at Caddyfile:7`},
		{"sign_in {\ngithub gh {\ngroups claim\n}\n}", `unknown groups of GitHub "claim": use organisations or teams, at Caddyfile:5`},
		{"sign_in {\ngithub gh {\nclient a {env.HOME}\ngroups teams\n}\n}", "provider gh: anybody can make an organisation at GitHub and call it as your groups are called: name those that count, as in `groups teams acme`, at Caddyfile:4"},
		{aProvider("group_prefix \"a,\""), `provider corp: group_prefix: group "a,x": use 1 to 64 bytes of printable text without commas and without spaces around it, at Caddyfile:4`},
		{"sign_in {\ngithub gh {\nscopes x\n}\n}", `github has no option "scopes", at Caddyfile:5`},
		{"sign_in {\ngithub gh {\nclient a {env.HOME}\nallow group acme\n}\n}", "provider gh: allow group needs to know people's groups: add `groups organisations` or `groups teams`, at Caddyfile:4"},
	},
	loaded: []namedRefusal{
		{"nobody could sign in", "sign_in {\n}", "nobody could sign in: add `password`, `provider`, `github` or `ldap` to sign_in, at Caddyfile:5"},
		{"two defaults", "sign_in {\nprovider a https://a.example default {\nclient a {env.HOME}\n}\nprovider b https://b.example {\nclient a {env.HOME}\ndefault\n}\n}", `provider b: provider a is the default already: only one can be, at Caddyfile:9`},
		{"one domain of two", "sign_in {\nprovider a https://a.example {\nclient a {env.HOME}\ndomains x.example\n}\ngithub b {\nclient a {env.HOME}\ndomains y.example x.example\n}\n}", `provider b: provider a has the domain x.example already, at Caddyfile:10`},
		{"an issuer of many tenants", "sign_in {\nprovider entra https://login.microsoftonline.com/common/v2.0 {\nclient gw {env.HOME}\n}\n}", `provider entra: https://login.microsoftonline.com/common/v2.0 stands for many tenants: write the URL of yours, https://login.microsoftonline.com/<tenant id>/v2.0, at Caddyfile:6`},
		{"an unknown role", aProvider("create role boss"), `provider corp: unknown role "boss": use admin, group_manager, business_manager or member, at Caddyfile:6`},
		{"P90: a secret that gives nothing", "sign_in {\nprovider corp https://login.example {\nclient gw {env.GATEHOUSE_TEST_UNSET}\n}\n}", `provider corp: client secret: `},
	},
	json: []refusal{
		{`"sign_in":{}`, `nobody could sign in`},
		{providerMembers(`,"kind":"saml"`), `provider corp: unknown kind "saml"`},
		{providerMembers(`,"kind":"github","groups_claim":"x"`), `provider corp: github has neither claims nor scopes`},
		{providerMembers(`,"kind":"github","github_groups":"gists"`), `provider corp: unknown groups of GitHub "gists"`},
		{providerMembers(`,"link":"always"`), `provider corp: unknown way to link "always"`},
		{providerMembers(`,"domains":["@x"]`), `provider corp: "@x" cannot stand behind the @ of an e-mail address`},
		{`"sign_in":{"providers":[{"name":"a b"}]}`, `provider a b: "a b" is no name for a provider`},
		{`"sign_in":{"providers":[{"name":"a","url":"https://a.example"}]}`, `provider a: client is missing`},
		{`"sign_in":{"providers":[{"name":"a","url":"{http.request.host}","client_id":"x","client_secret":"y"}]}`, `provider a: issuer: {http.request.host} comes from the request`},
	},
}

// aDirectory returns an LDAP directory of users in JSON.
func aDirectory(name string) string {
	return `{"name":"` + name + `","kind":"ldap","url":"ldaps://ldap.example","ldap":{"user_base":"dc=example"}}`
}

// TestSignInWithAPasswordUnlessTheBlockSaysOtherwise checks when sign-in with a password is on. It is on without a `sign_in` block, which
// configurations of earlier versions lack.
func TestSignInWithAPasswordUnlessTheBlockSaysOtherwise(t *testing.T) {
	user := `,"users":[{"id":"u-ada","email":"ada@acme.example","password_hash":"` + adaHash + `"}]`
	for name, test := range map[string]struct {
		members string
		want    bool
		alone   bool
	}{
		"no block":                                 {"", true, false},
		"a provider alone":                         {"," + providerMembers(""), false, false},
		"a provider and `password`":                {`,"sign_in":{"password":true,"providers":[{"name":"a","kind":"github","client_id":"x","client_secret":"y"}]}`, true, false},
		"a provider and a user who has a password": {"," + providerMembers("") + user, true, false},
		"P139: a directory alone":                  {`,"sign_in":{"providers":[` + aDirectory("a") + `]}`, true, true},
		"P139: two directories":                    {`,"sign_in":{"providers":[` + aDirectory("a") + "," + aDirectory("b") + `]}`, true, true},
		"P139: a directory and `password`":         {`,"sign_in":{"password":true,"providers":[` + aDirectory("a") + `]}`, true, false},
		"P139: a directory and a user's password":  {`,"sign_in":{"providers":[` + aDirectory("a") + `]}` + user, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := readMembers(t, test.members).SignIn; got.Password != test.want || got.DirectoriesAlone != test.alone {
				t.Errorf("password: %t, of directories alone: %t", got.Password, got.DirectoriesAlone)
			}
		})
	}
}

// TestProviderIsRead checks the values read from a provider's settings.
func TestProviderIsRead(t *testing.T) {
	s := readMembers(t, ","+providerMembers(`,"scopes":["openid","groups"],"allow_email_domains":["x.example"],"allow_groups":["staff"],"groups_claim":"realm.roles",`+
		`"link":"verified_email","create":{"organisation":"acme","role":"member"},"domains":["x.example"],"default":true`))
	p := s.SignIn.Providers[0]
	if p.Title != "corp" || !p.Default || !slices.Equal(p.Domains, []string{"x.example"}) || p.OpenID.Client.Secret.Reveal() != "0123456789" || p.OpenID.GroupsClaim != "realm.roles" {
		t.Errorf("%+v", p)
	}
	if r := p.Rules; r.Link != signin.LinkVerifiedEmail || r.Create == nil || r.Create.Organisation != "acme" || r.Create.Role != "member" ||
		!slices.Equal(r.AllowEmailDomains, []string{"x.example"}) || !slices.Equal(r.AllowGroups, []string{"staff"}) {
		t.Errorf("%+v", r)
	}
	if p := readMembers(t, `,"sign_in":{"providers":[{"name":"gh","kind":"github","client_id":"x","client_secret":"y"}]}`).SignIn.Providers[0]; p.GitHub == nil || p.GitHub.URL != "" || p.OpenID != nil {
		t.Errorf("%+v", p)
	}
}
