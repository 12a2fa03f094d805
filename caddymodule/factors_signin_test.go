package caddymodule

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestW16APasswordThenACode: a password and then a code of the phone, or a recovery code → signed in, and the account page lists the factors; a
// wrong code, or one used before → the page again with a notice and no session; after five of them → 429, for the right one too.
func TestW16APasswordThenACode(t *testing.T) {
	s := startFactors(t, "")
	b, ada := s.owner(t, "ada@acme.example")
	if p := b.open("/oauth/account"); !strings.Contains(p.body, "10 codes are left") || len(buttons(t, p, "factor")) != 3 {
		t.Errorf("the account page lists %q", buttons(t, p, "factor"))
	}
	again := s.browser()
	p := asksFor(t, again.firstFactor("ada@acme.example"), "code")
	for _, code := range []string{ada.wrongCode(t), "", "1234567", "AAAA-BBBB-CCCC-DDDD"} {
		p = again.types(p, code)
		if asksFor(t, p, "code"); !strings.Contains(p.body, `id="notice"`) || again.cookie("session") != "" || again.cookie("accessToken") != "" {
			t.Errorf("%q: no notice, or a session", code)
		}
	}
	used := s.code(ada)
	asksFor(t, again.follow(again.types(p, used)), "account")
	other := s.browser()
	p = asksFor(t, other.types(asksFor(t, other.firstFactor("ada@acme.example"), "code"), used), "code")
	if !strings.Contains(p.body, `id="notice"`) || other.isSignedIn() {
		t.Error("a code used before: no notice, or a session")
	}
	if p = other.types(p, s.code(ada)); p.status != http.StatusTooManyRequests || p.header.Get("Retry-After") == "" || other.isSignedIn() {
		t.Errorf("the right code after five failures: %d %v", p.status, p.header)
	}
	s.wait(5 * time.Minute)
	asksFor(t, other.follow(other.types(other.firstFactor("ada@acme.example"), s.code(ada))), "account")
	recovered := s.browser()
	asksFor(t, recovered.follow(recovered.types(recovered.firstFactor("ada@acme.example"), strings.ToLower(ada.recovery[0]))), "account")
	if page := recovered.open("/oauth/account"); !strings.Contains(page.body, "9 codes are left") {
		t.Error("the page does not say that 9 codes are left")
	}
}

// TestW17AHalfSignInOpensNothing: a password without the code → no session at any page or host, and no token; its sealed value in another
// browser, altered, or as another sealed value → refused.
func TestW17AHalfSignInOpensNothing(t *testing.T) {
	s := startFactors(t, "", gatedRoutes...)
	_, ada := s.owner(t, "ada@acme.example")
	b := s.browser()
	p := asksFor(t, b.firstFactor("ada@acme.example"), "code")
	_, fields := formIn(t, p)
	half := fields.Get("pending")
	if half == "" || b.cookie("session") != "" || b.cookie("accessToken") != "" || b.cookie("gatehouse_session") != "" {
		t.Fatalf("pending %q, or a session", half)
	}
	for _, path := range []string{"/oauth/account", "/own/x", requestOf("conf").path(), "/oauth/consent?pending=" + url.QueryEscape(half), "/oauth/login?pending=" + url.QueryEscape(half)} {
		p := b.fetch(http.MethodGet, path, "", navigation...)
		if location := p.location(); p.status == http.StatusOK && strings.Contains(p.body, `name="everywhere"`) || location.Query().Get("code") != "" && !strings.HasPrefix(location.Path, "/oauth/") {
			t.Errorf("%s: %d %q", path, p.status, p.header.Get("Location"))
		}
	}
	s.upstream.none(t)
	for name, headers := range map[string][]string{
		"a bearer token": {"Authorization", "Bearer " + half}, "a session cookie": {"Cookie", "session=" + half},
		"a host's cookie": {"Cookie", "gatehouse_session=" + half}, "an access token's cookie": {"Cookie", "accessToken=" + half},
	} {
		for _, path := range []string{"/oauth/account", "/own/x", "/api/x"} {
			if status, _, _ := s.do(http.MethodGet, path, "", headers...); status == http.StatusOK {
				t.Errorf("as %s it opens %s", name, path)
			}
		}
	}
	s.upstream.none(t)
	s.refused(requestOf("conf").exchange(half), http.StatusBadRequest, "invalid_grant")
	s.refused(requestOf("conf").refresh(half), http.StatusBadRequest, "invalid_grant")

	stranger := s.browser()
	stranger.open("/oauth/login")
	holdPage(t, stranger.open("/oauth/factor?pending="+url.QueryEscape(half)), http.StatusBadRequest)
	_, own := formIn(t, stranger.open("/oauth/login"))
	own.Set("pending", half)
	own.Set("code", s.code(ada))
	if p := stranger.send("/oauth/factor", own); p.status < 400 || stranger.isSignedIn() {
		t.Errorf("in another browser: %d", p.status)
	}
	for name, value := range map[string]string{"altered": half[:len(half)-4] + "AAAA", "none": "", "text": "factors", "a section": "tokens"} {
		if p := b.open("/oauth/factor?pending=" + url.QueryEscape(value)); p.status < 400 {
			t.Errorf("%s: %d", name, p.status)
		}
	}
	if p := b.open("/oauth/factor/add?pending=" + url.QueryEscape(half)); p.status != http.StatusBadRequest {
		t.Errorf("at the page that adds a factor: %d", p.status)
	}
	asksFor(t, b.follow(b.types(p, s.code(ada))), "account") // it was good all the time
}

