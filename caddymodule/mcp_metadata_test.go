package caddymodule

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// These tests cover what a client discovers when it knows only the URL of a guarded route.

// metadataSites are sites without oauth_server next to the issuer's, all on one server. OTHER stands for directives
// in addition to their routes.
var metadataSites = `
http://one.localhost:TCPPORT {
` +
	gated("/tools/* public refresh_token offline_access", "require scope offline_access") +
	handled("handle", "reverse_proxy UPSTREAM") + `}
http://two.localhost:TCPPORT {
` +
	gated("/a/* orders.read") +
	gated("/b/* public") + `}
http://mixed.localhost:TCPPORT {
` +
	gated("/own/* public") +
	gated("", "issuer corp") + `}
http://below.localhost:TCPPORT {
` +
	gated("/corp/*", "issuer corp") +
	gated("/own/*") + `}
http://:TCPPORT {
	reverse_proxy UPSTREAM
}
`

// startMetadata serves these sites together with the issuer's.
func startMetadata(t *testing.T) (*gateway, *provider) {
	t.Helper()
	p := startProvider(t)
	g := startGate(t, strings.Replace(siteWith("", gated("/api/*")), "store memory\n", "store memory\n\t\ttrust corp "+p.url+" {\n\t\t\taudience http://ADDR\n\t\t\tallow_private_network\n\t\t}\n", 1)+metadataSites)
	g.awaitKeys()
	return g, p
}

// at sends a request for a host of the server.
func (g *gateway) at(host, method, target string, lines ...string) (int, http.Header, string) {
	g.t.Helper()
	_, port, _ := strings.Cut(g.addr, ":")
	return g.raw(method + " " + target + " HTTP/1.1\nHost: " + host + ":" + port + "\nConnection: close\n" + strings.Join(append(lines, "", ""), "\n"))
}

// document reads metadata.
func (g *gateway) document(t *testing.T, host, target string, lines ...string) resourceDocument {
	t.Helper()
	status, header, body := g.at(host, "GET", target, lines...)
	var found resourceDocument
	if err := json.Unmarshal([]byte(body), &found); err != nil || status != http.StatusOK || header.Get("Access-Control-Allow-Origin") != "*" {
		t.Fatalf("%s%s: %d %s %v", host, target, status, body, err)
	}
	return found
}

// TestQ1MetadataOfEveryGuardedSite: RFC 9728 metadata of a guarded path, with and without a slash, by HEAD, cross-origin → 200 with that
// very identifier; another method → 405.
func TestQ1MetadataOfEveryGuardedSite(t *testing.T) {
	g, _ := startMetadata(t)
	_, port, _ := strings.Cut(g.addr, ":")
	origin := "http://one.localhost:" + port
	status, header, _ := g.at("one.localhost", "POST", "/tools/x", "Content-Length: 0")
	if named := parameters(t, header)["resource_metadata"]; status != http.StatusUnauthorized || named != origin+wellKnown+"/tools" {
		t.Fatalf("%d, the challenge names %s", status, named)
	}
	for _, slash := range []string{"", "/"} {
		if found := g.document(t, "one.localhost", wellKnown+"/tools"+slash); found.Resource != origin+"/tools"+slash || !slices.Equal(found.Servers, []string{g.url}) {
			t.Errorf("%+v", found)
		}
	}
	if status, _, body := g.at("one.localhost", "HEAD", wellKnown+"/tools"); status != http.StatusOK || body != "" {
		t.Errorf("HEAD: %d %s", status, body)
	}
	status, header, _ = g.at("one.localhost", "OPTIONS", wellKnown+"/tools", "Origin: https://app.example", "Access-Control-Request-Method: GET", "Access-Control-Request-Headers: mcp-protocol-version")
	if status != http.StatusNoContent || header.Get("Access-Control-Allow-Origin") != "*" || !strings.Contains(header.Get("Access-Control-Allow-Headers"), "*") {
		t.Errorf("preflight: %d %v", status, header)
	}
	if status, header, _ := g.at("one.localhost", "POST", wellKnown+"/tools", "Content-Length: 0"); status != http.StatusMethodNotAllowed || header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d %v", status, header)
	}
	g.upstream.none(t)
	for _, other := range []struct{ host, target string }{
		{"elsewhere.example", wellKnown + "/tools"}, {"two.localhost", wellKnown + "/tools"}, {"one.localhost", wellKnown + "/nothing"}, {"one.localhost", wellKnown + "/%74ools"},
	} {
		if _, _, body := g.at(other.host, "GET", other.target); strings.Contains(body, "authorization_servers") {
			t.Errorf("%s%s: %s", other.host, other.target, body)
		}
	}
	if seen := g.upstream.seen(); len(seen) != 3 { // all but two.localhost, whose site has no handler there
		t.Errorf("the upstream saw %d", len(seen))
	}
}

