package caddymodule

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestS11WhatEndsAUserEndsTheirSessionsAtHosts: a user revoked, disabled, removed, undeclared or with a new password → the next request
// of a host session is refused.
func TestS11WhatEndsAUserEndsTheirSessionsAtHosts(t *testing.T) {
	for name, end := range map[string]func(g *hostsGate, eve string){
		"an operator revokes the user": func(g *hostsGate, eve string) {
			g.must(http.StatusNoContent, "POST", "/oauth/revocations", `{"user":"`+eve+`"}`)
		},
		"an operator revokes the organisation": func(g *hostsGate, eve string) {
			g.must(http.StatusNoContent, "POST", "/oauth/revocations", `{"organisation":"rival"}`)
		},
		"an operator disables the user": func(g *hostsGate, eve string) {
			check(g.t, g.app().registry.People.SetUserStatus(g.t.Context(), eve, store.UserDisabled))
		},
		"an operator removes the user": func(g *hostsGate, eve string) { check(g.t, g.app().registry.People.RemoveUser(g.t.Context(), eve)) },
		"an operator changes the password": func(g *hostsGate, eve string) {
			check(g.t, g.app().registry.People.SetPassword(g.t.Context(), eve, oauth.NewSecret("another correct horse battery staple")))
		},
		"a reload declares the user no more": func(g *hostsGate, eve string) { g.reload(hostsCaddyfile("user u-ben {", "user u-ben-2 {")) },
	} {
		t.Run(name, func(t *testing.T) {
			g := startHosts(t, "organisation acme \"Acme Ltd\"", "organisation rival \"Rival Inc\"\n\t\torganisation acme \"Acme Ltd\"")
			eve := g.addUser("eve@rival.example", "rival", store.RoleMember)
			ended, stays := g.signedIn(t, "eve@rival.example"), g.signedIn(t, "ada@acme.example")
			if strings.Contains(name, "declares") {
				ended = g.signedIn(t, "ben@acme.example")
			}
			end(g, eve)
			ended.send(http.MethodGet, g.at("app", "/"), "").is(t, http.StatusUnauthorized)
			stays.send(http.MethodGet, g.at("app", "/"), "").is(t, http.StatusOK, "somebody else")
		})
	}
}

// TestS16AReloadLeavesSessionsAlone: a reload, or occasional use → the session continues; a week without use → 401.
func TestS16AReloadLeavesSessionsAlone(t *testing.T) {
	c := setClock(t)
	g := startHosts(t)
	v := g.signedIn(t, "ada@acme.example")
	g.reload(hostsCaddyfile("respond 404", "respond 410"))
	for _, passed := range []time.Duration{0, time.Hour, 6 * store.Day, 6 * store.Day} {
		(&gateway{gatehouse: g.gatehouse}).later(c, passed)
		v.send(http.MethodGet, g.at("app", "/"), "").is(t, http.StatusOK, "after ", passed)
	}
	(&gateway{gatehouse: g.gatehouse}).later(c, 7*store.Day+time.Minute)
	v.send(http.MethodGet, g.at("app", "/"), "").is(t, http.StatusUnauthorized, "after a week of rest")
}

// TestS17AnOlderSignInIsAskedForAgain: `require max_age` and an older sign-in: navigation → signs in again, once; program → 401; an acr
// that no sign-in has → 401 without a redirect.
func TestS17AnOlderSignInIsAskedForAgain(t *testing.T) {
	c := setClock(t)
	g := startHosts(t, "forward + X-Name name", "require /pages/bank/* max_age 60s\n\t\t\trequire /pages/vault/* acr gold\n\t\t\trequire /pages/safe/* acr gold\n\t\t\trequire /pages/safe/* max_age 60s\n\t\t\tforward + X-Name name")
	v := g.signedIn(t, "ada@acme.example")
	bank := g.at("wiki", "/pages/bank/1")
	v.arrives(t, bank, "")
	(&gateway{gatehouse: g.gatehouse}).later(c, time.Hour)
	if a := v.send(http.MethodGet, bank, ""); a.status != http.StatusUnauthorized || !strings.Contains(a.header.Get("WWW-Authenticate"), "insufficient_user_authentication") {
		t.Errorf("a program: %d %v", a.status, a.header)
	}
	v.navigate(g.at("wiki", "/pages/safe/1")).leads(t, http.StatusUnauthorized, "", "what no sign-in satisfies, however fresh")
	if a := v.navigate(bank); a.location().Query().Get("max_age") != "60" {
		t.Errorf("max_age: %s", a.header.Get("Location"))
	}
	v.arrives(t, bank, "ada@acme.example")
	v.navigate(g.at("wiki", "/pages/vault/1")).leads(t, http.StatusUnauthorized, "", "what no sign-in satisfies")
}

