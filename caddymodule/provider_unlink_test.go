package caddymodule

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// twoAccounts returns a Gatehouse where grace has an account at each of two providers, and the browsers in which she
// signed in with them.
func twoAccounts(t *testing.T) (g *gatehouse, corp *lyingProvider, byCorp, byOther *browser) {
	t.Helper()
	corp, other := newLyingProvider(t), newLyingProvider(t)
	g = startProviders(t, atProvider("corp", corp, "create\nlink verified_email")+atProvider("other", other, "link verified_email"))
	grace := map[string]any{"sub": "7", "email": "new@acme.example", "email_verified": true, "name": "New"}
	corp.says(grace)
	other.says(grace)
	byCorp, byOther = g.browser(), g.browser()
	byCorp.signsInAt(t, "corp", corp)
	byOther.signsInAt(t, "other", other)
	return g, corp, byCorp, byOther
}

// TestP111UnlinkingEndsApplications: an identity unlinked → its sign-ins, host sessions, codes and refresh tokens end in the same step,
// those of other sign-ins go on.
func TestP111UnlinkingEndsApplications(t *testing.T) {
	g, _, byCorp, byOther := twoAccounts(t)
	first := requestOf("first")
	first.scope += " refresh_token"
	ended, lives := g.obtain(first.exchange(byCorp.codeToClient(t, byCorp.open(first.path()), first))), g.obtain(first.exchange(byOther.codeToClient(t, byOther.open(first.path()), first)))
	code := byCorp.codeToClient(t, byCorp.open(first.path()), first)
	if status, _, body := g.get("/api/x", ended.AccessToken); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	holdChanged(t, byOther.change("identity", "corp 7"), "/oauth/account?done=identity")
	if status, _, _ := g.get("/api/x", ended.AccessToken); status != http.StatusUnauthorized {
		t.Errorf("the application's access token: %d", status)
	}
	g.refused(first.refresh(ended.RefreshToken), http.StatusBadRequest, "invalid_grant")
	g.refused(first.exchange(code), http.StatusBadRequest, "invalid_grant")
	if p := byCorp.open("/oauth/account"); p.status != http.StatusSeeOther {
		t.Errorf("the sign-in lives: %d", p.status)
	}
	g.obtain(first.refresh(lives.RefreshToken))
	byOther.holdSignedInAs(t, "new@acme.example")
}

// TestP116VouchingForAnAddressSharesNobody: an operator vouches for an address of a user whose linked account has not
// proved it → refused unless the request says to unlink or keep; unlinked accounts' sessions end.
func TestP116VouchingForAnAddressSharesNobody(t *testing.T) {
	loose, good := newLyingProvider(t), newLyingProvider(t)
	g := startProviders(t, atProvider("loose", loose, "create\nallow unverified_email")+atProvider("good", good, "link verified_email"))
	squats := func(email string) *browser {
		loose.says(map[string]any{"sub": "evil " + email, "email": email, "email_verified": false})
		good.says(map[string]any{"sub": "good " + email, "email": email, "email_verified": true})
		thief, owner := g.browser(), g.browser()
		thief.signsInAt(t, "loose", loose)
		thief.holdSignedInAs(t, email)
		owner.holdBack(t, owner.signsInAt(t, "good", good), "provider_refused", "")
		return thief
	}
	const victim, friend = "victim@acme.example", "friend@acme.example"
	thief := squats(victim)
	for name, args := range map[string][]string{
		"as it is":             {"--email-verified"},
		"with a new address":   {"--email", "other@acme.example", "--email-verified"},
		"with an unknown word": {"--email-verified", "--identities", "all"},
	} {
		if _, err := g.run("", append([]string{"user", "update", victim}, args...)...); err == nil || !strings.Contains(err.Error(), "unlink") {
			t.Errorf("%s: %v", name, err)
		}
	}
	g.operate("PATCH", "/oauth/users/"+victim, `{"email_verified":true}`)
	if shown := decoded[userView](t, g.ok("user", "show", victim, "--json")); shown.EmailVerified || len(shown.Identities) != 1 {
		t.Errorf("shown %+v", shown)
	}
	g.ok("user", "update", victim, "--email-verified", "--identities", "unlink")
	if p := thief.open("/oauth/account"); p.status != http.StatusSeeOther {
		t.Errorf("the sign-in lives: %d", p.status)
	}
	owner := g.browser()
	owner.signsInAt(t, "good", good)
	owner.holdSignedInAs(t, victim)
	again := g.browser()
	again.holdBack(t, again.signsInAt(t, "loose", loose), "provider_refused", "")
	if shown := decoded[userView](t, g.ok("user", "show", victim, "--json")); !shown.EmailVerified || len(shown.Identities) != 1 || shown.Identities[0].Provider != "good" {
		t.Errorf("shown %+v", shown)
	}

	known := squats(friend)
	g.ok("user", "update", friend, "--email-verified", "--identities", "keep")
	known.holdSignedInAs(t, friend)
	if shown := decoded[userView](t, g.ok("user", "show", friend, "--json")); !shown.EmailVerified || len(shown.Identities) != 1 {
		t.Errorf("shown %+v", shown)
	}
}

// TestP119NoPasswordsMeansNoPasswordGrant: `sign_in` without passwords beside `password_grant` → unsupported_grant_type and a warning.
func TestP119NoPasswordsMeansNoPasswordGrant(t *testing.T) {
	corp := newLyingProvider(t)
	g := startProviders(t, atProvider("corp", corp, "link verified_email"), "\t\t\tpassword HASH\n", "")
	g.addUser("stored@acme.example", "acme", "member")
	form := url.Values{"grant_type": {"password"}, "email": {"stored@acme.example"}, "password": {peoplePassword}, "scope": {"trusted"}, "client_id": {"conf"}, "client_secret": {confSecret}}
	g.refused(form, http.StatusBadRequest, "unsupported_grant_type")
	if _, _, metadata := g.get("/.well-known/oauth-authorization-server", ""); strings.Contains(metadata, `"password"`) {
		t.Errorf("the metadata offers it: %s", metadata)
	}
	if !strings.Contains(g.logs(), "password_grant is off, because nobody signs in with a password") {
		t.Error("nothing warns of it")
	}
	with := startProviders(t, "password\n"+atProvider("corp", corp, "link verified_email"), "\t\t\tpassword HASH\n", "")
	with.addUser("stored@acme.example", "acme", "member")
	with.obtain(form)
}
