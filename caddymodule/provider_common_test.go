package caddymodule

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// atProvider returns a line block of `sign_in` for a provider.
func atProvider(name string, p *lyingProvider, lines string) string {
	return "provider " + name + " " + p.URL + " {\nclient gw 0123456789\nallow_private_network\n" + lines + "\n}\n"
}

// startProviders serves people who can also sign in through these lines of `sign_in`.
func startProviders(t *testing.T, signIn string, changes ...string) *gatehouse {
	t.Helper()
	return startPeople(t, append([]string{"store memory", "store memory\nsign_in {\n" + signIn + "\n}"}, changes...)...)
}

// chooses submits the sign-in page's form with a provider's button, and returns the answer.
func (b *browser) chooses(t *testing.T, p page, provider string) page {
	t.Helper()
	action, fields := formIn(t, p)
	fields.Set("provider", provider)
	return b.send(action, fields)
}

// atProvider follows a redirect to a provider, and from there back to us.
func (b *browser) atProvider(t *testing.T, p page, provider *lyingProvider) page {
	t.Helper()
	if location := p.header.Get("Location"); p.status != http.StatusSeeOther || !strings.HasPrefix(location, provider.URL+"/authorize?") {
		t.Fatalf("%d to %q and not to the provider: %s", p.status, location, p.body)
	}
	return b.open(provider.follow(p.header.Get("Location")))
}

// signsInAt signs in at a provider from the plain sign-in page, and returns the answer to the callback.
func (b *browser) signsInAt(t *testing.T, name string, provider *lyingProvider) page {
	t.Helper()
	return b.atProvider(t, b.chooses(t, b.open("/oauth/login?switch=1"), name), provider)
}

// holdSignedInAs checks that a browser is signed in as that user.
func (b *browser) holdSignedInAs(t *testing.T, email string) {
	t.Helper()
	p := b.open("/oauth/account")
	if p.status != http.StatusOK || !strings.Contains(p.body, email) {
		t.Errorf("%d, %s is not signed in: %q %.300s", p.status, email, p.header.Get("Location"), p.body)
	}
}

// holdBack checks that a browser is sent back to the sign-in page with a notice, signed out.
func (b *browser) holdBack(t *testing.T, p page, notice, words string) page {
	t.Helper()
	location, err := url.Parse(p.header.Get("Location"))
	if err != nil || p.status != http.StatusSeeOther || location.Path != "/oauth/login" || location.Query().Get("failed") != notice {
		t.Fatalf("%d %q, want the notice %s: %.300s", p.status, p.header.Get("Location"), notice, p.body)
	}
	if b.cookie("session") != "" {
		t.Error("somebody was signed in")
	}
	back := b.open(p.header.Get("Location"))
	if back.status != http.StatusOK || !strings.Contains(back.body, words) {
		t.Errorf("%d, no %q in the page: %s", back.status, words, back.body)
	}
	return back
}
