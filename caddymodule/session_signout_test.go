package caddymodule

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestT96ASignOutLeavesWhatMayStaySignedIn: an application that may stay signed in, as the consent page said, does so
// until the user ends it or the user is ended.
func TestT96ASignOutLeavesWhatMayStaySignedIn(t *testing.T) {
	g := startPeople(t)
	granted := func(b *browser, scope, email string, unticked ...string) (request, tokens) {
		t.Helper()
		r := requestOf("conf")
		r.scope = scope
		b.signIn(b.open("/oauth/login"), email, peoplePassword)
		action, fields := formIn(t, b.consentFor(t, r))
		fields.Set("decision", "allow")
		for _, box := range unticked {
			fields.Del(box)
		}
		return r, g.obtain(r.exchange(b.send(action, fields).location().Query().Get("code")))
	}
	for i, c := range []struct {
		scope, unticked string
		stays           bool
	}{
		{"trusted refresh_token", "", true}, {"trusted offline_access", "", true}, {"trusted public", "", false}, {"trusted offline_access", "scope_1", false},
	} {
		email := fmt.Sprintf("p%d@acme.example", i)
		g.addUser(email, "acme", store.RoleMember)
		b, elsewhere := g.browser(), g.browser()
		r, here := granted(b, c.scope, email, c.unticked)
		_, there := granted(elsewhere, c.scope, email, c.unticked)
		typed := nobodysClient.asPassword(email, peoplePassword) // a password that an application has typed in
		typed.Set("scope", "trusted")
		byPassword := g.obtain(typed)
		if page := b.open("/oauth/logout"); !strings.Contains(page.body, "allowed to stay signed in") {
			t.Errorf("the page does not say so: %s", page.body)
		}
		b.signOut()
		if b.isSignedIn() || g.alive(byPassword.AccessToken) {
			t.Errorf("%+v: still signed in", c)
		}
		for _, got := range []tokens{here, there} {
			if g.alive(got.AccessToken) != c.stays {
				t.Errorf("%+v: the access token is alive: %t", c, !c.stays)
			}
			if c.stays {
				g.obtain(r.refresh(got.RefreshToken))
			} else if got.RefreshToken != "" {
				g.refused(r.refresh(got.RefreshToken), http.StatusBadRequest, "invalid_grant")
			}
		}
	}
	for name, end := range map[string]func(b *browser, id string){
		"everywhere": func(b *browser, _ string) { b.change("everywhere", "yes") },
		"its-access": func(b *browser, _ string) { b.change("application", "conf") },
		"revoked":    func(_ *browser, id string) { check(t, g.endings()["revoked"](id)) },
	} {
		t.Run(name, func(t *testing.T) {
			email := name + "@acme.example"
			id := g.addUser(email, "acme", store.RoleMember)
			b := g.browser()
			r, got := granted(b, "trusted offline_access", email)
			b.signOut()
			if !g.alive(got.AccessToken) {
				t.Fatal("it has ended with the session")
			}
			end(g.signedIn(email), id)
			if g.alive(got.AccessToken) {
				t.Error("it lives on")
			}
			g.refused(r.refresh(got.RefreshToken), http.StatusBadRequest, "invalid_grant")
		})
	}
}
