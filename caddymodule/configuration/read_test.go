package configuration

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/auditlog"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clientmetadata"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestA74PlainHTTPIsForLoopback: an issuer with plain http off loopback → refused at start.
func TestA74PlainHTTPIsForLoopback(t *testing.T) {
	for issuer, want := range map[string]bool{
		"http://api.example.com": false, "http://10.0.0.1": false, "http://192.168.1.1:8080": false, "http://0.0.0.0": false, "http://localhost.evil.tld": false,
		"http://127.0.0.1.evil.tld": false, "http://[::]": false, "http://[fe80::1]": false, "http://localhost@evil.tld": false, "HTTP://api.example.com": false,
		"ftp://127.0.0.1": false, "http://": false, "http://localhost:1": true, "http://127.0.0.1:1": true, "http://[::1]:1": true, "https://api.example.com": true,
	} {
		if _, err := (&Block{Issuer: issuer}).Read(); (err == nil) != want {
			t.Errorf("%s: %v", issuer, err)
		}
	}
}

// TestUnknownOptionsListTheKnownOnes checks that the error for an unknown option lists the known ones in every block. Other errors must not
// list them.
func TestUnknownOptionsListTheKnownOnes(t *testing.T) {
	for block, known := range map[string]string{
		"":        "accept, audience, ",
		"tokens":  "admin_created, ",
		"sign_in": "devise_pepper, github, ldap, password or provider",
		"sign_in {\nprovider corp https://l.example":           "allow, ",
		"sign_in {\ngithub gh":                                 "allow, ",
		"sign_in {\nldap corp ldaps://l.example":               "allow, ",
		"sign_in {\nldap corp ldaps://l.example {\nattributes": "email, groups, name, subject or username",
		"client a s":                      "backchannel_logout_session_required, ",
		"client a s {\nmay_exchange b":    "",
		"limits":                          "",
		"openid":                          "",
		"personal_tokens":                 "groups, lifetime, operators_only, roles or scopes",
		"registration":                    "",
		"client_metadata":                 "",
		"trust corp https://l.example":    "",
		"accept corp":                     "",
		"audit":                           "keep or max_events",
		"store sqlite":                    "migrate",
		"store postgres postgres://u@h/d": "migrate or pool",
		"keys":                            "algorithm, encrypt_with or rotate",
		"user u":                          "address, email, ",
		"revocation":                      "max_staleness",
		"trust c https://l.example {\naudience a\nintrospection https://l.example/i": "",
	} {
		lines := strings.Split("nonsense", "\n")
		depth := 0
		if block != "" {
			lines = append([]string{block + " {"}, lines...)
			depth = strings.Count(block, "{") + 1
		}
		text := withIssuer(strings.Join(lines, "\n") + strings.Repeat("\n}", depth))
		_, err := parsed(text)
		if err == nil || !strings.Contains(err.Error(), `"nonsense": use `+known) || !regexp.MustCompile(`use [a-z_]+(, [a-z_]+)*( or [a-z_]+)?, at Caddyfile:\d+$`).MatchString(err.Error()) {
			t.Errorf("%q: %v", block, err)
		}
	}
}

// TestAMissingFileIsNamed checks that the error for a missing file names the file and the line wherever a setting refers to one. The error
// never contains a secret of the same setting.
func TestAMissingFileIsNamed(t *testing.T) {
	directory := t.TempDir()
	empty, missing, unreadable := filepath.Join(directory, "empty"), filepath.Join(directory, "missing"), directory
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"client ci {file.PATH} {\nscopes public\n}",
		"user u {\nemail a@b.example\npassword {file.PATH}\n}",
		"keys {\nencrypt_with {file.PATH}\n}",
		"store postgres {file.PATH}",
		`store postgres "host=h user=x password={file.PATH} application_name=hunter2 dbname=d"`,
		"sign_in {\nprovider corp https://login.example {\nclient gw {file.PATH}\n}\n}",
		"trust corp https://l.example {\naudience a\nintrospection https://l.example/i {\nclient gw {file.PATH}\n}\n}",
		"audience {file.PATH}",
	} {
		for path, why := range map[string]string{missing: "no such file or directory", empty: "the file is empty", unreadable: "is a directory"} {
			_, err := read(withIssuer(strings.ReplaceAll(line, "PATH", path)))
			if err == nil || !strings.Contains(err.Error(), "{file."+path+"}: ") || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s, %s: %v", line, why, err)
			}
		}
	}
}

