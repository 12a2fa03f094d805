package caddymodule

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// signInAtCorp makes the issuer of hostsSite redirect every sign-in to a provider.
func signInAtCorp(p *lyingProvider, lines string) []string {
	return []string{"organisation acme \"Acme Ltd\"", "sign_in {\n" + atProviderCorp(p, "link verified_email\n"+lines) + "\n}\norganisation acme \"Acme Ltd\""}
}

// signsOut submits the form of a host's sign-out page and returns the redirect's location.
func (v *visitorOfHosts) signsOut(host string) (location string) {
	v.t.Helper()
	a := v.send(http.MethodPost, v.gate.at(host, "/oauth/sign_out"), "", "Sec-Fetch-Site", "same-origin")
	if a.status != http.StatusSeeOther || v.cookie(host, hostCookie) != "" {
		v.t.Fatalf("sign-out: %d %v %s", a.status, a.header, a.body)
	}
	return a.header.Get("Location")
}

// holdOut checks that the browser is signed out at every host.
func (v *visitorOfHosts) holdOut(hosts ...string) {
	v.t.Helper()
	for _, host := range hosts {
		v.send(http.MethodGet, v.gate.at(host, "/pages/1"), "").is(v.t, http.StatusUnauthorized, host)
	}
}

// TestS130ASignOutAtAHostLeadsThroughTheIssuerAndTheProvider: a sign-out at a host after a provider's sign-in → everything ends first,
// then through issuer and provider back to the host's page.
func TestS130ASignOutAtAHostLeadsThroughTheIssuerAndTheProvider(t *testing.T) {
	p := newLyingProvider(t)
	g := startHosts(t, signInAtCorp(p, "default")...)
	v, other := g.visitor(t), g.visitor(t)
	for _, target := range []string{g.at("app", "/"), g.at("wiki", "/pages/1")} {
		v.arrivesBy(t, p, target)
		other.walkAt(p, target)
	}
	asks := v.navigate(g.at("app", "/oauth/sign_out"))
	if policy := asks.header.Get("Content-Security-Policy"); !strings.Contains(policy, p.URL) || !strings.Contains(policy, g.origin("auth")) {
		t.Errorf("the browser would not follow the form: %s", policy)
	}
	location := v.signsOut("app")
	if v.cookie("auth", "session") == "" {
		t.Fatal("the cookie of the issuer is gone already")
	}
	v.holdOut("app", "wiki") // whatever happens later
	done := g.at("app", "/oauth/sign_out")
	a, at, way := v.walkAt(p, location)
	if a.status != http.StatusOK || at != done || !strings.HasPrefix(way[0], g.at("auth", "/oauth/logout?")) {
		t.Errorf("%d at %s, by way of %s", a.status, at, way)
	}
	want := url.Values{"client_id": {"gw"}, "post_logout_redirect_uri": {g.at("auth", "/oauth/callback/corp")}, "logout_hint": {"ada@acme.example"}}
	for name, value := range want {
		if !slices.Equal(p.signedOut[name], value) {
			t.Errorf("the provider was asked %v", p.signedOut)
		}
	}
	if v.cookie("auth", "session") != "" {
		t.Error("the cookie of the issuer is still there")
	}
	v.holdOut("app", "wiki")
	if !strings.Contains(a.body, "prompt=select_account") {
		t.Errorf("the page signs in again at once: %s", a.body)
	}
	other.send(http.MethodGet, g.at("app", "/"), "").is(t, http.StatusOK, "another browser")
	if a, at, _ := v.walkAt(p, location); a.status != http.StatusOK || at != g.at("auth", "/oauth/logout") || strings.Contains(a.body, "<form") { // again, by the back button
		t.Errorf("again: %d at %s", a.status, at)
	}
	v.arrivesBy(t, p, g.at("app", "/x"))
}

// TestS131WithoutAnIssuerASignOutLeadsThroughTheProvider: the same without an issuer → through the provider, back to the host's page.
func TestS131WithoutAnIssuerASignOutLeadsThroughTheProvider(t *testing.T) {
	p := newLyingProvider(t)
	g := startDirect(t, p)
	v := g.visitor(t)
	for _, host := range []string{"app", "wiki"} {
		v.walkAt(p, g.at(host, "/"))
	}
	if policy := v.navigate(g.at("wiki", "/oauth/sign_out")).header.Get("Content-Security-Policy"); !strings.Contains(policy, p.URL) {
		t.Errorf("the browser would not follow the form: %s", policy)
	}
	location := v.signsOut("wiki")
	v.holdOut("app", "wiki")
	a, at, way := v.walkAt(p, location)
	if a.status != http.StatusOK || at != g.at("wiki", "/oauth/sign_out") || !slices.Contains(way, g.at("wiki", "/oauth/callback/corp")+"?state=") {
		t.Errorf("%d at %s, by way of %s", a.status, at, way)
	}
	if p.signedOut.Get("post_logout_redirect_uri") != g.at("wiki", "/oauth/callback/corp") || p.signedOut.Get("logout_hint") != "ada@acme.example" {
		t.Errorf("the provider was asked %v", p.signedOut)
	}
	v.holdOut("app", "wiki")
	v.arrivesBy(t, p, g.at("app", "/x"))
}

