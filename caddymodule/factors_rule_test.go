package caddymodule

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestW22ARuleHoldsForWhoIsSignedIn: a reload that brings `second_factor required` → sessions, sessions at hosts, codes and refresh tokens of
// sign-ins with a password end for the users whom it covers, and adding a factor restores them; access tokens live until they expire; tokens
// that an operator made and personal access tokens go on, because nobody signs in for them; other users go on.
func TestW22ARuleHoldsForWhoIsSignedIn(t *testing.T) {
	changes := slices.Concat(passwordRefresh, gatedRoutes)
	s := startFactors(t, "personal_tokens\nopenid", changes...)
	conf := requestOf("conf")
	conf.scope = "trusted public refresh_token"
	type holdings struct {
		b                        *browser
		byCode, byPassword, made tokens
		code, personal           string
	}
	of := func(email, id string) (h holdings) {
		h.b = s.inBrowser(email)
		if p := h.b.visits("/own/x"); p.status != http.StatusOK || p.body != "ok" {
			t.Fatalf("%s: %d %s", email, p.status, p.body)
		}
		h.byCode = h.b.redeem(t, h.b.authorize(conf, ""), conf)
		h.code = h.b.codeToClient(t, h.b.authorize(conf, ""), conf)
		h.byPassword = s.obtain(conf.asPassword(email, peoplePassword))
		made, err := s.operator().MintUserToken(t.Context(), "conf", id, "trusted public", 0)
		check(t, err)
		h.made = tokens{AccessToken: made.AccessToken.Reveal(), RefreshToken: made.RefreshToken.Reveal()}
		_, h.personal = h.b.makes(t, "a script", "trusted")
		return h
	}
	ada, grace := of("ada@acme.example", "u-ada"), of("grace@acme.example", "u-grace")
	s.upstream.seen()
	s.reload(factorSite("personal_tokens\nopenid\nsecond_factor required role admin", changes...))

	if p := ada.b.open("/oauth/account"); p.location().Path != "/oauth/login" {
		t.Errorf("the session: %d %q", p.status, p.header.Get("Location"))
	}
	if p := ada.b.fetch(http.MethodGet, "/own/x", ""); p.status != http.StatusUnauthorized {
		t.Errorf("the session at a host: %d", p.status)
	}
	asksFor(t, ada.b.visits("/own/x"), "password")
	s.upstream.none(t)
	s.refused(conf.exchange(ada.code), http.StatusBadRequest, "invalid_grant")
	for name, got := range map[string]tokens{"the code grant": ada.byCode, "the password grant": ada.byPassword} {
		s.refused(conf.refresh(got.RefreshToken), http.StatusBadRequest, "invalid_grant")
		if !s.alive(got.AccessToken) {
			t.Errorf("the access token of %s has ended before its time", name)
		}
	}
	for name, token := range map[string]string{"an operator's token": ada.made.AccessToken, "a personal token": ada.personal} {
		if !s.alive(token) {
			t.Errorf("%s has ended", name)
		}
	}
	if ada.made.RefreshToken != "" {
		s.obtain(conf.refresh(ada.made.RefreshToken))
	}
	if p := grace.b.visits("/own/x"); p.status != http.StatusOK || !grace.b.isSignedIn() {
		t.Errorf("another user is signed out: %d", p.status)
	}
	s.redeemAll(conf, grace.code, grace.byCode.RefreshToken, grace.byPassword.RefreshToken)

	s.adds(ada.b, ada.b.firstFactor("ada@acme.example"))
	if p := ada.b.visits("/own/x"); p.status != http.StatusOK || p.body != "ok" {
		t.Errorf("after adding a factor: %d", p.status)
	}
	fresh := ada.b.redeem(t, ada.b.authorize(conf, ""), conf)
	s.obtain(conf.refresh(fresh.RefreshToken))
	s.refused(conf.refresh(ada.byCode.RefreshToken), http.StatusBadRequest, "invalid_grant")
	s.holdFactors(t, "u-ada", true)
}

// redeemAll redeems a code and refresh tokens.
func (g *gatehouse) redeemAll(r request, code string, refresh ...string) {
	g.t.Helper()
	g.obtain(r.exchange(code))
	for _, token := range refresh {
		g.obtain(r.refresh(token))
	}
}

// TestW23ThePasswordGrantProvesOneFactor: the password grant of a user who has a factor or whom the rule covers → invalid_grant, with the
// right password only; of others → tokens of class 1.
func TestW23ThePasswordGrantProvesOneFactor(t *testing.T) {
	s := startFactors(t, "second_factor required role group_manager")
	conf := requestOf("conf")
	if told := claims(t, s.obtain(conf.asPassword("ada@acme.example", peoplePassword)).AccessToken); told["acr"] != "1" {
		t.Errorf("acr %v", told["acr"])
	}
	s.owner(t, "ada@acme.example")
	for _, email := range []string{"ada@acme.example", "grace@acme.example"} {
		s.refused(conf.asPassword(email, peoplePassword), http.StatusBadRequest, "invalid_grant")
	}
	s.obtain(conf.asPassword("max@acme.example", peoplePassword))
	if !strings.Contains(s.logs(), `"second_factor_needed"`) {
		t.Error("the log does not say why")
	}
}
