package caddymodule

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// signedOutAt is the post-logout redirect URI of the client `shop`.
const signedOutAt = "https://shop.example/out?x=1"

// startSignOut serves people with an OpenID provider and a client `shop` that signs people out, and returns the
// client's request.
func startSignOut(t *testing.T) (*gatehouse, request) {
	t.Helper()
	g := startOpenID(t)
	r := openIDRequestOf("conf", "openid", "nonce", "n")
	r.clientID, r.redirectURI = "shop", "https://shop.example/cb"
	r.secret = g.addClient(t, store.Client{
		ID: "shop", Name: "The shop", Grants: []oauth.GrantType{oauth.AuthorizationCode, oauth.RefreshTokenGrant},
		Scopes: oauth.Scopes{"openid", "refresh_token", "trusted"}, RedirectURIs: []string{r.redirectURI},
		ClientOpenID: store.ClientOpenID{PostLogoutRedirectURIs: []string{signedOutAt, "com.example.shop:/out"}},
	})
	return g, r
}

// buyer returns a browser in which the user is signed in to the shop, and the tokens of the shop.
func buyer(t *testing.T, g *gatehouse, r request, email string) (*browser, tokens) {
	t.Helper()
	b := g.browser()
	return b, b.redeem(t, b.authorize(r, email), r)
}

// leave returns an application's logout request: name, value, …
func leave(more ...string) string {
	values := make(url.Values)
	for pair := range slices.Chunk(more, 2) {
		values.Set(pair[0], pair[1])
	}
	return "/oauth/logout?" + values.Encode()
}

// holdSignedOut checks that the session and the application's tokens have ended.
func (b *browser) holdSignedOut(t *testing.T, r request, got tokens) {
	t.Helper()
	silent := r
	silent.more = url.Values{"prompt": {"none"}}
	b.errorToClient(t, b.open(silent.path()), silent, "login_required", "")
	b.refused(r.refresh(got.RefreshToken), http.StatusBadRequest, "invalid_grant")
	b.holdStatus(t, "userinfo after the sign-out", "/oauth/userinfo", got.AccessToken, http.StatusUnauthorized)
}

// holdAsked expects a page that asks, in a browser that stays signed in.
func (b *browser) holdAsked(t *testing.T, p page) {
	t.Helper()
	if p.status != http.StatusOK || p.header.Get("Location") != "" || !strings.Contains(p.body, "Sign out?") {
		t.Fatalf("%d, Location %q, want a page that asks: %s", p.status, p.header.Get("Location"), p.body)
	}
	holdNoStore(t, p)
	if !b.isSignedIn() {
		t.Error("nobody is signed in any more")
	}
}

// sayYes submits the form of such a page and checks where that leads; "": it is returned.
func (b *browser) sayYes(t *testing.T, p page, want string) string {
	t.Helper()
	action, fields := formIn(t, p)
	if action != "/oauth/logout" {
		t.Errorf("the form goes to %q", action)
	}
	answer := b.send(action, fields)
	if answer.status != http.StatusSeeOther || b.isSignedIn() {
		t.Errorf("after a yes: %d %s", answer.status, answer.body)
	}
	location := answer.header.Get("Location")
	if want != "" && location != want {
		t.Errorf("after a yes to %q, want %q", location, want)
	}
	return location
}

