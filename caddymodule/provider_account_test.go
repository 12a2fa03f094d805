package caddymodule

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// TestP77TabsAndTheBackButton: two tabs and the back button → each returns to its application.
func TestP77TabsAndTheBackButton(t *testing.T) {
	corp := newLyingProvider(t)
	g := startProviders(t, atProvider("corp", corp, "link verified_email"))
	b := g.browser()
	first, second := requestOf("first"), requestOf("first")
	second.state = "another tab"
	one := corp.follow(b.chooses(t, b.open(first.path()), "corp").header.Get("Location"))
	page := b.open(second.path())
	two := corp.follow(b.chooses(t, page, "corp").header.Get("Location"))
	b.codeToClient(t, b.open(two), second)
	b.codeToClient(t, b.open(one), first)
	// Back to the previous page: its form still works.
	b.codeToClient(t, b.atProvider(t, b.chooses(t, b.open(first.path()+"&prompt=login"), "corp"), corp), first)
}

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
		if err != nil {
			t.Fatal(err)
		}
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

// TestP79TheBeginningNeedsOurForm: a provider's sign-in begun from another site or by a foreign form → 403.
func TestP79TheBeginningNeedsOurForm(t *testing.T) {
	corp := newLyingProvider(t)
	g := startProviders(t, atProvider("corp", corp, "link verified_email"))
	b := g.browser()
	action, fields := formIn(t, b.open("/oauth/login"))
	fields.Set("provider", "corp")
	if p := b.fetch("POST", action, fields.Encode(), "Content-Type", "application/x-www-form-urlencoded", "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"); p.status != http.StatusForbidden {
		t.Errorf("cross-site: %d", p.status)
	}
	if p := g.browser().send(action, fields); p.status != http.StatusForbidden {
		t.Errorf("another browser's form: %d", p.status)
	}
	fields.Del("form_token")
	if p := b.send(action, fields); p.status != http.StatusForbidden {
		t.Errorf("no form token: %d", p.status)
	}
	if p := b.open("/oauth/login?provider=corp"); p.status != http.StatusOK {
		t.Errorf("a link: %d %q", p.status, p.header.Get("Location"))
	}
}

// TestP80LinkedAccountsCanBeUnlinkedButTheLastWayIn: unlinking one of two accounts → its sessions end; the last way in, another user's,
// or a forged form → refused.
func TestP80LinkedAccountsCanBeUnlinkedButTheLastWayIn(t *testing.T) {
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
	got := buttons(t, b.open("/oauth/account"), "identity")
	if !slices.Equal(got, []string{"corp 7", "other 7"}) {
		t.Errorf("linked %q", got)
	}
	stranger := g.browser()
	stranger.signIn(stranger.open("/oauth/login"), "max@acme.example", peoplePassword)
	stranger.change("identity", "other 7")
	if got := buttons(t, b.open("/oauth/account"), "identity"); len(got) != 2 {
		t.Errorf("somebody else has unlinked it: %q", got)
	}
	action, fields := formIn(t, b.open("/oauth/account"))
	fields.Set("identity", "other 7")
	fields.Set("form_token", "made up")
	if p := b.send(action, fields); p.status != http.StatusForbidden {
		t.Errorf("a forged form: %d", p.status)
	}
	holdChanged(t, b.change("identity", "other 7"), "/oauth/account?done=identity")
	b.holdSignedInAs(t, "new@acme.example")
	if p := elsewhere.open("/oauth/account"); p.status != http.StatusSeeOther {
		t.Errorf("the session that came of it lives: %d", p.status)
	}
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
