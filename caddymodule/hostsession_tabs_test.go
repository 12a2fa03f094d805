package caddymodule

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// firstTabs opens a page in each of two tabs before the browser has any cookie, as when it restores the tabs of an earlier day. Each answer
// sets its own cookies, and those of the second replace those of the first. It returns the browser and the sign-in page of each tab.
func (g *hostsGate) firstTabs(t *testing.T, first, second string) (v *visitorOfHosts, pages [2]answer) {
	t.Helper()
	for i, target := range []string{first, second} {
		v = g.visitor(t)
		if pages[i], _ = v.walk(target, ""); !strings.Contains(pages[i].body, `name="password"`) {
			t.Fatalf("%s: %d %s", target, pages[i].status, pages[i].body)
		}
	}
	return v, pages
}

// submit sends the form of a sign-in page of the issuer and follows redirects.
func (v *visitorOfHosts) submit(p answer, email string, headers ...string) (answer, string) {
	v.t.Helper()
	action, fields := formIn(v.t, page(p))
	fields.Set("email", email)
	fields.Set("password", peoplePassword)
	if len(headers) == 0 {
		headers = []string{"Origin", "null", "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	}
	a := v.send(http.MethodPost, v.gate.at("auth", action), fields.Encode(), append(headers, "Content-Type", urlEncoded)...)
	if a.status != http.StatusSeeOther {
		return a, ""
	}
	next, err := url.Parse(v.gate.at("auth", action))
	check(v.t, err)
	next, err = next.Parse(a.header.Get("Location"))
	check(v.t, err)
	return v.walk(next.String(), "")
}

// TestS110TwoTabsAtTheFirstVisit: two tabs at a browser's first visit, in either order → both reach their pages, one sign-in.
func TestS110TwoTabsAtTheFirstVisit(t *testing.T) {
	g := startHosts(t, "http://wiki.localhost:TCPPORT {", "http://auth.localhost:TCPPORT/own/* {\n\tprotect {\n\t\tchallenge browser\n\t}\n\treverse_proxy UPSTREAM\n}\nhttp://wiki.localhost:TCPPORT {")
	for name, hosts := range map[string][2]string{"one host": {g.at("app", "/tab?n=1"), g.at("app", "/tab?n=2")}, "two hosts": {g.at("app", "/tab?n=1"), g.at("wiki", "/pages/2")}, "the issuer's own": {g.at("auth", "/own/1"), g.at("auth", "/own/2")}} {
		t.Run(name+", the later tab first", func(t *testing.T) {
			v, pages := g.firstTabs(t, hosts[0], hosts[1])
			for _, i := range []int{1, 0} { // the other tab's form is submitted too, although it need not be
				if a, at := v.submit(pages[i], "ada@acme.example"); a.status != http.StatusOK || at != hosts[i] {
					t.Errorf("tab %d: %d at %q: %s", i, a.status, at, a.body)
				}
			}
		})
		t.Run(name+", the earlier tab first", func(t *testing.T) {
			v, pages := g.firstTabs(t, hosts[0], hosts[1])
			again, _ := v.submit(pages[0], "ada@acme.example")
			if again.status != http.StatusBadRequest && again.status != http.StatusForbidden || v.cookie("auth", "session") != "" || !strings.Contains(again.body, "another tab") {
				t.Fatalf("%d %v %s", again.status, again.header, again.body)
			}
			if a, at := v.submit(again, "ada@acme.example"); a.status != http.StatusOK || at != hosts[0] {
				t.Errorf("%d at %q: %s", a.status, at, a.body)
			}
			if a, at := v.submit(pages[1], "ada@acme.example"); a.status != http.StatusOK || at != hosts[1] {
				t.Errorf("the other tab: %d at %q: %s", a.status, at, a.body)
			}
		})
	}
}

// TestS111AFormOfAnotherBrowserSignsNobodyIn: a sign-in form of another browser, from another site, made up or too old → no sign-in; from
// our own page → this browser's page, with the request as new.
func TestS111AFormOfAnotherBrowserSignsNobodyIn(t *testing.T) {
	g := startHosts(t)
	attacker := g.visitor(t)
	theirs, _ := attacker.walk(g.at("app", "/of-ben"), "")
	plain, _ := attacker.walk(g.at("auth", "/oauth/login"), "")
	for name, headers := range map[string][]string{
		"sent from another site":            {"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"},
		"sent from a sibling":               {"Origin", g.origin("app"), "Sec-Fetch-Site", "same-site"},
		"without a word of where from":      {"User-Agent", "x"},
		"without an origin":                 {"Origin", "null"},
		"from our own page":                 nil,
		"from our own page, by its origin":  {"Origin", g.origin("auth")},
		"contradicting itself":              {"Origin", "https://evil.example", "Sec-Fetch-Site", "same-origin"},
		"asking for JSON from our own page": {"Origin", g.origin("auth"), "Accept", "application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			for form, p := range map[string]answer{"with a request": theirs, "without": plain} {
				victim := g.visitor(t)
				victim.walk(g.at("app", "/mine"), "")
				a, _ := victim.submit(p, "ben@acme.example", headers...)
				if a.status != http.StatusBadRequest && a.status != http.StatusForbidden || victim.cookie("auth", "session") != "" || a.header.Get("Location") != "" {
					t.Errorf("%s: %d %v", form, a.status, a.header)
				}
				ours := headers == nil || headers[1] == g.origin("auth") && len(headers) == 2
				if shown := strings.Contains(a.body, `name="password"`); shown != ours {
					t.Errorf("%s: the sign-in page is shown: %v, want %v", form, shown, ours)
				}
				if strings.Contains(a.body, "ben@acme.example") {
					t.Errorf("%s: the page repeats what was sent", form)
				}
				signedIn := g.signedIn(t, "ada@acme.example")
				before := signedIn.cookie("auth", "session")
				a, at := signedIn.submit(p, "ben@acme.example", headers...)
				if goesOn := a.status == http.StatusOK && at == g.at("app", "/of-ben"); goesOn != (ours && form == "with a request") {
					t.Errorf("%s: the request of somebody who is signed in goes on: %v (%d at %s)", form, goesOn, a.status, at)
				}
				if signedIn.cookie("auth", "session") != before {
					t.Errorf("%s: another is signed in", form)
				}
				g.upstream.seen()
				if a := signedIn.send(http.MethodGet, g.at("app", "/"), ""); a.status != http.StatusOK {
					t.Errorf("%s: who was signed in no longer is: %d", form, a.status)
				}
				g.upstream.one(t).has(t, "X-Auth-Subject", "u-ada")
			}
		})
	}
	g.notLogged(t, peoplePassword)
}