// TestK7WrittenOutSecret checks that a secret in a Caddyfile does not occur in the JSON, whatever it looks like. Caddy shows its
// configuration and saves it to disk.
func TestK7WrittenOutSecret(t *testing.T) {
	for _, secret := range []string{"written-out", "}written-out{", "a{written-out}c", "writ{ten.out}", "%77ritten-out"} {
		b, err := parsed(withIssuer("client a `" + secret + "`"))
		if err != nil {
			t.Errorf("%s: %v", secret, err)
			continue
		}
		config, err := json.Marshal(b)
		digest := oauth.NewSecret(secret).Digest()
		if text := string(config); err != nil || strings.Contains(text, "out") || !strings.Contains(text, hex.EncodeToString(digest[:])) {
			t.Errorf("%s became %s, %v", secret, text, err)
		}
	}
}

// settingsOf reads an app with an issuer and the given members.
func settingsOf(t *testing.T, members string) Settings {
	t.Helper()
	s, err := loaded(`{"issuer":"https://a.example"` + members + `}`)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestReadAudit: `audit`, alone or with its settings → how much is kept; without the line → nothing.
func TestReadAudit(t *testing.T) {
	for text, want := range map[string]auditlog.Retention{
		"": {}, "audit": {Keep: 30 * 24 * time.Hour, MaxEvents: 1_000_000}, "audit {\nkeep 1h\nmax_events 1000\n}": {Keep: time.Hour, MaxEvents: 1000},
		"audit {\nkeep 3650d\n}": {Keep: 3650 * 24 * time.Hour, MaxEvents: 1_000_000},
	} {
		s, err := read(withIssuer(text))
		if err != nil || s.Node.Audit != want {
			t.Errorf("%q: %+v, %v", text, s.Node.Audit, err)
		}
	}
}

// TestReadLogo: a logo is read by the suffix of its file, in any case.
func TestReadLogo(t *testing.T) {
	dir := t.TempDir()
	for suffix, logo := range map[string]struct{ media, content string }{
		"svg": {"image/svg+xml", "<svg/>"}, "SVG": {"image/svg+xml", "<svg/>"}, "png": {"image/png", "\x89PNG\r\n\x1a\n"},
		"jpg": {"image/jpeg", "\xff\xd8\xff"}, "jpeg": {"image/jpeg", "\xff\xd8\xff"}, "webp": {"image/webp", "RIFF....WEBP"},
	} {
		path := filepath.Join(dir, "logo."+suffix)
		if err := os.WriteFile(path, []byte(logo.content), 0o600); err != nil {
			t.Fatal(err)
		}
		s := settingsOf(t, `,"pages":{"name":"Acme","logo":"`+path+`"}`)
		page, err := s.Pages.Render("en", pages.SignIn{})
		if err != nil {
			t.Fatal(err)
		}
		want := "data:" + logo.media + ";base64," + base64.StdEncoding.EncodeToString([]byte(logo.content))
		if !strings.Contains(string(page), strings.ReplaceAll(want, "+", "&#43;")) || !strings.Contains(string(page), "<bdi>Acme</bdi>") {
			t.Errorf("%s: the page does not have %s", suffix, want)
		}
	}
}

// TestT140TheLimitsAreConfigured checks that each limit can be changed or turned off alone.
func TestT140TheLimitsAreConfigured(t *testing.T) {
	limit := func(n int, window time.Duration) attempts.Limit { return attempts.Limit{Failures: n, Window: window} }
	minute := func(n int) attempts.Limit { return limit(n, time.Minute) }
	for lines, want := range map[string]attempts.Limits{
		"":                            {ClientLimit: minute(20), AccountLimit: minute(10), AddressLimit: minute(30), GrantLimit: minute(60), RevocationLimit: minute(60)},
		"login 3/1m per account":      {ClientLimit: minute(20), AccountLimit: minute(3), AddressLimit: minute(30), GrantLimit: minute(60), RevocationLimit: minute(60)},
		"login 3/1m per ip":           {ClientLimit: minute(20), AccountLimit: minute(10), AddressLimit: minute(3), GrantLimit: minute(60), RevocationLimit: minute(60)},
		"login off":                   {ClientLimit: minute(20), GrantLimit: minute(60), RevocationLimit: minute(60)},
		"client off":                  {AccountLimit: minute(10), AddressLimit: minute(30), GrantLimit: minute(60), RevocationLimit: minute(60)},
		"grants 1000/24h per user":    {ClientLimit: minute(20), AccountLimit: minute(10), AddressLimit: minute(30), GrantLimit: limit(1000, 24*time.Hour), RevocationLimit: minute(60)},
		"revocations 5/1h per client": {ClientLimit: minute(20), AccountLimit: minute(10), AddressLimit: minute(30), GrantLimit: minute(60), RevocationLimit: limit(5, time.Hour)},
		"grants off\nrevocations off": {ClientLimit: minute(20), AccountLimit: minute(10), AddressLimit: minute(30)},
	} {
		s, err := read(withIssuer("limits {\n" + lines + "\n}"))
		if err != nil || s.Limits != want {
			t.Errorf("%q: %+v, %v", lines, s.Limits, err)
		}
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
	s := settingsOf(t, `,"organisations":[{"id":"acme","name":"Acme Ltd"},{"id":"globex"}],"users":[
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

// TestW35WhoNeedsAFactorAddsUp: several lines of second_factor → one rule with all of them; `totp` alone → a rule for no user; neither → no
// factors. Authenticators show the operator's name.
func TestW35WhoNeedsAFactorAddsUp(t *testing.T) {
	for lines, want := range map[string]signin.FactorPolicy{
		"":     {Name: "Gatehouse"},
		"totp": {TOTP: true, Name: "Gatehouse"},
		"totp\nsecond_factor required role member admin\nsecond_factor required group ops \"Web Team\"\nsecond_factor required organisation acme\nsecond_factor required role business_manager": {
			TOTP: true, Name: "Gatehouse",
			Required: signin.FactorRule{Roles: []string{"member", "admin", "business_manager"}, Groups: []string{"ops", "Web Team"}, Organisations: []string{"acme"}},
		},
		"second_factor required everybody\npages {\nname Acme\n}\ntotp": {TOTP: true, Name: "Acme", Required: signin.FactorRule{Everybody: true}},
	} {
		s, err := read(withIssuer("passkeys off\n" + lines))
		want.RelyingParty = "a.example"
		if err != nil || !reflect.DeepEqual(s.Issuer.Factors, want) {
			t.Errorf("%q: %+v, %v, want %+v", lines, s.Issuer.Factors, err, want)
		}
	}
}

// TestE87WhoRegistersAddsUp: several lines of registration_of_people, with several domains, with and without a block → a rule for each; none →
// nobody.
func TestE87WhoRegistersAddsUp(t *testing.T) {
	for lines, want := range map[string][]people.RegistrationRule{
		"": nil,
		"registration_of_people email_domain a.example bücher.example {\norganisation acme\nrole group_manager\ngroups staff \"Web Team\"\ngroups all\n}\nregistration_of_people anybody": {
			{Domains: []string{"a.example", "bücher.example"}, Creation: signin.Creation{Organisation: "acme", Role: "group_manager"}, Groups: []string{"staff", "Web Team", "all"}}, {},
		},
		"role guest\nregistration_of_people anybody {\nrole guest\n}": {{Creation: signin.Creation{Role: "guest"}}},
	} {
		s, err := read(withIssuer(someMail + "\n" + lines))
		if err != nil || !reflect.DeepEqual(s.SignIn.Registration, want) {
			t.Errorf("%q: %+v, %v, want %+v", lines, s.SignIn.Registration, err, want)
		}
	}
}

// TestW67WherePasskeysAre: an issuer whose host is a domain, with https or localhost, and a page of ours that asks for passwords → passkeys
// for its host, or for the parent domain that is written; another issuer, or `passkeys off` → nobody adds one; providers alone → only where
// it is written.
func TestW67WherePasskeysAre(t *testing.T) {
	for lines, want := range map[string]signin.FactorPolicy{
		"issuer https://auth.example.com":                                                           {Passkeys: true, RelyingParty: "auth.example.com"},
		"issuer https://auth.example.com:8443/a":                                                    {Passkeys: true, RelyingParty: "auth.example.com"},
		"issuer https://Auth.Example.com\npasskeys":                                                 {Passkeys: true, RelyingParty: "auth.example.com"},
		"issuer http://localhost:8080":                                                              {Passkeys: true, RelyingParty: "localhost"},
		"issuer http://auth.localhost":                                                              {Passkeys: true, RelyingParty: "auth.localhost"},
		"issuer http://127.0.0.1:8080":                                                              {},
		"issuer https://192.0.2.1":                                                                  {},
		"issuer https://[2001:db8::1]":                                                              {},
		"issuer http://127.0.0.1\npasskeys off":                                                     {},
		"issuer https://auth.example.com\npasskeys off":                                             {RelyingParty: "auth.example.com"},
		"issuer https://auth.example.com\npasskeys {\nrelying_party example.com\n}":                 {Passkeys: true, RelyingParty: "example.com"},
		"issuer https://auth.example.com\npasskeys {\nrelying_party auth.example.com\n}":            {Passkeys: true, RelyingParty: "auth.example.com"},
		"issuer https://a.b.example.co.uk\npasskeys {\nrelying_party example.co.uk\n}":              {Passkeys: true, RelyingParty: "example.co.uk"},
		"issuer https://auth.example.com\npasskeys off {\nrelying_party example.com\n}":             {RelyingParty: "example.com"},
		"issuer https://auth.example.com\nsign_in {\ngithub hub {\nclient a s3cret\n}\n}":           {RelyingParty: "auth.example.com"},
		"issuer https://auth.example.com\npasskeys\nsign_in {\ngithub hub {\nclient a s3cret\n}\n}": {Passkeys: true, RelyingParty: "auth.example.com"},
		"issuer https://auth.example.com\nsecond_factor required everybody": {
			Passkeys: true, RelyingParty: "auth.example.com", Required: signin.FactorRule{Everybody: true},
		},
	} {
		s, err := read(whole(lines))
		want.Name = "Gatehouse"
		if err != nil || !reflect.DeepEqual(s.Issuer.Factors, want) {
			t.Errorf("%q: %+v, %v, want %+v", lines, s.Issuer.Factors, err, want)
		}
	}
}

// TestReadGrace checks that 0 turns the grace off and that an absent setting keeps the default.
func TestReadGrace(t *testing.T) {
	for _, test := range []struct {
		name, members string
		want          time.Duration
	}{
		{"nothing", ``, 30 * time.Second},
		{"no grace among tokens", `,"tokens":{"refresh":"1d"}`, 30 * time.Second},
		{"off", `,"tokens":{"refresh_grace":0}`, store.NoGrace},
		{"off as text", `,"tokens":{"refresh_grace":"0s"}`, store.NoGrace},
		{"longer", `,"tokens":{"refresh_grace":"5m"}`, 5 * time.Minute},
	} {
		if got := settingsOf(t, test.members).Issuer.Lifetimes.RefreshGrace; got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
	s := settingsOf(t, `,"tokens":{"refresh_grace":"1m"},"clients":[{"id":"a","type":"public","tokens":{"refresh_grace":0,"code":"10s"}},{"id":"b","type":"public"}]`)
	for id, want := range map[string]store.Lifetimes{"a": {RefreshGrace: store.NoGrace, Code: 10 * time.Second}, "b": {}} {
		client, err := s.Issuer.Declared.Client(t.Context(), id)
		if err != nil || client.Lifetimes != want {
			t.Errorf("client %s has %+v, %v", id, client.Lifetimes, err)
		}
	}
}

func TestReadPasswordGrant(t *testing.T) {
	for lines, want := range map[string]*issuer.PasswordRules{"": nil, "password_grant": {}, "password_grant {\nrefresh_tokens\n}": {Refresh: true}} {
		if s, err := read(withIssuer(lines)); err != nil || !reflect.DeepEqual(s.Issuer.PasswordGrant, want) {
			t.Errorf("%s: %+v, %v", lines, s.Issuer.PasswordGrant, err)
		}
	}
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
			if got := settingsOf(t, test.members).SignIn; got.Password != test.want || got.DirectoriesAlone != test.alone {
				t.Errorf("password: %t, of directories alone: %t", got.Password, got.DirectoriesAlone)
			}
		})
	}
}

// TestProviderIsRead checks the values read from a provider's settings.
func TestProviderIsRead(t *testing.T) {
	s := settingsOf(t, ","+providerMembers(`,"scopes":["openid","groups"],"allow_email_domains":["x.example"],"allow_groups":["staff"],"groups_claim":"realm.roles",`+
		`"link":"verified_email","create":{"organisation":"acme","role":"member"},"domains":["x.example"],"default":true`))
	p := s.SignIn.Providers[0]
	if p.Title != "corp" || !p.Default || !slices.Equal(p.Domains, []string{"x.example"}) || p.OpenID.Client.Secret.Reveal() != "0123456789" || p.OpenID.GroupsClaim != "realm.roles" {
		t.Errorf("%+v", p)
	}
	if r := p.Rules; r.Link != signin.LinkVerifiedEmail || r.Create == nil || r.Create.Organisation != "acme" || r.Create.Role != "member" ||
		!slices.Equal(r.AllowEmailDomains, []string{"x.example"}) || !slices.Equal(r.AllowGroups, []string{"staff"}) {
		t.Errorf("%+v", r)
	}
	if p := settingsOf(t, `,"sign_in":{"providers":[{"name":"gh","kind":"github","client_id":"x","client_secret":"y"}]}`).SignIn.Providers[0]; p.GitHub == nil || p.GitHub.URL != "" || p.OpenID != nil {
		t.Errorf("%+v", p)
	}
}

// TestA142OpenIDIsOffUnlessItIsTurnedOn: scopes of OpenID Connect without `openid`, undeclared → refused with the line and what to add.
// With `openid` they are declared, and no server token can have one.
func TestA142OpenIDIsOffUnlessItIsTurnedOn(t *testing.T) {
	for _, name := range []string{"openid", "profile", "email", "phone", "address"} {
		client := "client a s {\nscopes " + name + "\n}\n"
		declared := "scope " + name + " {\nserver_tokens\n}\n"
		for lines, want := range map[string]string{
			client:              `client "a": unknown scope "` + name + "\": add `openid` to the oauth block, or declare it first, at Caddyfile:4",
			client + "openid":   "",
			client + declared:   "",
			declared + "openid": `scope "` + name + `" acts for a user where openid is on: a server token cannot hold it, at Caddyfile:6`,
		} {
			if _, err := read(withIssuer(lines)); fmt.Sprint(err) != cmp.Or(want, "<nil>") {
				t.Errorf("%q: %v, want %s", lines, err, want)
			}
		}
	}
}

// TestQ48WhoseDocumentsAreRead: `client_metadata` with allow, deny and scopes → those limit the clients; off → there are none.
func TestQ48WhoseDocumentsAreRead(t *testing.T) {
	s, err := read(withIssuer("client_metadata {\nallow claude.ai *.example.com\ndeny bad.example.com\nscopes public\n}"))
	want := clientmetadata.Settings{Allow: []string{"claude.ai", "*.example.com"}, Deny: []string{"bad.example.com"}}
	if err != nil || !s.Open.DocumentsOn || !reflect.DeepEqual(s.Open.Documents, want) || !slices.Equal(s.Open.DocumentScopes, []string{"public"}) {
		t.Errorf("%+v, %v", s.Open, err)
	}
	if s, err := read(withIssuer("client_metadata off")); err != nil || s.Open.DocumentsOn || !s.Open.DocumentsOff {
		t.Errorf("off: %+v, %v", s.Open, err)
	}
}
