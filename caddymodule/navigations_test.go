package caddymodule

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// These tests cover codes and states that remain in the address of a page, and scripts of an application at the same
// origin that fetch our pages.

// explained expects a failed callback to redirect the browser to an address without parameters, and returns the page
// there.
func (v *visitorOfHosts) explained(t *testing.T, host string, a answer) answer {
	t.Helper()
	if a.status != http.StatusSeeOther || a.header.Get("Location") != "/oauth/callback" {
		t.Fatalf("%d to %q: %s", a.status, a.header.Get("Location"), a.body)
	}
	return v.navigate(v.gate.at(host, "/oauth/callback"))
}

// pendingOf returns a value that was sealed for another purpose.
func pendingOf(t *testing.T, v *visitorOfHosts) string {
	t.Helper()
	a := v.gate.visitor(t).navigate(v.gate.at("auth", "/oauth/account"))
	return a.location().Query().Get("pending")
}

// TestS8V6RefusedCallbacksKeepNoCode: a callback with a foreign, altered, missing or doubled state or iss, by POST, or with an answer that refuses
// → no session, and 303 to an address without code or state.
func TestS8V6RefusedCallbacksKeepNoCode(t *testing.T) {
	g := startHosts(t)
	fresh := g.visitor(t)
	fresh.walk(g.at("auth", "/oauth/login"), "ada@acme.example")
	other := fresh.begun("app", "/x")
	for name, change := range map[string]func(*url.URL) string{
		"a state that is made up": func(u *url.URL) string { return withQuery(u, "state", "x") },
		"a state of another host": func(u *url.URL) string { return withQuery(u, "state", other.Query().Get("state")) },
		"a state that is changed": func(u *url.URL) string { return withQuery(u, "state", u.Query().Get("state")[1:]) },
		"a sealed return":         func(u *url.URL) string { return withQuery(u, "state", pendingOf(t, fresh)) },
		"no issuer":               func(u *url.URL) string { return withQuery(u, "iss", "") },
		"no state":                func(u *url.URL) string { return withQuery(u, "state", "") },
		"two states":              func(u *url.URL) string { return u.String() + "&state=x" },
		"another issuer":          func(u *url.URL) string { return withQuery(u, "iss", "https://evil.example") },
		"semicolons":              func(u *url.URL) string { return u.String() + ";x" },
		"a failure":               func(u *url.URL) string { return withQuery(u, "error", "access_denied") },
		"a failure to be fresh":   func(u *url.URL) string { return withQuery(u, "error", "login_required") },
		"a code alone":            func(u *url.URL) string { return g.at("wiki", "/oauth/callback?code="+u.Query().Get("code")) },
	} {
		t.Run(name, func(t *testing.T) {
			v := g.signedIn(t, "ada@acme.example")
			callback := change(v.begun("wiki", "/pages/1"))
			for shown, headers := range map[string][]string{"a page": navigation, "an older browser": {"Accept", "text/html"}} {
				a := v.explained(t, "wiki", v.send(http.MethodGet, callback, "", headers...))
				if a.status < 400 || a.status > 403 || !strings.Contains(a.header.Get("Content-Type"), "text/html") || a.header.Get("X-Content-Type-Options") != "nosniff" {
					t.Errorf("%s: %d %v", shown, a.status, a.header)
				}
				if fresh := strings.Contains(a.body, "fresh sign-in"); fresh != (name == "a failure to be fresh") {
					t.Errorf("%s: %s", shown, a.body)
				}
			}
			if a := v.send(http.MethodGet, callback, "", "Accept", "application/json"); a.status == http.StatusOK || strings.Contains(a.body, "code") {
				t.Errorf("as JSON: %d %s", a.status, a.body)
			}
			if v.cookie("wiki", hostCookie) != "" {
				t.Error("somebody is signed in")
			}
		})
	}
	for name, change := range map[string][2]string{
		"at another host": {"wiki.", "app."}, "encoded": {"/oauth/callback", "/oauth/%63allback"}, "with a second slash": {"/oauth/callback", "//oauth/callback"},
	} {
		v := g.signedIn(t, "ada@acme.example")
		a := v.navigate(strings.Replace(v.begun("wiki", "/pages/1").String(), change[0], change[1], 1))
		if at := a.header.Get("Location"); a.status < 400 && at != "/oauth/callback" || a.status >= 400 && at != "" || v.cookie("wiki", hostCookie) != "" {
			t.Errorf("%s: %d %v", name, a.status, a.header)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut} {
		v := g.signedIn(t, "ada@acme.example")
		v.explained(t, "wiki", v.send(method, v.begun("wiki", "/pages/1").String(), "")).is(t, http.StatusMethodNotAllowed, method)
	}
	t.Run("a browser that keeps no cookies", func(t *testing.T) {
		bare := g.visitor(t)
		bare.client.Jar = nil
		a := bare.explained(t, "wiki", bare.navigate(g.at("wiki", "/oauth/callback?code=x&state=y")))
		if a.status != http.StatusBadRequest || !strings.Contains(a.body, "/oauth/sign_in?return=%2F") {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	t.Run("what an application writes into our cookie", func(t *testing.T) {
		for _, text := range []string{"x", "e30", "eyJzdGF0dXMiOjIwMCwicGFnZSI6ImhvcnNlIiwicmV0dXJuIjoiLy9ldmlsLmV4YW1wbGUifQ", strings.Repeat("A", 3000)} {
			a := g.visitor(t).send(http.MethodGet, g.at("wiki", "/oauth/callback"), "", append(navigation, "Cookie", "gatefirst_refused="+text)...)
			if a.status < 400 || a.status > 599 || strings.Contains(a.body, "evil.example") || !strings.Contains(a.header.Get("Content-Type"), "text/html") {
				t.Errorf("%s: %d %s", text, a.status, a.body)
			}
		}
	})
}

// TestV6NoCodeForAnothersAttempt: an attacker begins a sign-in, and a script of the host opens the issuer's page for
// it in the visitor's browser. The issuer accepts only an attempt that a host of ours has begun, and the host redeems
// the code only in the browser that began it.
func TestV6NoCodeForAnothersAttempt(t *testing.T) {
	g := startHosts(t, "http://wiki.localhost:TCPPORT {", "http://auth.localhost:TCPPORT/own/* {\n\tprotect {\n\t\tchallenge browser\n\t}\n\treverse_proxy UPSTREAM\n}\nhttp://wiki.localhost:TCPPORT {")
	attacker, victim := g.visitor(t), g.signedIn(t, "ada@acme.example")
	theirs := attacker.navigate(g.at("wiki", "/pages/1")).location()
	another := attacker.navigate(g.at("wiki", "/pages/2")).location()
	elsewhere := attacker.navigate(g.at("app", "/x")).location()
	for name, target := range map[string]string{
		"a state that is made up":      withQuery(theirs, "state", "x"),
		"none":                         withQuery(theirs, "state", ""),
		"two":                          theirs.String() + "&state=x",
		"one that is cut short":        withQuery(theirs, "state", theirs.Query().Get("state")[2:]),
		"that of another attempt":      withQuery(theirs, "state", another.Query().Get("state")),
		"that of another host":         withQuery(theirs, "state", elsewhere.Query().Get("state")),
		"another challenge":            withQuery(theirs, "code_challenge", another.Query().Get("code_challenge")),
		"another nonce":                withQuery(theirs, "nonce", another.Query().Get("nonce")),
		"no nonce":                     withQuery(theirs, "nonce", ""),
		"no challenge":                 withQuery(theirs, "code_challenge", ""),
		"another error, made up state": withQuery(theirs, "state", "x") + "&response_mode=x",
	} {
		t.Run(name, func(t *testing.T) {
			for _, v := range []*visitorOfHosts{victim, attacker} {
				v.navigate(target).leads(t, http.StatusBadRequest, "")
			}
		})
	}
	t.Run("the attempt as it is", func(t *testing.T) {
		a := victim.navigate(theirs.String()) // merely a link: the host begins anew, in this browser
		a = victim.navigate(a.header.Get("Location"))
		if at := a.location(); a.status != http.StatusSeeOther || at == nil || at.Path != "/oauth/authorize" || at.Query().Has("code") || at.Query().Get("state") == theirs.Query().Get("state") {
			t.Errorf("%d %v", a.status, a.header)
		}
	})
	t.Run("the attempt as it is, at the issuer's own host", func(t *testing.T) {
		theirs := attacker.navigate(g.at("auth", "/own/1")).location()
		a := victim.navigate(theirs.String())
		if at := a.location(); a.status != http.StatusSeeOther || at == nil || at.Query().Has("code") {
			t.Fatalf("%d %v", a.status, a.header)
		}
		victim.ends(t, a.header.Get("Location"), "", g.at("auth", "/own/1"))
		victim.arrives(t, g.at("auth", "/own/2"), "")
	})
}

// TestV6NoCodeWhereAScriptReads: a script of the host opens the callback in a frame or window → it reads no code. A
// frame gets no code, and a window is severed from its opener.
func TestV6NoCodeWhereAScriptReads(t *testing.T) {
	g := startHosts(t)
	attacker, victim := g.visitor(t), g.signedIn(t, "ada@acme.example")
	theirs := attacker.navigate(g.at("wiki", "/pages/1")).location()
	frame := []string{"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe", "Sec-Fetch-Site", "same-site", "Referer", g.origin("wiki") + "/"}
	for _, target := range []string{theirs.String(), theirs.String() + "&prompt=none"} {
		victim.send(http.MethodGet, target, "", frame...).leads(t, http.StatusForbidden, "", "a frame")
	}
	severed := func(what string, a answer) {
		t.Helper()
		if a.header.Get("Cross-Origin-Opener-Policy") != "same-origin" {
			t.Errorf("%s: %d %v", what, a.status, a.header)
		}
	}
	severed("the sign-in page", g.visitor(t).navigate(theirs.String()))
	severed("silent, without a sign-in", g.visitor(t).navigate(theirs.String()+"&prompt=none"))
	a := victim.navigate(theirs.String() + "&prompt=none")
	severed("the code", a)
	callback := a.location()
	if a.status != http.StatusSeeOther || !callback.Query().Has("code") {
		t.Fatalf("%d %v", a.status, a.header)
	}
	victim.send(http.MethodGet, callback.String(), "", frame...).leads(t, http.StatusSeeOther, "/oauth/callback", "the callback in a frame")
	victim.navigate(callback.String()) // the state is the attacker's, so the code is invalidated
	attacker.navigate(callback.String())
	if attacker.cookie("wiki", hostCookie) != "" {
		t.Error("the attacker is signed in as the visitor")
	}
}

// TestV11OtherSpellingsOfOurPaths: other spellings of our paths are refused, and no guarded route answers them. A
// proxy that compares decoded paths takes them for ours, and forwards the gate's response to the browser.
func TestV11OtherSpellingsOfOurPaths(t *testing.T) {
	g := startHosts(t)
	v := g.signedIn(t, "ada@acme.example")
	for _, path := range []string{"/oauth/%63allback", "/oauth/sign%5Fin", "/%6fauth/sign_out", "/oauth%2Fsession"} {
		g.upstream.seen()
		if a := v.navigate(g.at("app", path)); a.status != http.StatusBadRequest || a.header.Get("Cookie") != "" {
			t.Errorf("%s: %d %v", path, a.status, a.header)
		}
		g.upstream.none(t)
	}
}

// TestV6CallbacksOfAProvider: callbacks of a provider keep no code either. TestS133V6ALinkSignsNobodyOutByWayOfAHost has those of a host without
// our issuer.
func TestV6CallbacksOfAProvider(t *testing.T) {
	corp := newLyingProvider(t)
	with := startProviders(t, atProvider("corp", corp, "link verified_email"))
	for _, query := range []string{"code=c&state=x", "code=c", "code=c&code=d&state=x", "code=c;state=x", "state=x", "error=access_denied&state=x", "x=y"} {
		b := with.browser()
		a := b.fetch(http.MethodGet, "/oauth/callback/corp?"+query, "", navigation...)
		if at := a.location(); a.status != http.StatusSeeOther || at.Path != "/oauth/login" || at.Query().Has("code") || at.Query().Has("state") {
			t.Errorf("%s: %d %v", query, a.status, a.header)
		}
	}
}

// TestV7ScriptsGetNoPageOfOurs: fetch, image, frame or form by an application at the issuer's origin to our pages →
// 403, nothing is changed. Fetch metadata headers show which requests are navigations, and scripts cannot forge them.
func TestV7ScriptsGetNoPageOfOurs(t *testing.T) {
	g := startPeople(t)
	b := g.consented("ada@acme.example")
	conf := requestOf("conf")
	_, account := formIn(t, b.open("/oauth/account"))
	account.Set("everywhere", "yes")
	_, consent := formIn(t, b.consentFor(t, conf))
	consent.Set("decision", "allow")
	pending := url.Values{"pending": {consent.Get("pending")}}.Encode()
	for name, headers := range map[string][]string{
		"fetch":                              {"Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "Sec-Fetch-Site", "same-origin"},
		"fetch as a form":                    {"Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "empty", "Sec-Fetch-Site", "same-origin", "Accept", "text/html"},
		"frame":                              {"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe", "Sec-Fetch-Site", "same-origin"},
		"a service worker that passes it on": {"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "empty", "Sec-Fetch-Site", "same-origin"},
		"two modes":                          {"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "document"},
		"no mode":                            {"Sec-Fetch-Mode", "", "Sec-Fetch-Dest", "document"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{
				"/oauth/account", "/oauth/login", "/oauth/login?switch=1", "/oauth/login?" + pending, "/oauth/logout", "/oauth/consent?" + pending, conf.path(),
				conf.path() + "&prompt=consent",
			} {
				p := b.fetch(http.MethodGet, path, "", headers...)
				if p.status != http.StatusForbidden || strings.Contains(p.body, "form_token") || p.header.Get("Location") != "" {
					t.Errorf("GET %s: %d %q", path, p.status, p.header.Get("Location"))
				}
			}
			form := append([]string{"Content-Type", urlEncoded, "Origin", g.url}, headers...)
			for path, fields := range map[string]url.Values{"/oauth/account": account, "/oauth/consent": consent, "/oauth/login": {"email": {"max@acme.example"}, "password": {peoplePassword}}} {
				b.fetch(http.MethodPost, path, fields.Encode(), form...).leads(t, http.StatusForbidden, "", "POST ", path)
			}
		})
	}
	if !b.isSignedIn() {
		t.Fatal("something was done")
	}
	// Forms and pages work as before in a browser that sends these headers, and in one that does not. The account
	// page is severed from its opener.
	p := b.fetch(http.MethodGet, "/oauth/account", "", navigation...)
	if holdPage(t, p, http.StatusOK); p.header.Get("Cross-Origin-Opener-Policy") != "same-origin" {
		t.Errorf("the account page: %v", p.header)
	}
	b.codeToClient(t, b.send("/oauth/consent", consent), conf)
}

// TestV7CodesAreForNavigations: 64 images of a sibling at the authorization endpoint → no grants spent. A hidden
// frame of a client's own page gets a code without a prompt, and no other frame does.
func TestV7CodesAreForNavigations(t *testing.T) {
	g := startPeople(t)
	b := g.consented("ada@acme.example")
	granted := func() int { return strings.Count(g.logs(), `"msg":"authorization granted"`) }
	first := requestOf("first")
	b.codeToClient(t, b.fetch(http.MethodGet, first.path(), "", navigation...), first)
	before := granted()
	image := []string{"Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image", "Sec-Fetch-Site", "same-site"}
	for range 64 {
		if p := b.fetch(http.MethodGet, first.path(), "", image...); p.status != http.StatusForbidden {
			t.Fatalf("an image: %d", p.status)
		}
	}
	silent := "/oauth/authorize?" + first.with("prompt", "none").Encode()
	origin := strings.TrimSuffix(first.redirectURI, "/cb")
	frame := []string{"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe", "Sec-Fetch-Site", "same-site"}
	for name, test := range map[string]struct {
		target, referer string
	}{
		"of a sibling":       {silent, "https://evil.example/"},
		"of a prefix":        {silent, origin + ".evil.example/"},
		"that says nothing":  {silent, ""},
		"that could ask":     {first.path(), origin + "/"},
		"of the issuer":      {silent, g.url + "/"},
		"of no address":      {silent, "about:blank"},
		"of another scheme":  {silent, strings.Replace(origin, "https:", "http:", 1) + "/"},
		"that is no address": {silent, "%"},
	} {
		b.fetch(http.MethodGet, test.target, "", append(frame, "Referer", test.referer)...).is(t, http.StatusForbidden, "a frame ", name)
	}
	if n := granted() - before; n != 0 {
		t.Errorf("%d grants were spent", n)
	}
	b.codeToClient(t, b.fetch(http.MethodGet, silent, "", append(frame, "Referer", origin+"/page?x")...), first)
	if n := granted() - before; n != 1 {
		t.Errorf("%d grants of a hidden frame", n)
	}
}
