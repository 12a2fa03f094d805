package caddymodule

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestA147ClientAddForOpenID: `client add --openid` → issuer, endpoints, id and a secret that works; without a redirect URI, or where
// `openid` is off → refused.
func TestA147ClientAddForOpenID(t *testing.T) {
	g := startOpenID(t)
	out := g.ok("client", "add", "--name", "Wiki", "--openid", "--redirect-uri", "https://w.example/cb")
	id, secret := printed(t, out, "client_id"), printed(t, out, "client_secret")
	if issuer := printed(t, out, "issuer"); issuer != g.url || printed(t, out, "discovery") != g.url+"/.well-known/openid-configuration" {
		t.Errorf("printed\n%s", out)
	}
	status, _, discovered := g.get("/.well-known/openid-configuration", "")
	if status != http.StatusOK {
		t.Fatalf("discovery: %d", status)
	}
	metadata := decoded[map[string]any](t, discovered)
	for _, name := range []string{"issuer", "authorization_endpoint", "token_endpoint", "userinfo_endpoint", "end_session_endpoint", "jwks_uri"} {
		if value := printed(t, out, name); value != metadata[name] {
			t.Errorf("%s is printed as %q, and published as %v", name, value, metadata[name])
		}
	}
	want := clientView{
		ID: id, Name: "Wiki", Type: "confidential", Grants: []oauth.GrantType{"authorization_code", "refresh_token"},
		Scopes: []string{"openid", "profile", "email", "offline_access"}, RedirectURIs: []string{"https://w.example/cb"}, Source: "store",
	}
	show := func(id string) clientView {
		t.Helper()
		view := decoded[clientView](t, g.ok("client", "show", id, "--json"))
		view.CreatedAt, view.Secrets, view.Provider = want.CreatedAt, nil, nil
		return view
	}
	if got := show(id); !reflect.DeepEqual(got, want) {
		t.Errorf("registered %+v, want %+v", got, want)
	}
	// The secret belongs to the client: a wrong secret gets another error than a right one with a wrong code.
	for _, c := range []struct{ secret, want string }{{secret, "invalid_grant"}, {secret + "x", "invalid_client"}} {
		_, _, body := g.post("/oauth/token", url.Values{
			"grant_type": {"authorization_code"}, "code": {"x"}, "redirect_uri": {"https://w.example/cb"}, "client_id": {id}, "client_secret": {c.secret},
		})
		if !strings.Contains(body, c.want) {
			t.Errorf("the token endpoint says %s, want %s", body, c.want)
		}
	}

	for _, c := range []struct {
		name   string
		args   []string
		change func(*clientView)
	}{
		{"public", []string{"--public"}, func(c *clientView) { c.Type, c.PKCE = "public", "required" }},
		{"type public", []string{"--type", "public", "--first-party"}, func(c *clientView) { c.Type, c.PKCE, c.FirstParty = "public", "required", true }},
		{"more scopes", []string{"--scope", "groups", "--scope", "email"}, func(c *clientView) { c.Scopes = append(c.Scopes[:4:4], "groups") }},
		{"other grants", []string{"--grant", "authorization_code"}, func(c *clientView) { c.Grants = c.Grants[:1] }},
		{"algorithm", []string{"--id-token-alg", "ES256", "--pkce", "optional"}, func(c *clientView) { c.IDTokenAlgorithm, c.PKCE = "ES256", "optional" }},
	} {
		added := decoded[struct {
			clientView
			Provider map[string]string `json:"provider"`
		}](t, g.ok(append([]string{"client", "add", "--name", "Wiki", "--openid", "--redirect-uri", "https://w.example/cb", "--json"}, c.args...)...))
		want := want
		want.ID = added.ID
		c.change(&want)
		if got := show(added.ID); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: registered %+v, want %+v", c.name, got, want)
		}
		if (added.Secret == "") != (want.Type == "public") || added.Provider["discovery"] != g.url+"/.well-known/openid-configuration" || added.Provider["issuer"] != g.url {
			t.Errorf("%s: answered %+v", c.name, added)
		}
	}
	refused := func(name, want string, args ...string) {
		t.Helper()
		if _, err := g.run("", append([]string{"client", "add", "--name", "Wiki"}, args...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	refused("without a redirect URI", "needs a redirect URI", "--openid")
	refused("public and a type", "none of the others can be", "--openid", "--public", "--type", "native", "--redirect-uri", "https://w.example/cb")
	if out := g.ok("client", "add", "--name", "Server"); strings.Contains(out, "issuer") {
		t.Errorf("without --openid it printed\n%s", out)
	}
	g.reload(peopleSite())
	refused("openid is off", "the issuer is no OpenID provider: add `openid` to the oauth block first", "--openid", "--redirect-uri", "https://w.example/cb")
}
