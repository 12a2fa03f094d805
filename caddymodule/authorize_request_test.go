package caddymodule

import (
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

// startCanary listens for connections that must never come: those of the server to an address in a request.
func startCanary(t *testing.T) (address string, connections *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	connections = new(atomic.Int64)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			_ = connection.Close()
		}
	}()
	return listener.Addr().String(), connections
}

// TestA43ToA46WhatIsNoAuthorizationRequest: a query over 8 KiB, 2,000 parameters, PUT, a form with a query, HEAD or prefetch, `request`,
// `request_uri` to an internal address → refused, no code, no outbound connection. The browser of the test would otherwise get a code at
// once.
func TestA43ToA46WhatIsNoAuthorizationRequest(t *testing.T) {
	g := startPeople(t)
	b := g.consented("ada@acme.example")
	r := requestOf("conf")
	t.Run("A43 more than 8 KiB", func(t *testing.T) {
		holdRefusal(t, b.open(r.path()+"&x="+strings.Repeat("x", 8<<10)))
		holdRefusal(t, b.fetch(http.MethodPost, "/oauth/authorize", r.values().Encode()+"&x="+strings.Repeat("x", 8<<10), "Content-Type", urlEncoded))
		if p := b.open(r.path() + "&x=" + strings.Repeat("x", 32<<10)); p.status < 400 || p.status > 499 {
			t.Errorf("32 KiB: %d", p.status)
		}
		b.fetch(http.MethodPost, "/oauth/authorize", strings.Repeat("x", 65<<10), "Content-Type", urlEncoded).is(t, http.StatusRequestEntityTooLarge, "65 KiB in a form")
		b.codeToClient(t, b.open(r.path()+"&x="+strings.Repeat("x", 7<<10)), r)
	})
	t.Run("A43 many parameters", func(t *testing.T) {
		holdRefusal(t, b.open(r.path()+strings.Repeat("&x=", 2000)))
		holdRefusal(t, b.open(r.path()+strings.Repeat("&", 2000)))
		b.codeToClient(t, b.open(r.path()+strings.Repeat("&x=", 20)), r)
	})
	t.Run("A43 malformed", func(t *testing.T) {
		for _, query := range []string{"%zz", "client_id=conf;x=1", "client_id=%", r.values().Encode() + "&x=1;state=evil", r.values().Encode() + "&%"} {
			holdRefusal(t, b.open("/oauth/authorize?"+query))
		}
	})
	t.Run("A44 methods", func(t *testing.T) {
		for _, method := range []string{"PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "get", "PROPFIND"} {
			p := b.fetch(method, r.path(), "")
			holdPage(t, p, http.StatusMethodNotAllowed)
			if allow := p.header.Get("Allow"); allow != "GET, HEAD, POST" {
				t.Errorf("%s: Allow %q", method, allow)
			}
			if p.header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s: opened to other origins", method)
			}
		}
	})
	t.Run("A44 POST", func(t *testing.T) {
		b.codeToClient(t, b.send("/oauth/authorize", r.values()), r)
		// Parameters come from one source only: the query of a request with a body is ignored.
		other := requestOf("other")
		p := b.fetch(http.MethodPost, other.path(), r.values().Encode(), "Content-Type", urlEncoded)
		b.codeToClient(t, p, r)
		holdRefusal(t, b.fetch(http.MethodPost, r.path(), "", "Content-Type", urlEncoded))
		half := r.with("redirect_uri", "-")
		holdRefusal(t, b.fetch(http.MethodPost, "/oauth/authorize?redirect_uri="+url.QueryEscape(r.redirectURI), half.Encode(), "Content-Type", urlEncoded))
		for _, media := range []string{"application/json", "text/plain", "multipart/form-data; boundary=x", "", urlEncoded + "; charset=utf-16"} {
			holdRefusal(t, b.fetch(http.MethodPost, "/oauth/authorize", r.values().Encode(), "Content-Type", media))
		}
	})
	t.Run("A44 POST from another site", func(t *testing.T) {
		// SameSite=Lax withholds the cookies. The server redirects the browser to the same request, with the parameters re-encoded.
		stranger := g.browser()
		cross := func(body string) page {
			return stranger.fetch(http.MethodPost, "/oauth/authorize", body, "Content-Type", urlEncoded, "Sec-Fetch-Site", "cross-site")
		}
		p := cross(r.values().Encode())
		location := p.location()
		if p.status != http.StatusSeeOther || location.Path != "/oauth/authorize" || location.Host != "" || location.Query().Get("state") != r.state {
			t.Fatalf("%d %q", p.status, p.header.Get("Location"))
		}
		p = stranger.fetch(http.MethodPost, "/oauth/authorize", r.values().Encode(), "Content-Type", urlEncoded, "Sec-Fetch-Site", "cross-site", "Cookie", "_ga=GA1.1")
		if p.status != http.StatusSeeOther || p.header.Get("Set-Cookie") != "" {
			t.Errorf("with a cookie of another application: %d, %q", p.status, p.header.Get("Set-Cookie"))
		}
		hostile := r.with("state", "-").Encode() + "&state=a\r\nSet-Cookie: session=evil #fragment"
		p = cross(hostile)
		if got := p.location().Query().Get("state"); got != "a\r\nSet-Cookie: session=evil #fragment" || p.header.Get("Set-Cookie") != "" {
			t.Errorf("%d, state %q in %q", p.status, got, p.header.Get("Location"))
		}
	})
	t.Run("A45 no visit", func(t *testing.T) {
		for name, p := range map[string]page{
			"HEAD":      b.fetch(http.MethodHead, r.path(), ""),
			"prefetch":  b.fetch(http.MethodGet, r.path(), "", "Sec-Purpose", "prefetch"),
			"prerender": b.fetch(http.MethodGet, r.path(), "", "Sec-Purpose", "prefetch;prerender"),
			"proxied":   b.fetch(http.MethodGet, r.path(), "", "Sec-Purpose", "prefetch;anonymous-client-ip"),
		} {
			if p.status != http.StatusForbidden || p.header.Get("Location") != "" || strings.Contains(p.body, "code=") {
				t.Errorf("%s: %d %q", name, p.status, p.header.Get("Location"))
			}
		}
		first := requestOf("first")
		if p := b.fetch(http.MethodHead, first.path(), ""); p.header.Get("Location") != "" {
			t.Errorf("HEAD, first party: %q", p.header.Get("Location"))
		}
		b.codeToClient(t, b.open(r.path()), r)
		b.codeToClient(t, b.open(first.path()), first)
	})
	t.Run("A46 request objects", func(t *testing.T) {
		canary, connections := startCanary(t)
		for _, uri := range []string{
			"http://" + canary + "/r", "https://" + canary + "/r", "http://169.254.169.254/", "file:///etc/passwd", "urn:ietf:params:oauth:request_uri:x",
		} {
			b.errorToClient(t, b.ask(r.with("request_uri", uri)), r, "request_uri_not_supported", "")
			holdRefusal(t, b.ask(r.with("client_id", uri)))
		}
		b.errorToClient(t, b.ask(r.with("request", "eyJhbGciOiJub25lIn0.e30.")), r, "request_not_supported", "")
		for _, name := range []string{"logo_uri", "jwks_uri", "sector_identifier_uri", "client_metadata", "registration"} {
			b.codeToClient(t, b.ask(r.with(name, "http://"+canary+"/")), r)
		}
		b.errorToClient(t, b.ask(r.with("resource", "http://"+canary+"/")), r, "invalid_target", "")
		if n := connections.Load(); n != 0 {
			t.Errorf("%d connections to an address that the request named", n)
		}
	})
}

