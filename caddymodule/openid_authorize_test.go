package caddymodule

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestT180PromptNoneShowsNoPage: prompt=none without a sign-in, consent, fitting max_age, hint or acr → login_required, consent_required
// or the like, never a page and never a new grant.
func TestT180PromptNoneShowsNoPage(t *testing.T) {
	now := setClock(t)
	g := startOpenID(t)
	silent := func(more ...string) request {
		return openIDRequestOf("conf", "openid", append([]string{"prompt", "none"}, more...)...)
	}
	fails := func(t *testing.T, b *browser, r request, code string) {
		t.Helper()
		b.errorToClient(t, b.open(r.path()), r, code, "")
	}
	b := g.browser()
	fails(t, b, silent(), "login_required")
	b.signIn(b.open("/oauth/login"), "ada@acme.example", peoplePassword)
	fails(t, b, silent(), "consent_required")
	now.advance(time.Minute)
	loud := openIDRequestOf("conf", "openid refresh_token", "nonce", "n")
	first := b.redeem(t, b.authorize(loud, "ada@acme.example"), loud)
	b.codeToClient(t, b.open(silent().path()), silent())
	fails(t, b, openIDRequestOf("conf", "openid email", "prompt", "none"), "consent_required")
	fails(t, b, silent("claims", `{"userinfo":{"email":null}}`), "consent_required")
	fails(t, b, silent("max_age", "0"), "login_required")
	fails(t, b, openIDRequestOf("conf", "openid", "prompt", "none login"), "invalid_request")

	other := g.browser()
	theirs := openIDRequestOf("conf", "openid")
	grace := other.redeem(t, other.authorize(theirs, "grace@acme.example"), theirs)
	fails(t, b, silent("id_token_hint", grace.IDToken), "login_required") // T167 has forged ones
	own := silent("id_token_hint", first.IDToken)
	b.codeToClient(t, b.open(own.path()), own)
	now.advance(2 * time.Hour)
	b.codeToClient(t, b.open(own.path()), own) // expired
	for name, c := range map[string]struct{ claims, code string }{
		"another user":       {`{"id_token":{"sub":{"value":"u-grace"}}}`, "login_required"},
		"one of others":      {`{"userinfo":{"sub":{"values":["u-grace","u-ben"]}}}`, "login_required"},
		"a class nobody has": {`{"id_token":{"acr":{"essential":true,"values":["2"]}}}`, "unmet_authentication_requirements"},
		"malformed":          {`{"id_token":`, "invalid_request"},
	} {
		t.Run("claims: "+name, func(t *testing.T) {
			r := silent("claims", c.claims)
			p := b.open(r.path())
			b.errorToClient(t, p, r, c.code, descriptionOf(p))
		})
	}
	r := silent("claims", `{"id_token":{"sub":{"value":"u-ada"},"acr":{"essential":true,"values":["2","1"]},"unknown":null}}`)
	b.codeToClient(t, b.open(r.path()), r)
	b.signOut()
	fails(t, b, silent("id_token_hint", first.IDToken), "login_required")
}

// TestT181WhenThePasswordIsAskedForAgain: prompt=login or select_account, max_age 0 or exceeded → the password page, and auth_time moves;
// max_age malformed → invalid_request.
func TestT181WhenThePasswordIsAskedForAgain(t *testing.T) {
	now := setClock(t)
	g := startOpenID(t)
	b := g.browser()
	usual := openIDRequestOf("conf", "openid")
	_, before := g.identity(t, b.redeem(t, b.authorize(usual, "ada@acme.example"), usual).IDToken)
	now.advance(100 * time.Second)
	for name, c := range map[string]struct {
		more  []string
		asked bool
	}{
		"nothing": {nil, false}, "login": {[]string{"prompt", "login"}, true}, "select_account": {[]string{"prompt", "select_account"}, true},
		"max_age=0": {[]string{"max_age", "0"}, true}, "max_age=50": {[]string{"max_age", "50"}, true}, "max_age=10000": {[]string{"max_age", "10000"}, false},
	} {
		r := openIDRequestOf("conf", "openid", c.more...)
		p := b.open(r.path())
		if asked := strings.Contains(p.body, `name="password"`); asked != c.asked {
			t.Errorf("%s: asked for the password: %t", name, asked)
		}
		if !c.asked {
			_, claims := g.identity(t, b.redeem(t, p, r).IDToken)
			if claims["auth_time"] != before["auth_time"] {
				t.Errorf("%s: auth_time %v, want %v", name, claims["auth_time"], before["auth_time"])
			}
		}
	}
	r := openIDRequestOf("conf", "openid", "prompt", "login", "max_age", "3600")
	_, after := g.identity(t, b.redeem(t, b.authorize(r, "ada@acme.example"), r).IDToken)
	if after["auth_time"].(float64) < before["auth_time"].(float64)+100 {
		t.Errorf("auth_time %v, before %v", after["auth_time"], before["auth_time"])
	}
	for _, bad := range []string{"-1", "1.5", "x", "99999999999999999999"} {
		r := openIDRequestOf("conf", "openid", "max_age", bad)
		b.errorToClient(t, b.open(r.path()), r, "invalid_request", "")
	}
}

