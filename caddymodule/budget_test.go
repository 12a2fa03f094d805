package caddymodule

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// grantLimit sets the limits of grants and revocations, as in "grants 5/1m per user". Without lines the defaults apply.
func grantLimit(lines ...string) []string {
	text := ""
	for _, line := range lines {
		text += "\t\t\t" + line + "\n"
	}
	return []string{"\t\t\tgrants off\n\t\t\trevocations off\n", text}
}

// throttledGrant is the answer of the token endpoint when a grant exceeds the limit.
var throttledGrant = outcome{status: http.StatusTooManyRequests, code: "temporarily_unavailable", reason: "mint_throttled", text: tooManyGrants}

const tooManyGrants = "Too many tokens were created. Try again later."

// keepHouse runs one round of housekeeping, which nodes run once a minute.
func (u *userDoor) keepHouse() {
	u.t.Helper()
	check(u.t, u.app().node.KeepHouse(u.t.Context()))
}

// sizes counts the records of the store.
func (u *userDoor) sizes() store.Sizes {
	u.t.Helper()
	sizes, err := u.app().node.Store().Sizes(u.t.Context())
	check(u.t, err)
	return sizes
}

// TestT140ToT142ThrottledGrantsOnTheWire: a second code, decision, password, sign-in or member's token beyond the limit → temporarily_unavailable
// at the client, 429 with Retry-After or the page; unredeemed families are dropped a day later. Package grants counts.
func TestT140ToT142ThrottledGrantsOnTheWire(t *testing.T) {
	now := setClock(t)
	d := openAdmin(t, append(grantLimit("grants 1/1m per user"), passwordRefresh...)...)
	d.awaitHousekeeping()
	r, conf, pub := requestOf("first"), requestOf("conf"), requestOf("pub")
	d.code(r, ada)
	now.advance(time.Minute)
	b, before := d.browserOf(ada), d.sizes()
	code := b.open(r.path()).location().Query().Get("code")
	d.remember("code", code)
	b.errorToClient(t, b.open(r.path()), r, "temporarily_unavailable", tooManyGrants)
	asked := b.open(pub.path())
	for _, decision := range []string{"deny", "allow"} {
		b.errorToClient(t, b.decide(asked, decision), pub, "temporarily_unavailable", tooManyGrants)
	}
	d.gives(conf.asPassword(ada, peoplePassword))
	d.decisions(t)
	a := d.ask(t, "/oauth/token", conf.asPassword(ada, peoplePassword).Encode())
	if d.hold(t, a, throttledGrant); a.header.Get("Retry-After") != "60" {
		t.Errorf("Retry-After %q", a.header.Get("Retry-After"))
	}
	for _, signedIn := range []bool{true, false} {
		again := d.browser()
		p := again.signIn(again.open("/oauth/login"), ada, peoplePassword)
		if !signedIn {
			holdThrottled(t, p)
		}
		if again.isSignedIn() != signedIn {
			t.Errorf("signed in: %t, %d", !signedIn, p.status)
		}
	}
	d.mintFor("u-grace")
	refused := d.refused(d.admin, mintRequest{id: "u-grace"}, plainRefusal(429, "rate_limited", "mint_throttled"))
	if refused.header.Get("Retry-After") != "60" || strings.Contains(refused.body, "failed") {
		t.Errorf("Retry-After %q: %s", refused.header.Get("Retry-After"), refused.body)
	}
	d.wait(now, time.Minute)
	b.codeToClient(t, b.decide(asked, "allow"), pub)
	d.wait(now, 24*time.Hour+2*time.Minute)
	d.keepHouse()
	if left := d.sizes(); left.Families != before.Families+2 { // the sessions, the password's and the member's, and one code less
		t.Errorf("a day later %d families are left, and %d before", left.Families, before.Families)
	}
}