// TestA47ToA51T57T58ErrorsGoToTheClient: a wrong response_type, response_mode or scope, a parameter twice, NUL or bad UTF-8 in state (A53), the
// challenge stripped from a request that needs one, method `plain` or misspelled, a challenge of 42 or 44 characters → the error at the redirect URI,
// nothing in a fragment; a doubled client_id or redirect_uri → a page. The client and the redirect URI of each request are valid.
func TestA47ToA51T57T58ErrorsGoToTheClient(t *testing.T) {
	g := startPeople(t, "client first first-SECRET", `client tokensonly tokensonly-SECRET {
			grants client_credentials
			redirect_uris https://only.example/cb
		}
		client first first-SECRET`)
	b := g.consented("ada@acme.example")
	conf, pub := requestOf("conf"), requestOf("pub")
	only := request{clientID: "tokensonly", redirectURI: "https://only.example/cb", state: "s"}
	twice := func(name, value string) url.Values {
		v := conf.with(name, value)
		v[name] = append(v[name], value)
		return v
	}
	stateless := conf
	stateless.state = ""
	const missingType, missingChallenge = "Missing required parameter: response_type.", "Missing required parameter: code_challenge."
	const onlyS256 = "The code_challenge_method must be S256."
	legacy, nat := requestOf("legacy"), requestOf("nat")
	valid := challengeOf(conf.verifier)
	challenged := func(r request, challenge, method string) url.Values {
		v := r.with("code_challenge", challenge)
		if v.Set("code_challenge_method", method); method == "-" {
			v.Del("code_challenge_method")
		}
		return v
	}
	for _, c := range []struct {
		name     string
		request  request
		values   url.Values
		code     string
		sentence string
	}{
		{"A47 missing", conf, conf.with("response_type", "-"), "invalid_request", missingType},
		{"A47 empty", conf, conf.with("response_type", ""), "invalid_request", missingType},
		{"A47 token", conf, conf.with("response_type", "token"), "unsupported_response_type", ""},
		{"A47 id_token", conf, conf.with("response_type", "id_token"), "unsupported_response_type", ""},
		{"A47 code token", conf, conf.with("response_type", "code token"), "unsupported_response_type", ""},
		{"A47 none", conf, conf.with("response_type", "none"), "unsupported_response_type", ""},
		{"A47 CODE", conf, conf.with("response_type", "CODE"), "unsupported_response_type", ""},
		{"A47 space before", conf, conf.with("response_type", " code"), "unsupported_response_type", ""},
		{"A47 space behind", conf, conf.with("response_type", "code "), "unsupported_response_type", ""},
		{"A47 code code", conf, conf.with("response_type", "code code"), "unsupported_response_type", ""},
		{"A49 fragment", conf, conf.with("response_mode", "fragment"), "invalid_request", ""},
		{"A49 form_post", conf, conf.with("response_mode", "form_post"), "invalid_request", ""},
		{"A49 query.jwt", conf, conf.with("response_mode", "query.jwt"), "invalid_request", ""},
		{"A49 web_message", conf, conf.with("response_mode", "web_message"), "invalid_request", ""},
		{"A49 QUERY", conf, conf.with("response_mode", "QUERY"), "invalid_request", ""},
		{"A50 unknown", conf, conf.with("scope", "public nosuch"), "invalid_scope", ""},
		{"A50 not allowed", pub, pub.with("scope", "public orders.read"), "invalid_scope", ""},
		{"A50 case", conf, conf.with("scope", "Public"), "invalid_scope", ""},
		{"A50 quote", conf, conf.with("scope", `public "x"`), "invalid_scope", ""},
		{"A50 a control that is no white space", conf, conf.with("scope", "public\btrusted"), "invalid_scope", ""},
		{"A50 NBSP", conf, conf.with("scope", "public\u00a0trusted"), "invalid_scope", ""},
		{"A50 5 KiB", conf, conf.with("scope", strings.Repeat("scope ", 5<<10/6)), "invalid_scope", ""},
		{"A51 state", stateless, twice("state", "x"), "invalid_request", ""},
		{"A53 NUL in state", stateless, conf.with("state", "a\x00b"), "invalid_request", ""},
		{"A53 not UTF-8 in state", stateless, conf.with("state", "a\xffb"), "invalid_request", ""},
		{"not UTF-8 in login_hint", conf, conf.with("login_hint", "\xff"), "invalid_request", ""},
		{"login_hint of 513 bytes", conf, conf.with("login_hint", strings.Repeat("x", 513)), "invalid_request", ""},
		{"prompt unknown", conf, conf.with("prompt", "create"), "invalid_request", ""},
		{"prompt none and login", conf, conf.with("prompt", "none login"), "invalid_request", ""},
		{"max_age", conf, conf.with("max_age", "5m"), "invalid_request", ""},
		{"max_age negative", conf, conf.with("max_age", "-1"), "invalid_request", ""},
		{"prompt case", conf, conf.with("prompt", "None"), "invalid_request", ""},
		{"grant not allowed", only, only.values(), "unauthorized_client", ""},
		{"T57 stripped, public", pub, challenged(pub, "-", "-"), "invalid_request", missingChallenge},
		{"T57 stripped, native", nat, challenged(nat, "-", "-"), "invalid_request", missingChallenge},
		{"T58 method alone", conf, challenged(conf, "-", "S256"), "invalid_request", missingChallenge},
		{"T58 challenge alone", conf, challenged(conf, valid, "-"), "invalid_request", onlyS256},
		{"T58 plain", conf, challenged(conf, valid, "plain"), "invalid_request", onlyS256},
		{"T58 plain, public", pub, challenged(pub, valid, "plain"), "invalid_request", onlyS256},
		{"T58 plain, legacy", legacy, challenged(legacy, valid, "plain"), "invalid_request", onlyS256},
		{"T58 lower case", conf, challenged(conf, valid, "s256"), "invalid_request", onlyS256},
		{"T58 unknown", conf, challenged(conf, valid, "S512"), "invalid_request", onlyS256},
		{"T58 garbage", conf, challenged(conf, valid, "plain\ngarbage"), "invalid_request", onlyS256},
		{"T58 empty method", conf, challenged(conf, valid, ""), "invalid_request", onlyS256},
		{"T58 42 characters", conf, challenged(conf, valid[:42], "S256"), "invalid_request", ""},
		{"T58 44 characters", conf, challenged(conf, valid+"A", "S256"), "invalid_request", ""},
		{"T58 bad alphabet", conf, challenged(conf, valid[:42]+"+", "S256"), "invalid_request", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.errorToClient(t, b.ask(c.values), c.request, c.code, c.sentence)
			b.errorToClient(t, g.browser().send("/oauth/authorize", c.values), c.request, c.code, c.sentence)
		})
	}
	for name, value := range map[string]string{
		"response_type": "code", "response_mode": "query", "scope": "public", "code_challenge": challengeOf("v"), "code_challenge_method": "S256", "prompt": "login", "max_age": "0",
		"login_hint": "x", "ui_locales": "de", "request": "x", "request_uri": "x",
	} {
		t.Run("A51 "+name, func(t *testing.T) { b.errorToClient(t, b.ask(twice(name, value)), conf, "invalid_request", "") })
	}
	t.Run("A50 the default", func(t *testing.T) {
		code := b.codeToClient(t, b.ask(conf.with("scope", "-")), conf)
		if got := g.obtain(conf.exchange(code)).Scope; got != "public" {
			t.Errorf("scope %q", got)
		}
	})
	t.Run("accepted", func(t *testing.T) {
		for _, values := range []url.Values{
			conf.with("response_mode", "query"), conf.with("state", conf.state), conf.with("login_hint", strings.Repeat("x", 512)),
			conf.with("scope", " public  trusted public "), conf.with("prompt", ""), conf.with("unknown", "x"),
		} {
			b.codeToClient(t, b.ask(values), conf)
		}
		repeated := conf.values()
		repeated["unknown"] = []string{"a", "b"}
		b.codeToClient(t, b.ask(repeated), conf)
	})
}

