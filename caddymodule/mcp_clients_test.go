package caddymodule

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestQ143ThreeLinesAdmitClients: a route with `mcp` and nothing else, an unknown client → a token for that server alone.
func TestQ143ThreeLinesAdmitClients(t *testing.T) {
	const agents = "\thandle /mcp* {\n\t\tprotect mcp:use {\n\t\t\tmcp\n\t\t\ttool add {\n\t\t\t\tscope mcp:write\n\t\t\t}\n\t\t}\n\t\treverse_proxy UPSTREAM\n\t}\n\thandle /pub/* {"
	const private = "password_grant\n\t\tscope mcp:write\n\t\tclient_metadata {\n\t\t\tallow_private_network\n\t\t}"
	d := newDescribing(t)
	describe := func(g *gatehouse) request {
		r := d.client("/agent.json", `"client_name":"Agent","redirect_uris":["https://agent.example/cb"]`, "https://agent.example/cb")
		r.scope, r.more = "mcp:use mcp:write offline_access", url.Values{"resource": {g.url + "/mcp/"}}
		return r
	}
	g := startPeople(t, "password_grant", private, "\thandle /pub/* {", agents)
	r, b := describe(g), g.browser()
	code := b.authorize(r, "ada@acme.example").location().Query().Get("code")
	got := g.obtain(r.exchange(code))
	if got.Scope != "mcp:use mcp:write" {
		t.Fatalf("scope %q, code %q", got.Scope, code)
	}
	for path, want := range map[string]int{"/mcp": http.StatusOK, "/mcp/": http.StatusOK, "/api/x": http.StatusUnauthorized} {
		if status, _, body := g.do("GET", path, "", "Authorization", "Bearer "+got.AccessToken); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, body, want)
		}
	}
	if _, _, body := g.do("GET", "/.well-known/oauth-authorization-server", ""); !strings.Contains(body, `"client_id_metadata_document_supported":true`) || !strings.Contains(body, `"mcp:write"`) {
		t.Errorf("metadata %s", body)
	}
	g.reload(peopleSite("password_grant", "password_grant\n\t\tscope mcp:write\n\t\tclient_metadata off", "\thandle /pub/* {", agents))
	if p := b.open(r.path()); p.status != http.StatusBadRequest && p.status != http.StatusUnauthorized {
		t.Errorf("off: %d %.300s", p.status, p.body)
	}
}
