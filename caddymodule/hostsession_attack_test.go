package caddymodule

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// begun starts a sign-in at a host and returns the URL of the callback, which has not been opened.
func (v *visitorOfHosts) begun(host, path string) *url.URL {
	v.t.Helper()
	a := v.navigate(v.gate.at(host, path))
	a = v.navigate(a.header.Get("Location"))
	if at := a.location(); at != nil && at.Path == "/oauth/callback" && at.Query().Get("code") != "" {
		return at
	}
	v.t.Fatalf("%d %s", a.status, a.header.Get("Location"))
	return nil
}

func withQuery(u *url.URL, name, value string) string {
	changed, query := *u, u.Query()
	query.Set(name, value)
	changed.RawQuery = query.Encode()
	return changed.String()
}

// TestS6NobodyIsSignedInByAnothersAnswer: an attacker's callback opened by a victim, or a foreign code in one's own answer → the browser
// starts again as its own user, the code stays good for its owner. It starts again at most once.
func TestS6NobodyIsSignedInByAnothersAnswer(t *testing.T) {
	g := startHosts(t)
	attacker, victim := g.signedIn(t, "ben@acme.example"), g.signedIn(t, "ada@acme.example")
	theirs := attacker.begun("wiki", "/pages/of-ben")
	a := victim.navigate(theirs.String())
	if a.status != http.StatusSeeOther || !strings.HasPrefix(a.header.Get("Location"), g.at("auth", "/oauth/authorize?")) || victim.cookie("wiki", hostCookie) != "" {
		t.Fatalf("an attacker's callback: %d %v", a.status, a.header)
	}
	victim.ends(t, a.header.Get("Location"), "", g.at("wiki", "/pages/of-ben"))
	g.upstream.one(t).has(t, "X-Email", "ada@acme.example")
	// The attacker's code in the victim's own answer: PKCE and the nonce belong to another attempt.
	victim = g.signedIn(t, "ada@acme.example")
	own, other := victim.begun("wiki", "/pages/1"), attacker.begun("wiki", "/pages/2")
	victim.navigate(withQuery(own, "code", other.Query().Get("code")))
	if victim.cookie("wiki", hostCookie) != "" {
		t.Error("a code of another attempt signs in")
	}
	// This does not use up the code.
	if a := attacker.navigate(other.String()); a.status != http.StatusSeeOther || attacker.cookie("wiki", hostCookie) == "" {
		t.Errorf("its owner: %d", a.status)
	}
	// A browser without cookies is redirected once.
	own = victim.begun("wiki", "/pages/3")
	bare := g.visitor(t)
	bare.client.Jar = nil
	a = bare.navigate(own.String())
	if a.status != http.StatusSeeOther {
		t.Fatalf("%d", a.status)
	}
	again := victim.navigate(a.header.Get("Location")) // as if the browser sent only the issuer's cookies
	bare.explained(t, "wiki", bare.navigate(again.header.Get("Location"))).leads(t, http.StatusBadRequest, "", "the second time")
}

// TestS7AnAnswerCountsOnce: an answer used again by its browser → its first session ends and the sign-in starts again; by another browser →
// the code is not looked at.
func TestS7AnAnswerCountsOnce(t *testing.T) {
	g := startHosts(t)
	v := g.signedIn(t, "ada@acme.example")
	callback := v.begun("wiki", "/pages/1")
	if a := v.navigate(callback.String()); a.status != http.StatusSeeOther || a.header.Get("Location") != g.at("wiki", "/pages/1") {
		t.Fatalf("%d %v", a.status, a.header)
	}
	first := v.cookie("wiki", hostCookie)
	// A code stolen from a log: without the browser's cookie it is not even looked up.
	if a := g.visitor(t).navigate(callback.String()); a.status != http.StatusSeeOther || strings.Contains(a.header.Get("Set-Cookie"), hostCookie) {
		t.Errorf("from another browser: %d %v", a.status, a.header)
	}
	v.send(http.MethodGet, g.at("wiki", "/pages/1"), "").is(t, http.StatusOK, "and that ended the session")
	v.navigate(callback.String()).is(t, http.StatusSeeOther, "again")
	g.visitor(t).send(http.MethodGet, g.at("wiki", "/pages/1"), "", "Cookie", hostCookie+"="+first).is(t, http.StatusUnauthorized, "the session of a code that was used twice")
	v.arrives(t, g.at("wiki", "/pages/1"), "")
}

