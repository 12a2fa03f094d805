package caddymodule

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestP70P79ThePageHasAButtonForEachProvider: the sign-in page with providers, markup in titles → escaped buttons without script; without
// `password` no form, and one sent all the same is refused; a provider's sign-in begun from another site or by a foreign form → 403.
func TestP70P79ThePageHasAButtonForEachProvider(t *testing.T) {
	corp, other := newLyingProvider(t), newLyingProvider(t)
	both := atProvider("corp", corp, `title "Acme <SSO>"`+"\nlink verified_email") + atProvider("other", other, "create")
	g := startProviders(t, both)
	b := g.browser()
	p := b.open("/oauth/login")
	if got := buttons(t, p, "provider"); p.status != http.StatusOK || strings.Join(got, " ") != "corp other" {
		t.Errorf("%d, buttons %q", p.status, got)
	}
	if !strings.Contains(p.body, "Acme &lt;SSO&gt;") || !strings.Contains(p.body, `name="password"`) || strings.Contains(p.body, "<script") {
		t.Errorf("the page: %s", p.body)
	}
	if policy := p.header.Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self' "+corp.URL) || !strings.Contains(policy, other.URL) {
		t.Errorf("policy %q", policy)
	}
	action, fields := formIn(t, p)
	fields.Set("provider", "corp")
	holdForbidden(t, b.post(action, fields, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"))
	holdForbidden(t, g.browser().send(action, fields))
	if p := b.open("/oauth/login?provider=corp"); p.status != http.StatusOK {
		t.Errorf("a link: %d %q", p.status, p.header.Get("Location"))
	}
	b.signIn(b.open("/oauth/login"), "max@acme.example", peoplePassword)
	b.holdSignedInAs(t, "max@acme.example")

	alone := startProviders(t, both, "\t\t\tpassword HASH\n", "")
	b = alone.browser()
	p = b.open("/oauth/login")
	if strings.Contains(p.body, `name="password"`) || len(buttons(t, p, "provider")) != 2 {
		t.Errorf("without passwords: %s", p.body)
	}
	action, fields = formIn(t, p)
	fields.Set("email", "max@acme.example")
	fields.Set("password", peoplePassword)
	if p := b.send(action, fields); p.status != http.StatusBadRequest {
		t.Errorf("a password was taken: %d", p.status)
	}
	if p := b.chooses(t, b.open("/oauth/login"), "nobody"); p.status != http.StatusBadRequest {
		t.Errorf("an unknown provider: %d", p.status)
	}
}

// TestP71P77SignsInAndGoesOn: a sign-in at a provider → back to the application or the account page, a new session, the old one ended; two
// tabs and the back button → each returns to its application.
func TestP71P77SignsInAndGoesOn(t *testing.T) {
	corp := newLyingProvider(t)
	g := startProviders(t, atProvider("corp", corp, "link verified_email"))
	b := g.browser()
	if p := b.atProvider(t, b.chooses(t, b.open("/oauth/login"), "corp"), corp); p.header.Get("Location") != "/oauth/account" {
		t.Errorf("led to %d %q", p.status, p.header.Get("Location"))
	}
	b.holdSignedInAs(t, "ada@acme.example")
	first := b.cookie("session")
	if !strings.Contains(g.logs(), `"msg":"signed in"`) || !strings.Contains(g.logs(), `"provider":"corp"`) {
		t.Error("the audit log does not say so")
	}
	asked := corp.lastAsked()
	if asked.Get("redirect_uri") != g.url+"/oauth/callback/corp" || asked.Get("nonce") == "" || asked.Get("code_challenge_method") != "S256" || asked.Get("prompt") != "" {
		t.Errorf("asked %v", asked)
	}
	// A different account replaces the session, and the provider must ask which account to use.
	corp.says(map[string]any{"sub": "2", "email": "max@acme.example", "email_verified": true})
	b.signsInAt(t, "corp", corp)
	b.holdSignedInAs(t, "max@acme.example")
	if b.cookie("session") == first || corp.lastAsked().Get("prompt") != "select_account" {
		t.Errorf("session kept, or prompt %q", corp.lastAsked().Get("prompt"))
	}
	if f, err := g.app().node.Store().Families.Family(t.Context(), g.app().issuer.Sessions.SessionID(oauth.NewSecret(first))); err != nil || f.RevokedAt.IsZero() {
		t.Errorf("the session before lives: %v", err)
	}
	b = g.browser()
	r, other := requestOf("first"), requestOf("first")
	other.state = "another tab"
	one := corp.follow(b.chooses(t, b.open(r.path()), "corp").header.Get("Location"))
	two := corp.follow(b.chooses(t, b.open(other.path()), "corp").header.Get("Location"))
	b.codeToClient(t, b.open(two), other)
	b.codeToClient(t, b.open(one), r)
	// Back to the previous page: its form still works.
	b.codeToClient(t, b.atProvider(t, b.chooses(t, b.open(r.path()+"&prompt=login"), "corp"), corp), r)
}

// TestP25P72StateIsOfThisBrowserAndProvider: a callback with a foreign, made-up, doubled, old or replayed state,
// another `iss`, by HEAD or prefetch → no sign-in, the code is not spent.
func TestP25P72StateIsOfThisBrowserAndProvider(t *testing.T) {
	clock := setClock(t)
	corp, other := newLyingProvider(t), newLyingProvider(t)
	g := startProviders(t, atProvider("corp", corp, "link verified_email")+atProvider("other", other, "create"))
	begins := func(b *browser) (callback string) {
		t.Helper()
		return corp.follow(b.chooses(t, b.open("/oauth/login?switch=1"), "corp").header.Get("Location"))
	}
	const again = "The sign-in at "
	theirs, corpIss, otherIss := begins(g.browser()), url.QueryEscape(corp.URL), url.QueryEscape(other.URL)
	for name, replace := range map[string]func(own string) []string{
		"damaged":                          func(string) []string { return []string{"state=", "state=A"} },
		"another provider's":               func(string) []string { return []string{"/callback/corp", "/callback/other"} },
		"another provider's, with its iss": func(string) []string { return []string{"/callback/corp", "/callback/other", corpIss, otherIss} },
		"another browser's":                func(own string) []string { return []string{own, theirs} },
		"another's code":                   func(own string) []string { return []string{codeIn(own), codeIn(theirs)} },
		"a made-up code":                   func(own string) []string { return []string{codeIn(own), "made-up"} },
		"iss of another":                   func(string) []string { return []string{corpIss, otherIss} },
	} {
		t.Run(name, func(t *testing.T) {
			b := g.browser()
			own := begins(b)
			p := b.holdBack(t, b.open(strings.NewReplacer(replace(own)...).Replace(own)), "provider_failed", again)
			if len(buttons(t, p, "provider")) != 2 {
				t.Error("there is no way to go on")
			}
		})
	}
	if other.redeemed != 0 {
		t.Errorf("%d codes were taken to another provider", other.redeemed)
	}
	b := g.browser()
	own := begins(b)
	if head, fetched := b.fetch("HEAD", own, ""), b.fetch("GET", own, "", "Sec-Purpose", "prefetch"); head.status != http.StatusForbidden || fetched.status != http.StatusForbidden {
		t.Errorf("HEAD %d, prefetch %d", head.status, fetched.status)
	}
	b.open(own)
	b.holdSignedInAs(t, "ada@acme.example")
	session := b.cookie("session")
	if p := b.open(own); p.header.Get("Location") != "/oauth/account" || b.cookie("session") != session {
		t.Errorf("sent twice: %d %q", p.status, p.header.Get("Location"))
	}
	b.signOut()
	fresh := begins(g.browser())
	if p := b.open(strings.Replace(own, codeIn(own), codeIn(fresh), 1)); b.cookie("session") != "" || p.status != http.StatusSeeOther {
		t.Errorf("a used state signed a person in: %d", p.status)
	}
	if posted, unknown := b.fetch("POST", "/oauth/callback/corp", "code=x&state=y"), b.open("/oauth/callback/nobody?code=x&state=y"); posted.status != http.StatusMethodNotAllowed || unknown.status != http.StatusNotFound {
		t.Errorf("posted: %d, at an unknown provider: %d", posted.status, unknown.status)
	}
	own = begins(b)
	clock.advance(11 * time.Minute)
	b.holdBack(t, b.open(own), "provider_failed", again)
}

// codeIn returns the code in the URL of a callback.
func codeIn(callback string) string {
	u, err := url.Parse(callback)
	if err != nil {
		return ""
	}
	return u.Query().Get("code")
}

// TestP73AProviderThatLiesSignsNobodyIn: a provider that lies → no sign-in and no new user. Packages upstream
// and signin test every lie.
func TestP73AProviderThatLiesSignsNobodyIn(t *testing.T) {
	corp := newLyingProvider(t)
	g := startProviders(t, atProvider("corp", corp, "link verified_email\ncreate"))
	for name, test := range map[string]struct {
		claims map[string]any
		notice string
	}{
		"nonce":        {map[string]any{"sub": "1001", "email": "ada@acme.example", "email_verified": true, "nonce": "another"}, "provider_failed"},
		"not verified": {map[string]any{"sub": "1001", "email": "ada@acme.example", "email_verified": false}, "provider_refused"},
	} {
		t.Run(name, func(t *testing.T) {
			corp.says(test.claims)
			b := g.browser()
			b.holdBack(t, b.signsInAt(t, "corp", corp), test.notice, "corp")
		})
	}
	if !strings.Contains(g.logs(), `"reason":"address_unverified"`) {
		t.Error("the audit log does not have the reason")
	}
}

// TestP26P74AProviderThatIsDownIsSaid: a provider that is down or denies → the page says so and the others work;
// a forged notice in a link → ignored.
func TestP26P74AProviderThatIsDownIsSaid(t *testing.T) {
	corp, other := newLyingProvider(t), newLyingProvider(t)
	corp.change(func() { corp.down = true })
	g := startProviders(t, atProvider("corp", corp, "link verified_email\ndefault")+atProvider("other", other, "link verified_email"))
	b := g.browser()
	r := requestOf("first")
	p := b.holdBack(t, b.open(r.path()), "provider_unavailable", "does not answer")
	b.codeToClient(t, b.atProvider(t, b.chooses(t, p, "other"), other), r)
	// The provider denies, or the user does.
	other.change(func() { other.answer = map[string]string{"code": "", "error": "access_denied"} })
	b = g.browser()
	b.holdBack(t, b.atProvider(t, b.chooses(t, b.open("/oauth/login?switch=1"), "other"), other), "provider_cancelled", "cancelled")
	// A forged link makes the page say only what it knows.
	made := g.browser().open("/oauth/login?failed=%3Cb%3E&provider=other&switch=1")
	if made.status != http.StatusOK || strings.Contains(made.body, `id="notice"`) {
		t.Errorf("%d %s", made.status, made.body)
	}
}

// TestP75WhoGoesToAProviderAtOnce: `default`, login_hint of its domain → there at once; `switch=1`, HEAD, signed in already → the page,
// in no circle.
func TestP75WhoGoesToAProviderAtOnce(t *testing.T) {
	corp, other := newLyingProvider(t), newLyingProvider(t)
	g := startProviders(t, atProvider("corp", corp, "link verified_email\ndefault")+atProvider("other", other, "link verified_email\ndomains rival.example"))
	to := func(t *testing.T, b *browser, path string, provider *lyingProvider) {
		t.Helper()
		if p := b.open(path); !strings.HasPrefix(p.header.Get("Location"), provider.URL+"/authorize?") {
			t.Errorf("%s led to %d %q", path, p.status, p.header.Get("Location"))
		}
	}
	asks := func(t *testing.T, b *browser, path string) {
		t.Helper()
		if p := b.open(path); p.status != http.StatusOK || len(buttons(t, p, "provider")) != 2 {
			t.Errorf("%s led to %d %q", path, p.status, p.header.Get("Location"))
		}
	}
	hinted := requestOf("first")
	hinted.more = url.Values{"login_hint": {"Rita@RIVAL.example"}}
	to(t, g.browser(), "/oauth/login", corp)
	to(t, g.browser(), requestOf("first").path(), corp)
	to(t, g.browser(), hinted.path(), other)
	asks(t, g.browser(), "/oauth/login?switch=1")
	if p := g.browser().fetch("HEAD", "/oauth/login", ""); p.status != http.StatusOK {
		t.Errorf("HEAD %d", p.status)
	}
	silent := requestOf("first")
	silent.more = url.Values{"prompt": {"none"}}
	b := g.browser()
	b.errorToClient(t, b.open(silent.path()), silent, "login_required", "")
	b.atProvider(t, b.open("/oauth/login"), corp)
	b.holdSignedInAs(t, "ada@acme.example")
	again := requestOf("first")
	again.more = url.Values{"prompt": {"login"}}
	asks(t, b, again.path())
}

// TestP76AFreshSignInIsAskedOfTheProvider: prompt=login, max_age → passed on to the provider.
func TestP76AFreshSignInIsAskedOfTheProvider(t *testing.T) {
	corp := newLyingProvider(t)
	g := startProviders(t, atProvider("corp", corp, "link verified_email"))
	corp.says(signedInAgo(0))
	for name, test := range map[string]struct {
		more           url.Values
		prompt, maxAge string
	}{
		"login":    {url.Values{"prompt": {"login"}}, "login", "0"},
		"select":   {url.Values{"prompt": {"select_account"}}, "select_account", ""},
		"max_age":  {url.Values{"max_age": {"600"}}, "", "600"},
		"at once":  {url.Values{"max_age": {"0"}}, "login", "0"},
		"for ever": {url.Values{"max_age": {"99999999999"}}, "", strconv.Itoa(400 * 24 * 3600)},
	} {
		t.Run(name, func(t *testing.T) {
			r := requestOf("first")
			r.more = test.more
			b := g.browser()
			b.codeToClient(t, b.atProvider(t, b.chooses(t, b.open(r.path()), "corp"), corp), r)
			if asked := corp.lastAsked(); asked.Get("prompt") != test.prompt || asked.Get("max_age") != test.maxAge {
				t.Errorf("asked %v", asked)
			}
		})
	}
}
