package caddymodule

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// atNode returns a line block of `sign_in` for node oidc-provider.
func atNode(name string, p *nodeProvider, lines string) string {
	return "provider " + name + " " + p.issuer + " {\nclient " + nodeClient + " \"" + nodeSecret + "\"\nscopes openid email profile roles\nallow_private_network\n" +
		lines + "\n}\n"
}

// startWithNode serves people who can also sign in at node oidc-provider.
func startWithNode(t *testing.T, lines string) (*gatehouse, *nodeProvider) {
	t.Helper()
	node := startNodeProvider(t)
	g := startProviders(t, "password\n"+atNode("corp", node, lines))
	node.register(g.url + "/oauth/callback/corp")
	node.tell("start")
	return g, node
}

// atNode follows a redirect, signs in there by that name, and returns our answer to the callback.
func (b *browser) atNode(t *testing.T, p page, name string) page {
	t.Helper()
	location := p.header.Get("Location")
	if p.status != http.StatusSeeOther || !strings.Contains(location, "/auth?") {
		t.Fatalf("%d to %q and not to the provider: %s", p.status, location, p.body)
	}
	return b.open(newPerson(t, b.jar).comesBack(location, name, b.url+"/oauth/callback/").String())
}

// signsInAtNode signs in from the plain sign-in page.
func (b *browser) signsInAtNode(t *testing.T, name string) page {
	t.Helper()
	return b.atNode(t, b.chooses(t, b.open("/oauth/login?switch=1"), "corp"), name)
}

// userNamed returns the user with an address, or nil.
func (g *gatehouse) userNamed(t *testing.T, email string) *store.User {
	t.Helper()
	user, err := g.app().node.Store().Users.UserByEmail(t.Context(), email)
	if err != nil {
		return nil
	}
	return user
}

// TestP24P27InteropSignInAtAProvider: a first sign-in with `create` → a user; the second → the same; a verified address of an existing user
// → linked; unverified → refused; a sign-out → through the provider's sign-out and back, and the next sign-in asks who it is.
func TestP24P27InteropSignInAtAProvider(t *testing.T) {
	g, node := startWithNode(t, "link verified_email\ngroups claim realm_access.roles\ncreate organisation acme role admin")
	linda := g.addUser("linda@example.com", "acme", store.RoleMember)

	b := g.browser()
	b.signsInAtNode(t, "grace")
	b.holdSignedInAs(t, "grace@example.com")
	created := g.userNamed(t, "grace@example.com")
	if created == nil || created.Organisation != "acme" || created.Role != store.RoleAdmin || strings.Join(created.AllGroups(), " ") != "engineering grace" {
		t.Fatalf("created %+v", created)
	}
	again := g.browser()
	again.signsInAtNode(t, "grace")
	again.holdSignedInAs(t, "grace@example.com")
	if found := g.userNamed(t, "grace@example.com"); found == nil || found.ID != created.ID {
		t.Errorf("found %+v", found)
	}
	r := requestOf("first")
	c := g.browser()
	c.codeToClient(t, c.atNode(t, c.chooses(t, c.open(r.path()), "corp"), "grace"), r)

	b = g.browser()
	b.signsInAtNode(t, "linda")
	b.holdSignedInAs(t, "linda@example.com")
	if found := g.userNamed(t, "linda@example.com"); found.ID != linda || !found.External {
		t.Errorf("linked %+v", found)
	}
	g.addUser("unverified-victim@example.com", "acme", store.RoleAdmin)
	b = g.browser()
	b.holdBack(t, b.signsInAtNode(t, "unverified-victim"), "provider_refused", "corp")

	b = g.browser()
	b.signsInAtNode(t, "grace")
	b.holdSignedInAs(t, "grace@example.com")
	p := b.signOut()
	location := p.header.Get("Location")
	if p.status != http.StatusSeeOther || !strings.HasPrefix(location, node.issuer+"/session/end?") || b.cookie("session") != "" {
		t.Fatalf("%d %q", p.status, location)
	}
	visitor := newPerson(t, b.jar)
	back := visitor.comesBack(location, "grace", g.url+"/oauth/callback/")
	if p = b.open(back.String()); p.status != http.StatusSeeOther || strings.Contains(p.header.Get("Location"), "failed") {
		t.Errorf("back at %s: %d %q", back, p.status, p.header.Get("Location"))
	}
	// The provider asks again for the account.
	next := b.chooses(t, b.open("/oauth/login?switch=1"), "corp").header.Get("Location")
	if came := b.open(visitor.comesBack(next, "heidi", g.url+"/oauth/callback/").String()); came.status != http.StatusSeeOther {
		t.Errorf("%d", came.status)
	}
	b.holdSignedInAs(t, "heidi@example.com")
}
