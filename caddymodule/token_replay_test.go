package caddymodule

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
)

// These tests cover credentials that are used twice: by a thief, in a race, by a client that lost the answer, after a
// restart.

// atOnce sends a form that many times concurrently and returns the answers.
func (u *userDoor) atOnce(times int, form url.Values) []answer {
	u.t.Helper()
	answers := make([]answer, times)
	tokentest.Together(times, func(i int) error { answers[i] = u.ask(u.t, "/oauth/token", form.Encode()); return nil })
	return answers
}

// TestT49SecondRedemptionEndsTheFamily: a used code again, at once or a day later, with whatever verifier or redirect URI →
// invalid_grant, and the access and refresh tokens of the family are dead.
func TestT49SecondRedemptionEndsTheFamily(t *testing.T) {
	now := setClock(t)
	u := openUsers(t)
	r := requestOf("conf")
	for name, test := range map[string]struct {
		later  time.Duration
		change []string
	}{
		"at once": {}, "after 1 s": {later: time.Second}, "after 30 s": {later: 30 * time.Second},
		"after 1 day":          {later: 24 * time.Hour},
		"wrong verifier":       {change: []string{"code_verifier", strings.Repeat("w", 43)}},
		"no verifier":          {change: []string{"code_verifier", ""}},
		"wrong redirect URI":   {later: time.Second, change: []string{"redirect_uri", "https://client.example/other"}},
		"neither of the two":   {change: []string{"redirect_uri", "", "code_verifier", ""}},
		"after the code's end": {later: 61 * time.Second},
	} {
		u.sub(name, func(u *userDoor) {
			form := r.exchange(u.code(r, ada))
			got, bystander := u.gives(form), u.userTokens(r, ada)
			refreshed := u.gives(r.refresh(got.RefreshToken))
			u.wait(now, test.later)
			u.denied(with(form, test.change...), badGrant("code_replayed"))
			if test.later < 6*time.Hour { // the access tokens' own lifetime
				u.gone(got.AccessToken, refreshed.AccessToken)
				u.lives(bystander.AccessToken)
			}
			u.denied(r.refresh(refreshed.RefreshToken), badGrant("refresh_token_revoked"))
			u.denied(form, badGrant("code_replayed")) // and once more
			u.gives(r.refresh(bystander.RefreshToken))
		})
	}
	// A replay is logged as a warning, because a credential has been stolen.
	form := r.exchange(u.code(r, ada))
	u.gives(form)
	u.decisions(t)
	u.ask(t, "/oauth/token", form.Encode())
	if line := u.audited(); line["level"] != "warn" || line["client_id"] != "conf" {
		t.Errorf("audited %v", line)
	}
}

// TestT50T53T82WhatIsAnotherClientsHarmsNobody: a used or fresh code, or a refresh token, of client A presented by client B → invalid_grant, and A's
// tokens or the unspent code stay good.
func TestT50T53T82WhatIsAnotherClientsHarmsNobody(t *testing.T) {
	u := openUsers(t)
	r, other := requestOf("conf"), requestOf("other")
	form := r.exchange(u.code(r, ada))
	theirs := with(form, "client_id", "other", "client_secret", other.secret)
	public := with(form, "client_id", "pub", "client_secret", "")
	unproved := with(form, "client_secret", "wrong")

	// T53: before it is used.
	u.denied(theirs, badGrant("code_of_another_client"))
	u.denied(public, badGrant("code_of_another_client"))
	u.denied(unproved, badClient("client_authentication_failed"))
	got := u.gives(form)
	// T50: after it was used.
	u.denied(theirs, badGrant("code_of_another_client"))
	u.denied(public, badGrant("code_of_another_client"))
	u.denied(unproved, badClient("client_authentication_failed"))
	u.denied(with(form, "client_secret", ""), badClient("client_authentication_failed"))
	// T82
	second := u.gives(r.refresh(got.RefreshToken))
	for _, token := range []string{got.RefreshToken, second.RefreshToken} {
		u.denied(other.refresh(token), badGrant("refresh_token_of_another_client"))
		u.denied(requestOf("pub").refresh(token), badGrant("refresh_token_of_another_client"))
		u.denied(with(r.refresh(token), "client_secret", "wrong"), badClient("client_authentication_failed"))
		u.denied(with(r.refresh(token), "client_id", "", "client_secret", ""), badClient("client_credentials_missing"))
		u.denied(requestOf("legacy").refresh(token), outcome{status: 400, code: "unauthorized_client", reason: "grant_not_allowed"})
	}
	u.lives(got.AccessToken, second.AccessToken)
	u.gives(r.refresh(second.RefreshToken))
}