// TestS112TwoTabsAtAProvider: two tabs at a default provider, an attacker's answer among them → both reach their applications, the
// foreign code is not looked at.
func TestS112TwoTabsAtAProvider(t *testing.T) {
	corp := newLyingProvider(t)
	g := startProviders(t, atProvider("corp", corp, "link verified_email\ndefault"))
	first, second := requestOf("first"), requestOf("first")
	second.state = "another tab"
	begin := func() (b *browser, answers [2]string) {
		t.Helper()
		for i, r := range []request{first, second} {
			b = g.browser()
			p := b.open(r.path())
			if p.status != http.StatusSeeOther {
				t.Fatalf("%d %s", p.status, p.body)
			}
			answers[i] = corp.follow(p.header.Get("Location"))
		}
		return b, answers
	}
	t.Run("the later tab first", func(t *testing.T) {
		b, answers := begin()
		b.codeToClient(t, b.open(answers[1]), second)
		b.codeToClient(t, b.open(answers[0]), first)
	})
	t.Run("the earlier tab first", func(t *testing.T) {
		b, answers := begin()
		p := b.holdBack(t, b.open(answers[0]), "provider_failed", "The sign-in at ")
		b.codeToClient(t, b.atProvider(t, b.chooses(t, p, "corp"), corp), first)
		b.codeToClient(t, b.open(answers[1]), second)
	})
	t.Run("of an attacker, while somebody is signed in", func(t *testing.T) {
		corp.says(map[string]any{"sub": "1001", "email": "ada@acme.example", "email_verified": true})
		b, answers := begin()
		b.codeToClient(t, b.open(answers[1]), second)
		session := b.cookie("session")
		corp.says(map[string]any{"sub": "6", "email": "grace@acme.example", "email_verified": true})
		attacker := g.browser()
		theirs := corp.follow(attacker.open(first.path()).header.Get("Location"))
		redeemed := func() (n int) { corp.change(func() { n = corp.redeemed }); return n }
		before := redeemed()
		b.codeToClient(t, b.open(theirs), first)
		if b.cookie("session") != session || redeemed() != before {
			t.Error("the attacker's answer was used")
		}
		b.holdSignedInAs(t, "ada@acme.example")
	})
}