// TestT194AnApplicationSignsItsUserOut: sign-out with an ID token of this browser's session and a registered URI → 303 there with state,
// tokens of the session dead; of another session or user → asked.
func TestT194AnApplicationSignsItsUserOut(t *testing.T) {
	now := setClock(t)
	g, r := startSignOut(t)
	for name, c := range map[string]struct {
		more  []string
		later time.Duration
		post  bool
		want  string
	}{
		"by GET":           {nil, 0, false, signedOutAt},
		"by POST":          {nil, 0, true, signedOutAt},
		"state":            {[]string{"state", "a b&c=d#e+é\"><"}, 0, false, signedOutAt + "&state=a%20b%26c%3Dd%23e%2B%C3%A9%22%3E%3C"},
		"client_id":        {[]string{"client_id", "shop"}, 0, false, signedOutAt},
		"other parameters": {[]string{"logout_hint", "grace", "ui_locales", "de", "x", "y"}, 0, false, signedOutAt},
		"expired":          {nil, 3 * time.Hour, false, signedOutAt},
	} {
		t.Run(name, func(t *testing.T) {
			b, got := buyer(t, g, r, "ada@acme.example")
			other, kept := buyer(t, g, r, "grace@acme.example")
			now.advance(c.later)
			g.app().node.Revocations.MarkFresh(node.Clock())
			more := append([]string{"id_token_hint", got.IDToken, "post_logout_redirect_uri", signedOutAt}, c.more...)
			p := b.open("/oauth/account")
			if c.post {
				p = b.fetch(http.MethodPost, "/oauth/logout", strings.TrimPrefix(leave(more...), "/oauth/logout?"), "Content-Type", urlEncoded)
			} else {
				p = b.open(leave(more...))
			}
			if location := p.header.Get("Location"); p.status != http.StatusSeeOther || location != c.want {
				t.Fatalf("%d %q, want %q: %s", p.status, location, c.want, p.body)
			}
			holdNoStore(t, p)
			if p.header.Get("Referrer-Policy") != "no-referrer" {
				t.Errorf("Referrer-Policy %q", p.header.Get("Referrer-Policy"))
			}
			b.holdSignedOut(t, r, got)
			if !other.isSignedIn() || g.obtain(r.refresh(kept.RefreshToken)).IDToken == "" {
				t.Error("somebody else is signed out too")
			}
			g.notLogged(t, got.IDToken)
		})
	}
	t.Run("a form of another site has no cookies", func(t *testing.T) {
		b, got := buyer(t, g, r, "ada@acme.example")
		path := leave("id_token_hint", got.IDToken, "post_logout_redirect_uri", signedOutAt, "state", "a;b\r\nc")
		stranger := g.browser()
		p := stranger.fetch(http.MethodPost, "/oauth/logout", strings.TrimPrefix(path, "/oauth/logout?"), "Content-Type", urlEncoded, "Sec-Fetch-Site", "cross-site")
		if p.status != http.StatusSeeOther || p.header.Get("Location") != path {
			t.Fatalf("%d %q, want %q", p.status, p.header.Get("Location"), path)
		}
		if p = b.open(p.header.Get("Location")); p.location().Query().Get("state") != "a;b\r\nc" {
			t.Errorf("%d %q", p.status, p.header.Get("Location"))
		}
		b.holdSignedOut(t, r, got)
	})
	t.Run("a form of another site, from a browser that does not say so", func(t *testing.T) {
		for _, headers := range [][]string{nil, {"Sec-Fetch-Site", "cross-site", "Cookie", "_ga=GA1.1"}} { // or with a cookie of another application
			p := g.browser().fetch(http.MethodPost, "/oauth/logout", "state=s", append(headers, "Content-Type", urlEncoded)...)
			if p.status != http.StatusSeeOther || p.header.Get("Location") != leave("state", "s") || len(p.header.Values("Set-Cookie")) != 0 {
				t.Errorf("%d %q, it changes the cookies %q", p.status, p.header.Get("Location"), p.header.Values("Set-Cookie"))
			}
		}
	})
	t.Run("a native application", func(t *testing.T) {
		b, got := buyer(t, g, r, "ada@acme.example")
		p := b.open(leave("id_token_hint", got.IDToken, "post_logout_redirect_uri", "com.example.shop:/out", "state", "s"))
		if p.header.Get("Location") != "com.example.shop:/out?state=s" {
			t.Errorf("%d %q", p.status, p.header.Get("Location"))
		}
	})
	t.Run("signed out already", func(t *testing.T) {
		_, got := buyer(t, g, r, "ada@acme.example")
		p := g.browser().open(leave("id_token_hint", got.IDToken, "post_logout_redirect_uri", signedOutAt, "state", `"><script>`))
		if p.status != http.StatusOK || p.header.Get("Location") != "" || !strings.Contains(p.body, `href="https://shop.example/out?x=1&amp;state=%22%3E%3Cscript%3E"`) {
			t.Errorf("%d %q %s", p.status, p.header.Get("Location"), p.body)
		}
		if p := g.browser().open(leave("id_token_hint", got.IDToken, "post_logout_redirect_uri", "com.example.shop:/out")); strings.Contains(p.body, "com.example.shop") {
			t.Error("a link to a native application")
		}
	})
	t.Run("the session was ended elsewhere", func(t *testing.T) {
		b, got := buyer(t, g, r, "ada@acme.example")
		check(t, g.app().registry.People.RevokeUser(t.Context(), "u-ada"))
		if p := b.open(leave("id_token_hint", got.IDToken, "post_logout_redirect_uri", signedOutAt)); p.header.Get("Location") != signedOutAt {
			t.Errorf("%d %q", p.status, p.header.Get("Location"))
		}
	})
}

