package caddymodule

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// refusedOpenID holds the invalid forms of `openid`.
var refusedOpenID = refusedBlock{
	adapted: []refusal{
		{"openid\nopenid", `openid is set twice, at Caddyfile:4`},
		{`openid on`, `wrong argument count or unexpected line ending after 'on', at Caddyfile:3`},
		{"openid {\nnonsense\n}", `openid has no option "nonsense", at Caddyfile:4`},
		{"client a s {\nid_token_alg HS256\n}", `client a: id_token_signed_response_alg: algorithm "HS256" is not supported: use ES256, RS256 or EdDSA, at Caddyfile:4`},
		{"client a s {\nid_token_alg none\n}", `client a: id_token_signed_response_alg: algorithm "none" is not supported: use ES256, RS256 or EdDSA, at Caddyfile:4`},
		{"client a s {\nid_token_alg ES256 RS256\n}", `wrong argument count or unexpected line ending after 'ES256', at Caddyfile:4`},
		{"client a s {\nid_token_alg ES256\nid_token_alg ES256\n}", `id_token_alg is set twice, at Caddyfile:5`},
		{"client a s {\npost_logout_redirect_uris\n}", `wrong argument count or unexpected line ending after 'post_logout_redirect_uris', at Caddyfile:4`},
		{"client a s {\npost_logout_redirect_uris https://a.example/bye /bye\n}", `client a: post-logout redirect URI "/bye": use an absolute URI, at Caddyfile:4`},
		{"client a s {\npost_logout_redirect_uris https://*.a.example/bye\n}", `client a: post-logout redirect URI "https://*.a.example/bye": a * stands for nothing, because redirect URIs are compared byte for byte: name each of them, at Caddyfile:4`},
		{"client a s {\npost_logout_redirect_uris javascript:alert(1)\n}", `client a: post-logout redirect URI "javascript:alert(1)": scheme "javascript" is not allowed, at Caddyfile:4`},
		{"client a s {\nbackchannel_logout_uri /bye\n}", `client a: backchannel_logout_uri "/bye": use an absolute URL, at Caddyfile:4`},
		{"client a s {\nbackchannel_logout_uri https://a.example/bye#x\n}", `client a: backchannel_logout_uri "https://a.example/bye#x": credentials and fragments are not allowed, at Caddyfile:4`},
		{"client a s {\nbackchannel_logout_uri https://u:p@a.example/bye\n}", `client a: backchannel_logout_uri "https://u:p@a.example/bye": credentials and fragments are not allowed, at Caddyfile:4`},
		{"client a s {\nbackchannel_logout_uri http://a.example/bye\n}", `client a: backchannel_logout_uri "http://a.example/bye": use https, or http on loopback, at Caddyfile:4`},
		{"client a s {\nbackchannel_logout_uri https://a.example/1\nbackchannel_logout_uri https://a.example/2\n}", `backchannel_logout_uri is set twice, at Caddyfile:5`},
		{"client a s {\nbackchannel_logout_session_required\n}", `client a: backchannel_logout_session_required needs a backchannel_logout_uri, at Caddyfile:3`},
		{"client a {\ntype public\nredirect_uris https://a.example/\npkce optional\n}", `client a: pkce optional is for confidential clients: only the code_challenge protects the code of a client without a secret, at Caddyfile:3`},
		{"pkce optional", `pkce "optional": use required, or leave it out, at Caddyfile:3`},
	},
	loaded: []namedRefusal{
		{"algorithm of ID tokens without openid", "client a s {\nid_token_alg ES256\n}", "client \"a\": id_token_alg is for OpenID Connect: add `openid` to the oauth block"},
		{"sign-out without openid", "client a s {\npost_logout_redirect_uris https://a.example/\n}", `client "a": post_logout_redirect_uris is for OpenID Connect`},
		{"back-channel without openid", "client a s {\nbackchannel_logout_uri https://a.example/\n}", `client "a": backchannel_logout_uri is for OpenID Connect`},
		{"pkce optional without openid", "client a s {\npkce optional\n}", `client "a": pkce optional is for OpenID Connect`},
	},
	json: []refusal{
		{`"openid":{"nonsense":1}`, `unknown field "nonsense"`},
		{`"openid":{},"clients":[{"id":"a","secret":"s","id_token_signed_response_alg":"HS256"}]`, `client "a": id_token_signed_response_alg: algorithm "HS256" is not supported`},
		{`"openid":{},"clients":[{"id":"a","secret":"s","backchannel_logout_uri":"http://10.0.0.1/"}]`, `client "a": backchannel_logout_uri "http://10.0.0.1/": use https, or http on loopback`},
		{`"openid":{},"clients":[{"id":"a","secret":"s","pkce":"plain"}]`, `pkce "plain": use required or optional`},
	},
}

