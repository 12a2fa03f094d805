package caddymodule

import (
	"reflect"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

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