// TestT195OnlyARegisteredAddressIsReturnedTo: sign-out with an unregistered URI, by any byte, or an open-redirect string → a page that
// asks, and never leads there.
func TestT195OnlyARegisteredAddressIsReturnedTo(t *testing.T) {
	g, r := startSignOut(t)
	g.addClient(t, store.Client{
		ID: "rival", Grants: []oauth.GrantType{oauth.AuthorizationCode}, Scopes: oauth.Scopes{"openid"}, RedirectURIs: []string{"https://rival.example/cb"},
		ClientOpenID: store.ClientOpenID{PostLogoutRedirectURIs: []string{"https://rival.example/out"}},
	})
	b, got := buyer(t, g, r, "ada@acme.example")
	hostile := []string{
		"https://shop.example/out", signedOutAt + "&y=2", signedOutAt + "/", signedOutAt + "#f", "https://shop.example/out/?x=1", "https://SHOP.example/out?x=1", "HTTPS://shop.example/out?x=1",
		"http://shop.example/out?x=1", "https://shop.example:443/out?x=1", "https://shop.example@evil.tld/out?x=1", "https://evil.tld/?" + signedOutAt, "https://shop.example.evil.tld/out?x=1",
		"https://shop.example/out%3Fx=1", "//shop.example/out?x=1", "/oauth/account", "https://shop.example/cb", "https://rival.example/out", "javascript:alert(1)", "data:text/html,x",
		signedOutAt + "\r\nSet-Cookie: x=y", " " + signedOutAt, signedOutAt + " ", "com.example.shop://out", "com.example.shop:/out?state=x", "https:shop.example/out?x=1", `https:\\evil.tld`,
	}
	for _, uri := range append(hostile, openRedirects("shop.example")...) {
		p := b.open(leave("id_token_hint", got.IDToken, "post_logout_redirect_uri", uri, "state", "s"))
		b.holdAsked(t, p)
		if !strings.HasSuffix(p.header.Get("Content-Security-Policy"), "form-action 'self'") {
			t.Errorf("%q: the form may lead there: %q", uri, p.header.Get("Content-Security-Policy"))
		}
		holdWords(t, "the answer", p.body, "not one that is registered")
	}
	b.sayYes(t, b.open(leave("id_token_hint", got.IDToken, "post_logout_redirect_uri", "https://evil.tld/")), "/oauth/logout")
	b, got = buyer(t, g, r, "ada@acme.example")
	p := b.open("/oauth/logout?id_token_hint=" + got.IDToken + "&post_logout_redirect_uri=" + url.QueryEscape(signedOutAt) + "&post_logout_redirect_uri=https://evil.tld")
	b.holdAsked(t, p)
	b.sayYes(t, p, "/oauth/logout")
}

// TestT196OnlyAHintOfThisBrowserSignsOutUnasked: a hint of another session or another client → a page asks; only one of the application leads
// back afterwards.
func TestT196OnlyAHintOfThisBrowserSignsOutUnasked(t *testing.T) {
	g, r := startSignOut(t)
	_, other := buyer(t, g, r, "ada@acme.example")
	_, grace := buyer(t, g, r, "grace@acme.example")
	b, own := buyer(t, g, r, "ada@acme.example")
	conf := openIDRequestOf("conf", "openid", "nonce", "n")
	ofConf := b.redeem(t, b.authorize(conf, "ada@acme.example"), conf)
	for name, c := range map[string]struct {
		hint, clientID string
		returns        bool
	}{
		"another session":       {other.IDToken, "", true},
		"another user":          {grace.IDToken, "shop", true},
		"another client's":      {ofConf.IDToken, "", false},
		"another client's, own": {ofConf.IDToken, "shop", false},
		"own, another client":   {own.IDToken, "conf", false},
		"own, unknown client":   {own.IDToken, "nobody", false},
	} {
		t.Run(name, func(t *testing.T) {
			more := []string{"id_token_hint", c.hint, "post_logout_redirect_uri", signedOutAt, "state", "s"}
			if c.clientID != "" {
				more = append(more, "client_id", c.clientID)
			}
			p := b.open(leave(more...))
			b.holdAsked(t, p)
			if strings.Contains(p.body, "The shop") != c.returns {
				t.Errorf("the page names the client: %s", p.body)
			}
			want := "/oauth/logout"
			if c.returns {
				want = signedOutAt + "&state=s"
			}
			b.sayYes(t, p, want)
			b.authorize(r, "ada@acme.example")
		})
	}
}