// TestA52StateComesBack: state of any printable characters, emoji, 4 KiB, CR LF → identical after one decoding; with raw semicolons → the same,
// which are malformed anywhere else; absent (A54) → absent, a registered `state` stays.
func TestA52StateComesBack(t *testing.T) {
	g := startPeople(t)
	b := g.consented("ada@acme.example")
	var printable strings.Builder
	for c := byte(' '); c <= '~'; c++ {
		printable.WriteByte(c)
	}
	for name, state := range map[string]string{
		"printable ASCII": printable.String(), "emoji": "🏰🔑👩‍👩‍👧 é ﷽ \u202e", "4 KiB": strings.Repeat("s", 4<<10), "A53 CR LF": "a\r\nSet-Cookie: session=evil\r\n\r\n<html>",
		"controls": "\x01\x1b\x7f\u0085\u2028", "like an answer": "x&code=evil&iss=https://evil.tld&error=none#code=evil", "U+FFFD": "\ufffd",
	} {
		t.Run(name, func(t *testing.T) {
			conf, first := requestOf("conf"), requestOf("first")
			conf.state, first.state = state, state
			b.codeToClient(t, b.open(conf.path()), conf)
			b.codeToClient(t, b.send("/oauth/authorize", first.values()), first)
			b.errorToClient(t, b.ask(conf.with("response_type", "token")), conf, "unsupported_response_type", "")
			b.errorToClient(t, g.browser().ask(conf.with("prompt", "none")), conf, "login_required", "")
			pub := requestOf("pub") // through the sealed request and two pages
			pub.state = state
			p := b.open(pub.path())
			holdPage(t, p, http.StatusOK)
			b.codeToClient(t, b.decide(p, "allow"), pub)
			b.errorToClient(t, b.decide(b.open(pub.path()), "deny"), pub, "access_denied", "The resource owner or authorization server denied the request.")
		})
	}
	t.Run("A54 absent or empty", func(t *testing.T) {
		r := requestOf("conf")
		r.state = ""
		b.codeToClient(t, b.open(r.path()), r)
		b.codeToClient(t, b.ask(r.with("state", "")), r)
		b.errorToClient(t, b.ask(r.with("response_type", "token")), r, "unsupported_response_type", "")
	})
	t.Run("raw semicolons", func(t *testing.T) {
		first := requestOf("first")
		first.state = "/orders;page=2;scope=admin;redirect_uri=https://evil.example/?q=1 +&é;"
		raw := "&state=" + strings.NewReplacer("%3B", ";", "%2F", "/", "%3D", "=", "%3A", ":", "%3F", "?").Replace(url.QueryEscape(first.state))
		without := first.with("state", "-").Encode()
		path := "/oauth/authorize?" + without
		for _, p := range []page{
			b.open(path + raw), b.open("/oauth/authorize?" + raw[1:] + "&" + without), b.fetch(http.MethodPost, "/oauth/authorize", without+raw, "Content-Type", urlEncoded),
			b.open(strings.Replace(path, "scope=trusted+", "scope=%0Atrusted%0D%0A%09", 1) + raw),
		} {
			b.codeToClient(t, p, first)
		}
		b.errorToClient(t, b.open(strings.Replace(path, "scope=trusted+", "scope=nonsense+", 1)+raw), first, "invalid_scope", "")
		for _, query := range []string{"&x=1;y=2", "&x;state=1", ";state=1", "&state;x=1", "&sta;te=1"} {
			holdRefusal(t, b.open(path+query))
		}
	})
	t.Run("longest", func(t *testing.T) {
		// The longest accepted request also fits into the URLs of our own pages.
		r := requestOf("pub")
		r.state = ""
		r.state = strings.Repeat("s", 8<<10-len(r.values().Encode())-len("&state="))
		c := g.browser()
		b.codeToClient(t, c.authorize(r, "ada@acme.example"), r)
	})
}