// TestQ2Q3RootsOfHosts: the root metadata of a host with several guarded routes → all their issuers and scopes, never refresh_token or
// offline_access.
func TestQ2Q3RootsOfHosts(t *testing.T) {
	g, p := startMetadata(t)
	_, port, _ := strings.Cut(g.addr, ":")
	for host, want := range map[string]resourceDocument{
		"one.localhost":   {"http://one.localhost:" + port + "/tools", []string{g.url}, []string{"public"}, nil},
		"two.localhost":   {"http://two.localhost:" + port, []string{g.url}, []string{"orders.read", "public"}, nil},
		"mixed.localhost": {"http://mixed.localhost:" + port, []string{p.url, g.url}, nil, nil},
		"below.localhost": {"http://below.localhost:" + port, []string{p.url, g.url}, nil, nil},
		"127.0.0.1":       {g.url, []string{g.url}, []string{"public", "trusted", "groups", "orders.read"}, nil},
	} {
		t.Run(host, func(t *testing.T) {
			found := g.document(t, host, wellKnown)
			if found.Resource != want.Resource || !slices.Equal(found.Servers, want.Servers) || !slices.Equal(found.Scopes, want.Scopes) {
				t.Errorf("%+v, want %+v", found, want)
			}
		})
	}
	_, header, _ := g.at("one.localhost", "GET", "/tools/x")
	if scope := parameters(t, header)["scope"]; scope != "public" {
		t.Errorf("the challenge asks for %s", scope)
	}
}

// TestQ4BehindATLSTerminatingProxy: a plain-http site reached over TLS by a trusted proxy → https URLs in challenge and metadata, and
// tokens for them pass; claimed by others → http.
func TestQ4BehindATLSTerminatingProxy(t *testing.T) {
	g := startGate(t, siteWith("\t\ttrusted_proxies static 127.0.0.1/32", gated("/api/*"))+`
http://mcp.localhost:TCPPORT {
`+
		gated("/mcp*", "resource_required")+`}
`)
	_, port, _ := strings.Cut(g.addr, ":")
	const secure = "https://mcp.localhost"
	plain := "http://mcp.localhost:" + port
	for name, test := range map[string]struct{ said, origin string }{
		"over TLS": {"X-Forwarded-Proto: https", secure}, "over TLS, through two proxies": {"X-Forwarded-Proto: HTTPS, http", secure},
		"in plain HTTP": {"X-Forwarded-Proto: http", plain}, "of nothing": {"X-Other: 1", plain},
	} {
		t.Run(name, func(t *testing.T) {
			_, header, _ := g.at("mcp.localhost", "POST", "/mcp", test.said, "Content-Length: 0")
			if named := parameters(t, header)["resource_metadata"]; named != test.origin+wellKnown {
				t.Errorf("the challenge names %s", named)
			}
			found := g.document(t, "mcp.localhost", wellKnown, test.said)
			if found.Resource != test.origin {
				t.Errorf("%+v", found)
			}
			token := g.tokenForResources(t, found.Resource)
			answerOf(g.at("mcp.localhost", "POST", "/mcp", test.said, "Content-Length: 0", bearer(token))).is(t, http.StatusOK)
		})
	}
	_, otherPort, _ := strings.Cut(freeAddr(t), ":")
	const behind = " {\n\tprotect\n\treverse_proxy UPSTREAM\n}\n"
	for name, caddyfile := range map[string]string{
		"of a proxy that nobody trusts": siteWith("", gated("/api/*")) + "\nhttp://mcp.localhost:TCPPORT" + behind,
		"two sites with one name": siteWith("\t\ttrusted_proxies static 127.0.0.1/32", gated("/api/*")) + "\nhttp://mcp.localhost:TCPPORT" + behind +
			"http://mcp.localhost:" + otherPort + behind,
	} {
		g.reload(caddyfile)
		_, header, _ := g.at("mcp.localhost", "GET", "/", "X-Forwarded-Proto: https")
		if named := parameters(t, header)["resource_metadata"]; !strings.HasPrefix(named, plain) {
			t.Errorf("%s: the challenge names %s", name, named)
		}
	}
}
