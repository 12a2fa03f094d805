package caddymodule

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
)

// The files factors_*_test.go test second factors through a whole Caddy, one test for each row of the catalogue of attacks and faults.

// factorScene is a running OpenID provider whose users can add authenticators. Only the test advances its clock.
type factorScene struct {
	*gatehouse
	clock *testClock
}

// startFactors serves people who can add authenticators. lines are further lines of the oauth block.
func startFactors(t *testing.T, lines string, changes ...string) *factorScene {
	t.Helper()
	clock := setClock(t)
	return &factorScene{startGatehouse(t, factorSite(lines, changes...)), clock}
}

// factorSite is the configuration of startFactors.
func factorSite(lines string, changes ...string) string {
	const before = "scope orders.read \"Read orders\" {"
	return openIDSite(append([]string{before, "totp\n" + lines + "\n" + before}, changes...)...)
}

// gatedRoutes adds routes behind a gate: /own/* for browsers, /two/* and /one/* for sign-ins of those classes.
var gatedRoutes = []string{"handle /pub/*", "handle /own/* {\n\t\tprotect {\n\t\t\tchallenge browser\n\t\t}\n\t\treverse_proxy UPSTREAM\n\t}\n" +
	"\thandle /two/* {\n\t\tprotect {\n\t\t\trequire acr 2\n\t\t}\n\t\treverse_proxy UPSTREAM\n\t}\n" +
	"\thandle /one/* {\n\t\tprotect {\n\t\t\trequire acr 1\n\t\t}\n\t\treverse_proxy UPSTREAM\n\t}\n\thandle /pub/*"}

// phone is an authenticator of a user, with the recovery codes that came with it.
type phone struct {
	secret   string
	recovery []string
}

// wait advances the clock and refreshes the gate's revocations.
func (s *factorScene) wait(d time.Duration) {
	s.t.Helper()
	(&gateway{gatehouse: s.gatehouse}).later(s.clock, d)
}

// code waits for the phone's next code and returns it.
func (s *factorScene) code(p phone) string {
	s.t.Helper()
	s.wait(30 * time.Second)
	return p.shows(s.t)
}

// shows returns the code that the phone shows.
func (p phone) shows(t *testing.T) string {
	t.Helper()
	code, err := totp.GenerateCode(p.secret, node.Clock())
	check(t, err)
	return code
}

// wrongCode returns a code that the phone shows neither now nor around now.
func (p phone) wrongCode(t *testing.T) string {
	t.Helper()
	var near []string
	for _, skew := range []time.Duration{-time.Minute, -30 * time.Second, 0, 30 * time.Second, time.Minute} {
		code, err := totp.GenerateCode(p.secret, node.Clock().Add(skew))
		check(t, err)
		near = append(near, code)
	}
	for _, code := range []string{"000000", "111111", "222222", "333333", "444444", "555555"} {
		if !slices.Contains(near, code) {
			return code
		}
	}
	t.Fatal("every code is near")
	return ""
}

// types submits a code on a page that asks for one.
func (b *browser) types(p page, code string) page {
	b.t.Helper()
	action, fields := formIn(b.t, p)
	fields.Set("code", code)
	return b.send(action, fields)
}

// firstFactor proves the password and returns the page that follows.
func (b *browser) firstFactor(email string) page {
	b.t.Helper()
	return b.follow(b.signIn(b.open("/oauth/login?switch=1"), email, peoplePassword))
}

// visits opens a page as a browser does, and follows redirects within the server.
func (b *browser) visits(target string) page {
	b.t.Helper()
	p := b.fetch(http.MethodGet, target, "", navigation...)
	for range 12 {
		location := p.header.Get("Location")
		if !strings.HasPrefix(location, "/") && !strings.HasPrefix(location, b.url+"/") {
			return p
		}
		p = b.fetch(http.MethodGet, location, "", navigation...)
	}
	b.t.Fatalf("%s: round in circles", target)
	return p
}

