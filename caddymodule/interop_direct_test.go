package caddymodule

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
)

// startDirectAtNode serves directSite with node oidc-provider as its provider.
func startDirectAtNode(t *testing.T, node *nodeProvider, changes ...string) *hostsGate {
	t.Helper()
	site := strings.NewReplacer(append([]string{"SIGNIN", atNode("corp", node, "create\ngroups claim realm_access.roles"), "MORE", ""}, changes...)...).Replace(directSite)
	g := &hostsGate{startGatehouse(t, site)}
	node.register(g.at("app", "/oauth/callback/corp"), g.at("wiki", "/oauth/callback/corp"))
	node.tell("start")
	return g
}

// walkAtNode opens a page and follows redirects. Where the provider asks for a sign-in, it signs in by that name. It
// returns the last answer and its URL.
func (v *visitorOfHosts) walkAtNode(node *nodeProvider, target, name string) (a answer, at string) {
	v.t.Helper()
	for range 12 {
		if strings.HasPrefix(target, node.issuer) {
			asked, err := url.Parse(target)
			check(v.t, err)
			back := asked.Query().Get("redirect_uri") + asked.Query().Get("post_logout_redirect_uri")
			target = newPerson(v.t, v.jar).comesBack(target, name, back).String()
		}
		if a = v.navigate(target); a.status != http.StatusSeeOther {
			return a, target
		}
		next, err := url.Parse(target)
		check(v.t, err)
		next, err = next.Parse(a.header.Get("Location"))
		check(v.t, err)
		target = next.String()
	}
	v.t.Fatalf("%s: round in circles", target)
	return a, target
}

// TestS136InteropDirect: node oidc-provider without an issuer: two hosts, groups, sign-out, another person, an outage → as with an
// issuer.
func TestS136InteropDirect(t *testing.T) {
	node := startNodeProvider(t)
	g := startDirectAtNode(t, node)
	v := g.visitor(t)
	g.eventually("the provider is known", func() bool { return v.navigate(g.at("app", "/")).status == http.StatusSeeOther })
	deep := g.at("app", "/deep/link%20x?q=1")
	if a, at := v.walkAtNode(node, deep, "grace"); a.status != http.StatusOK || at != deep {
		t.Fatalf("%d at %s: %s", a.status, at, a.body)
	}
	g.upstream.one(t).has(t, "X-Email", "grace@example.com").has(t, identity.Groups, "engineering,grace")
	if a, at := v.walkAtNode(node, g.at("wiki", "/"), "nobody is asked"); a.status != http.StatusOK || at != g.at("wiki", "/") {
		t.Errorf("the next host: %d at %s: %s", a.status, at, a.body)
	}
	node.tell("stop")
	if a := v.send(http.MethodGet, g.at("app", "/"), ""); a.status != http.StatusOK {
		t.Errorf("while it is away: %d", a.status)
	}
	node.tell("start")
	location := v.signsOut("app")
	if !strings.HasPrefix(location, node.issuer+"/session/end?") {
		t.Errorf("the sign-out leads to %s", location)
	}
	if a, at := v.walkAtNode(node, location, ""); a.status != http.StatusOK || at != g.at("app", "/oauth/sign_out") {
		t.Errorf("the sign-out ends at %s: %d %s", at, a.status, a.body)
	}
	v.holdOut("app", "app", "wiki")
	g.upstream.seen()
	if a, at := v.walkAtNode(node, g.at("app", "/"), "heidi"); a.status != http.StatusOK || at != g.at("app", "/") {
		t.Fatalf("somebody else: %d at %s: %s", a.status, at, a.body)
	}
	g.upstream.one(t).has(t, "X-Email", "heidi@example.com")
}