// TestA55ToA59AnswersByRedirect: code, denial and errors → 303 with state and `iss`, the registered query kept, no-store, no-referrer; no
// code or Location in the log. It reads the log after the whole flow.
func TestA55ToA59AnswersByRedirect(t *testing.T) {
	g := startPeople(t)
	b := g.browser()
	r := requestOf("conf")
	signInPage := b.open(r.path())
	holdPage(t, signInPage, http.StatusOK)
	_, signInForm := formIn(t, signInPage)
	toConsent := b.signIn(signInPage, "ada@acme.example", peoplePassword)
	if toConsent.status != http.StatusSeeOther {
		t.Fatalf("A57: %d after signing in", toConsent.status)
	}
	holdNoStore(t, toConsent)
	consentPage := b.open(toConsent.header.Get("Location"))
	holdPage(t, consentPage, http.StatusOK)
	_, consentForm := formIn(t, consentPage)
	answer := b.decide(consentPage, "allow")
	code := b.codeToClient(t, answer, r)
	if location := answer.header.Get("Location"); !strings.HasPrefix(location, "https://client.example/cb?x=1&code="+code+"&state=") {
		t.Errorf("A55: %s", location)
	}
	denial := b.ask(r.with("prompt", "consent"))
	holdPage(t, denial, http.StatusOK)
	b.errorToClient(t, b.decide(denial, "deny"), r, "access_denied", "The resource owner or authorization server denied the request.")
	got := g.obtain(r.exchange(code))
	t.Run("A58 the log", func(t *testing.T) {
		logs := g.logs()
		for _, bad := range []string{"code=", `"Location"`, "client.example/cb", "pending=", "code_challenge", "Set-Cookie", r.state} {
			if i := strings.Index(logs, bad); i >= 0 {
				t.Errorf("logged: %.400s", logs[strings.LastIndexByte(logs[:i], '\n')+1:])
			}
		}
		g.notLogged(t, code, got.AccessToken, got.RefreshToken, peoplePassword, b.cookie("session"), b.cookie("accessToken"),
			b.cookie("gatehouse_browser"), b.cookie("gatehouse_device"), signInForm.Get("form_token"), signInForm.Get("pending"),
			consentForm.Get("form_token"), consentForm.Get("pending"), url.QueryEscape(peoplePassword))
		holdWords(t, "the audit log", logs, "signed in", "authorization granted", "denied_by_user", "u-ada")
	})
}

