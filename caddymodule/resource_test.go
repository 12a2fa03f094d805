package caddymodule

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// resourceSite guards routes in many ways, and serves their metadata. OAUTH stands for lines of the oauth block in
// addition to the trust.
var resourceSite = `{
	admin ADMIN
	log {
		output file LOG
		level DEBUG
	}
	oauth {
		OAUTH
		trust corp PROVIDER {
			audience http://ADDR
			allow_private_network
		}
	}
}

http://ADDR {
	oauth_server
` +
	gated("/orders/*", "issuer corp", "require /orders/refunds/* scope refunds", "require any_scope read write") +
	gatedBelow("/shop/* buy", "issuer corp") + `	@two path /two /two/*
` +
	gated("@two", "issuer corp") + `	@apart path /apart/one/* /apart/two/*
` +
	gated("@apart", "issuer corp") +
	gated("/named/*", "issuer corp", "resource http://localhost/a%20name") +
	gated("/other/*", "issuer corp", "audience urn:other") + `	MORE
` +
	gated("", "issuer corp") + `}
`

// resourceGate loads resourceSite with our own issuer, or as a gate for the tokens of others alone.
func resourceGate(t *testing.T, p *provider, own bool) *gateway {
	t.Helper()
	oauth, more := "", ""
	if own {
		oauth = "issuer http://ADDR\nstore memory\nscope buy \"Buy\"\nscope read \"Read\"\nclient conf SECRET {\nscopes public\n}\n"
		more = "handle /own/* {\nprotect buy\nreverse_proxy UPSTREAM\n}\nhandle /both/* {\nprotect {\nissuer self corp\n}\nreverse_proxy UPSTREAM\n}\n"
	}
	g := startGate(t, strings.NewReplacer("OAUTH", oauth, "MORE", more, "PROVIDER", p.url).Replace(resourceSite))
	g.awaitKeys()
	return g
}

// wellKnown is the path prefix of the metadata of resources.
const wellKnown = "/.well-known/oauth-protected-resource"

// resourceDocument is the metadata of a resource.
type resourceDocument struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
	Methods  []string `json:"bearer_methods_supported"`
}

// TestResourceMetadataOfRFC9728: each guarded route has metadata with the identifier from which their URL is formed, and its
// challenge names that URL. Nothing in the metadata comes from the request.
func TestResourceMetadataOfRFC9728(t *testing.T) {
	p := startProvider(t)
	var g *gateway
	whole, own := t, false
	for _, test := range []struct {
		name, request, at, resource string
		own                         bool
		servers, scopes             []string
	}{
		{"a path", "/orders/1", "/orders", "SITE/orders", false, []string{"PROVIDER"}, []string{"refunds", "read", "write"}},
		{"handle_path", "/shop/1", "/shop", "SITE/shop", false, []string{"PROVIDER"}, []string{"buy"}},
		{"a path and what is below it", "/two", "/two", "SITE/two", false, []string{"PROVIDER"}, nil},
		{"what two paths have in common", "/apart/one/x", "/apart", "SITE/apart", false, []string{"PROVIDER"}, nil},
		{"an identifier of its own", "/named/x", "/a%20name", "http://localhost/a%20name", false, []string{"PROVIDER"}, nil},
		{"another audience", "/other/x", "/other", "SITE/other", false, []string{"PROVIDER"}, nil},
		{"the root", "/x", "", "SITE", false, []string{"PROVIDER"}, nil},
		{"a path, own issuer", "/own/x", "/own", "SITE/own", true, []string{"SITE"}, []string{"buy"}},
		{"two issuers", "/both/x", "/both", "SITE/both", true, []string{"SITE", "PROVIDER"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if g == nil || test.own != own {
				g, own = resourceGate(whole, p, test.own), test.own
			}
			in := strings.NewReplacer("SITE", g.url, "PROVIDER", p.url)
			status, header, _ := g.get(test.request, "")
			location, err := url.Parse(parameters(t, header)["resource_metadata"])
			if status != http.StatusUnauthorized || err != nil || location.EscapedPath() != wellKnown+test.at {
				t.Fatalf("%d, the challenge names %s", status, location)
			}
			status, header, body := g.get(location.EscapedPath(), "")
			var got resourceDocument
			if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK || header.Get("Content-Type") != "application/json" {
				t.Fatalf("%d %s: %v", status, body, err)
			}
			if got.Resource != in.Replace(test.resource) || strings.Replace(location.String(), wellKnown, "", 1) != got.Resource {
				t.Errorf("resource %s at %s", got.Resource, location)
			}
			for i, server := range test.servers {
				test.servers[i] = in.Replace(server)
			}
			if !slices.Equal(got.Servers, test.servers) || !slices.Equal(got.Scopes, test.scopes) || !slices.Equal(got.Methods, []string{"header"}) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestG97WellKnownPathsAreOurs: no request below the well-known path reaches an upstream, and without our own issuer
// no other path of ours exists.
func TestG97WellKnownPathsAreOurs(t *testing.T) {
	p := startProvider(t)
	for _, own := range []bool{true, false} {
		g := resourceGate(t, p, own)
		token := g.watched(p.tokenFor(g))
		for path, want := range map[string]int{
			wellKnown + "/": 200, wellKnown + "/nothing": 404, wellKnown + "/orders/": 200, wellKnown + "/orders//": 404, wellKnown + "/%6frders": 404, wellKnown + "/orders": 200,
			wellKnown: 200,
		} {
			status, _, body := g.raw(g.request("GET", path, bearer(token)))
			if status != want {
				t.Errorf("%s: %d %s", path, status, body)
			}
			g.upstream.none(t)
		}
		for method, want := range map[string]int{"HEAD": 200, "POST": 405, "PUT": 405, "OPTIONS": 405} {
			status, header, body := g.do(method, wellKnown+"/orders", "")
			if status != want || want == 405 && header.Get("Allow") != "GET, HEAD" || method == "HEAD" && body != "" {
				t.Errorf("%s: %d %q %s", method, status, header, body)
			}
		}
		g.passed(t, g.request("GET", wellKnown+"x", bearer(token))) // a path of its own
		if !own {
			for _, path := range []string{"/oauth/token", "/oauth/jwks", "/.well-known/oauth-authorization-server", "/oauth/login"} {
				g.passed(t, g.request("GET", path, bearer(token)))
			}
		}
	}
}

// tokenFor returns a good token of the provider for the gate.
func (p *provider) tokenFor(g *gateway) string { return p.tokenWith(g.url) }

// tokenWith returns a token of the provider for an audience.
func (p *provider) tokenWith(audience string) string {
	f := *p.signer()
	f.audience = audience
	return f.claiming(map[string]any{"sub": "ada", "client_id": "app", "scope": "buy read"})
}
