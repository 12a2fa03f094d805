package caddymodule

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestF31PeopleAreAuditedOnce: each decision of the pages leaves one line, with user, reason and no credential, nor a password that was
// typed into the field for the address. Pages that are only displayed leave none.
func TestF31PeopleAreAuditedOnce(t *testing.T) {
	g := startPeople(t)
	d := &door{gatehouse: g}
	b := g.browser()
	conf := requestOf("conf")
	var signIn, consent page
	for _, c := range []struct {
		name string
		do   func() page
		want map[string]any // nil: no line
	}{
		{"a sign-in page", func() page { signIn = b.open(conf.path()); return signIn }, nil},
		{"a wrong password", func() page { signIn = b.signIn(signIn, " Ada@acme.example", "wrong"); return signIn },
			map[string]any{"msg": "sign-in refused", "reason": "sign_in_failed", "account": "ada@acme.example", "address": "127.0.0.1"}},
		{"the password where the address belongs", func() page { signIn = b.signIn(signIn, peoplePassword, "x"); return signIn },
			map[string]any{"msg": "sign-in refused", "account": nil}},
		{"a password that looks like an address", func() page { signIn = b.signIn(signIn, "Hunter2@Summer-2026!", "x"); return signIn },
			map[string]any{"msg": "sign-in refused", "account": nil}},
		{"a forged form", func() page { return b.send("/oauth/login", url.Values{"email": {"ada@acme.example"}}) },
			map[string]any{"reason": "form_forged", "path": "/oauth/login", "method": "POST"}},
		{"a sign-in", func() page { p := b.signIn(signIn, "ada@acme.example", peoplePassword); consent = p; return p },
			map[string]any{"msg": "signed in", "subject": "u-ada", "account": nil}},
		{"a consent page", func() page { consent = b.open(consent.header.Get("Location")); return consent }, nil},
		{"a decision", func() page { return b.decide(consent, "allow") },
			map[string]any{"msg": "authorization granted", "subject": "u-ada", "client_id": "conf", "scope": "trusted public"}},
		{"the same again", func() page { return b.decide(consent, "allow") }, map[string]any{"reason": "request_decided"}},
		{"a denial", func() page { return b.decide(b.consentFor(t, conf), "deny") }, map[string]any{"reason": "denied_by_user", "client_id": "conf"}},
		{"no consent page", func() page { return b.open(conf.path()) }, map[string]any{"msg": "authorization granted", "subject": "u-ada"}},
		{"a decision about less", func() page {
			action, fields := formIn(t, b.consentFor(t, conf))
			fields.Del("scope_0")
			fields.Set("decision", "allow")
			return b.send(action, fields)
		}, map[string]any{"msg": "authorization granted", "scope": "public"}},
		{"an error for the client", func() page { return b.ask(conf.with("response_type", "token")) },
			map[string]any{"reason": "response_type_unknown", "client_id": "conf"}},
		{"an error for a page", func() page { return b.ask(conf.with("redirect_uri", "https://evil.tld/")) },
			map[string]any{"reason": "redirect_uri_unregistered", "client_id": "conf", "path": "/oauth/authorize"}},
		{"a client that is none", func() page { return b.ask(conf.with("client_id", "nobody")) }, map[string]any{"reason": "client_unknown", "client_id": nil}},
		{"a broken seal", func() page { return b.open("/oauth/login?pending=x") }, map[string]any{"reason": "seal_broken"}},
		{"another method", func() page { return b.fetch(http.MethodPut, "/oauth/account", "") }, map[string]any{"reason": "method_not_allowed"}},
		{"the account page", func() page { return b.open("/oauth/account") }, nil},
		{"an application removed", func() page { return b.change("application", "conf") },
			map[string]any{"msg": "account access ended", "subject": "u-ada", "application": "conf"}},
		{"an application that had nothing", func() page { return b.change("application", strings.Repeat("x", 2000)) }, nil},
		{"a session of nobody", func() page { return b.change("session", "of-another-user") }, nil},
		{"a sign-out", b.signOut, map[string]any{"msg": "signed out", "subject": "u-ada"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d.decisions(t)
			if p := c.do(); p.status >= 500 {
				t.Fatalf("%d %s", p.status, p.body)
			}
			d.leaves(t, c.want)
		})
	}
	g.notLogged(t, peoplePassword, "evil.tld", conf.state, "Hunter2", "hunter2")
}
