package caddymodule

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// tokenForResources returns a server token of conf for resources.
func (g *gateway) tokenForResources(t *testing.T, resources ...string) string {
	t.Helper()
	form := serverGrant()
	if len(resources) > 0 {
		form["resource"] = resources
	}
	status, _, body := g.post("/oauth/token", form)
	if status != http.StatusOK {
		t.Fatalf("no token for %s: %d %s", resources, status, body)
	}
	return g.watched(member(t, body, "access_token"))
}

// TestG152TokenOfAnotherRoute: a token for one route's resource at another route, cached or not → 401 each time.
func TestG152TokenOfAnotherRoute(t *testing.T) {
	g := startGate(t, siteWith("", gated("/one/*")+gated("/two/*", "resource https://two.example/api")+gated("/open/*", "optional")))
	one, two := g.tokenForResources(t, g.url+"/one"), g.tokenForResources(t, "https://two.example/api")
	both, ordinary := g.tokenForResources(t, g.url+"/one", "https://two.example/api"), g.tokenForResources(t)
	for range 3 {
		for name, test := range map[string]struct {
			token, path string
			passes      bool
		}{
			"its own": {one, "/one/x", true}, "another's": {one, "/two/x", false}, "the other's own": {two, "/two/x", true}, "the other's": {two, "/one/x", false},
			"of two, the first": {both, "/one/x", true}, "of two, the second": {both, "/two/x", true}, "of none in particular": {ordinary, "/one/x", true},
			"of none in particular, other": {ordinary, "/two/x", true}, "where a token is optional": {one, "/open/x", false},
		} {
			t.Run(name, func(t *testing.T) {
				if test.passes {
					g.passed(t, g.request("GET", test.path, bearer(test.token)))
				} else {
					g.because(t, g.request("GET", test.path, bearer(test.token)), http.StatusUnauthorized, "audience_wrong")
				}
			})
		}
	}
	for name, audience := range map[string]string{
		"in another case": "https://TWO.example/api", "with a slash": "https://two.example/api/", "what begins with it": "https://two.example/api2", "what it begins with": "https://two.example",
	} {
		t.Run("aud "+name, func(t *testing.T) { // our tokens never have this aud: the comparison is byte for byte
			g.because(t, g.request("GET", "/two/x", bearer(g.watched(g.issue(issuer.Grant{Type: oauth.ClientCredentials, Audience: []string{audience}})))), http.StatusUnauthorized, "audience_wrong")
		})
	}
}

// TestG153G155RouteWithAudience: a route with `audience` and an ordinary token → 401; for its audience or resource → accepted. One resource in two
// spellings → one aud that passes both routes.
func TestG153G155RouteWithAudience(t *testing.T) {
	t.Setenv("GATE_TEST_RESOURCE", "https://API.example/x/")
	g := startGate(t, siteWith("", gated("/one/*", "resource {env.GATE_TEST_RESOURCE}")+gated("/two/*", "resource https://api.example/x")+gated("/three/*", "audience https://api.EXAMPLE/x")+
		gated("/a/*", "audience urn:a HTTPS://Spelled.example/x/ https://spelled.example/x")+gated("/b/*", "audience urn:b", "resource https://b.example")+gated("", "audience urn:root")))
	for name, test := range map[string]struct {
		token  string
		routes []string
	}{
		"ordinary": {g.tokenForResources(t), nil}, "its audience": {g.tokenForResources(t, "urn:a"), []string{"/a"}}, "its resource": {g.tokenForResources(t, g.url+"/a"), []string{"/a"}},
		"an audience that is spelled in two ways": {g.tokenForResources(t, "https://SPELLED.example/x"), []string{"/a"}},
		"its resource as configured":              {g.tokenForResources(t, "https://b.example/"), []string{"/b"}}, "the other's audience": {g.tokenForResources(t, "urn:b"), []string{"/b"}},
		"the issuer's audience": {g.tokenForResources(t, g.url), nil}, "that of the root": {g.tokenForResources(t, "urn:root"), []string{"/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, route := range []string{"/a", "/b", "/x"} {
				if slices.Contains(test.routes, route) {
					g.passed(t, g.request("GET", route+"/1", bearer(test.token)))
				} else {
					g.because(t, g.request("GET", route+"/1", bearer(test.token)), http.StatusUnauthorized, "audience_wrong")
				}
			}
		})
	}
	for _, asked := range []string{"https://API.example/x/", "https://api.example/x", "https://api.EXAMPLE/x"} {
		token := g.tokenForResources(t, asked)
		if aud := claims(t, token)["aud"]; aud != "https://API.example/x/" {
			t.Errorf("aud %v", aud)
		}
		for _, route := range []string{"/one/x", "/two/x", "/three/x"} {
			g.passed(t, g.request("GET", route, bearer(token)))
		}
	}
}

