package caddymodule

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// atNode is a line block of `sign_in` for node oidc-provider.
func atNode(name string, p *nodeProvider, lines string) string {
	return "provider " + name + " " + p.issuer + " {\nclient " + nodeClient + " \"" + nodeSecret + "\"\nscopes openid email profile roles\nallow_private_network\n" +
		lines + "\n}\n"
}

// startWithNode serves people who also sign in at node oidc-provider.
func startWithNode(t *testing.T, lines string) (*gatehouse, *nodeProvider) {
	t.Helper()
	node := startNodeProvider(t)
	g := startProviders(t, "password\n"+atNode("corp", node, lines))
	node.register(g.url + "/oauth/callback/corp")
	node.tell("start")
	return g, node
}

// atNode goes where a browser is sent, signs in there by that name, and returns our answer to the callback.
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

// userNamed returns the user with an address; nil: there is none.
func (g *gatehouse) userNamed(t *testing.T, email string) *store.User {
	t.Helper()
	user, err := g.app().node.Store().UserByEmail(t.Context(), email)
	if err != nil {
		return nil
	}
	return user
}

// TestP24InteropSignInAtAProvider: a first sign-in with `create` → a user; the second → the same; a verified address of an existing user
// → linked; unverified → refused.
func TestP24InteropSignInAtAProvider(t *testing.T) {
	g, _ := startWithNode(t, "link verified_email\ngroups claim realm_access.roles\ncreate organisation acme role admin")
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
}

// TestP25InteropTwoProviders: two providers: the answer of one at the other's callback, with or without `iss` → refused; the same name at
// both → two people.
func TestP25InteropTwoProviders(t *testing.T) {
	corp, partner := startNodeProvider(t), startNodeProvider(t)
	g := startProviders(t, atNode("corp", corp, "create")+atNode("partner", partner, "create"))
	for name, p := range map[string]*nodeProvider{"corp": corp, "partner": partner} {
		p.register(g.url + "/oauth/callback/" + name)
		p.tell("start")
	}
	begins := func(b *browser, name string) string {
		return newPerson(t, b.jar).comesBack(b.chooses(t, b.open("/oauth/login?switch=1"), name).header.Get("Location"), "grace", g.url+"/oauth/callback/").String()
	}
	for name, change := range map[string]func(string) string{
		"at the other's callback": func(s string) string { return strings.Replace(s, "/callback/corp", "/callback/partner", 1) },
		"with the other's iss": func(s string) string {
			return strings.Replace(s, strings.TrimPrefix(corp.issuer, "http://127.0.0.1:"), strings.TrimPrefix(partner.issuer, "http://127.0.0.1:"), 1)
		},
		"without iss": func(s string) string { return strings.Replace(s, "iss=", "x=", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			b := g.browser()
			own := begins(b, "corp")
			if change(own) == own {
				t.Fatalf("nothing to change in %s", own)
			}
			b.holdBack(t, b.open(change(own)), "provider_failed", "The sign-in at ")
		})
	}
	// The same name at both is not the same person.
	b := g.browser()
	b.open(begins(b, "corp"))
	b.holdSignedInAs(t, "grace@example.com")
	b = g.browser()
	b.holdBack(t, b.open(begins(b, "partner")), "provider_refused", "partner")

	// A state is good for one sign-in.
	b = g.browser()
	own := begins(b, "corp")
	b.open(own)
	b.signOut()
	if p := b.open(own); b.cookie("session") != "" || p.status != http.StatusSeeOther {
		t.Errorf("replayed: %d", p.status)
	}
}

// TestP26InteropProviderAway: a provider away at the start, slow or away later → said on the page, which offers the others; it comes back
// without a restart.
func TestP26InteropProviderAway(t *testing.T) {
	began := time.Now()
	node := startNodeProvider(t)
	g := startProviders(t, "password\n"+atNode("corp", node, "create"))
	node.register(g.url + "/oauth/callback/corp")
	password := func() {
		t.Helper()
		start := time.Now()
		b := g.browser()
		b.signIn(b.open("/oauth/login"), "ada@acme.example", peoplePassword)
		b.holdSignedInAs(t, "ada@acme.example")
		if took := time.Since(start); took > patience/2 {
			t.Errorf("a password took %s", took)
		}
	}
	password()
	b := g.browser()
	b.holdBack(t, b.chooses(t, b.open("/oauth/login?switch=1"), "corp"), "provider_unavailable", "does not answer")
	t.Logf("%s until the first refusal", time.Since(began))

	node.tell("start")
	g.eventually("the provider is noticed", func() bool {
		return b.chooses(t, b.open("/oauth/login?switch=1"), "corp").header.Get("Location")[:4] == "http"
	})
	b.signsInAtNode(t, "grace")
	b.holdSignedInAs(t, "grace@example.com")

	c := g.browser()
	callback := newPerson(t, c.jar).comesBack(c.chooses(t, c.open("/oauth/login?switch=1"), "corp").header.Get("Location"), "heidi", g.url+"/oauth/callback/").String()
	node.tell("slow")
	waits := make(chan page, 1)
	go func() { waits <- c.open(callback) }()
	password()
	c.holdBack(t, <-waits, "provider_unavailable", "does not answer")
	node.tell("stop")
	b.holdSignedInAs(t, "grace@example.com") // who is signed in stays so
	password()
	node.tell("truth")
	node.tell("start")
	c.signsInAtNode(t, "heidi")
	c.holdSignedInAs(t, "heidi@example.com")
}

// TestP27InteropSignOutAtTheProvider: sign-out of a provider's user → through the provider's sign-out and back; the next sign-in asks who
// it is.
func TestP27InteropSignOutAtTheProvider(t *testing.T) {
	g, node := startWithNode(t, "create")
	b := g.browser()
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
	// The provider asks again who it is.
	next := b.chooses(t, b.open("/oauth/login?switch=1"), "corp").header.Get("Location")
	if came := b.open(visitor.comesBack(next, "heidi", g.url+"/oauth/callback/").String()); came.status != http.StatusSeeOther {
		t.Errorf("%d", came.status)
	}
	b.holdSignedInAs(t, "heidi@example.com")
}
