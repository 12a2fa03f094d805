//go:build linux && failpoint

package rig

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
)

// migrations returns the number of migrations.
func migrations(t *testing.T) int {
	t.Helper()
	files, err := filepath.Glob("../tokenissuer/sqlstore/migrations/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d migrations (%v)", len(files), err)
	}
	return len(files)
}

// signedIn creates a request of an application, for a browser in which the person has signed in.
func (s *scene) signedIn(client string) {
	s.t.Helper()
	s.application = Application{URL: s.node.URL, ID: client}
	if s.browser == nil {
		s.browser = NewBrowser(Ada)
	}
	if _, _, err := s.browser.Authorize(s.t.Context(), s.application.Ask()); err != nil {
		s.t.Fatal(err)
	}
	s.request = s.application.Ask()
}

// openForm follows the request to the page with a form.
func (s *scene) openForm() {
	s.t.Helper()
	s.at = s.request.Address()
	s.page = s.browser.open(s.t.Context(), s.at)
	for range 3 {
		next, err := url.Parse(s.page.Header.Get("Location"))
		if err != nil {
			s.t.Fatal(err)
		}
		if next.String() != "" {
			s.page, s.at = s.browser.follow(s.t.Context(), s.at, next)
		}
	}
	if s.page.Status != http.StatusOK {
		s.t.Fatalf("no form: %v", s.page)
	}
}

// openSignIn opens the sign-in page. Signing in leads to the consent page, and yields no code yet.
func (s *scene) openSignIn() {
	s.t.Helper()
	s.browser = NewBrowser(Ada)
	s.application = Application{URL: s.node.URL, ID: Device}
	s.request = s.application.Ask()
	s.openForm()
}

// haveCode proceeds until there is a code.
func (s *scene) haveCode() {
	s.t.Helper()
	s.signedIn(Console)
	var err error
	if s.code, _, err = s.browser.Authorize(s.t.Context(), s.request); err != nil {
		s.t.Fatal(err)
	}
}

// haveTokens proceeds until there are tokens.
func (s *scene) haveTokens() {
	s.t.Helper()
	s.haveCode()
	s.tokens = s.must(s.redeem())
	s.wantGate(true)
}

// must reads an answer that must contain tokens.
func (s *scene) must(a Answer) Tokens {
	s.t.Helper()
	tokens, err := ReadTokens(a)
	if err != nil {
		s.t.Fatal(err)
	}
	return tokens
}

// wantGate checks whether the gate accepts the access token.
func (s *scene) wantGate(open bool) {
	s.t.Helper()
	want := http.StatusUnauthorized
	if open {
		want = http.StatusOK
	}
	if answer := s.application.Use(s.t.Context(), s.tokens.AccessToken); answer.Status != want {
		s.t.Errorf("at the gate: %v, want %d", answer, want)
	}
}

// wantInvalidGrant expects the answer for a credential that is no longer valid.
func (s *scene) wantInvalidGrant(a Answer) {
	s.t.Helper()
	if a.Status != http.StatusBadRequest || !strings.Contains(a.Body, `"invalid_grant"`) {
		s.t.Errorf("%v, want invalid_grant", a)
	}
}

// wantAdded expects that many more families than before the step.
func (s *scene) wantAdded(families int) {
	s.t.Helper()
	if now, _, _ := s.counts(); now-s.families != families {
		s.t.Errorf("%d families were added, want %d", now-s.families, families)
	}
}

func (s *scene) authorize() Answer { return s.browser.open(s.t.Context(), s.request.Address()) }

func (s *scene) sendForm() Answer {
	s.t.Helper()
	answer, err := s.browser.fillIn(s.t.Context(), s.at, s.page)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer
}

