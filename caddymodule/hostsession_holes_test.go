package caddymodule

import (
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestS115AGateBehindAGate: a gate with `challenge browser` behind another → its requests pass by the outer session; a sibling's POST →
// refused.
func TestS115AGateBehindAGate(t *testing.T) {
	const inner = "protect {\n\t\tchallenge browser\n\t\trequire group engineering\n\t}\n\treverse_proxy UPSTREAM\n"
	// Without an access log: Caddy counts the body for it while reverse_proxy may still read the body, which is a data race.
	const outer = "log_skip\n\tprotect {\n\t\tchallenge browser\n\t}\n"
	g := startHosts(t, "http://wiki.localhost:TCPPORT {", "http://both.localhost:TCPPORT {\n\t"+outer+"\troute /in/* {\n\t"+inner+"}\n\trespond outer\n}\n"+
		"http://open.localhost:TCPPORT {\n\tlog_skip\n\tprotect {\n\t\toptional\n\t\tchallenge browser\n\t}\n\troute /in/* {\n\t"+inner+"}\n}\nhttp://wiki.localhost:TCPPORT {")
	for _, host := range []string{"both", "open"} {
		ada, ben := g.visitor(t), g.visitor(t)
		if a, at := ada.walk(g.at(host, "/in/x"), "ada@acme.example"); a.status != http.StatusOK || at != g.at(host, "/in/x") {
			t.Fatalf("%s: %d at %s: %s", host, a.status, at, a.body)
		}
		g.upstream.one(t).has(t, "Cookie").has(t, "X-Auth-Subject", "u-ada")
		if a, at := ben.walk(g.at(host, "/in/x"), "ben@acme.example"); a.status != http.StatusForbidden || at != g.at(host, "/in/x") {
			t.Errorf("%s: who may not: %d at %s", host, a.status, at)
		}
		for name, headers := range map[string][]string{"of a sibling": {"Sec-Fetch-Site", "same-site"}, "of nobody": {"X-A", "b"}} {
			if a := ada.send(http.MethodPost, g.at(host, "/in/x"), "a=b", headers...); a.status != http.StatusForbidden && a.status != http.StatusUnauthorized {
				t.Errorf("%s: a POST %s: %d", host, name, a.status)
			}
		}
		if a := g.visitor(t).send(http.MethodGet, g.at(host, "/in/x"), ""); a.status != http.StatusUnauthorized {
			t.Errorf("%s: without a session: %d", host, a.status)
		}
		g.upstream.none(t)
		if a := ada.send(http.MethodPost, g.at(host, "/in/x"), "a=b", "Sec-Fetch-Site", "same-origin"); a.status != http.StatusOK {
			t.Errorf("%s: a POST of its own page: %d", host, a.status)
		}
		g.upstream.one(t)
	}
}

// TestS116AudiencesOfASession: `challenge browser` with foreign audiences → refused at load; with `resource_required` a session passes. A
// session belongs to its host and therefore to the route's resource.
func TestS116AudiencesOfASession(t *testing.T) {
	emptyHome(t)
	for name, c := range map[string]struct{ options, want string }{
		"another audience":    {"audience https://stock.internal", "the session of a browser is for none of the audiences of this route"},
		"the issuer's too":    {"audience https://stock.internal http://localhost:1", ""},
		"resource_required":   {"resource_required", ""},
		"no browser signs in": {"audience https://stock.internal\nchallenge api", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(c.options, "challenge") {
				c.options += "\nchallenge browser"
			}
			config, err := adapt("{\nadmin off\noauth {\nissuer http://localhost:1\n}\n}\nhttp://localhost:1 {\noauth_server\nprotect {\n" + c.options + "\n}\nrespond 204\n}\n")
			check(t, err)
			err = validateJSON(t, config)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	g := startHosts(t, "handle /pages/* {\n\t\tprotect {", "handle /pages/* {\n\t\tprotect {\n\t\t\tresource_required")
	v := g.signedIn(t, "ada@acme.example")
	if a, at := v.walk(g.at("wiki", "/pages/1"), ""); a.status != http.StatusOK {
		t.Errorf("a session: %d at %s", a.status, at)
	}
	if a := g.visitor(t).send(http.MethodGet, g.at("wiki", "/pages/1"), "", "Authorization", "Bearer "+v.cookie("auth", "accessToken")); a.status != http.StatusUnauthorized {
		t.Errorf("a token for the issuer's audience: %d", a.status)
	}
}

// TestS117TheIssuersHostAtAnotherPort: a site at the issuer's hostname and another port → browsers come back to that origin.
func TestS117TheIssuersHostAtAnotherPort(t *testing.T) {
	addr := freeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	other := "http://auth.localhost:" + port
	g := startHosts(t, "http://wiki.localhost:TCPPORT {", other+" {\n\tprotect {\n\t\tchallenge browser\n\t}\n\treverse_proxy UPSTREAM\n}\nhttp://wiki.localhost:TCPPORT {")
	if a, at := g.visitor(t).walk(other+"/x?y", "ada@acme.example"); a.status != http.StatusOK || at != other+"/x?y" {
		t.Errorf("%d at %s: %s", a.status, at, a.body)
	}
	g.upstream.one(t).has(t, "X-Auth-Subject", "u-ada")
	g.signedIn(t, "ada@acme.example")
}

// TestS118ARevocationInTheMiddleOfACallback: the user revoked between answer and callback → no session, a new sign-in.
func TestS118ARevocationInTheMiddleOfACallback(t *testing.T) {
	g := startHosts(t)
	for name, revoke := range map[string]func(){
		"the user's tokens":  func() { g.ok("token", "revoke", "--user", "ada@acme.example") },
		"the organisation's": func() { g.must(http.StatusNoContent, "POST", "/oauth/revocations", `{"organisation":"acme"}`) },
	} {
		t.Run(name, func(t *testing.T) {
			v := g.signedIn(t, "ada@acme.example")
			callback := v.begun("wiki", "/pages/1")
			revoke()
			if a, at := v.walk(callback.String(), ""); !strings.Contains(a.body, `name="password"`) || !strings.HasPrefix(at, g.origin("auth")) || v.cookie("wiki", hostCookie) != "" {
				t.Errorf("%d at %s", a.status, at)
			}
			g.upstream.none(t)
			if a, at := v.walk(g.at("wiki", "/pages/1"), "ada@acme.example"); a.status != http.StatusOK || at != g.at("wiki", "/pages/1") {
				t.Errorf("signing in again: %d at %s", a.status, at)
			}
			g.upstream.seen()
		})
	}
}
