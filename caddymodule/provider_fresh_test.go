package caddymodule

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// signedInAgo returns a provider's claims for ada, who signed in there that long ago; a negative time: it omits
// auth_time.
func signedInAgo(ago time.Duration) map[string]any {
	claims := map[string]any{"sub": "1", "email": "ada@acme.example", "email_verified": true, "auth_time": time.Now().Add(-ago).Unix()}
	if ago < 0 {
		claims["auth_time"] = nil
	}
	return claims
}

// TestP130P133NobodyCountsAsFreshWithoutProof: a fresh sign-in demanded of a provider that does not prove one → no
// sign-in, the page says why, in no circle. Package upstream tests every proof.
func TestP130P133NobodyCountsAsFreshWithoutProof(t *testing.T) {
	corp := newLyingProvider(t)
	g := startProviders(t, atProvider("corp", corp, "link verified_email"))
	demanding := func(more ...string) request {
		r := requestOf("first")
		r.more = url.Values{}
		for pair := range slices.Chunk(more, 2) {
			r.more.Set(pair[0], pair[1])
		}
		return r
	}
	for name, test := range map[string]struct {
		r   request
		ago time.Duration
	}{
		"prompt=login, unknown":           {demanding("prompt", "login"), -1},
		"max_age=60, longer ago":          {demanding("max_age", "60"), 70 * time.Second},
		"select_account and a short time": {demanding("prompt", "select_account", "max_age", "60"), time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			corp.says(signedInAgo(test.ago))
			b := g.browser()
			page := b.holdBack(t, b.atProvider(t, b.chooses(t, b.open(test.r.path()), "corp"), corp), "provider_not_fresh", "does not confirm that you have just signed in")
			b.codeToClient(t, b.signIn(page, "ada@acme.example", peoplePassword), test.r)
		})
	}
	t.Run("no other way", func(t *testing.T) {
		const sentence = "The provider does not confirm that you have just signed in there. Sign in again, or in another way."
		alone := startProviders(t, atProvider("corp", corp, "default\nlink verified_email"), "\t\t\tpassword HASH\n", "")
		corp.says(signedInAgo(-1))
		b, r := alone.browser(), demanding("prompt", "login")
		b.errorToClient(t, b.atProvider(t, b.open(r.path()), corp), r, "login_required", sentence)
		if b.cookie("session") != "" {
			t.Error("somebody was signed in")
		}
	})
}

// TestP131ASignInOfUnknownAgeIsNoFreshOne: a sign-in of unknown age → no auth_time in any token, and asked again where a fresh one is
// needed.
func TestP131ASignInOfUnknownAgeIsNoFreshOne(t *testing.T) {
	corp := newLyingProvider(t)
	g := startProviders(t, atProvider("corp", corp, "link verified_email"))
	corp.says(signedInAgo(-1))
	b := g.browser()
	waiting := requestOf("first")
	waiting.more = url.Values{"prompt": {"login"}}
	pending := b.open(waiting.path())
	b.signsInAt(t, "corp", corp) // in another tab, which demands nothing
	b.holdSignedInAs(t, "ada@acme.example")
	plain := requestOf("first")
	tokens := b.redeem(t, b.open(plain.path()), plain)
	if at := claims(t, tokens.AccessToken)["auth_time"]; at != nil {
		t.Errorf("auth_time is %v", at)
	}
	for _, more := range []url.Values{{"prompt": {"login"}}, {"max_age": {"3600"}}, {"max_age": {"99999999999"}}, {"max_age": {"0"}}} {
		r := requestOf("first")
		r.more = more
		if p := b.open(r.path()); p.status != http.StatusOK || !strings.Contains(p.body, "To be sure that it is you") {
			t.Errorf("%v: %d %q", more, p.status, p.header.Get("Location"))
		}
	}
	_, fields := formIn(t, pending)
	if p := b.open("/oauth/login?pending=" + url.QueryEscape(fields.Get("pending"))); p.status != http.StatusOK || !strings.Contains(p.body, `name="password"`) {
		t.Errorf("the waiting request: %d %q", p.status, p.header.Get("Location"))
	}
}

