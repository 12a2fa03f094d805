package caddymodule

import (
	"net"
	"net/http"
	"strings"
	"testing"
)

// Each site has its own resources: a token for a resource of one site is not valid at another.

// resourceSites are sites next to the issuer's, at its port and at others. PORT2 and PORT3 are further ports.
var resourceSites = `
http://127.0.0.1:PORT2 {
` +
	gated("/mcp*", "mcp") + `}
http://*.localhost:TCPPORT {
` +
	gated("/mcp*", "mcp") + `	@inner host inner.localhost
` +
	gated("@inner", "mcp") + `}
http://id.localhost:TCPPORT {
` +
	gated("/mcp*", "mcp") + `}
http://*.localhost:PORT2 {
` +
	gated("/mcp*", "mcp") + `}
http://a.localhost:PORT3, http://B.localhost:PORT3, http://a.localhost.:PORT3, http://[::1]:PORT3 {
` +
	gatedBelow("/mcp*", "mcp") +
	handled("handle", "invoke shared") + `}
http://c.localhost:PORT3 {
` +
	handled("handle", "invoke shared") + `}
&(shared) {
	protect {
		resource_required
	}
	reverse_proxy UPSTREAM
}
http://:PORT3 {
` +
	gated("/mcp*", "mcp") + `}
`

// startResourceSites serves them, and returns the further ports.
func startResourceSites(t *testing.T) (g *gateway, port, port2, port3 string) {
	t.Helper()
	_, port2, _ = net.SplitHostPort(freeAddr(t))
	_, port3, _ = net.SplitHostPort(freeAddr(t))
	g = startGate(t, strings.NewReplacer("PORT2", port2, "PORT3", port3).Replace(siteWith("", gated("/mcp*", "mcp"))+resourceSites))
	_, port, _ = net.SplitHostPort(g.addr)
	return g, port, port2, port3
}

// askAt sends a request for an authority to a port of this machine.
func (g *gateway) askAt(port, authority, target string, lines ...string) (int, http.Header, string) {
	g.t.Helper()
	other := *g.gatehouse
	other.addr = "127.0.0.1:" + port
	return other.raw("GET " + target + " HTTP/1.1\nHost: " + authority + "\nConnection: close\n" + strings.Join(append(lines, "", ""), "\n"))
}

// TestV3ResourceOfEachSite: resources at two ports, several hosts, wildcards, IPv6, trailing dots → the challenge leads to metadata of the host that
// the client has asked, and a token for one passes there alone.
func TestV3ResourceOfEachSite(t *testing.T) {
	g, port, port2, port3 := startResourceSites(t)
	type at struct{ port, authority, target string }
	places := map[string]at{
		g.url + "/mcp":                             {port, "127.0.0.1:" + port, "/mcp"},
		"http://127.0.0.1:" + port2 + "/mcp":       {port2, "127.0.0.1:" + port2, "/mcp"},
		"http://id.localhost:" + port + "/mcp":     {port, "id.localhost:" + port, "/mcp"},
		"http://tenant.localhost:" + port + "/mcp": {port, "Tenant.LOCALHOST:" + port, "/mcp"},
		"http://other.localhost:" + port + "/mcp":  {port, "other.localhost:" + port, "/mcp"},
		"http://id.localhost:" + port2 + "/mcp":    {port2, "id.localhost:" + port2, "/mcp"},
		"http://inner.localhost:" + port:           {port, "inner.localhost:" + port, "/x"},
		"http://a.localhost:" + port3 + "/mcp":     {port3, "a.localhost:" + port3, "/mcp"},
		"http://b.localhost:" + port3 + "/mcp":     {port3, "b.localhost:" + port3, "/mcp"},
		"http://a.localhost.:" + port3 + "/mcp":    {port3, "a.localhost.:" + port3, "/mcp"},
		"http://[::1]:" + port3 + "/mcp":           {port3, "[::1]:" + port3, "/mcp"},
		"http://a.localhost:" + port3:              {port3, "a.localhost:" + port3, "/x"},
		"http://c.localhost:" + port3:              {port3, "c.localhost:" + port3, "/x"},
		"none":                                     {port3, "nowhere.example", "/mcp"}, // a site without a host
	}
	for resource := range places {
		if resource == "none" {
			continue
		}
		t.Run(resource, func(t *testing.T) {
			own := places[resource]
			_, header, _ := g.askAt(own.port, own.authority, own.target)
			named, ok := strings.CutPrefix(parameters(t, header)["resource_metadata"], "http://"+strings.ToLower(own.authority))
			if status, _, body := g.askAt(own.port, own.authority, named); !ok || status != http.StatusOK || member(t, body, "resource") != resource {
				t.Errorf("the challenge names %v: %d %s", header["Www-Authenticate"], status, body)
			}
			token := g.tokenForResources(t, resource)
			for other, place := range places {
				status, _, body := g.askAt(place.port, place.authority, place.target, bearer(token))
				if want := http.StatusOK; other == resource && status != want || other != resource && status != http.StatusUnauthorized {
					t.Errorf("at %s: %d %s", other, status, body)
				}
			}
			// The port is the site's, whatever the client writes into Host.
			for _, place := range places {
				if place.port == places[resource].port {
					continue
				}
				if status, _, body := g.askAt(place.port, places[resource].authority, places[resource].target, bearer(token)); status == http.StatusOK && body != "" {
					t.Errorf("at port %s: %d %s", place.port, status, body)
				}
			}
		})
	}
}

