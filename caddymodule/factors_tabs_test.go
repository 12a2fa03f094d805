package caddymodule

import (
	"net/http"
	"net/url"
	"testing"
	"time"
)

// TestW40TwoTabsSignInAtOnce: two tabs wait for a code, each inside a request of a client, and one goes on → the other goes on as well, without
// the password.
func TestW40TwoTabsSignInAtOnce(t *testing.T) {
	s := startFactors(t, "")
	_, ada := s.owner(t, "ada@acme.example")
	b, r := s.browser(), openIDRequestOf("conf", "openid")
	waiting := func() page {
		return asksFor(t, b.follow(b.signIn(b.open(r.path()), "ada@acme.example", peoplePassword)), "code")
	}
	first, second := waiting(), waiting()
	b.redeem(t, b.decided(b.follow(b.types(second, s.code(ada)))), r)
	b.redeem(t, b.decided(b.follow(b.types(first, s.code(ada)))), r)
}

// decided allows the access that a page asks for. It returns any other page as it is.
func (b *browser) decided(p page) page {
	if p.status == http.StatusOK {
		return b.decide(p, "allow")
	}
	return p
}

// TestW41TwoTabsStepUpAtOnce: two tabs of one session wait for a code, and one goes on → the other goes on without any further question.
func TestW41TwoTabsStepUpAtOnce(t *testing.T) {
	s := startFactors(t, "")
	usual, two := openIDRequestOf("conf", "openid"), openIDRequestOf("conf", "openid", "acr_values", "2")
	b := s.inBrowser("ada@acme.example")
	b.redeem(t, b.authorize(usual, ""), usual) // consent is given
	_, ada := s.owner(t, "ada@acme.example")
	first, second := asksFor(t, b.follow(b.open(two.path())), "code"), asksFor(t, b.follow(b.open(two.path())), "code")
	b.redeem(t, b.follow(b.types(second, s.code(ada))), two)
	b.redeem(t, b.follow(b.types(first, s.code(ada))), two)
}

// TestW42ALostAnswerToTheCode: the answer to the code is lost with its cookies, and the form is sent again with the next code → the sign-in
// begins again and the request of the client is not lost.
func TestW42ALostAnswerToTheCode(t *testing.T) {
	s := startFactors(t, "")
	_, ada := s.owner(t, "ada@acme.example")
	b, r := s.browser(), openIDRequestOf("conf", "openid")
	p := asksFor(t, b.follow(b.signIn(b.open(r.path()), "ada@acme.example", peoplePassword)), "code")
	lost := s.browser()
	at, err := url.Parse(s.url)
	check(t, err)
	lost.jar.SetCookies(at, b.jar.Cookies(at))
	lost.types(p, s.code(ada))
	p = asksFor(t, b.follow(b.types(p, s.code(ada))), "password")
	p = asksFor(t, b.follow(b.signIn(p, "ada@acme.example", peoplePassword)), "code")
	b.redeem(t, b.decided(b.follow(b.types(p, s.code(ada)))), r)
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

// TestW44AConsentOfAnotherClass: a consent page for acr 2 is open while the session is replaced by one of one factor, and is answered → a factor
// is asked for, and no code is granted.
func TestW44AConsentOfAnotherClass(t *testing.T) {
	s := startFactors(t, "")
	b, _ := s.owner(t, "ada@acme.example")
	asked := b.open(openIDRequestOf("conf", "openid", "acr_values", "2").path())
	s.must(http.StatusNoContent, "DELETE", "/oauth/users/u-ada/factors", "")
	b.firstFactor("ada@acme.example")
	asksFor(t, b.follow(b.decide(asked, "allow")), "enrolment")
}