// TestS12AFormIsNotLost: a form sent without a session → a 401 page that says that nothing was sent; sent again after signing in →
// passes; from another site → 403.
func TestS12AFormIsNotLost(t *testing.T) {
	g := startHosts(t)
	v := g.signedIn(t, "ada@acme.example")
	form := []string{"Content-Type", urlEncoded, "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Sec-Fetch-Site", "same-origin"}
	if a := v.send(http.MethodPost, g.at("app", "/save"), "a=b", form...); a.status != http.StatusOK || g.upstream.one(t).Body != "a=b" {
		t.Fatalf("%d", a.status)
	}
	old := v.cookie("app", hostCookie)
	v.give("app", &http.Cookie{Name: hostCookie, MaxAge: -1})
	a := v.send(http.MethodPost, g.at("app", "/save"), "a=b", form...)
	if a.status != http.StatusUnauthorized || !strings.Contains(a.body, `href="/oauth/sign_in" target="_blank"`) || a.header.Get("WWW-Authenticate") == "" || a.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %v %s", a.status, a.header, a.body)
	}
	g.upstream.none(t)
	v.arrives(t, g.at("app", "/oauth/sign_in"), "")
	if v.cookie("app", hostCookie) == old {
		t.Error("no new session")
	}
	if a := v.send(http.MethodPost, g.at("app", "/save"), "a=b", form...); a.status != http.StatusOK || g.upstream.one(t).Body != "a=b" {
		t.Errorf("sent again: %d", a.status)
	}
	v.send(http.MethodPost, g.at("app", "/save"), "a=b", "Sec-Fetch-Site", "none").is(t, http.StatusForbidden, "from no page")
	v.send(http.MethodPost, g.at("app", "/save"), "a=b", "Origin", g.origin("auth")).is(t, http.StatusForbidden, "from the issuer")
	v.send(http.MethodPost, g.at("app", "/save"), "a=b", "Origin", g.origin("app")).is(t, http.StatusOK, "by the Origin alone")
}

// TestS13ManyTabsSignInBesideEachOther: many tabs sign in at once → each returns to its page; an answer after eleven minutes → starts
// again.
func TestS13ManyTabsSignInBesideEachOther(t *testing.T) {
	c := setClock(t)
	g := startHosts(t)
	v := g.signedIn(t, "ada@acme.example")
	first, second := v.begun("wiki", "/pages/1"), v.begun("wiki", "/pages/2")
	for path, callback := range map[string]string{"/pages/2": second.String(), "/pages/1": first.String()} {
		v.navigate(callback).leads(t, http.StatusSeeOther, g.at("wiki", path))
		v.navigate(g.at("wiki", path)).is(t, http.StatusOK, path)
	}
	// A state expires after the time that a sign-in may take. Then the browser starts again.
	v.give("wiki", &http.Cookie{Name: hostCookie, MaxAge: -1})
	late := v.begun("wiki", "/pages/3")
	(&gateway{gatehouse: g.gatehouse}).later(c, 11*time.Minute)
	v.ends(t, late.String(), "", g.at("wiki", "/pages/3"))
	// The same applies to a slow user whose code is fresh.
	v.give("wiki", &http.Cookie{Name: hostCookie, MaxAge: -1})
	asked := v.navigate(g.at("wiki", "/pages/4")).header.Get("Location")
	(&gateway{gatehouse: g.gatehouse}).later(c, 11*time.Minute)
	answered := v.navigate(asked).header.Get("Location")
	if a := v.navigate(answered); !strings.Contains(answered, "code=") || !strings.HasPrefix(a.header.Get("Location"), g.at("auth", "/oauth/authorize?")) || v.cookie("wiki", hostCookie) != "" {
		t.Errorf("a late state with a fresh code: %s, %d %v", answered, a.status, a.header)
	}
}

