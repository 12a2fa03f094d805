package caddymodule

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestT96ASignOutLeavesWhatMayStaySignedIn: an application that may stay signed in, as the consent page said, does so
// until the user ends it or the user is ended.
func TestT96ASignOutLeavesWhatMayStaySignedIn(t *testing.T) {
	g := startPeople(t)
	who := func(name string) string {
		email := name + "@acme.example"
		g.addUser(email, "acme", store.RoleMember)
		return email
	}
	with := func(scope string) request {
		r := requestOf("conf")
		r.scope = scope
		return r
	}
	granted := func(b *browser, r request, email string) tokens {
		return g.obtain(r.exchange(b.authorize(r, email).location().Query().Get("code")))
	}
	for name, c := range map[string]struct {
		scope string
		stays bool
	}{
		"refresh_token": {"trusted refresh_token", true}, "offline_access": {"trusted offline_access", true}, "both": {"trusted refresh_token offline_access", true},
		"none, but a refresh token": {"trusted public", false},
	} {
		t.Run(name, func(t *testing.T) {
			email := who(strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), ",", ""))
			b, elsewhere := g.browser(), g.browser()
			here, there := granted(b, with(c.scope), email), granted(elsewhere, with(c.scope), email)
			page := b.open("/oauth/logout")
			if !strings.Contains(page.body, "allowed to stay signed in") {
				t.Errorf("the page does not say so: %s", page.body)
			}
			b.signOut()
			if b.isSignedIn() {
				t.Fatal("still signed in")
			}
			for _, got := range []tokens{here, there} {
				if g.alive(got.AccessToken) != c.stays {
					t.Errorf("the access token is alive: %t", !c.stays)
				}
				if !c.stays {
					g.refused(with(c.scope).refresh(got.RefreshToken), http.StatusBadRequest, "invalid_grant")
					continue
				}
				g.obtain(with(c.scope).refresh(got.RefreshToken))
			}
		})
	}
	t.Run("unticked", func(t *testing.T) {
		email := who("unticked")
		b := g.browser()
		r := with("trusted offline_access")
		p := b.signIn(b.open(r.path()), email, peoplePassword)
		p = b.follow(p)
		action, fields := formIn(t, p)
		fields.Del("scope_1")
		fields.Set("decision", "allow")
		got := g.obtain(r.exchange(b.send(action, fields).location().Query().Get("code")))
		b.signOut()
		if g.alive(got.AccessToken) {
			t.Errorf("what the user has taken out counts: %s", got.Scope)
		}
	})
	t.Run("a password that an application has typed in", func(t *testing.T) {
		email := who("typed")
		b := g.signedIn(email)
		form := nobodysClient.asPassword(email, peoplePassword)
		form.Set("scope", "trusted")
		got := g.obtain(form)
		b.signOut()
		if g.alive(got.AccessToken) {
			t.Error("it lives on")
		}
	})
	ends := map[string]func(b *browser, id string) error{
		"everywhere": func(b *browser, _ string) error { b.change("everywhere", "yes"); return nil },
		"its-access": func(b *browser, _ string) error { b.change("application", "conf"); return nil },
		"revoked":    func(_ *browser, id string) error { return g.endings()["revoked"](id) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			email := name + "@acme.example"
			id := g.addUser(email, "acme", store.RoleMember)
			b := g.browser()
			got := granted(b, with("trusted offline_access"), email)
			b.signOut()
			if !g.alive(got.AccessToken) {
				t.Fatal("it has ended with the session")
			}
			b = g.signedIn(email)
			check(t, end(b, id))
			if g.alive(got.AccessToken) {
				t.Error("it lives on")
			}
			g.refused(with("").refresh(got.RefreshToken), http.StatusBadRequest, "invalid_grant")
		})
	}
}
