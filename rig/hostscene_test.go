//go:build linux && failpoint

package rig

import (
	"net/http"
	"net/url"
	"strings"
)

// web returns the URL of the page behind the gate, at its host.
func (s *scene) web() string { return WebOf(s.node.Issuer) + WebPage }

// haveAttempt proceeds until there is an answer of the issuer that the browser has not sent to the host yet.
func (s *scene) haveAttempt() {
	s.t.Helper()
	s.browser = NewBrowser(Ada)
	answer, err := s.browser.walk(s.t.Context(), s.web(), func(next *url.URL) bool {
		return strings.HasSuffix(next.Path, "/oauth/callback")
	})
	if s.at = answer.Header.Get("Location"); err != nil || s.at == "" {
		s.t.Fatalf("no answer of the issuer: %v, %v", answer, err)
	}
	s.hosts = s.living()
}

// living counts the host sessions whose code was redeemed.
func (s *scene) living() int {
	s.t.Helper()
	return s.count(`SELECT COUNT(*) FROM families WHERE origin = 'host_session' AND code_spent_at IS NOT NULL AND revoked_at IS NULL`)
}

func (s *scene) comeBack() Answer { return s.browser.See(s.t.Context(), s.at) }

// checkAtHost: repeating the answer of the issuer ends a session that the browser did not receive, and gives the browser another. A
// session that was not created is created then.
func (s *scene) checkAtHost(happened bool) {
	s.t.Helper()
	s.wantAdded(0)
	if now := s.living(); now-s.hosts != map[bool]int{true: 1}[happened] {
		s.t.Errorf("%d sessions live at hosts, and %d did before", now, s.hosts)
	}
	if _, err := s.browser.Visit(s.t.Context(), s.at); err != nil {
		s.t.Error(err)
	}
	s.wantWeb(true)
	if now := s.living(); now != s.hosts+1 {
		s.t.Errorf("in the end %d sessions live at hosts, want %d", now, s.hosts+1)
	}
}

// atHost proceeds until there is a session at the host.
func (s *scene) atHost() {
	s.t.Helper()
	s.browser = NewBrowser(Ada)
	if _, err := s.browser.Visit(s.t.Context(), s.web()); err != nil {
		s.t.Fatal(err)
	}
	s.wantWeb(true)
	s.openAccount()
}

// openAccount opens the page that ends sessions.
func (s *scene) openAccount() {
	s.t.Helper()
	s.at = s.node.Issuer + "/oauth/account"
	if s.page = s.browser.See(s.t.Context(), s.at); s.page.Status != http.StatusOK {
		s.t.Fatalf("the account page: %v", s.page)
	}
}

// endSignIn ends the browser's sign-in on the account page.
func (s *scene) endSignIn() Answer {
	s.t.Helper()
	var id string
	const newest = `SELECT id FROM families WHERE origin = 'session' ORDER BY created_at DESC LIMIT 1`
	if err := s.db.QueryRowContext(s.t.Context(), newest).Scan(&id); err != nil {
		s.t.Fatal(err)
	}
	action, fields, err := formIn(s.page.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	fields.Set("session", id)
	return send(s.t.Context(), s.browser.jar, http.MethodPost, resolve(s.at, action), fields.Encode(), []string{
		"Content-Type", formType, "Origin", "null", "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "navigate",
	})
}

// checkSignInEnded: the sign-in and the host session are both alive, or both have ended. The end can be requested again.
func (s *scene) checkSignInEnded(happened bool) {
	s.t.Helper()
	s.wantWeb(!happened)
	const halves = `SELECT COUNT(*) FROM families h JOIN families s ON h.session_id = s.id
		WHERE h.origin = 'host_session' AND h.revoked_at IS NULL AND s.revoked_at IS NOT NULL`
	if n := s.count(halves); n != 0 {
		s.t.Errorf("%d sessions at hosts live on without their sign-in", n)
	}
	if !happened {
		s.openAccount()
		if answer := s.endSignIn(); answer.Status != http.StatusSeeOther {
			s.t.Errorf("ending the sign-in again: %v", answer)
		}
		s.wantWeb(false)
	}
}

// wantWeb opens the page with the host session: it is shown, or the browser is redirected to sign in.
func (s *scene) wantWeb(open bool) {
	s.t.Helper()
	want := http.StatusSeeOther
	if open {
		want = http.StatusOK
	}
	if answer := s.browser.See(s.t.Context(), s.web()); answer.Status != want {
		s.t.Errorf("the page at the host: %v, want %d", answer, want)
	}
}