// TestS9TheWayBackStaysOnTheHost: a return path that names another host, by slashes, an @ or CR LF → back on the same host. Package browser tests
// every path.
func TestS9TheWayBackStaysOnTheHost(t *testing.T) {
	g := startHosts(t)
	for _, path := range []string{"/@evil.example", "/x?//evil.example"} { // what is ambiguous is refused
		g.visitor(t).arrives(t, g.at("app", path), "ada@acme.example")
	}
	v := g.signedIn(t, "ada@acme.example")
	for _, asked := range []string{"//evil.example", "https://evil.example", "/x\r\nSet-Cookie:a=b", "/" + strings.Repeat("a", 5000)} {
		a := v.navigate(g.at("app", "/oauth/sign_in?return="+url.QueryEscape(asked)))
		at := a.header.Get("Location")
		if asked != "" && (a.status != http.StatusSeeOther || !strings.HasPrefix(at, g.origin("app")+"/")) || strings.ContainsAny(at, "\r\n") || a.header.Get("Set-Cookie") != "" {
			t.Errorf("%q: %d %q", asked, a.status, at)
		}
	}
}

// TestS10TheHostIsThatOfTheConfiguration: a foreign Host, port or credentials, X-Forwarded-Host → 401 or ignored.
func TestS10TheHostIsThatOfTheConfiguration(t *testing.T) {
	g := startHosts(t, "http://wiki.localhost:TCPPORT {",
		":TCPPORT {\n\tprotect {\n\t\tchallenge browser\n\t}\n\trespond ok\n}\nhttp://wiki.localhost:TCPPORT, http://*.wild.localhost:TCPPORT {")
	if !strings.Contains(g.logs(), "challenge browser: no browser can sign in here") {
		t.Error("a site without a host is not warned of")
	}
	own := strings.TrimPrefix(g.origin("app"), "http://")
	for name, c := range map[string]struct {
		host, more string
		want       int
	}{
		"its own":             {host: own, want: http.StatusSeeOther},
		"in upper case":       {host: strings.ToUpper(own), want: http.StatusSeeOther},
		"a stranger":          {host: "evil.example", want: http.StatusUnauthorized},
		"with another port":   {host: "wiki.localhost:1", want: http.StatusUnauthorized},
		"with credentials":    {host: "x@" + own, want: 400},
		"below the wildcard":  {host: strings.Replace(own, "app.", "a-1.wild.", 1), want: http.StatusUnauthorized},
		"two labels":          {host: strings.Replace(own, "app.", "a.b.wild.", 1), want: http.StatusUnauthorized},
		"no label":            {host: strings.Replace(own, "app.", ".wild.", 1), want: http.StatusUnauthorized},
		"a strange label":     {host: strings.Replace(own, "app.", "a%2f.wild.", 1), want: 400},
		"forwarded elsewhere": {host: own, more: "X-Forwarded-Host: evil.example\r\nForwarded: host=evil.example\r\n", want: http.StatusSeeOther},
	} {
		t.Run(name, func(t *testing.T) {
			status, header, _ := g.raw("GET /pages/1 HTTP/1.1\r\nHost: " + c.host + "\r\n" + c.more + "Connection: close\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n\r\n")
			if status != c.want && (c.want != 400 || status == http.StatusSeeOther) {
				t.Fatalf("%d", status)
			}
			if status != http.StatusSeeOther {
				return
			}
			at, err := url.Parse(header.Get("Location"))
			check(t, err)
			if got := at.Query().Get("redirect_uri"); got != "http://"+strings.ToLower(c.host)+"/oauth/callback" {
				t.Errorf("redirect_uri %s", got)
			}
		})
	}
	if n := strings.Count(g.logs(), "a browser cannot sign in for this host"); n != 2 {
		t.Errorf("%d warnings of hosts that are none of the site's, want one of each gate", n)
	}
}

// TestP140ACallbackIsVisited: HEAD, prefetch or prerender of a callback → 403, nothing is redeemed, the visit afterwards signs in.
func TestP140ACallbackIsVisited(t *testing.T) {
	g := startHosts(t)
	v := g.signedIn(t, "ada@acme.example")
	at := g.at("wiki", "/pages/1")
	for range 2 { // to the issuer, and back
		next := v.navigate(at).header.Get("Location")
		if next == "" {
			t.Fatalf("%s leads nowhere", at)
		}
		at = next
	}
	for name, a := range map[string]answer{
		"HEAD": v.send(http.MethodHead, at, "", navigation...), "prefetch": v.send(http.MethodGet, at, "", append(navigation, "Sec-Purpose", "prefetch")...),
	} {
		if a.status != http.StatusForbidden || v.cookie("wiki", hostCookie) != "" {
			t.Errorf("%s: %d", name, a.status)
		}
	}
	if a := v.navigate(at); a.status != http.StatusSeeOther || v.cookie("wiki", hostCookie) == "" {
		t.Errorf("the visit afterwards: %d %s", a.status, a.body)
	}
}

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
				signedIn.send(http.MethodGet, g.at("app", "/"), "").is(t, http.StatusOK, form, ": who was signed in no longer is")
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
