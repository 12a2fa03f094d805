package caddymodule

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestP150ANameIsGivenToAnotherProvider: a provider's name given to another while accounts are stored by it → the
// configuration is refused; with `formerly` → the same people. A renaming keeps all accounts, and without accounts
// the name is free.
func TestP150ANameIsGivenToAnotherProvider(t *testing.T) {
	before, after := newLyingProvider(t), newLyingProvider(t)
	before.says(map[string]any{"sub": "1", "email": "eve@corp.example", "email_verified": true})
	after.says(map[string]any{"sub": "1", "email": "mallory@evil.example", "email_verified": true})
	g := startProviders(t, atProvider("corp", before, "create"))
	site := func(signIn string) string {
		return peopleSite("store memory", "store memory\nsign_in {\n"+signIn+"\n}")
	}
	g.browser().signsInAt(t, "corp", before)
	stored := g.app().node.Store()
	owner := func() store.Identity {
		t.Helper()
		identity, err := stored.Identities.UserByIdentity(t.Context(), "corp", "1")
		check(t, err)
		return identity
	}
	eve := owner()
	if eve.Source != "openid "+before.URL {
		t.Errorf("linked at %q", eve.Source)
	}
	other := g.addUser("other@corp.example", "acme", store.RoleMember) // who does not sign in after the renaming
	check(t, stored.Identities.LinkIdentity(t.Context(), store.Identity{Provider: "corp", Subject: "2", UserID: other, Source: eve.Source}))

	for name, c := range map[string]struct{ signIn, want string }{
		"another issuer":       {atProvider("corp", after, "create"), "or write `formerly " + before.URL + "` into it"},
		"another kind":         {"github corp " + after.URL + " {\nclient gw 0123456789\nallow_private_network\ncreate\n}", "give it another name; "},
		"moved from elsewhere": {atProvider("corp", after, "create\nformerly https://elsewhere.example"), "or write `formerly " + before.URL + "` into it"},
	} {
		err := g.tryReload(site(c.signIn))
		if err == nil || !strings.Contains(err.Error(), "provider corp: people have signed in by this name at another provider, openid "+before.URL) ||
			!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), ", at Caddyfile:") {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := g.browser()
	b.signsInAt(t, "corp", before)
	b.holdSignedInAs(t, "eve@corp.example")

	g.reload(site(atProvider("corp", after, "create\nformerly https://older.example "+before.URL)))
	b = g.browser()
	b.signsInAt(t, "corp", after)
	b.holdSignedInAs(t, "mallory@evil.example") // the operator says that it is the same person
	if moved := owner(); moved.UserID != eve.UserID || moved.Source != "openid "+after.URL || !moved.LinkedAt.Equal(eve.LinkedAt) {
		t.Errorf("moved: %+v", moved)
	}
	if err := g.tryReload(site(atProvider("corp", after, "create"))); err == nil || !strings.Contains(err.Error(), before.URL) {
		t.Errorf("formerly was taken away while %s has accounts: %v", before.URL, err)
	}
	g.ok("user", "update", eve.UserID, "--identities", "unlink")
	g.ok("user", "update", other, "--identities", "unlink")
	before.says(map[string]any{"sub": "1", "email": "zoe@corp.example", "email_verified": true})
	g.reload(site(atProvider("corp", before, "create")))
	b = g.browser()
	b.signsInAt(t, "corp", before)
	b.holdSignedInAs(t, "zoe@corp.example")
	if zoe := owner(); zoe.UserID == eve.UserID {
		t.Error("somebody else's user")
	}
	if err := g.tryReload(site(atProvider("corp", before, "formerly {env.HOME}"))); err == nil || !strings.Contains(err.Error(), `formerly "{env.HOME}": write the URL out, at Caddyfile:`) {
		t.Errorf("a placeholder: %v", err)
	}
	if a := b.open("/oauth/account"); a.status != http.StatusOK {
		t.Errorf("%d", a.status)
	}
}
