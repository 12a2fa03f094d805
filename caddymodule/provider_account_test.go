package caddymodule

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// TestP78SignInsAtAProviderAreThrottled: continuous guesses of codes from one address → 429, the provider is not
// asked.
func TestP78SignInsAtAProviderAreThrottled(t *testing.T) {
	corp := newLyingProvider(t)
	g := startProviders(t, atProvider("corp", corp, "link verified_email"), "login off", "login 3/1m per ip")
	guesses := func(b *browser) page {
		own := corp.follow(b.chooses(t, b.open("/oauth/login?switch=1"), "corp").header.Get("Location"))
		return b.open(strings.Replace(own, codeIn(own), "guessed", 1))
	}
	stranger := g.browserAt("127.0.0.9")
	notice, allowed := "", 0
	for ; allowed < 200; allowed++ {
		location, err := url.Parse(guesses(stranger).header.Get("Location"))
		check(t, err)
		if notice = location.Query().Get("failed"); notice == "too_many_attempts" {
			break
		}
	}
	redeemed := func() (n int) { corp.change(func() { n = corp.redeemed }); return n }
	before := redeemed()
	stranger.holdBack(t, guesses(stranger), "too_many_attempts", "too many attempts")
	if redeemed() != before {
		t.Error("the provider was asked all the same")
	}
	other := g.browser()
	for range allowed + 1 { // success resets the count
		if p := other.signsInAt(t, "corp", corp); p.header.Get("Location") != "/oauth/account" {
			t.Fatalf("a success counts: %d %q", p.status, p.header.Get("Location"))
		}
	}
	other.holdSignedInAs(t, "ada@acme.example")
}

// TestP80P111LinkedAccountsCanBeUnlinkedButTheLastWayIn: unlinking one of two accounts → its sign-ins, codes and refresh tokens end in the
// same step, those of other sign-ins go on; the last way in, another user's, or a forged form → refused, and nothing is recorded as ended.
func TestP80P111LinkedAccountsCanBeUnlinkedButTheLastWayIn(t *testing.T) {
	corp, other := newLyingProvider(t), newLyingProvider(t)
	g := startProviders(t, "password\n"+atProvider("corp", corp, "create\nlink verified_email\ntitle Acme")+atProvider("other", other, "link verified_email"))
	b, elsewhere := g.browser(), g.browser()
	grace := map[string]any{"sub": "7", "email": "new@acme.example", "email_verified": true, "name": "New"}
	corp.says(grace)
	other.says(grace)
	b.signsInAt(t, "corp", corp)
	if got := buttons(t, b.open("/oauth/account"), "identity"); len(got) != 0 {
		t.Errorf("the only way in can be unlinked: %q", got)
	}
	b.change("identity", "corp 7")
	if got := b.open("/oauth/account"); !strings.Contains(got.body, "Acme") {
		t.Error("the only way in was unlinked")
	}
	elsewhere.signsInAt(t, "other", other)
	if got := buttons(t, b.open("/oauth/account"), "identity"); !slices.Equal(got, []string{"corp 7", "other 7"}) {
		t.Errorf("linked %q", got)
	}
	first := requestOf("first")
	first.scope += " refresh_token"
	ended, lives := elsewhere.redeem(t, elsewhere.open(first.path()), first), b.redeem(t, b.open(first.path()), first)
	code := elsewhere.codeToClient(t, elsewhere.open(first.path()), first)
	if !g.alive(ended.AccessToken) {
		t.Fatal("the application's access token is dead")
	}
	stranger := g.browser()
	stranger.signIn(stranger.open("/oauth/login"), "max@acme.example", peoplePassword)
	stranger.change("identity", "other 7")
	stranger.change("identity", "corp unknown")
	_, fields := formIn(t, b.open("/oauth/account"))
	fields.Set("identity", "other 7")
	fields.Set("form_token", "made up")
	holdForbidden(t, b.send("/oauth/account", fields))
	g.notLogged(t, "account access ended")
	if got := buttons(t, b.open("/oauth/account"), "identity"); len(got) != 2 {
		t.Errorf("unlinked by another user, or by a forged form: %q", got)
	}
	holdChanged(t, b.change("identity", "other 7"), "/oauth/account?done=identity")
	if p := elsewhere.open("/oauth/account"); p.status != http.StatusSeeOther || g.alive(ended.AccessToken) {
		t.Errorf("the session that came of it lives, or its application's token: %d", p.status)
	}
	g.refused(first.refresh(ended.RefreshToken), http.StatusBadRequest, "invalid_grant")
	g.refused(first.exchange(code), http.StatusBadRequest, "invalid_grant")
	g.obtain(first.refresh(lives.RefreshToken))
	b.holdSignedInAs(t, "new@acme.example")
}