// TestV3ResourcesOfNoSite: a host that no site has, or a resource in another spelling → no metadata, and no token.
func TestV3ResourcesOfNoSite(t *testing.T) {
	g, port, _, port3 := startResourceSites(t)
	for name, authority := range map[string]string{"a site without a host": "nowhere.example:" + port3, "no host": "*.localhost:" + port, "two labels": "a.b.localhost:" + port} {
		t.Run(name, func(t *testing.T) {
			_, at, _ := net.SplitHostPort(authority)
			if status, _, body := g.askAt(at, authority, wellKnown+"/mcp"); strings.Contains(body, "authorization_servers") {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	for name, resource := range map[string]string{
		"a pattern": "http://*.localhost:" + port + "/mcp", "two labels": "http://a.b.localhost:" + port + "/mcp", "no label": "http://.localhost:" + port + "/mcp",
		"another port": "http://tenant.localhost:1/mcp", "another path": "http://tenant.localhost:" + port + "/other", "another scheme": "ftp://tenant.localhost:" + port + "/mcp",
		"a user": "http://u@tenant.localhost:" + port + "/mcp", "an escape": "http://%74enant.localhost:" + port + "/mcp", "a site without a host": "http://nowhere.example:" + port3 + "/mcp",
	} {
		t.Run(name, func(t *testing.T) {
			form := serverGrant()
			form["resource"] = []string{resource}
			if status, _, body := g.post("/oauth/token", form); status != http.StatusBadRequest || member(t, body, "error") != "invalid_target" {
				t.Errorf("%s: %d %s", resource, status, body)
			}
		})
	}
}

// TestV3EqualResourcesAreRefused: two sites that clients would reach by one URL → refused when loaded, both named.
func TestV3EqualResourcesAreRefused(t *testing.T) {
	g := startGate(t, siteWith("", gated("/mcp*", "mcp")))
	_, port, _ := net.SplitHostPort(freeAddr(t))
	site := func(address, settings string) string {
		return "\nhttp://" + address + " {\n\t" + settings + "\n\thandle /mcp* {\n\t\tprotect {\n\t\t\tmcp\n\t\t}\n\t\treverse_proxy UPSTREAM\n\t}\n}\n"
	}
	behindTLS := strings.Replace(siteWith("", ""), "issuer http://ADDR", "issuer https://id.localhost", 1)
	for name, test := range map[string]struct {
		caddyfile string
		refused   bool
	}{
		"one port of two addresses":       {siteWith("", "") + site("x.localhost:"+port, "bind 127.0.0.1") + site("x.localhost:"+port, "bind 127.0.0.2"), true},
		"a pattern of the other":          {siteWith("", "") + site("*.localhost:"+port, "bind 127.0.0.1") + site("x.localhost:"+port, "bind 127.0.0.2"), true},
		"the issuer's endpoints twice":    {behindTLS + site("id.localhost:TCPPORT", "oauth_server") + site("id.localhost:"+port, "oauth_server"), true},
		"the issuer's endpoints at one":   {behindTLS + site("id.localhost:TCPPORT", "oauth_server") + site("id.localhost:"+port, ""), false},
		"two ports":                       {siteWith("", "") + site("x.localhost:TCPPORT", "") + site("x.localhost:"+port, ""), false},
		"two gates of a site":             {siteWith("", gated("/mcp/*", "mcp")+gated("/MCP/x/*", "mcp")+gated("/mcp*", "mcp")), false},
		"a pattern beside it":             {siteWith("", "") + site("*.localhost:"+port, "") + site("x.localhost:"+port, ""), false},
		"both with a resource of its own": {siteWith("", gated("/a/*", "resource https://one.example")+gated("/b/*", "resource https://one.example")), false},
	} {
		t.Run(name, func(t *testing.T) {
			err := g.tryReload(test.caddyfile)
			if refused := err != nil; refused != test.refused {
				t.Fatalf("%v", err)
			}
			if err != nil && (strings.Count(err.Error(), "Caddyfile:") != 2 || !strings.Contains(err.Error(), "resource <url>")) {
				t.Errorf("%v", err)
			}
		})
	}
}