// TestW18AFormSentTwiceOpensOneSession: the form with the code sent again → the first session goes on, and there is no second; from another
// origin or without its token → 403.
func TestW18AFormSentTwiceOpensOneSession(t *testing.T) {
	s := startFactors(t, "")
	_, ada := s.owner(t, "ada@acme.example")
	b := s.browser()
	action, fields := formIn(t, asksFor(t, b.firstFactor("ada@acme.example"), "code"))
	fields.Set("code", s.code(ada))
	holdForbidden(t, b.post(action, fields, "Origin", "https://evil.tld"))
	holdForbidden(t, b.send(action, url.Values{"pending": fields["pending"], "code": fields["code"]}))

	holdChanged(t, b.send(action, fields), "/oauth/account")
	session := b.cookie("session")
	holdChanged(t, b.send(action, fields), "/oauth/account")
	if b.cookie("session") != session || !b.isSignedIn() {
		t.Error("there is another session")
	}
	b.signOut()
	if p := b.send(action, fields); b.isSignedIn() || p.status == http.StatusOK && !strings.Contains(p.body, `id="notice"`) {
		t.Errorf("after the sign-out: %d", p.status)
	}
}

// TestW19WhoNeedsAFactorAddsOneInTheMiddle: a user whom `second_factor required` covers, without a factor, in an authorization request of a
// client → adds an authenticator, sees the recovery codes once and comes back to the client; acr is 2 and amr pwd, otp, mfa in both tokens.
func TestW19WhoNeedsAFactorAddsOneInTheMiddle(t *testing.T) {
	s := startFactors(t, "second_factor required role admin\nsecond_factor required organisation rival")
	r := openIDRequestOf("conf", "openid trusted refresh_token", "nonce", "n1")
	b := s.browser()
	p := b.follow(b.signIn(b.open(r.path()), "ada@acme.example", peoplePassword))
	asksFor(t, p, "enrolment")
	holdNoStore(t, p)
	if policy := p.header.Get("Content-Security-Policy"); !strings.Contains(policy, "img-src data:;") || !strings.Contains(p.body, `<img src="data:image/png;base64,`) {
		t.Errorf("no picture, or the policy forbids it: %q", policy)
	}
	if b.isSignedIn() {
		t.Error("there is a session without a second factor")
	}
	again := asksFor(t, b.follow(b.signIn(asksFor(t, b.open(hrefIn(t, p, "/oauth/login")), "password"), "ada@acme.example", peoplePassword)), "enrolment") // Cancel
	if shownSecret(t, again) == shownSecret(t, p) {
		t.Error("the same secret is shown after Cancel")
	}
	wrong := b.types(again, phone{secret: shownSecret(t, again)}.wrongCode(t))
	if shownSecret(t, wrong) != shownSecret(t, again) || !strings.Contains(wrong.body, `id="notice"`) || b.isSignedIn() {
		t.Error("after a wrong code the secret is another one, or there is a session")
	}
	ada, codes := s.adds(b, wrong)
	holdPage(t, codes, http.StatusOK)
	got := b.redeem(t, b.decide(asksConsent(t, b.open(goesOn(t, codes))), "allow"), r)
	_, id := s.identity(t, got.IDToken)
	for name, told := range map[string]map[string]any{"the ID token": id, "the access token": claims(t, got.AccessToken)} {
		if told["acr"] != "2" || !reflect.DeepEqual(told["amr"], []any{"pwd", "otp", "mfa"}) {
			t.Errorf("%s says acr %v and amr %v", name, told["acr"], told["amr"])
		}
	}
	refreshed := s.obtain(r.refresh(got.RefreshToken))
	if told := claims(t, refreshed.AccessToken); told["acr"] != "2" || !reflect.DeepEqual(told["amr"], []any{"pwd", "otp", "mfa"}) {
		t.Errorf("after a refresh: %v", told)
	}
	for _, path := range []string{"/oauth/account", codes.header.Get("Location"), "/oauth/login"} {
		if path != "" {
			ada.holdNotIn(t, path, b.follow(b.open(path)).body)
		}
	}
	asksFor(t, s.browser().firstFactor("rita@rival.example"), "enrolment")
	asksFor(t, s.browser().firstFactor("ben@acme.example"), "account")
}

// asksConsent checks that a page asks for consent.
func asksConsent(t *testing.T, p page) page {
	t.Helper()
	if p.status != http.StatusOK || !strings.Contains(p.body, `name="decision"`) {
		t.Fatalf("%d, no consent page: %q %.300s", p.status, p.header.Get("Location"), p.body)
	}
	return p
}