// TestA142OpenIDIsOffUnlessItIsTurnedOn: scopes of OpenID Connect without `openid`, undeclared → refused with the line and what to add.
// With `openid` they are declared, and no server token can have one.
func TestA142OpenIDIsOffUnlessItIsTurnedOn(t *testing.T) {
	emptyHome(t)
	for _, name := range []string{"openid", "profile", "email", "phone", "address"} {
		client := []string{"client a s {", "scopes " + name, "}"}
		checkPlace(t, refused(t, inOAuth(client...)), `oauth: client "a": unknown scope "`+name+"\": add `openid` to the oauth block, or declare it first", 5)
		if err := refused(t, inOAuth(append(client, "openid")...)); err != nil {
			t.Errorf("%s with openid: %v", name, err)
		}
		declared := []string{"scope " + name + " {", "server_tokens", "}"}
		if err := refused(t, inOAuth(append(client, declared...)...)); err != nil {
			t.Errorf("%s declared, without openid: %v", name, err)
		}
		checkPlace(t, refused(t, inOAuth(append(declared, "openid")...)), `oauth: scope "`+name+`" acts for a user where openid is on: a server token cannot hold it`, 7)
	}
	checkPlace(t, refused(t, gateOf("openid", trustLines("a", "https://l.example"))), "oauth: openid needs an issuer: add `issuer https://…` to the oauth block", 2)
}

// TestA142WithoutOpenIDNothingOnTheWireKnowsIt checks that without `openid` there is no discovery document and no scope of OpenID Connect.
func TestA142WithoutOpenIDNothingOnTheWireKnowsIt(t *testing.T) {
	g := startGatehouse(t, site)
	if status, _, _ := g.get("/.well-known/openid-configuration", ""); status != http.StatusNotFound {
		t.Errorf("discovery: %d", status)
	}
	if _, _, metadata := g.get("/.well-known/oauth-authorization-server", ""); strings.Contains(metadata, "openid") {
		t.Errorf("the metadata know it: %s", metadata)
	}
}

// TestA144ValidateWarnsOfPKCEOptional: `pkce optional` of a confidential client → a warning with file and line.
func TestA144ValidateWarnsOfPKCEOptional(t *testing.T) {
	client := func(id, pkce string) string {
		return "client " + id + " {env.GATE_GOOD} {\ngrants authorization_code\nscopes openid\nredirect_uris https://c.example/" + id + "\n" + pkce + "\n}\n"
	}
	got := validateProcess(t, "{\noauth {\nissuer https://a.example\nstore memory\nopenid\n"+client("new", "pkce required")+client("old", "pkce optional")+client("usual", "")+
		"}\n}\nhttps://a.example:8001 {\noauth_server\n}\n", "GATE_GOOD="+strings.Repeat("0f", 16))
	holdWarnings(t, got, []string{"12 client old has `pkce optional`"}, "Caddyfile", 0)
}

