package caddymodule

import (
	"strings"
	"testing"
)

// refusedTrust holds the invalid forms of `trust`.
var refusedTrust = refusedBlock{
	loaded: []namedRefusal{
		// G39, G78: an issuer also issues tokens for other audiences.
		{"no audience", `trust corp https://l.example`, `trust corp: audience is missing: say which of its tokens are meant for us, at Caddyfile:`},
	},
	adapted: []refusal{
		{`trust`, "write it as `trust <name> <issuer> { … }`, at Caddyfile:3"},
		{`trust corp`, "write it as `trust <name> <issuer> { … }`, at Caddyfile:3"},
		{`trust corp https://l.example x`, "write it as `trust <name> <issuer> { … }`, at Caddyfile:3"},
		{`trust self https://l.example`, `"self" is no name for a trusted issuer, at Caddyfile:3`},
		{"trust corp https://l.example {\naudience a\n}\ntrust corp https://m.example {\naudience a\n}", `trust corp is there twice, at Caddyfile:6`},
		{"trust corp https://l.example {\naudience\n}", `wrong argument count or unexpected line ending after 'audience', at Caddyfile:4`},
		{"trust corp https://l.example {\naudience \"\"\n}", `an audience must not be empty, at Caddyfile:4`},
		{"trust corp https://l.example {\naudience {http.request.host}\n}", `{http.request.host} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:4`},
		// K13
		{"trust corp https://l.example {\naudience a\nalgorithms RS256 HS256\n}", `algorithm "HS256" is not supported: use ES256, RS256, EdDSA, ES384, ES512, RS384, RS512, PS256, PS384 or PS512, at Caddyfile:5`},
		{"trust corp https://l.example {\naudience a\nalgorithms none\n}", `algorithm "none" is not supported: use ES256, RS256, EdDSA, ES384, ES512, RS384, RS512, PS256, PS384 or PS512, at Caddyfile:5`},
		{"trust corp https://l.example {\naudience a\nalgorithms\n}", `wrong argument count or unexpected line ending after 'algorithms', at Caddyfile:5`},
		{"trust corp https://l.example {\naudience a\ntyp id_token\n}", `typ "id_token" is not that of an access token: use at+jwt, JWT or none, at Caddyfile:5`},
		{"trust corp http://l.example {\naudience a\nallow_private_network\n}", `trust corp: issuer "http://l.example" must be https, at Caddyfile:3`},
		{"trust corp http://127.0.0.1:8080 {\naudience a\n}", `trust corp: issuer "http://127.0.0.1:8080": a loopback address needs allow_private_network, at Caddyfile:3`},
		{"trust corp https://u:p@l.example {\naudience a\n}", `trust corp: issuer "https://u:p@l.example" is no URL: write it as https://login.example.com/…, at Caddyfile:3`},
		{"trust corp https://l.example?x {\naudience a\n}", `trust corp: issuer "https://l.example?x" must have no query, at Caddyfile:3`},
		{"trust corp https://l.example {\naudience a\njwks_uri http://l.example/keys\n}", `trust corp: jwks_uri "http://l.example/keys" must be https, at Caddyfile:3`},
		{"trust corp https://l.example {\naudience a\njwks_uri {http.request.host}\n}", `{http.request.host} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:5`},
		{"trust corp https://l.example {\naudience a\nmax_stale 0s\n}", `max_stale must be more than nothing, at Caddyfile:5`},
		{"trust corp https://l.example {\naudience a\nmax_stale soon\n}", `"soon" is no duration: write it as 90s, 15m, 2h or 28d, at Caddyfile:5`},
		{"trust corp https://l.example {\naudience a\nallow_private_network yes\n}", `wrong argument count or unexpected line ending after 'yes', at Caddyfile:5`},
		{"trust corp https://l.example {\naudience a\naudience_from sub\n}", `audience_from "sub": the one word for it is client_id, at Caddyfile:5`},
		{"trust corp https://l.example {\naudience a\nroles_claim {http.request.host}\n}", `{http.request.host}: a rule compares with text and replaces no placeholder, at Caddyfile:5`},
		{"trust corp https://l.example {\naudience a\nroles_claim a\nroles_claim b\n}", `roles_claim is set twice, at Caddyfile:6`},
		{"trust corp https://l.example {\naudience a\ninsecure\n}", `unknown trust option "insecure", at Caddyfile:5`},
		{"trust corp https://l.example {\naudience a\nintrospection https://l.example/i {\ncache 30s\n}\n}", "introspection needs the client that we are there: `client <id> <secret>`, at Caddyfile:7"},
		{"trust corp https://l.example {\naudience a\nintrospection https://l.example/i {\nclient gw\n}\n}", `wrong argument count or unexpected line ending after 'gw', at Caddyfile:6`},
		{"trust corp https://l.example {\naudience a\nintrospection https://l.example/i {\nclient gw {http.request.header.x}\n}\n}", `{http.request.header.x} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:6`},
		{"trust corp https://l.example {\naudience a\nintrospection https://l.example/i {\nclient gw env.SECRET\n}\n}", `an introspection: "env.SECRET" looks like a placeholder without its braces: write {env.SECRET}, at Caddyfile:6`},
		{"trust corp https://l.example {\naudience a\nintrospection https://l.example/i {\nclient gw {env.A}\nretries 3\n}\n}", `unknown introspection option "retries", at Caddyfile:7`},
		{"trust corp https://l.example {\naudience a\nintrospection http://l.example/i {\nclient gw {env.A}\n}\n}", `trust corp: introspection "http://l.example/i" must be https, at Caddyfile:3`},
	},
}