// TestS132ASignOutHoldsWithoutTheProvider: the provider offers no sign-out, is down, or was not used → signed out all the same, on the
// host's page.
func TestS132ASignOutHoldsWithoutTheProvider(t *testing.T) {
	for _, c := range []struct {
		name   string
		direct bool
		// before changes the provider before the sign-in. after changes it between the sign-in and the sign-out.
		before func(*lyingProvider)
		after  func(*hostsGate, *lyingProvider)
	}{
		{"no end_session, no issuer", true, func(p *lyingProvider) { p.keepsSessions = true }, nil},
		{"no end_session, an issuer", false, func(p *lyingProvider) { p.keepsSessions = true }, nil},
		{"declared no more", false, nil, func(g *hostsGate, _ *lyingProvider) { g.reload(hostsCaddyfile()) }},
		{"away, no issuer", true, nil, func(_ *hostsGate, p *lyingProvider) { p.change(func() { p.down = true }) }},
		{"away, an issuer", false, nil, func(_ *hostsGate, p *lyingProvider) { p.change(func() { p.down = true }) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newLyingProvider(t)
			if c.before != nil {
				c.before(p)
			}
			var g *hostsGate
			if c.direct {
				g = startDirect(t, p)
			} else {
				g = startHosts(t, signInAtCorp(p, "default")...)
			}
			v := g.visitor(t)
			v.arrivesBy(t, p, g.at("app", "/"))
			v.walkAt(p, g.at("wiki", "/pages/1"))
			if c.after != nil {
				c.after(g, p)
			}
			location := v.signsOut("app")
			v.holdOut("app", "wiki")
			if strings.HasPrefix(c.name, "away") {
				return // the location is at the provider, which is down
			}
			if a, at, way := v.walkAt(p, location); a.status != http.StatusOK || at != g.at("app", "/oauth/sign_out") || p.signedOut != nil {
				t.Errorf("%d at %s, by way of %s", a.status, at, way)
			}
		})
	}
	t.Run("with a password beside a provider", func(t *testing.T) {
		p := newLyingProvider(t)
		g := startHosts(t, signInAtCorp(p, "")...)
		v := g.signedIn(t, "ada@acme.example")
		if location := v.signsOut("app"); location != g.at("app", "/oauth/sign_out") {
			t.Errorf("leads to %s", location)
		}
		v.holdOut("app", "wiki")
	})
}