// checkAuthorized: the code that was not received exists with its family, or neither exists. A decided form is not decided again: the
// person begins anew, and is still signed in.
func (s *scene) checkAuthorized(happened bool) {
	s.t.Helper()
	if s.application.ID != Device { // no consent was asked for, and no form was decided
		s.wantAdded(map[bool]int{true: 1}[happened])
	} else {
		s.checkDecided(happened)
		again := s.sendForm()
		if sent := strings.Contains(again.Header.Get("Location"), "code="); sent == happened {
			s.t.Errorf("the form again: %v", again)
		}
	}
	s.haveTokens()
}

// checkDecided: the family exists with the decision that created it, or neither exists.
func (s *scene) checkDecided(happened bool) {
	s.t.Helper()
	added := map[bool]int{true: 1}[happened]
	s.wantAdded(added)
	if _, decided, _ := s.counts(); decided-s.decided != added {
		s.t.Errorf("%d requests were decided, want %d", decided-s.decided, added)
	}
}

// checkSignedIn: the form opens one session, even if its answer was not received.
func (s *scene) checkSignedIn(happened bool) {
	s.t.Helper()
	s.checkDecided(happened)
	s.sendForm()
	s.wantAdded(1)
	s.haveTokens()
}

func (s *scene) redeem() Answer { return s.request.Redeem(s.t.Context(), s.code) }

// checkRedeemed checks row T49 for a redeemed code.
func (s *scene) checkRedeemed(happened bool) {
	s.t.Helper()
	s.wantAdded(0)
	again := s.redeem()
	if !happened {
		s.tokens = s.must(again)
		s.wantGate(true)
		s.mustRefresh()
		return
	}
	s.wantInvalidGrant(again)
	if s.newest("revoked_at IS NULL") {
		s.t.Error("the family lives on")
	}
}

// newest reports whether a condition holds for the newest family.
func (s *scene) newest(condition string) bool {
	s.t.Helper()
	return s.count(`SELECT COUNT(*) FROM families WHERE `+condition+` AND id =
		(SELECT id FROM families WHERE client_id = '`+Console+`' ORDER BY created_at DESC LIMIT 1)`) == 1
}

func (s *scene) refresh() Answer {
	return s.application.Refresh(s.t.Context(), s.tokens.RefreshToken)
}

// mustRefresh uses the successor.
func (s *scene) mustRefresh() {
	s.t.Helper()
	s.tokens = s.must(s.refresh())
	s.wantGate(true)
}

// checkRefreshed: the refresh token that was sent yields one successor, however often it is sent, and that yields its own.
func (s *scene) checkRefreshed(happened bool) {
	s.t.Helper()
	if s.newest("generation = 2") != happened {
		s.t.Errorf("there is a second refresh token: %t, want %t", !happened, happened)
	}
	used, first := s.tokens, s.must(s.refresh())
	if second := s.must(s.refresh()); second.RefreshToken != first.RefreshToken {
		s.t.Error("the token has two successors")
	}
	s.tokens = first
	s.wantGate(true)
	s.mustRefresh()
	s.wantInvalidGrant(s.application.Refresh(s.t.Context(), used.RefreshToken))
	s.wantGate(false)
}

func (s *scene) create() Answer {
	return s.application.CreateToken(s.t.Context(), s.tokens.AccessToken, Grace)
}

// checkCreated: the token that was not received exists or does not, and the admin creates another.
func (s *scene) checkCreated(happened bool) {
	s.t.Helper()
	s.wantAdded(map[bool]int{true: 1}[happened])
	s.tokens = s.must(s.create())
	s.wantGate(true)
	s.mustRefresh()
}

func (s *scene) revoke() Answer {
	return s.application.Revoke(s.t.Context(), s.tokens.RefreshToken)
}

// checkRevoked: a revoked token is refused from the first request on, by the database and by the gate.
func (s *scene) checkRevoked(happened bool) {
	s.t.Helper()
	s.wantGate(!happened)
	if happened {
		s.wantInvalidGrant(s.refresh())
	} else {
		s.mustRefresh()
	}
	if answer := s.revoke(); answer.Status != http.StatusOK {
		s.t.Errorf("revoking again: %v", answer)
	}
	s.wantGate(false)
	s.wantInvalidGrant(s.refresh())
}

