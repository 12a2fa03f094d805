package caddymodule

import (
	"net/http"
	"net/url"
	"testing"
	"time"
)

// TestW40W41W42W44TabsAndLostAnswers: two tabs wait for a code, each inside a request of a client, or each in one session, and one goes on
// → the other goes on as well, without any further question. The answer to a code is lost with its cookies, and the form is sent again with
// the next code → the sign-in begins again and the request of the client is not lost. A consent page for acr 2 is open while the session is
// replaced by one of one factor → a factor is asked for, and no code is granted.
func TestW40W41W42W44TabsAndLostAnswers(t *testing.T) {
	s := startFactors(t, "")
	usual, two := openIDRequestOf("conf", "openid"), openIDRequestOf("conf", "openid", "acr_values", "2")
	one := s.inBrowser("ada@acme.example")
	one.redeem(t, one.authorize(usual, ""), usual) // consent is given
	_, ada := s.owner(t, "ada@acme.example")
	b := s.browser()
	for _, tab := range []struct {
		b    *browser
		r    request
		asks func() page
	}{
		{b, usual, func() page { return b.signIn(b.open(usual.path()), "ada@acme.example", peoplePassword) }},
		{one, two, func() page { return one.open(two.path()) }},
	} {
		first, second := asksFor(t, tab.b.follow(tab.asks()), "code"), asksFor(t, tab.b.follow(tab.asks()), "code")
		tab.b.redeem(t, tab.b.follow(tab.b.types(second, s.code(ada))), tab.r)
		tab.b.redeem(t, tab.b.follow(tab.b.types(first, s.code(ada))), tab.r)
	}

	_, ben := s.owner(t, "ben@acme.example")
	b = s.browser()
	p := asksFor(t, b.follow(b.signIn(b.open(usual.path()), "ben@acme.example", peoplePassword)), "code")
	lost := s.browser()
	at, err := url.Parse(s.url)
	check(t, err)
	lost.jar.SetCookies(at, b.jar.Cookies(at))
	lost.types(p, s.code(ben))
	p = asksFor(t, b.follow(b.types(p, s.code(ben))), "password")
	p = asksFor(t, b.follow(b.signIn(p, "ben@acme.example", peoplePassword)), "code")
	b.redeem(t, b.decide(asksConsent(t, b.follow(b.types(p, s.code(ben)))), "allow"), usual)

	grace, _ := s.owner(t, "grace@acme.example")
	asked := grace.open(two.path())
	s.must(http.StatusNoContent, "DELETE", "/oauth/users/u-grace/factors", "")
	grace.firstFactor("grace@acme.example")
	asksFor(t, grace.follow(grace.decide(asked, "allow")), "enrolment")
}

// TestW43AnOldSignInOfTwoFactorsIsAskedForAgain: `require acr 2` beside `require max_age` and a sign-in of two factors that is too old → sent to
// sign in and back, once.
func TestW43AnOldSignInOfTwoFactorsIsAskedForAgain(t *testing.T) {
	clock := setClock(t)
	hosts := vaultHosts("totp")
	hosts[3] += "\n\t\t\trequire /pages/vault/* max_age 5m"
	g := startHosts(t, hosts...)
	s := &factorScene{g.gatehouse, clock}
	v, vault := g.signedIn(t, "ada@acme.example"), g.at("wiki", "/pages/vault/1")
	p, _ := v.walk(vault, "")
	ada := phone{secret: shownSecret(t, p)}
	p, _ = v.sends(p, "code", ada.shows(t))
	shownCodes(t, p)
	s.wait(6 * time.Minute)
	p, _ = v.walk(vault, "")
	p, _ = v.submit(asksFor(t, p, "password"), "ada@acme.example")
	if a, at := v.sends(asksFor(t, p, "code"), "code", s.code(ada)); a.status != http.StatusOK || at != vault {
		t.Errorf("%d at %s: %.300s", a.status, at, a.body)
	}
}