// TestS14CookiesOfTheHostAreOurs: a host's cookie towards or from the upstream → removed; two genuine ones, more than four, or one twice →
// refused.
func TestS14CookiesOfTheHostAreOurs(t *testing.T) {
	g := startHosts(t)
	v, ben := g.signedIn(t, "ada@acme.example"), g.signedIn(t, "ben@acme.example")
	g.upstream.answer = answering("Set-Cookie: gatehouse_session=evil", "Set-Cookie: __Host-gatehouse-session=evil; Path=/; Secure", "Set-Cookie: theme=dark")
	own, theirs := v.cookie("app", hostCookie), ben.cookie("app", hostCookie)
	plain := g.visitor(t)
	a := plain.send(http.MethodGet, g.at("app", "/"), "", "Cookie", "theme=x; gatehouse_session="+own+"; __Host-gatehouse-session=a; gatehouse_sign_in=b")
	if a.status != http.StatusOK || len(a.header.Values("Set-Cookie")) != 1 || !strings.HasPrefix(a.header.Get("Set-Cookie"), "theme=") {
		t.Errorf("%d %v", a.status, a.header)
	}
	if a.header.Get("Cache-Control") != "private" {
		t.Errorf("Cache-Control: %q", a.header.Get("Cache-Control"))
	}
	g.upstream.one(t).has(t, "Cookie", "theme=x")
	for name, c := range map[string]struct {
		cookie string
		want   int
	}{
		"twice the same":      {"gatehouse_session=" + own + "; gatehouse_session=" + own, http.StatusOK},
		"beside junk":         {"gatehouse_session=junk; gatehouse_session=" + own, http.StatusBadRequest},
		"two genuine ones":    {"gatehouse_session=" + theirs + "; gatehouse_session=" + own, http.StatusBadRequest},
		"too many":            {"gatehouse_session=" + own + "; gatehouse_session=a; gatehouse_session=b; gatehouse_session=c; gatehouse_session=d", http.StatusBadRequest},
		"the name of https":   {"__Host-gatehouse-session=" + own, http.StatusUnauthorized},
		"in quotes":           {`gatehouse_session="` + own + `"`, http.StatusOK},
		"a longer name":       {"xgatehouse_session=" + own, http.StatusUnauthorized},
		"without a name (=x)": {"=gatehouse_session=" + own, http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			plain.send(http.MethodGet, g.at("app", "/"), "", "Cookie", c.cookie).is(t, c.want)
		})
	}
}

// TestS15AStreamEndsWithItsSession: a WebSocket with a session from another origin → 403; its user signs out → closed.
func TestS15AStreamEndsWithItsSession(t *testing.T) {
	g := startHosts(t)
	v := g.signedIn(t, "ada@acme.example")
	g.upstream.answer = websocketUpstream
	open := func(origin string) *wire {
		host := strings.TrimPrefix(g.origin("app"), "http://")
		lines := append([]string{"GET /ws HTTP/1.1", "Host: " + host, "Origin: " + origin, "Cookie: " + hostCookie + "=" + v.cookie("app", hostCookie)}, webSocket...)
		return (&gateway{gatehouse: g.gatehouse}).dial(t, strings.Join(lines, "\r\n")+"\r\n\r\n")
	}
	if w := open(g.origin("wiki")); w.status != http.StatusForbidden {
		t.Errorf("of another origin: %d", w.status)
	}
	w := open(g.origin("app"))
	w.echoes(t)
	began := time.Now()
	v.send(http.MethodPost, g.at("app", "/oauth/sign_out"), "", "Sec-Fetch-Site", "same-origin").is(t, http.StatusSeeOther)
	w.closed(t)
	if took := time.Since(began); took > patience/2 {
		t.Errorf("after %s", took)
	}
}

