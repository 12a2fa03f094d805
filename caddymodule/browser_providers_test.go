package caddymodule

import (
	"cmp"
	"maps"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// saysWho is an application whose page shows its address and the signed-in user.
const saysWho = "header Content-Type text/html\nrespond `" + `<!DOCTYPE html><html lang="en"><link rel="icon" href="data:,"><title>Application</title>` +
	"<h1>{http.request.orig_uri} for {http.auth.user.email}</h1></html>`"

// runBrowser runs a script in Chromium. Pictures of the pages are saved in the directory that GATEHOUSE_SCREENSHOTS names, if set.
func (g *hostsGate) runBrowser(t *testing.T, script, callback string, given map[string]any) {
	t.Helper()
	pictures, err := filepath.Abs(cmp.Or(os.Getenv("GATEHOUSE_SCREENSHOTS"), t.TempDir()))
	check(t, err)
	_, port, _ := net.SplitHostPort(callback)
	all := map[string]any{
		"callback": "http://localhost:" + port + "/callback", "chromium": chromium(t), "screenshots": pictures, "pictures": os.Getenv("GATEHOUSE_SCREENSHOTS") != "",
		"applications": map[string]string{"app": g.origin("app"), "wiki": g.origin("wiki")},
	}
	maps.Copy(all, given)
	runScript(t, script, all)
}

// TestS137BrowserWithoutAnIssuer: Chromium without an issuer: deep links, tabs, a cancelled sign-in, sign-out by keyboard, in English and
// German → back at the page, accessible pages.
func TestS137BrowserWithoutAnIssuer(t *testing.T) {
	node, callback := startNodeProvider(t), freeAddr(t)
	g := startDirectAtNode(t, node, "\treverse_proxy UPSTREAM\n\t}\n", saysWho+"\n}\n", "challenge browser corp\n", "challenge browser corp\nrequire /heidi/* user heidi@example.com\n")
	g.runBrowser(t, "browser-direct.mjs", callback, map[string]any{"issuer": g.origin("app"), "providers": []string{node.issuer}})
}

// TestS138BrowserProviders: Chromium at a sign-in page with a password and two providers, one of them down → the others work, also without
// script.
func TestS138BrowserProviders(t *testing.T) {
	node, callback := startNodeProvider(t), freeAddr(t)
	away := "provider partner http://" + freeAddr(t) + " {\ntitle \"Partner & Söhne\"\nclient gw 0123456789\nallow_private_network\ncreate\n}\n"
	g := startHosts(t, "organisation acme \"Acme Ltd\"", "sign_in {\npassword\n"+atNode("corp", node, "create")+away+"}\norganisation acme \"Acme Ltd\"",
		"reverse_proxy UPSTREAM", saysWho)
	node.register(g.at("auth", "/oauth/callback/corp"))
	node.tell("start")
	g.runBrowser(t, "browser-providers.mjs", callback, map[string]any{
		"issuer": g.origin("auth"), "providers": []string{node.issuer}, "ada": map[string]string{"email": "ada@acme.example", "password": peoplePassword},
	})
}