// TestP81ASignOutLeadsThroughTheProvider: sign-out with a default provider → through it and back to the page, without
// signing in again.
func TestP81ASignOutLeadsThroughTheProvider(t *testing.T) {
	corp := newLyingProvider(t)
	g := startProviders(t, atProvider("corp", corp, "link verified_email\ndefault"))
	b := g.browser()
	b.atProvider(t, b.open("/oauth/login"), corp)
	b.holdSignedInAs(t, "ada@acme.example")
	if policy := b.open("/oauth/logout").header.Get("Content-Security-Policy"); !strings.Contains(policy, corp.URL) {
		t.Errorf("policy %q", policy)
	}
	p := b.signOut()
	if location := p.header.Get("Location"); p.status != http.StatusSeeOther || !strings.HasPrefix(location, corp.URL+"/logout?") {
		t.Fatalf("%d %q", p.status, location)
	}
	back := corp.follow(p.header.Get("Location"))
	if !strings.HasPrefix(back, g.url+"/oauth/callback/corp?state=") || corp.signedOut.Get("client_id") != "gw" {
		t.Errorf("came back to %q of %v", back, corp.signedOut)
	}
	if p := g.browser().open(back); p.header.Get("Location") == "/oauth/logout" {
		t.Error("another browser's way back was followed")
	}
	p = b.open(back)
	if p.header.Get("Location") != "/oauth/logout" {
		t.Fatalf("%d %q", p.status, p.header.Get("Location"))
	}
	out := b.open("/oauth/logout")
	if out.status != http.StatusOK || !strings.Contains(out.body, `href="/oauth/login?switch=1"`) || b.cookie("session") != "" {
		t.Errorf("%d %s", out.status, out.body)
	}
	if p := b.open("/oauth/login?switch=1"); p.status != http.StatusOK {
		t.Errorf("signed in again at once: %d %q", p.status, p.header.Get("Location"))
	}
}

// TestP150ANameIsGivenToAnotherProvider: a provider's name given to another while accounts are stored by it → the
// configuration is refused; with `formerly` → the same people. Package signin has the other ways to move.
func TestP150ANameIsGivenToAnotherProvider(t *testing.T) {
	before, after := newLyingProvider(t), newLyingProvider(t)
	before.says(map[string]any{"sub": "1", "email": "eve@corp.example", "email_verified": true})
	after.says(map[string]any{"sub": "1", "email": "mallory@evil.example", "email_verified": true})
	g := startProviders(t, atProvider("corp", before, "create"))
	site := func(signIn string) string {
		return peopleSite("store memory", "store memory\nsign_in {\n"+signIn+"\n}")
	}
	g.browser().signsInAt(t, "corp", before)
	eve := identityOf(t, g, "corp", "1")
	err := g.tryReload(site(atProvider("corp", after, "create")))
	if err == nil || !strings.Contains(err.Error(), "provider corp: people have signed in by this name at another provider, openid "+before.URL) ||
		!strings.Contains(err.Error(), "or write `formerly "+before.URL+"` into it") || !strings.Contains(err.Error(), ", at Caddyfile:") {
		t.Errorf("got %v", err)
	}
	g.reload(site(atProvider("corp", after, "create\nformerly https://older.example "+before.URL)))
	b := g.browser()
	b.signsInAt(t, "corp", after)
	b.holdSignedInAs(t, "mallory@evil.example") // the operator says that it is the same person
	if id := identityOf(t, g, "corp", "1"); id != eve {
		t.Errorf("the account of %s is that of %s", eve, id)
	}
	g.ok("user", "update", eve, "--identities", "unlink")
	g.reload(site(atProvider("corp", before, "create"))) // without accounts, the name is free
	if err := g.tryReload(site(atProvider("corp", before, "formerly {env.HOME}"))); err == nil || !strings.Contains(err.Error(), `formerly "{env.HOME}": write the URL out, at Caddyfile:`) {
		t.Errorf("a placeholder: %v", err)
	}
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