// TestS18S46WarningsOfHosts: `challenge browser` on a site without a host, with plain http, or behind a route that hides our paths, or `require
// email_domain` where only our access tokens pass → a warning with file and line.
func TestS18S46WarningsOfHosts(t *testing.T) {
	const local, noBrowser, byMail = "http://other.localhost:TCPPORT", "no browser can sign in here", "nobody passes a `require` by e-mail address here"
	site := func(address string, routes ...string) string {
		return address + " {\n" + strings.Join(routes, "") + "}\n"
	}
	browsers, own := handled("handle", protect("challenge browser"), "respond ok"), func(path string) string { return handled("handle "+path, "reverse_proxy UPSTREAM") }
	for name, c := range map[string]struct{ site, warning string }{
		"no host":                      {site(":TCPPORT", browsers), noBrowser},
		"plain http":                   {site("http://plain.example:TCPPORT", browsers), noBrowser},
		"a wildcard":                   {site("http://*.localhost:TCPPORT", browsers), noBrowser},
		"behind a proxy":               {site(":TCPPORT", handled("handle", protect("challenge browser", "resource https://app.example.com/x"), "respond ok")), ""},
		"of this machine":              {site(local, browsers), ""},
		"with a callback of its own":   {site(local, own("/oauth/callback"), browsers), "/oauth/callback of this host is ours"},
		"with a sign-in of its own":    {site(local, own("/oauth/*"), browsers), "/oauth/sign_in of this host is ours"},
		"with a callback of an issuer": {site(local, own("/callback"), browsers), ""},
		"a domain":                     {site(local, gated("", "require email_domain example.com")), byMail},
		"addresses":                    {site(local, gated("", "require user ada@example.com")), byMail},
		"an id too":                    {site(local, gated("", "require user ada@example.com u-ada")), ""},
		"the domain of a session":      {site(local, gated("", "challenge browser", "require email_domain example.com")), ""},
		"tokens of a cookie":           {site(local, gated("", "token_from cookie accessToken", "require email_domain example.com")), byMail},
	} {
		t.Run(name, func(t *testing.T) {
			logged := startHosts(t, "http://wiki.localhost:TCPPORT {", c.site+"http://wiki.localhost:TCPPORT {").logs()
			if c.warning == "" && (strings.Contains(logged, "challenge browser: ") || strings.Contains(logged, byMail)) {
				t.Error("a warning")
			}
			placed := func(line string) bool {
				return strings.Contains(line, c.warning) && strings.Contains(line, "Caddyfile:")
			}
			if !slices.ContainsFunc(strings.Split(logged, "\n"), placed) {
				t.Errorf("no line with %q and a place", c.warning)
			}
		})
	}
}

// TestS19S117SitesThatSignInToo: `protect` in a named route, or a site at the issuer's hostname and another port → browsers sign in and come back to
// that origin.
func TestS19S117SitesThatSignInToo(t *testing.T) {
	named, other := "http://named."+strings.Replace(freeAddr(t), "127.0.0.1", "localhost", 1), "http://auth."+strings.Replace(freeAddr(t), "127.0.0.1", "localhost", 1)
	g := startHosts(t, "http://wiki.localhost:TCPPORT {", "&(guarded) {\n\tprotect {\n\t\tchallenge browser\n\t}\n\treverse_proxy UPSTREAM\n}\n"+
		named+" {\n\tinvoke guarded\n}\n"+other+" {\n"+gated("", "challenge browser")+"}\nhttp://wiki.localhost:TCPPORT {")
	g.signedIn(t, "ada@acme.example").arrives(t, named+"/x", "")
	g.upstream.seen()
	g.visitor(t).arrives(t, other+"/x?y", "ada@acme.example")
	g.upstream.one(t).has(t, "X-Auth-Subject", "u-ada")
}