// TestS133V6ALinkSignsNobodyOutByWayOfAHost: a link to the issuer's sign-out with a foreign host, scheme or path, by HEAD → asks or ends
// nothing, never leads to a foreign host.
func TestS133V6ALinkSignsNobodyOutByWayOfAHost(t *testing.T) {
	p := newLyingProvider(t)
	g := startHosts(t, signInAtCorp(p, "default")...)
	signedIn := g.visitor(t)
	signedIn.walkAt(p, g.at("app", "/"))
	out := g.visitor(t)
	out.walkAt(p, g.at("app", "/"))
	out.signsOut("app")
	app := url.QueryEscape(g.origin("app"))
	links := map[string]string{
		"a host of ours":             "host=" + app,
		"a stranger":                 "host=https%3A%2F%2Fevil.example",
		"a stranger in a path":       "host=" + url.QueryEscape(g.origin("app")+"@evil.example"),
		"a host with a path":         "host=" + url.QueryEscape(g.origin("app")+"/x"),
		"another scheme":             "host=" + url.QueryEscape(strings.Replace(g.origin("app"), "http:", "https:", 1)),
		"in capitals":                "host=" + url.QueryEscape(strings.Replace(g.origin("app"), "app", "APP", 1)),
		"a host twice":               "host=" + app + "&host=https%3A%2F%2Fevil.example",
		"without a scheme":           "host=%2F%2Fevil.example",
		"a sibling that is not ours": "host=" + url.QueryEscape(strings.Replace(g.origin("app"), "app.", "evil.", 1)),
		"the issuer":                 "host=" + url.QueryEscape(g.origin("auth")),
		"an application's parameter": "client_id=gatehouse&post_logout_redirect_uri=" + url.QueryEscape(g.at("app", "/oauth/sign_out")),
	}
	for name, link := range links {
		t.Run(name, func(t *testing.T) {
			p.change(func() { p.signedOut = nil })
			a := signedIn.navigate(g.at("auth", "/oauth/logout?"+link))
			if a.status != http.StatusOK || !strings.Contains(a.body, "<form") || a.header.Get("Set-Cookie") != "" {
				t.Errorf("who is signed in is not asked: %d %v", a.status, a.header)
			}
			if name == "a host of ours" {
				return
			}
			for who, v := range map[string]*visitorOfHosts{"signed out": out, "a stranger": g.visitor(t)} {
				if a := v.navigate(g.at("auth", "/oauth/logout?"+link)); a.status != http.StatusOK || strings.Contains(a.body, "evil.example") {
					t.Errorf("%s: %d to %s", who, a.status, a.header.Get("Location"))
				}
			}
		})
	}
	if a := g.visitor(t).navigate(g.at("auth", "/oauth/logout?"+links["a host of ours"])); a.header.Get("Location") != g.at("app", "/oauth/sign_out") {
		t.Errorf("without a cookie: %d to %q", a.status, a.header.Get("Location"))
	}
	out.send(http.MethodHead, g.at("auth", "/oauth/logout?"+links["a host of ours"]), "").is(t, http.StatusOK, "HEAD")
	if a := signedIn.send(http.MethodGet, g.at("app", "/"), ""); a.status != http.StatusOK || p.signedOut != nil {
		t.Errorf("%d, and at the provider %v", a.status, p.signedOut)
	}
	t.Run("no issuer", func(t *testing.T) {
		g := startDirect(t, p)
		v := g.visitor(t)
		v.walkAt(p, g.at("app", "/"))
		for _, query := range []string{"", "?state=", "?x=y", "?iss=https%3A%2F%2Fevil.example"} {
			v.navigate(g.at("app", "/oauth/callback/corp"+query)).leads(t, http.StatusSeeOther, g.at("app", "/oauth/sign_out"), query)
		}
		if a := v.navigate(g.at("app", "/oauth/sign_out")); a.status != http.StatusOK || !strings.Contains(a.body, "<form") {
			t.Errorf("who is signed in is not asked: %d", a.status)
		}
		for _, query := range []string{"?state=x", "?code=x", "?error=access_denied", "?state=&code=x", "?state=x&state=y", "?%zz", "?code=c&state=x", "?code=c&code=d&state=x", "?code=c;state=x"} {
			v.explained(t, "app", v.navigate(g.at("app", "/oauth/callback/corp"+query))).is(t, http.StatusBadRequest, query)
		}
		v.send(http.MethodGet, g.at("app", "/"), "").is(t, http.StatusOK)
	})
}