// asksFor checks which of the pages an answer is: `password`, `code` for a code of an authenticator, `enrolment`, or `account`.
func asksFor(t *testing.T, p page, want string) page {
	t.Helper()
	got := ""
	switch {
	case strings.Contains(p.body, `name="password"`):
		got = "password"
	case strings.Contains(p.body, `id="secret"`):
		got = "enrolment"
	case strings.Contains(p.body, `name="code"`):
		got = "code"
	case strings.Contains(p.body, `name="everywhere"`):
		got = "account"
	}
	if p.status != http.StatusOK || got != want {
		t.Fatalf("%d, the page is %q, want %q: Location %q: %.600s", p.status, got, want, p.header.Get("Location"), p.body)
	}
	return p
}

// shownSecret returns the secret of an authenticator on the page that adds it.
func shownSecret(t *testing.T, p page) string {
	t.Helper()
	for n := range nodes(t, asksFor(t, p, "enrolment")) {
		if attributes := attributesOf(n); attributes["id"] == "secret" {
			return strings.ReplaceAll(attributes["value"], " ", "")
		}
	}
	t.Fatal("no secret in the page")
	return ""
}

// shownCodes returns the recovery codes of a page.
func shownCodes(t *testing.T, p page) (codes []string) {
	t.Helper()
	for n := range nodes(t, p) {
		if n.Data == "code" && n.FirstChild != nil {
			codes = append(codes, n.FirstChild.Data)
		}
	}
	if len(codes) != 10 {
		t.Fatalf("%d: %d recovery codes, want 10: %.600s", p.status, len(codes), p.body)
	}
	return codes
}

// adds adds an authenticator on the page that asks for it, and returns the page with the recovery codes.
func (s *factorScene) adds(b *browser, p page) (phone, page) {
	b.t.Helper()
	added := phone{secret: shownSecret(b.t, p)}
	p = b.types(p, added.shows(b.t))
	added.recovery = shownCodes(b.t, p)
	return added, p
}

// goesOn returns where the page with the recovery codes leads.
func goesOn(t *testing.T, p page) string {
	t.Helper()
	for n := range nodes(t, p) {
		if attributes := attributesOf(n); n.Data == "a" && attributes["class"] == "button primary" {
			return attributes["href"]
		}
	}
	t.Fatalf("no way on: %s", p.body)
	return ""
}

// owner returns a browser in which that user has signed in with a password and added an authenticator on the account page.
func (s *factorScene) owner(t *testing.T, email string) (*browser, phone) {
	t.Helper()
	b := s.inBrowser(email)
	added, _ := s.adds(b, b.follow(b.change("factor", "add")))
	return b, added
}

// factorsOf returns the ids of a user's factors by their kind, as operators see them.
func (g *gatehouse) factorsOf(t *testing.T, user string) map[string]string {
	t.Helper()
	ids := make(map[string]string)
	for line := range strings.Lines(g.ok("user", "factors", "list", user)) {
		if fields := strings.Fields(line); fields[0] != "ID" {
			ids[fields[1]] = fields[0]
		}
	}
	return ids
}

// holdFactors checks that a user has a phone and recovery codes, or nothing.
func (g *gatehouse) holdFactors(t *testing.T, user string, has bool) {
	t.Helper()
	ids, want := g.factorsOf(t, user), 0
	if has {
		want = 2
	}
	if len(ids) != want || has && (ids["totp"] == "" || ids["recovery_codes"] == "") {
		t.Errorf("factors of %s: %v", user, ids)
	}
}

// holdNotIn checks that a text contains neither the secret of a phone nor a recovery code of it.
func (p phone) holdNotIn(t *testing.T, place, text string) {
	t.Helper()
	for _, secret := range append(slices.Clone(p.recovery), p.secret) {
		for _, form := range []string{secret, url.QueryEscape(secret), strings.ReplaceAll(secret, "-", "")} {
			if strings.Contains(text, form) {
				t.Errorf("%s holds a secret or a recovery code", place)
			}
		}
	}
}