// TestT88WhatEndedStaysEndedAfterARestart: a revoked family after a restart with empty caches → invalid_grant. Other
// families continue to work.
func TestT88WhatEndedStaysEndedAfterARestart(t *testing.T) {
	setClock(t) // keeps the code's minute from passing
	changes := append([]string{}, onDiskPeople...)
	u := openUsers(t, changes...)
	r := requestOf("conf")
	restart := func() {
		t.Helper()
		u.stop()
		u.reload(peopleSite(changes...))
	}

	revoked, reused, alive := u.userTokens(r, ada), u.userTokens(r, ada), u.userTokens(r, ada)
	replayedForm, unusedCode := r.exchange(u.code(r, ada)), u.code(r, ada)
	replayed := u.gives(replayedForm)

	u.revoked(t, u.ask(t, "/oauth/revoke", "token="+revoked.RefreshToken+"&"+asConf), true)
	u.denied(replayedForm, badGrant("code_replayed"))
	second := u.gives(r.refresh(reused.RefreshToken))
	third := u.gives(r.refresh(second.RefreshToken))
	u.denied(r.refresh(reused.RefreshToken), badGrant("refresh_token_reused"))
	session := u.browserOf(ada).cookie("session")
	out := u.browser()
	out.authorize(r, "ben@acme.example")
	signedOut := out.cookie("session")
	out.signOut()

	for range 2 {
		restart()
		u.gone(revoked.AccessToken, replayed.AccessToken, reused.AccessToken, second.AccessToken, third.AccessToken)
		for _, token := range []string{
			revoked.RefreshToken, replayed.RefreshToken, reused.RefreshToken, second.RefreshToken, third.RefreshToken,
		} {
			u.denied(r.refresh(token), badGrant("refresh_token_revoked"))
		}
		u.denied(replayedForm, badGrant("code_replayed"))
		for cookie, want := range map[string]int{session: http.StatusOK, signedOut: http.StatusSeeOther} {
			u.send(t, "GET", "/oauth/account", "", "Cookie", "session="+cookie).is(t, want, "the account page of a session")
		}
		u.lives(alive.AccessToken)
		alive = u.gives(r.refresh(alive.RefreshToken))
	}
	u.gives(r.exchange(unusedCode))
}

// unavailable returns the outcome 503 with a reason.
func unavailable(reason string) outcome {
	return outcome{status: http.StatusServiceUnavailable, code: "temporarily_unavailable", reason: reason, text: busy}
}

// TestT64StoreFailsAmidAGrant: the store is closed during a grant → 503 and no token, and the gate goes on with what it knows. Package grants
// tests every step.
func TestT64StoreFailsAmidAGrant(t *testing.T) {
	u := openUsers(t, append(onDiskPeople, passwordRefresh...)...)
	r := requestOf("conf")
	down := unavailable("store_unavailable")
	code, first := u.code(r, ada), u.userTokens(r, ada)
	check(t, u.app().node.Store().Close())
	u.denied(r.exchange(code), down)
	u.denied(r.refresh(first.RefreshToken), down)
	u.denied(r.asPassword(ada, peoplePassword), unavailable(""))
	u.denied(nobodysClient.asPassword(ada, peoplePassword), unavailable(""))
	u.denied(nobodysClient.refresh(first.RefreshToken), down)
	u.lives(first.AccessToken)
}