// TestT197NobodyIsSignedOutByALink: a sign-out link without proof → a page asks; by HEAD or prefetch → nothing; our form without its
// token or cross-site → 403.
func TestT197NobodyIsSignedOutByALink(t *testing.T) {
	g, r := startSignOut(t)
	b, got := buyer(t, g, r, "ada@acme.example")
	proven := leave("id_token_hint", got.IDToken, "post_logout_redirect_uri", signedOutAt)
	for name, path := range map[string]string{
		"nothing": "/oauth/logout", "client and address": leave("client_id", "shop", "post_logout_redirect_uri", signedOutAt), "state alone": leave("state", "s"),
		"hint alone": leave("id_token_hint", got.IDToken), "hints of the user": leave("logout_hint", "u-ada", "client_id", "shop"), "malformed": "/oauth/logout?id_token_hint=%zz",
		"evil": leave("post_logout_redirect_uri", "https://evil.tld/"),
	} {
		t.Run(name, func(t *testing.T) {
			p := b.open(path)
			b.holdAsked(t, p)
			if strings.Contains(p.body, "evil") && !strings.Contains(p.body, `name="request"`) {
				t.Errorf("the page repeats the request: %s", p.body)
			}
			b.sayYes(t, p, "/oauth/logout")
			b, got = buyer(t, g, r, "ada@acme.example")
			proven = leave("id_token_hint", got.IDToken, "post_logout_redirect_uri", signedOutAt)
		})
	}
	if p := b.fetch(http.MethodHead, proven, ""); p.status != http.StatusOK || !b.isSignedIn() {
		t.Errorf("HEAD: %d", p.status)
	}
	b.holdAsked(t, b.fetch(http.MethodGet, proven, "", "Sec-Purpose", "prefetch"))
	holdForbidden(t, b.fetch(http.MethodPost, "/oauth/logout", "request="+url.QueryEscape(strings.TrimPrefix(proven, "/oauth/logout?"))+"&form_token=x", "Content-Type", urlEncoded))
	holdForbidden(t, b.fetch(http.MethodPost, "/oauth/logout", "", "Content-Type", urlEncoded, "Sec-Fetch-Site", "cross-site"))
	if !b.isSignedIn() {
		t.Error("signed out by a forged form")
	}
}

// TestT198StateComesBackByteForByte: sign-out with state of any bytes → the same bytes, with and without a question.
func TestT198StateComesBackByteForByte(t *testing.T) {
	g, r := startSignOut(t)
	for name, state := range map[string]string{
		"signs": "a+b c%20&d=e;f#g?h\\/\"'<>", "controls": "\x00\r\n\t\x7f", "not UTF-8": "\xff\xfe", "not ASCII": "ﷺ 👩‍❤️‍💋‍👩 \u202e", "long": strings.Repeat("é", 2<<10),
	} {
		t.Run(name, func(t *testing.T) {
			b, got := buyer(t, g, r, "ada@acme.example")
			other, _ := buyer(t, g, r, "ada@acme.example")
			p := other.open(leave("id_token_hint", got.IDToken, "post_logout_redirect_uri", signedOutAt, "state", state))
			other.holdAsked(t, p)
			location, err := url.Parse(other.sayYes(t, p, ""))
			check(t, err)
			if location.Query().Get("state") != state || location.Host != "shop.example" {
				t.Errorf("by the page: %q", location)
			}
			p = b.open(leave("id_token_hint", got.IDToken, "post_logout_redirect_uri", signedOutAt, "state", state))
			if p.location().Query().Get("state") != state || strings.ContainsFunc(p.header.Get("Location"), func(c rune) bool { return c <= ' ' || c > '~' }) {
				t.Errorf("unasked: %q", p.header.Get("Location"))
			}
		})
	}
	b, _ := buyer(t, g, r, "ada@acme.example")
	if p := b.open(leave("ui_locales", "de")); p.header.Get("Content-Language") != "de" {
		t.Errorf("ui_locales: %q", p.header.Get("Content-Language"))
	}
}