// TestPromptsDecideWhichPagesAreShown checks prompt (OpenID Connect Core §3.1.2.1) without OpenID Connect. T180 and T181 have more of it.
func TestPromptsDecideWhichPagesAreShown(t *testing.T) {
	g := startPeople(t)
	conf, pub, first := requestOf("conf"), requestOf("pub"), requestOf("first")
	signedOut := g.browser()
	b := g.consented("ada@acme.example")
	isSignIn := func(p page) bool { return p.status == http.StatusOK && strings.Contains(p.body, `name="password"`) }
	isConsent := func(p page) bool { return p.status == http.StatusOK && strings.Contains(p.body, `name="decision"`) }
	t.Run("none, of a first party", func(t *testing.T) {
		signedOut.errorToClient(t, signedOut.ask(first.with("prompt", "none")), first, "login_required", "")
		b.codeToClient(t, b.ask(first.with("prompt", "none")), first)
		b.errorToClient(t, b.ask(pub.with("prompt", "none")), pub, "consent_required", "")
		evil := conf.with("prompt", "none")
		evil.Set("redirect_uri", "https://evil.tld/")
		holdRefusal(t, b.ask(evil))
	})
	t.Run("consent", func(t *testing.T) {
		if p := b.ask(conf.with("prompt", "consent")); !isConsent(p) {
			t.Errorf("%d %s", p.status, p.body)
		}
		if p := b.ask(first.with("prompt", "consent")); !isConsent(p) {
			t.Errorf("first party: %d %s", p.status, p.body)
		}
	})
	for _, prompt := range []string{"login", "select_account", "login consent"} {
		t.Run(prompt, func(t *testing.T) {
			p := b.ask(conf.with("prompt", prompt))
			if !isSignIn(p) {
				t.Fatalf("%d %s", p.status, p.body)
			}
			_, fields := formIn(t, p)
			pending := url.QueryEscape(fields.Get("pending"))
			for range 2 { // neither continuing by hand nor coming back skips the password
				if p := b.open("/oauth/consent?pending=" + pending); !isSignIn(p) {
					t.Fatalf("skipped: %d %q", p.status, p.header.Get("Location"))
				}
			}
			if again := b.signIn(p, "ada@acme.example", "wrong"); !isSignIn(again) || !b.isSignedIn() {
				t.Errorf("a wrong password: %d", again.status)
			}
			if p := b.open("/oauth/consent?pending=" + pending); !isSignIn(p) {
				t.Fatalf("skipped after a wrong password: %d %q", p.status, p.header.Get("Location"))
			}
			done := b.signIn(p, "ada@acme.example", peoplePassword)
			if prompt == "login consent" {
				if done = b.open(done.header.Get("Location")); !isConsent(done) {
					t.Fatalf("no consent page: %d", done.status)
				}
				done = b.decide(done, "allow")
			}
			b.codeToClient(t, done, conf)
		})
	}
}