// TestG78TrustThatCannotWork checks errors that show only when a configuration is loaded.
func TestG78TrustThatCannotWork(t *testing.T) {
	const trust = "trust corp https://l.example {\naudience a\n}\n"
	for _, test := range []struct{ name, oauth, protect, want string }{
		{"an issuer that nobody trusts", "issuer https://a.example\n" + trust, "issuer nobody", "issuer nobody is not known: there is no `trust nobody` in the oauth block"},
		{"self without an issuer", trust, "issuer self", "there is no issuer of our own"},
		{"no issuer named in a gate that issues nothing", trust, "", "there is no issuer of our own"},
		{"our own issuer", "issuer https://l.example\n" + trust, "", "https://l.example is our own issuer: `protect` calls it self"},
		{"two names for one issuer", trust + "trust corp2 https://l.example {\naudience a\n}\n", "issuer corp", "trust corp has the same issuer"},
		{"clients without an issuer", trust + "client x {env.X}\n", "issuer corp", "client needs an issuer"},
		{"limits without an issuer", trust + "limits {\nlogin off\n}\n", "issuer corp", "limits needs an issuer"},
		{"a store without an issuer", trust + "store memory\n", "issuer corp", "store needs an issuer"},
		{"an audience that gives nothing", "trust corp https://l.example {\naudience {env.GATEHOUSE_UNSET}\n}\n", "issuer corp", "audience"},
		{"a secret that gives nothing", "trust corp https://l.example {\naudience a\nintrospection https://l.example/i {\nclient gw {env.GATEHOUSE_UNSET}\n}\n}\n", "issuer corp", "introspection client secret"},
		{"two that introspect", introspecting("corp") + introspecting("other"), "issuer corp other", "both have an introspection"},
		{"a scope that is none", trust, "issuer corp\nrequire scope a\"b", "is no scope"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := validate(t, "{\nadmin off\noauth {\n"+test.oauth+"}\n}\nhttp://127.0.0.1:18999 {\nprotect {\n"+test.protect+"\n}\nrespond 204\n}\n")
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want it to say: %s", err, test.want)
			}
		})
	}
}

func introspecting(name string) string {
	return "trust " + name + " https://" + name + ".example {\naudience a\nintrospection https://" + name + ".example/i {\nclient gw 0123456789\n}\n}\n"
}

func TestGateOnlyIsValid(t *testing.T) {
	emptyHome(t)
	for name, caddyfile := range map[string]string{
		"two issuers on a route": "{\nadmin off\noauth {\n" + introspecting("corp") + "trust other https://o.example/realms/x {\naudience a b\nalgorithms EdDSA\ntyp at+jwt JWT none\njwks_uri https://keys.example/o\nmax_stale 1h\n}\n}\n}\n" +
			"http://127.0.0.1:18999 {\nprotect {\nissuer corp other\naudience c\nrequire /x/* scope any.thing\n}\nrespond 204\n}\n",
		"beside our own": "{\nadmin off\noauth {\nissuer https://a.example\n" + introspecting("corp") + "}\n}\n" +
			"http://127.0.0.1:18999 {\nprotect {\nissuer corp self\ntoken_from cookie accessToken\n}\nrespond 204\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			if err := validate(t, caddyfile); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestErrorsOfAProtectSayWhereItStands checks that errors found on loading name a position too.
func TestErrorsOfAProtectSayWhereItStands(t *testing.T) {
	err := validate(t, "{\n\tadmin off\n\toauth {\n\t\tissuer https://a.example\n\t}\n}\n\nhttp://127.0.0.1:18999 {\n\thandle /x/* {\n\t\tprotect {\n\t\t\tissuer crop\n\t\t}\n\t}\n}\n")
	if err == nil || !strings.HasSuffix(err.Error(), "issuer crop is not known: there is no `trust crop` in the oauth block, at Caddyfile:10") {
		t.Error(err)
	}
}