// TestS114S118ASignInInTheSecondOfARevocation: a revocation of a user, and sessions and tokens issued earlier in the same second → refused; between
// answer and callback → no session; a sign-in after it in that second → passes.
func TestS114S118ASignInInTheSecondOfARevocation(t *testing.T) {
	c := setClock(t)
	g := startHosts(t, "http://wiki.localhost:TCPPORT {", "http://auth.localhost:TCPPORT/own/* {\n\tprotect {\n\t\tchallenge browser\n\t}\n\treverse_proxy UPSTREAM\n}\nhttp://wiki.localhost:TCPPORT {")
	status := func(v *visitorOfHosts, host, path string, headers ...string) int {
		t.Helper()
		return v.send(http.MethodGet, g.at(host, path), "", headers...).status
	}
	bearer := func(v *visitorOfHosts) []string {
		return []string{"Authorization", "Bearer " + v.cookie("auth", "accessToken")}
	}
	for name, revoke := range map[string]func(){
		"the user's tokens":         func() { g.ok("token", "revoke", "--user", "ada@acme.example") },
		"the organisation's tokens": func() { g.must(http.StatusNoContent, "POST", "/oauth/revocations", `{"organisation":"acme"}`) },
	} {
		t.Run(name, func(t *testing.T) {
			(&gateway{gatehouse: g.gatehouse}).later(c, time.Hour)
			before, bystander := g.signedIn(t, "ada@acme.example"), g.visitor(t)
			token := bearer(before)
			if got := status(bystander, "app", "/api/x", token...); got != http.StatusOK {
				t.Fatalf("before: %d", got)
			}
			middle := g.signedIn(t, "ada@acme.example")
			callback := middle.begun("wiki", "/pages/1").String()
			for range 2 { // again in the same second
				revoke()
				if host, own, api := status(before, "app", "/"), status(before, "auth", "/own/x"), status(bystander, "app", "/api/x", token...); host != http.StatusUnauthorized || own != http.StatusUnauthorized || api != http.StatusUnauthorized {
					t.Errorf("signed in before: %d at the host, %d at the issuer's, %d with a token", host, own, api)
				}
				after := g.signedIn(t, "ada@acme.example")
				after.walk(g.at("auth", "/own/x"), "")
				if host, own, api := status(after, "app", "/"), status(after, "auth", "/own/x"), status(bystander, "app", "/api/x", bearer(after)...); host != http.StatusOK || own != http.StatusOK || api != http.StatusOK {
					t.Errorf("signed in after: %d at the host, %d at the issuer's, %d with a token", host, own, api)
				}
				before, token = after, bearer(after)
			}
			if a, at := middle.walk(callback, ""); !strings.Contains(a.body, `name="password"`) || !strings.HasPrefix(at, g.origin("auth")) || middle.cookie("wiki", hostCookie) != "" {
				t.Errorf("revoked in the middle of a callback: %d at %s", a.status, at)
			}
			middle.arrives(t, g.at("wiki", "/pages/1"), "ada@acme.example")
		})
	}
}

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
		ada.arrives(t, g.at(host, "/in/x"), "ada@acme.example")
		g.upstream.one(t).has(t, "Cookie").has(t, "X-Auth-Subject", "u-ada")
		if a, at := ben.walk(g.at(host, "/in/x"), "ben@acme.example"); a.status != http.StatusForbidden || at != g.at(host, "/in/x") {
			t.Errorf("%s: who may not: %d at %s", host, a.status, at)
		}
		for name, headers := range map[string][]string{"of a sibling": {"Sec-Fetch-Site", "same-site"}, "of nobody": {"X-A", "b"}} {
			if a := ada.send(http.MethodPost, g.at(host, "/in/x"), "a=b", headers...); a.status != http.StatusForbidden && a.status != http.StatusUnauthorized {
				t.Errorf("%s: a POST %s: %d", host, name, a.status)
			}
		}
		g.visitor(t).send(http.MethodGet, g.at(host, "/in/x"), "").is(t, http.StatusUnauthorized, host, ": without a session")
		g.upstream.none(t)
		ada.send(http.MethodPost, g.at(host, "/in/x"), "a=b", "Sec-Fetch-Site", "same-origin").is(t, http.StatusOK, host, ": a POST of its own page")
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
	v.arrives(t, g.at("wiki", "/pages/1"), "")
	g.visitor(t).send(http.MethodGet, g.at("wiki", "/pages/1"), "", "Authorization", "Bearer "+v.cookie("auth", "accessToken")).is(t, http.StatusUnauthorized, "a token for the issuer's audience")
}