// TestP130WithoutAnIssuer: a page of the host explains the refusal.
func TestP130WithoutAnIssuer(t *testing.T) {
	p := newLyingProvider(t)
	p.says(signedInAgo(-1))
	g := startDirect(t, p, "challenge browser corp", "challenge browser corp\nrequire /pay/* max_age 5m")
	v := g.visitor(t)
	if a, at, _ := v.walkAt(p, g.at("app", "/")); a.status != http.StatusOK {
		t.Fatalf("%d at %s: %s", a.status, at, a.body)
	}
	session := v.cookie("app", hostCookie)
	refused := func(target string) {
		t.Helper()
		a, at, _ := v.walkAt(p, target)
		if a.status != http.StatusForbidden || !strings.Contains(a.body, "This page asks for a fresh sign-in") || !strings.Contains(a.body, "/oauth/sign_in?") {
			t.Errorf("%d at %s: %s", a.status, at, a.body)
		}
		if v.cookie("app", hostCookie) != session {
			t.Error("a new session")
		}
	}
	g.upstream.seen()
	refused(g.at("app", "/pay/now")) // the session is seconds old, and the sign-in's age is unknown
	refused(g.at("app", "/oauth/sign_in?prompt=login&return=/pay/now"))
	p.says(signedInAgo(time.Hour))
	refused(g.at("app", "/pay/now"))
	refused(g.at("app", "/oauth/sign_in?prompt=login&return=/pay/now"))
	g.upstream.none(t)
	p.says(signedInAgo(0))
	if a, at, _ := v.walkAt(p, g.at("app", "/pay/now")); a.status != http.StatusOK {
		t.Errorf("%d at %s: %s", a.status, at, a.body)
	}
}

// TestP130AHostOfAnIssuer: a host of an issuer gets the error as any application does, and shows the page.
func TestP130AHostOfAnIssuer(t *testing.T) {
	p := newLyingProvider(t)
	p.says(signedInAgo(-1))
	g := startHosts(t, "\t\t\tpassword HASH\n", "", "store memory", "store memory\nsign_in {\n"+atProviderCorp(p, "default\nlink verified_email")+"\n}")
	v := g.visitor(t)
	if a, at, _ := v.walkAt(p, g.at("app", "/")); a.status != http.StatusOK {
		t.Fatalf("%d at %s: %s", a.status, at, a.body)
	}
	fresh := g.visitor(t)
	a, at, _ := fresh.walkAt(p, g.at("app", "/oauth/sign_in?prompt=login&return=/x"))
	if a.status != http.StatusForbidden || !strings.Contains(a.body, "This page asks for a fresh sign-in") || fresh.cookie("app", hostCookie) != "" {
		t.Errorf("%d at %s: %s", a.status, at, a.body)
	}
}

// TestP134APageThatAsksForARecentSignIn: `require max_age` on the issuer's host → the provider is asked for a fresh sign-in.
func TestP134APageThatAsksForARecentSignIn(t *testing.T) {
	corp := newLyingProvider(t)
	g := startProviders(t, atProvider("corp", corp, "link verified_email"), "\tlog\n\toauth_server\n", "\tlog\n\toauth_server\n\thandle /pay {\nprotect {\nchallenge browser\nrequire max_age 5m\n}\nrespond paid\n}\n")
	corp.says(signedInAgo(time.Hour))
	b := g.browser()
	b.signsInAt(t, "corp", corp)
	at := func(location string) page {
		return b.fetch(http.MethodGet, strings.TrimPrefix(location, g.url), "", navigation...)
	}
	p := at(at("/pay").header.Get("Location"))
	if p = at(p.header.Get("Location")); p.status == http.StatusSeeOther { // with a session of the host that is too old
		p = at(at("/pay").header.Get("Location"))
	}
	if !strings.Contains(p.body, "To be sure that it is you") {
		t.Fatalf("%d %s", p.status, p.body)
	}
	for _, ago := range []time.Duration{time.Hour, -1} {
		corp.says(signedInAgo(ago))
		if back := b.atProvider(t, b.chooses(t, p, "corp"), corp); !strings.Contains(back.header.Get("Location"), "failed=provider_not_fresh") {
			t.Errorf("%d %q", back.status, back.header.Get("Location"))
		}
	}
	corp.says(signedInAgo(0))
	back := b.atProvider(t, b.chooses(t, p, "corp"), corp)
	if back = at(back.header.Get("Location")); back.header.Get("Location") != g.url+"/pay" {
		t.Errorf("%d %q", back.status, back.header.Get("Location"))
	}
	if a := at("/pay"); a.status != http.StatusOK || a.body != "paid" {
		t.Errorf("%d %s", a.status, a.body)
	}
}