// TestA143ClientsOfOpenIDOnTheCommandLine: a client with a bad id_token_alg, post-logout or back-channel URI, or any such member without
// `openid` → refused with the line or 400; one member changed → the others stay.
func TestA143ClientsOfOpenIDOnTheCommandLine(t *testing.T) {
	provider := strings.Replace(durableSite, "store sqlite", "openid\n\t\tstore sqlite", 1)
	g := startGatehouse(t, provider)
	g.ok("client", "add", "--name", "Wiki", "--id", "wiki", "--grant", "authorization_code", "--scope", "openid", "--scope", "email",
		"--redirect-uri", "https://w.example/cb", "--id-token-alg", "EdDSA", "--post-logout-redirect-uri", "https://w.example/bye",
		"--backchannel-logout-uri", "https://w.example/back", "--backchannel-logout-session-required", "--pkce", "optional")
	show := func() clientView {
		t.Helper()
		return decoded[clientView](t, g.ok("client", "show", "wiki", "--json"))
	}
	want := store.ClientOpenID{
		IDTokenAlgorithm: oauth.EdDSA, PostLogoutRedirectURIs: []string{"https://w.example/bye"},
		BackchannelLogoutURI: "https://w.example/back", BackchannelLogoutSessionRequired: true,
	}
	if got := show(); !reflect.DeepEqual(got.ClientOpenID, want) || got.PKCE != "optional" {
		t.Errorf("added %+v, pkce %q", got.ClientOpenID, got.PKCE)
	}
	if out := g.ok("client", "show", "wiki"); !strings.Contains(out, "https://w.example/bye") || !strings.Contains(out, "https://w.example/back") || !strings.Contains(out, "EdDSA") {
		t.Errorf("show prints\n%s", out)
	}
	for _, c := range []struct {
		name   string
		args   []string
		change func()
	}{
		{"another algorithm", []string{"--id-token-alg", "ES256"}, func() { want.IDTokenAlgorithm = oauth.ES256 }},
		{"the default algorithm", []string{"--id-token-alg", ""}, func() { want.IDTokenAlgorithm = "" }},
		{"two places to come back to", []string{"--post-logout-redirect-uri", "https://w.example/1", "--post-logout-redirect-uri", "com.example.app:/bye"}, func() {
			want.PostLogoutRedirectURIs = []string{"https://w.example/1", "com.example.app:/bye"}
		}},
		{"none", []string{"--post-logout-redirect-uri", ""}, func() { want.PostLogoutRedirectURIs = nil }},
		{"without the session", []string{"--backchannel-logout-session-required=false"}, func() { want.BackchannelLogoutSessionRequired = false }},
		{"not told", []string{"--backchannel-logout-uri", ""}, func() { want.BackchannelLogoutURI = "" }},
		{"told on loopback", []string{"--backchannel-logout-uri", "http://127.0.0.1:9/back"}, func() { want.BackchannelLogoutURI = "http://127.0.0.1:9/back" }},
		{"another name", []string{"--name", "The wiki"}, func() {}},
	} {
		c.change()
		g.ok(append([]string{"client", "update", "wiki"}, c.args...)...)
		if got := show(); !reflect.DeepEqual(got.ClientOpenID, want) || got.PKCE != "optional" {
			t.Errorf("%s: %+v, pkce %q, want %+v", c.name, got.ClientOpenID, got.PKCE, want)
		}
	}
	g.ok("client", "update", "wiki", "--pkce", "required")
	if got := show(); got.PKCE != "required" {
		t.Errorf("pkce %q", got.PKCE)
	}
	g.ok("client", "add", "--name", "App", "--id", "app", "--type", "public", "--scope", "openid", "--redirect-uri", "https://app.example/cb")
	refused := func(name string, args []string, want string) {
		t.Helper()
		before := g.ok("client", "list", "--json")
		if _, err := g.run("", append([]string{"client", "update"}, args...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
		if g.ok("client", "list", "--json") != before {
			t.Errorf("%s: something has changed", name)
		}
	}
	refused("symmetric algorithm", []string{"wiki", "--id-token-alg", "HS256"}, `algorithm "HS256" is not supported`)
	refused("relative", []string{"wiki", "--post-logout-redirect-uri", "/bye"}, "use an absolute URI")
	refused("plain http", []string{"wiki", "--backchannel-logout-uri", "http://10.0.0.1/back"}, "use https, or http on loopback")
	refused("fragment", []string{"wiki", "--backchannel-logout-uri", "https://w.example/back#x"}, "fragments are not allowed")
	refused("session of nobody", []string{"app", "--backchannel-logout-session-required"}, "needs a backchannel_logout_uri")
	refused("pkce of a public client", []string{"app", "--pkce", "optional"}, "pkce optional is for confidential clients")

	// After `openid` is turned off, stored members stay, and new ones are refused.
	g.reload(durableSite)
	g.ok("client", "update", "wiki", "--name", "Wiki again")
	if got := show(); !reflect.DeepEqual(got.ClientOpenID, want) {
		t.Errorf("without openid: %+v", got.ClientOpenID)
	}
	refused("openid is off", []string{"app", "--backchannel-logout-uri", "https://app.example/back"}, "backchannel_logout_uri is for OpenID Connect: add `openid` to the oauth block")
}
