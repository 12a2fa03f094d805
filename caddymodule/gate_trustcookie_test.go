package caddymodule

import (
	"strings"
	"testing"
)

// TestG87TheIssuersCookieHoldsNoTokenOfAnother: our sign-in alone writes it, so that one of another issuer was planted. Who
// can set the header may show it there.
func TestG87TheIssuersCookieHoldsNoTokenOfAnother(t *testing.T) {
	p := startProvider(t)
	g := startTrustGate(t, p, strings.Replace(trustSite, "issuer self corp\n", "issuer self corp\n\t\t\ttoken_from cookie accessToken\n\t\t\tchallenge browser\n", 1))
	theirs, ours := g.watched(g.forger().good()), g.watched(g.token())
	g.passed(t, g.request("GET", "/both/x", bearer(theirs)))
	g.passed(t, g.request("GET", "/both/x", "Cookie: accessToken="+ours))
	g.refused(t, g.request("GET", "/both/x", "Cookie: accessToken="+theirs), 401)
	// A browser signs in, and gets a cookie of its own for the one that was planted.
	if status, _, body := g.raw(g.request("GET", "/both/x", "Cookie: accessToken="+theirs, "Accept: text/html")); status != 303 {
		t.Errorf("a browser: %d %s", status, body)
	}
}