// TestW20ThePagesForFactorsLeadToTheClient: the page that asks for a code inside a request of a client → its policy allows the redirect to
// that client, which browsers check after the form; the longest request → gets there and back.
func TestW20ThePagesForFactorsLeadToTheClient(t *testing.T) {
	s := startFactors(t, "")
	_, ada := s.owner(t, "ada@acme.example")
	r := openIDRequestOf("conf", "openid trusted", "nonce", strings.Repeat("n", 1<<10))
	r.state = strings.Repeat("s", 5<<10)
	b := s.browser()
	p := asksFor(t, b.follow(b.signIn(b.open(r.path()), "ada@acme.example", peoplePassword)), "code")
	if policy := p.header.Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self' https://client.example") {
		t.Errorf("policy %q", policy)
	}
	wrong := asksFor(t, b.types(p, ada.wrongCode(t)), "code")
	if policy := wrong.header.Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self' https://client.example") {
		t.Errorf("after a wrong code: policy %q", policy)
	}
	p = b.follow(b.types(wrong, s.code(ada)))
	b.redeem(t, b.decide(asksConsent(t, p), "allow"), r)
}

// TestW21AUserOfAProviderNeedsAFactorToo: `second_factor required everybody` and a sign-in at a provider → adds an authenticator, and is asked
// for it the next time; with the rule for others only → not.
func TestW21AUserOfAProviderNeedsAFactorToo(t *testing.T) {
	corp := newLyingProvider(t)
	signIn := "sign_in {\npassword\n" + atProvider("corp", corp, "create") + "\n}"
	person := map[string]any{"sub": "1", "email": "eve@corp.example", "email_verified": true, "amr": []string{"mfa", "otp"}}
	corp.says(person)
	s := startFactors(t, "second_factor required everybody\n"+signIn)
	b := s.browser()
	eve, codes := s.adds(b, b.follow(b.signsInAt(t, "corp", corp)))
	asksFor(t, b.open(goesOn(t, codes)), "account")
	next := s.browser()
	asksFor(t, next.follow(next.types(asksFor(t, next.follow(next.signsInAt(t, "corp", corp)), "code"), s.code(eve))), "account")
	told, _ := s.tellsIn(t, next)
	if told["acr"] != "2" || !reflect.DeepEqual(told["amr"], []any{"mfa", "otp"}) {
		t.Errorf("acr %v, amr %v", told["acr"], told["amr"])
	}
	s.reload(factorSite("second_factor required role admin\n" + signIn))
	free := s.browser()
	asksFor(t, free.follow(free.signsInAt(t, "corp", corp)), "account")
}

// TestW45ATrustedProvidersOwnFactor: `second_factor required everybody` and a sign-in at a provider with `trust_factors` → not asked; acr 2 if
// the provider's amr has mfa, and otherwise no acr.
func TestW45ATrustedProvidersOwnFactor(t *testing.T) {
	corp := newLyingProvider(t)
	s := startFactors(t, "second_factor required everybody\nsign_in {\npassword\n"+atProvider("corp", corp, "create\ntrust_factors")+"\n}")
	for amr, acr := range map[string]any{"mfa": "2", "pwd": nil} {
		corp.says(map[string]any{"sub": amr, "email": amr + "@corp.example", "email_verified": true, "amr": []string{amr}})
		b := s.browser()
		asksFor(t, b.follow(b.signsInAt(t, "corp", corp)), "account")
		if told, _ := s.tellsIn(t, b); told["acr"] != acr {
			t.Errorf("amr %s: acr %v, want %v", amr, told["acr"], acr)
		}
	}
}

// TestW37AnEnrolmentSentTwiceAddsOneFactor: the form that adds an authenticator sent again → one factor, one session and the codes of the first
// answer, which a later answer does not show; a wrong code, a form without its token or from another origin → no factor.
func TestW37AnEnrolmentSentTwiceAddsOneFactor(t *testing.T) {
	s := startFactors(t, "second_factor required everybody")
	b := s.browser()
	p := b.firstFactor("ada@acme.example")
	ada := phone{secret: shownSecret(t, p)}
	action, fields := formIn(t, p)
	fields.Set("code", ada.shows(t))
	holdForbidden(t, b.post(action, fields, "Origin", "https://evil.tld"))
	holdForbidden(t, b.send(action, url.Values{"pending": fields["pending"], "code": fields["code"]}))
	asksFor(t, b.types(p, ada.wrongCode(t)), "enrolment")
	s.holdFactors(t, "u-ada", false)

	ada.recovery = shownCodes(t, b.send(action, fields))
	session := b.cookie("session")
	again := b.send(action, fields)
	holdChanged(t, again, "/oauth/account")
	ada.holdNotIn(t, "the second answer", again.body)
	if b.cookie("session") != session || !b.isSignedIn() {
		t.Error("there is another session, or none")
	}
	s.holdFactors(t, "u-ada", true)
	next := s.browser()
	asksFor(t, next.follow(next.types(asksFor(t, next.firstFactor("ada@acme.example"), "code"), ada.recovery[9])), "account")
}