// TestG154ResourceRequired: `resource_required` and an ordinary token → 401; a token for the resource → accepted.
func TestG154ResourceRequired(t *testing.T) {
	p := startProvider(t)
	site := siteWith("", gated("/strict/*", "resource_required")+gated("/named/*", "resource_required", "resource https://named.example")+
		gated("/corp/*", "resource_required", "issuer corp")+gated("/both/*", "resource_required", "issuer self corp", "resource https://both.example"))
	g := startGate(t, strings.Replace(site, "store memory\n", "store memory\n\t\ttrust corp "+p.url+" {\n\t\t\taudience http://ADDR\n\t\t\tallow_private_network\n\t\t}\n", 1))
	g.awaitKeys()
	external := func(audience string) string { return g.watched(p.tokenWith(audience)) }
	for name, test := range map[string]struct{ token, passes string }{
		"ordinary": {g.tokenForResources(t), ""}, "asked for": {g.tokenForResources(t, g.url+"/strict"), "/strict"}, "asked for, as configured": {g.tokenForResources(t, "https://named.example"), "/named"},
		"the issuer's audience": {g.tokenForResources(t, g.url), ""}, "asked for, of two issuers": {g.tokenForResources(t, "https://both.example"), "/both"},
		"another issuer's ordinary": {external(g.url), ""}, "another issuer's": {external(g.url + "/corp"), "/corp"}, "another issuer's, of two": {external("https://both.example"), "/both"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, route := range []string{"/strict", "/named", "/corp", "/both"} {
				if route == test.passes {
					g.passed(t, g.request("GET", route+"/x", bearer(test.token)))
				} else {
					g.refused(t, g.request("GET", route+"/x", bearer(test.token)), http.StatusUnauthorized)
				}
			}
		})
	}
	for name, test := range map[string]struct{ options, want string }{
		"with audience":         {"resource_required\naudience urn:x", "resource_required and audience contradict each other"},
		"with a word behind it": {"resource_required yes", "wrong argument count"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := g.tryReload(siteWith("", gated("/x/*", test.options))); err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "Caddyfile:") {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestG154ResourceRequiredInVain: a warning is logged where no token can pass, and where every token does.
func TestG154ResourceRequiredInVain(t *testing.T) {
	for name, test := range map[string]struct {
		site, options string
		want          []string
	}{
		"good":                      {"http://a.example:8001", "resource_required\nresource https://b.example", nil},
		"a host":                    {"http://b.example:8001", "resource_required", nil},
		"the issuer's other port":   {"http://a.example:8001", "resource_required", nil},
		"no host":                   {"http://:8001", "resource_required\nissuer corp", []string{"3 lets no token pass"}},
		"the issuer's audience":     {"http://a.example:8001", "resource_required\nresource https://a.example", []string{"3 changes nothing"}},
		"the same, in another form": {"http://b.example:8001", "resource_required\nresource https://A.example/", []string{"3 changes nothing"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := warnedOf(t, "{\noauth {\nissuer https://a.example\nstore memory\ntrust corp https://corp.example {\naudience urn:corp\n}\n}\n}\nhttp://a.example:8002 {\noauth_server\n}\n"+
				test.site+" {\nroute {\nprotect {\n"+test.options+"\n}\nreverse_proxy 127.0.0.1:1\n}\n}\n")
			holdWarnings(t, got, test.want, "Caddyfile", 12)
		})
	}
}

// TestG156ExchangedTokenIsNotForAResource: an upstream's exchanged token at a route of that name → 401 unless
// `audience` says so. An upstream and a route's resource may have the same name.
func TestG156ExchangedTokenIsNotForAResource(t *testing.T) {
	g := startBoth(t, siteWith("", gated("/any/*", "upstream_token swap https://orders.example")+gated("/resource/*", "resource https://orders.example")+
		gated("/strict/*", "resource https://orders.example", "resource_required")+gated("/audience/*", "audience https://orders.example")))
	token := g.user("u-ada", "acme", "admin", "public")
	exchanged, _ := g.swapped(t, g.passed(t, g.request("GET", "/any/x", bearer(token))), token, ordersAudience)
	for range 2 {
		g.because(t, g.request("GET", "/resource/x", bearer(exchanged)), http.StatusUnauthorized, "audience_wrong")
		g.because(t, g.request("GET", "/strict/x", bearer(exchanged)), http.StatusUnauthorized, "audience_wrong")
		g.passed(t, g.request("GET", "/audience/x", bearer(exchanged)))
	}
	g.passed(t, g.request("GET", "/strict/x", bearer(g.tokenForResources(t, ordersAudience))))
}

// TestG157ResourceThroughReloads: a token for a resource through reloads → passes there alone; after its route has gone → 401.
func TestG157ResourceThroughReloads(t *testing.T) {
	with := siteWith("", gated("/one/*", "resource https://one.example")+gated("/two/*"))
	g := startGate(t, with)
	token := g.tokenForResources(t, "https://one.example")
	stop := g.trickle(map[string]int{g.request("GET", "/one/x", bearer(token)): http.StatusOK, g.request("GET", "/two/x", bearer(token)): http.StatusUnauthorized})
	for i := range 5 {
		g.reload(strings.Replace(with, "scope orders.read", fmt.Sprintf("scope other%d \"Other\"\n\t\tscope orders.read", i), 1))
	}
	for _, wrong := range stop(5) {
		t.Error(wrong)
	}
	g.upstream.seen()
	g.reload(siteWith("", gated("/one/*")+gated("/two/*")))
	g.because(t, g.request("GET", "/one/x", bearer(token)), http.StatusUnauthorized, "audience_wrong")
	form := serverGrant()
	form["resource"] = []string{"https://one.example"}
	if status, _, body := g.post("/oauth/token", form); status != http.StatusBadRequest || member(t, body, "error") != "invalid_target" {
		t.Errorf("%d %s", status, body)
	}
}