// TestPagesSpeakTheReadersLanguage checks that ui_locales takes precedence over Accept-Language and persists through sign-in.
func TestPagesSpeakTheReadersLanguage(t *testing.T) {
	g := startPeople(t)
	pub := requestOf("pub")
	for _, c := range []struct {
		name, locales, accept, want string
	}{
		{"neither", "-", "", "en"}, {"header", "-", "de-AT,de;q=0.9,en;q=0.1", "de"}, {"parameter first", "en", "de", "en"}, {"garbage", "\"><script>alert(1)</script>", "'; DROP TABLE", "en"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := g.browser()
			p := b.fetch(http.MethodGet, "/oauth/authorize?"+pub.with("ui_locales", c.locales).Encode(), "", "Accept-Language", c.accept)
			holdPage(t, p, http.StatusOK)
			title := map[string]string{"en": "Sign in", "de": "Anmelden"}[c.want]
			if !strings.Contains(p.body, `<html lang="`+c.want+`"`) || !strings.Contains(p.body, "<h1>"+title+"</h1>") || p.header.Get("Content-Language") != c.want {
				t.Errorf("language %q: %.300s", p.header.Get("Content-Language"), p.body)
			}
		})
	}
	t.Run("all the way", func(t *testing.T) {
		b := g.browser()
		p := b.signIn(b.ask(pub.with("ui_locales", "de")), "ada@acme.example", "wrong")
		if p.header.Get("Content-Language") != "de" {
			t.Errorf("after a wrong password: %q", p.header.Get("Content-Language"))
		}
		p = b.open(b.signIn(p, "ada@acme.example", peoplePassword).header.Get("Location"))
		if p.header.Get("Content-Language") != "de" || !strings.Contains(p.body, "Erlauben") {
			t.Errorf("the consent page: %q %.300s", p.header.Get("Content-Language"), p.body)
		}
		if p := b.fetch(http.MethodGet, "/oauth/account", "", "Accept-Language", "de"); p.header.Get("Content-Language") != "de" {
			t.Errorf("the account page: %q", p.header.Get("Content-Language"))
		}
		if p := b.fetch(http.MethodGet, "/oauth/authorize", "", "Accept-Language", "de"); p.header.Get("Content-Language") != "de" {
			t.Errorf("an error: %q", p.header.Get("Content-Language"))
		}
	})
}