// TestS140ThePagesOfAHostLearnWhoIsSignedIn: `/oauth/session` of the host's own page → id, name, address, groups, role; from another
// origin, without or with a foreign cookie → unreadable or 401; POST → 405.
func TestS140ThePagesOfAHostLearnWhoIsSignedIn(t *testing.T) {
	g := startHosts(t)
	v := g.signedIn(t, "ada@acme.example")
	fetch := []string{"Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "Sec-Fetch-Site", "same-origin", "Accept", "*/*"}
	a := v.send(http.MethodGet, g.at("app", "/oauth/session"), "", fetch...)
	const want = `{"sub":"u-ada","name":"Ada Admin","email":"ada@acme.example","email_verified":false,"groups":["engineering","Web Team"],"org":"acme","role":"admin"}`
	if a.status != http.StatusOK || strings.TrimSpace(a.body) != want || !strings.HasPrefix(a.header.Get("Content-Type"), "application/json") {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	for name, value := range map[string]string{"Cache-Control": "no-store", "Cross-Origin-Resource-Policy": "same-origin", "X-Content-Type-Options": "nosniff", "Access-Control-Allow-Origin": ""} {
		if got := a.header.Get(name); got != value {
			t.Errorf("%s: %q", name, got)
		}
	}
	if a := v.send(http.MethodGet, g.at("app", "/oauth/session"), "", "Origin", g.origin("wiki")); a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("another host may read it: %v", a.header)
	}
	cookie := hostCookie + "=" + v.cookie("app", hostCookie)
	for name, c := range map[string]struct {
		method, target string
		headers        []string
		want           int
	}{
		"nobody":          {http.MethodGet, g.at("app", "/oauth/session"), nil, http.StatusUnauthorized},
		"as a page":       {http.MethodGet, g.at("app", "/oauth/session"), navigation, http.StatusUnauthorized},
		"at another host": {http.MethodGet, g.at("wiki", "/oauth/session"), []string{"Cookie", cookie}, http.StatusUnauthorized},
		"changed":         {http.MethodGet, g.at("app", "/oauth/session"), []string{"Cookie", cookie + "x"}, http.StatusUnauthorized},
		"a bearer token":  {http.MethodGet, g.at("app", "/oauth/session"), []string{"Authorization", "Bearer " + v.cookie("app", hostCookie)}, http.StatusUnauthorized},
		"by POST":         {http.MethodPost, g.at("app", "/oauth/session"), []string{"Cookie", cookie, "Sec-Fetch-Site", "same-origin"}, http.StatusMethodNotAllowed},
		"by HEAD":         {http.MethodHead, g.at("app", "/oauth/session"), []string{"Cookie", cookie}, http.StatusOK},
	} {
		if a := g.visitor(t).send(c.method, c.target, "", c.headers...); a.status != c.want || a.header.Get("Location") != "" || strings.Contains(a.body, "u-ada") ||
			(c.want == http.StatusUnauthorized) != (a.header.Get("WWW-Authenticate") != "") {
			t.Errorf("%s: %d %v %s", name, a.status, a.header, a.body)
		}
	}
	v.signsOut("app")
	v.send(http.MethodGet, g.at("app", "/oauth/session"), "", fetch...).is(t, http.StatusUnauthorized, "signed out")
	g.upstream.none(t)
}

// TestS141S161ASignOutComesBackToAPath: sign-out with `return` → back at that path of the host, once, and the page's policy lets the browser follow
// to one that needs a sign-in; another host in any spelling, 5,000 bytes → a path of this host.
func TestS141S161ASignOutComesBackToAPath(t *testing.T) {
	p := newLyingProvider(t)
	g := startHosts(t, signInAtCorp(p, "")...)
	signsOut := func(v *visitorOfHosts, back string) (answer, string) {
		t.Helper()
		asks := v.navigate(g.at("app", "/oauth/sign_out?return="+url.QueryEscape(back)))
		_, action, _ := strings.Cut(asks.body, `action="`)
		action, _, _ = strings.Cut(action, `"`)
		policy := asks.header.Get("Content-Security-Policy") // it lets the browser follow to a page that needs a sign-in
		if asks.status != http.StatusOK || !strings.HasPrefix(action, "/oauth/sign_out") || !strings.Contains(policy, " "+g.origin("auth")) {
			t.Fatalf("%q: %d %s %s", back, asks.status, policy, asks.body)
		}
		a := v.send(http.MethodPost, g.at("app", strings.ReplaceAll(action, "&amp;", "&")), "", "Sec-Fetch-Site", "same-origin")
		if a.status != http.StatusSeeOther || v.cookie("app", hostCookie) != "" {
			t.Fatalf("%q: %d %v", back, a.status, a.header)
		}
		location := a.header.Get("Location")
		a, at, _ := v.walkAt(p, location)
		if a.status != http.StatusOK {
			t.Errorf("%q: %d at %s", back, a.status, at)
		}
		return a, at
	}
	v := g.signedIn(t, "ada@acme.example")
	if _, at := signsOut(v, "/public/bye?x=1&y=%20"); at != g.at("app", "/public/bye?x=1&y=%20") {
		t.Errorf("at %s", at)
	}
	v.ends(t, g.at("app", "/oauth/sign_out"), "", g.at("auth", "/oauth/logout"))
	v.ends(t, g.at("app", "/oauth/sign_out?return=/public/x"), "", g.at("app", "/public/x"))
	for _, elsewhere := range []string{
		"https://evil.example/", "//evil.example/public/", "/\\evil.example", "\\\\evil.example", "javascript:alert(1)", "/%0d%0aLocation: //evil", "@evil.example", ".evil.example", "/" + strings.Repeat("x", 5000),
	} {
		v := g.signedIn(t, "ada@acme.example")
		v.give("app", &http.Cookie{Name: "gatehouse_signed_out", Value: ".Ly9ldmlsLmV4YW1wbGUv", Path: "/"}) // set by a sibling host: //evil.example/
		a := v.send(http.MethodPost, g.at("app", "/oauth/sign_out?return="+url.QueryEscape(elsewhere)), "", "Sec-Fetch-Site", "same-origin")
		for _, next := range []string{a.header.Get("Location"), v.navigate(g.at("app", "/oauth/sign_out")).header.Get("Location"), v.navigate(g.at("app", "/oauth/sign_out?return="+url.QueryEscape(elsewhere))).header.Get("Location")} {
			if next != "" && !strings.HasPrefix(next, g.origin("app")+"/") && !strings.HasPrefix(next, g.at("auth", "/oauth/logout")) {
				t.Errorf("%q leads to %s", elsewhere, next)
			}
		}
	}
	v = g.signedIn(t, "ada@acme.example")
	if a := v.send(http.MethodPost, g.at("app", "/oauth/sign_out?return=/public/x"), "", "Sec-Fetch-Site", "cross-site"); a.status != http.StatusForbidden || v.cookie("app", "gatehouse_signed_out") != "" {
		t.Errorf("the form of another site: %d", a.status)
	}

	v = g.visitor(t)
	location := g.at("app", "/oauth/sign_in?provider=corp&return=/x")
	v.endsBy(t, p, location, g.at("app", "/x"))
	g.upstream.seen()
	if _, at := signsOut(v, "/public/bye"); at != g.at("app", "/public/bye") {
		t.Errorf("through the provider: at %s", at)
	}
	if p.signedOut == nil {
		t.Error("the provider was not asked")
	}
	for _, seen := range g.upstream.seen() {
		if strings.Contains(strings.Join(seen.Header["Cookie"], ";"), "signed_out") {
			t.Errorf("the upstream sees %v", seen.Header["Cookie"])
		}
	}
}

// TestS160APathOfAnEarlierSignOutIsForgotten: a sign-out that never returned from the provider, then another without a path → the earlier
// path is forgotten.
func TestS160APathOfAnEarlierSignOutIsForgotten(t *testing.T) {
	g := startHosts(t)
	for _, query := range []string{"", "?return=/" + strings.Repeat("x", 5000)} {
		v := g.signedIn(t, "ada@acme.example")
		v.send(http.MethodPost, g.at("app", "/oauth/sign_out?return=/public/of-ada"), "", "Sec-Fetch-Site", "same-origin")
		if v.cookie("app", "gatehouse_signed_out") == "" {
			t.Fatal("no path is remembered: the test shows nothing")
		}
		v.walk(g.at("app", "/"), "ben@acme.example")
		if a := v.send(http.MethodPost, g.at("app", "/oauth/sign_out"+query), "", "Sec-Fetch-Site", "same-origin"); a.status != http.StatusSeeOther {
			t.Fatalf("%d %s", a.status, a.body)
		}
		v.navigate(g.at("app", "/oauth/sign_out")).leads(t, http.StatusOK, "")
	}
}

// TestP153AnAddressThatIsVerifiedNoMore: an address that is not verified any longer → rules by it refuse at the next sign-in, and open
// sessions within a minute.
func TestP153AnAddressThatIsVerifiedNoMore(t *testing.T) {
	c := setClock(t)
	p := newLyingProvider(t)
	says := func(verified bool) {
		p.says(map[string]any{"sub": "1001", "email": "eve@acme.example", "email_verified": verified, "name": "Eve"})
	}
	says(true)
	changes := signInAtCorp(p, "create\ndefault")
	g := startHosts(t, append(changes, "ROUTES", strings.Replace(deniedRoutes, "user ada@acme.example", "user eve@acme.example", 1))...)
	open := g.visitor(t)
	pages := []string{"/people/acme/x", "/people/ada/x"}
	for _, page := range pages {
		open.arrivesBy(t, p, g.at("app", page))
	}
	says(false)
	for _, page := range pages { // no rule has been checked again yet
		open.navigate(g.at("app", page)).is(t, http.StatusOK, page, " before")
	}
	again := g.visitor(t)
	if a, at, _ := again.walkAt(p, g.at("app", "/people/acme/x")); a.status != http.StatusForbidden || at != g.at("app", "/people/acme/x") {
		t.Errorf("signed in again: %d at %s", a.status, at)
	}
	(&gateway{gatehouse: g.gatehouse}).later(c, time.Minute+time.Second)
	for name, browser := range map[string]*visitorOfHosts{"the browser that signed in": again, "another": open} {
		for _, page := range pages {
			browser.navigate(g.at("app", page)).is(t, http.StatusForbidden, name, ", ", page)
		}
		browser.navigate(g.at("app", "/x")).is(t, http.StatusOK, name, ", without a rule")
	}
}