// haveUser proceeds until there are tokens for a stored user.
func (s *scene) haveUser() {
	s.t.Helper()
	s.user = "u-" + strings.ToLower(rand.Text())
	answer := s.adminPost("/oauth/users", fmt.Sprintf(`{"id":%q,"email":%q,"organisation":"acme","role":"member","password_hash":%q}`,
		s.user, Email(s.user), passwordHash()))
	if answer.Status != http.StatusCreated {
		s.t.Fatalf("adding a user: %v", answer)
	}
	s.browser = NewBrowser(s.user)
	s.haveTokens()
}

func (s *scene) disable() Answer { return s.adminPost("/oauth/users/"+s.user+"/disable", "") }

// checkDisabled: a disabled user has no valid token, and a user who is not disabled has lost none.
func (s *scene) checkDisabled(happened bool) {
	s.t.Helper()
	if disabled := s.count(`SELECT COUNT(*) FROM users WHERE status <> 'active' AND id = '`+s.user+`'`) == 1; disabled != happened {
		s.t.Errorf("the user is disabled: %t", disabled)
	}
	s.wantGate(!happened)
	if happened {
		s.wantInvalidGrant(s.refresh())
	} else {
		s.mustRefresh()
	}
	if answer := s.disable(); answer.Status != http.StatusNoContent {
		s.t.Errorf("disabling again: %v", answer)
	}
	s.wantGate(false)
	s.wantInvalidGrant(s.refresh())
}

func (s *scene) rotateKeys() Answer { return s.adminPost("/oauth/keys/rotate", `{}`) }

// checkRotated: no key was lost, every stored one is published, signed tokens are valid, and the keys can be rotated.
func (s *scene) checkRotated(happened bool) {
	s.t.Helper()
	_, _, keys := s.counts()
	if keys-s.keys != map[bool]int{true: 1}[happened] {
		s.t.Errorf("%d keys were added: happened is %t", keys-s.keys, happened)
	}
	const masters = 1 // it does not sign
	if published := s.published(); published != keys-masters {
		s.t.Errorf("%d of %d keys are published", published, keys-masters)
	}
	s.wantGate(true)
	s.mustRefresh()
	if answer := s.rotateKeys(); answer.Status != http.StatusCreated {
		s.t.Errorf("rotating again: %v", answer)
	}
	s.wantGate(true)
	s.mustRefresh()
}

// published returns the number of keys in the JWK Set.
func (s *scene) published() int {
	s.t.Helper()
	var set struct{ Keys []any }
	answer := Send(s.t.Context(), http.MethodGet, s.node.URL+"/oauth/jwks", "")
	if err := json.Unmarshal([]byte(answer.Body), &set); err != nil {
		s.t.Fatalf("%v: %v", err, answer)
	}
	return len(set.Keys)
}

// signingKey returns the id of the key that signed the access token.
func (s *scene) signingKey() string {
	s.t.Helper()
	head, _, _ := strings.Cut(s.tokens.AccessToken, ".")
	text, err := base64.RawURLEncoding.DecodeString(head)
	var header struct{ Kid string }
	if err == nil {
		err = json.Unmarshal(text, &header)
	}
	if err != nil || header.Kid == "" {
		s.t.Fatalf("no key id in %s: %v", text, err)
	}
	return header.Kid
}

func (s *scene) revokeKey() Answer {
	return s.adminPost("/oauth/keys/revoke", `{"kid":"`+s.kid+`"}`)
}

// checkKeyRevoked: tokens of a revoked key are refused, those of another key are valid until it is revoked, and there is always a key
// that signs.
func (s *scene) checkKeyRevoked(happened bool) {
	s.t.Helper()
	s.wantGate(!happened)
	if answer := s.revokeKey(); answer.Status != http.StatusNoContent {
		s.t.Errorf("revoking again: %v", answer)
	}
	s.wantGate(false)
	s.mustRefresh()
	if s.signingKey() == s.kid {
		s.t.Error("the revoked key signs")
	}
}