// TestT182AHintChoosesTheUser: a hint or `claims` that names another user than signs in → login_required; that user → a code.
func TestT182AHintChoosesTheUser(t *testing.T) {
	g := startOpenID(t)
	theirs := openIDRequestOf("conf", "openid")
	other := g.browser()
	grace := other.redeem(t, other.authorize(theirs, "grace@acme.example"), theirs)
	for name, more := range map[string][]string{
		"id_token_hint": {"id_token_hint", grace.IDToken}, "claims": {"claims", `{"id_token":{"sub":{"value":"u-grace"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			b := g.consented("ada@acme.example")
			r := openIDRequestOf("conf", "openid", more...)
			p := b.open(r.path())
			holdPage(t, p, http.StatusOK)
			holdWords(t, "the sign-in page", p.body, `name="password"`)
			b.errorToClient(t, b.follow(b.signIn(p, "ada@acme.example", peoplePassword)), r, "login_required", "")
			_, claims := g.identity(t, b.redeem(t, b.authorize(r, "grace@acme.example"), r).IDToken)
			if claims["sub"] != "u-grace" {
				t.Errorf("sub %v", claims["sub"])
			}
		})
	}
}

// follow follows redirects as long as they lead to the server.
func (b *browser) follow(p page) page {
	b.t.Helper()
	for strings.HasPrefix(p.header.Get("Location"), "/oauth/") {
		p = b.open(p.header.Get("Location"))
	}
	return p
}

// TestT183WhatIsOnlyAWishIsNeverAnError: display, ui_locales, login_hint, acr_values and unknown names with any value → never an error;
// request and request_uri → not supported.
func TestT183WhatIsOnlyAWishIsNeverAnError(t *testing.T) {
	g := startOpenID(t)
	b := g.browser()
	usual := openIDRequestOf("conf", "openid")
	b.authorize(usual, "ada@acme.example")
	for _, name := range []string{"display", "ui_locales", "claims_locales", "login_hint", "id_token_hint", "acr_values", "registration", "x", "foo[bar]"} {
		for _, value := range []string{"", "x", "page", "de en-GB fr-CA", "999", "a.b.c", `{"a":`, "\r\n<script>", "𝒳 ﷺ"} {
			r := openIDRequestOf("conf", "openid", name, value)
			if p := b.open(r.path()); p.location().Query().Get("code") == "" {
				t.Errorf("%s=%q: %d %s", name, value, p.status, p.header.Get("Location"))
			}
		}
	}
	p := b.fetch(http.MethodPost, "/oauth/authorize", usual.values().Encode(), "Content-Type", urlEncoded)
	b.codeToClient(t, p, usual)
	for name, code := range map[string]string{"request": "request_not_supported", "request_uri": "request_uri_not_supported"} {
		r := openIDRequestOf("conf", "openid", name, "https://client.example/object")
		b.errorToClient(t, b.open(r.path()), r, code, "")
	}
}

// TestT189OpenIDIsNoChoiceOfItsOwn: openid unticked on the consent page → it stays; single claims unticked → left out.
func TestT189OpenIDIsNoChoiceOfItsOwn(t *testing.T) {
	g := startOpenID(t)
	for name, c := range map[string]struct {
		claims      string
		drop        []int // the boxes to untick
		scope, told string
	}{
		"all":              {"", nil, "openid email profile", "email email_verified name sub"},
		"without e-mail":   {"", []int{1}, "openid profile", "name sub"},
		"openid alone":     {"", []int{1, 2}, "openid", "sub"},
		"openid cannot go": {"", []int{0, 1}, "openid profile", "name sub"},
		"a single claim":   {`{"userinfo":{"email":{"essential":true}}}`, []int{1, 2}, "openid", "sub"},
	} {
		t.Run(name, func(t *testing.T) {
			b := g.browser()
			r := openIDRequestOf("pub", "openid email profile", "claims", c.claims)
			p := b.follow(b.signIn(b.open(r.path()), "ada@acme.example", peoplePassword))
			action, fields := formIn(t, p)
			for _, i := range c.drop {
				fields.Del("scope_" + itoa(i))
			}
			fields.Set("decision", "allow")
			got := b.redeem(t, b.send(action, fields), r)
			claims := g.told(t, got.AccessToken)
			delete(claims, "updated_at") // a declared user may have none
			if told := strings.Join(slices.Sorted(maps.Keys(claims)), " "); got.Scope != c.scope || told != c.told {
				t.Errorf("scope %q, want %q; told %q, want %q", got.Scope, c.scope, told, c.told)
			}
		})
	}
	t.Run("claims without their scope", func(t *testing.T) {
		b := g.browser()
		r := openIDRequestOf("pub", "openid", "claims", `{"userinfo":{"email":{"essential":true},"name":null},"id_token":{"email":null}}`)
		p := b.follow(b.signIn(b.open(r.path()), "ada@acme.example", peoplePassword))
		holdAnswer(t, "the consent page", p, http.StatusOK, "e-mail address", "your name")
		action, fields := formIn(t, p)
		fields.Set("decision", "allow")
		if fields.Get("scope_1") == "" || fields.Get("scope_2") == "" {
			t.Fatalf("fields %v", fields)
		}
		fields.Del("scope_1") // profile, for the name
		got := b.redeem(t, b.send(action, fields), r)
		_, claims := g.identity(t, got.IDToken)
		told := g.told(t, got.AccessToken)
		if got.Scope != "openid" || claims["email"] != "ada@acme.example" || told["email"] != "ada@acme.example" || len(told) != 2 {
			t.Errorf("scope %q, ID token %v, userinfo %v", got.Scope, claims, told)
		}
	})
}

// TestT175WithoutOpenIDNothingIsNew: without `openid`: scope openid → invalid_scope, form_post → invalid_request, nonce and claims →
// ignored, discovery and userinfo → 404.
func TestT175WithoutOpenIDNothingIsNew(t *testing.T) {
	g := startPeople(t)
	b := g.consented("ada@acme.example")
	conf := requestOf("conf")
	b.errorToClient(t, b.ask(conf.with("scope", "openid")), conf, "invalid_scope", "")
	b.errorToClient(t, b.ask(conf.with("response_mode", "form_post")), conf, "invalid_request", "")
	for _, name := range []string{"nonce", "claims", "id_token_hint"} {
		b.codeToClient(t, b.ask(conf.with(name, "{\"a\":\x00")), conf)
		b.codeToClient(t, b.open(conf.path()+"&"+name+"=a&"+name+"=b"), conf)
	}
	for _, path := range []string{"/.well-known/openid-configuration", "/oauth/userinfo"} {
		for _, method := range []string{"GET", "POST", "PUT", "OPTIONS"} {
			if status, header, _ := g.do(method, path, ""); status != http.StatusNotFound || header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s %s: %d", method, path, status)
			}
		}
	}
	g.upstream.none(t)
	if _, _, body := g.get("/.well-known/oauth-authorization-server", ""); strings.Contains(body, "userinfo") || strings.Contains(body, "form_post") || strings.Contains(body, "openid") {
		t.Errorf("metadata: %s", body)
	}
	_, _, body := g.post("/oauth/token", conf.exchange(b.codeToClient(t, b.open(conf.path()), conf)))
	if strings.Contains(body, "id_token") {
		t.Errorf("tokens: %s", body)
	}
	p := b.open("/oauth/logout?" + url.Values{"post_logout_redirect_uri": {"https://client.example/out"}, "state": {"s"}}.Encode())
	if holdPage(t, p, http.StatusOK); strings.Contains(p.body, "client.example") {
		t.Error("the sign-out page repeats the request")
	}
}
