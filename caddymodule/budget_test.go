package caddymodule

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// Limits on what known users and clients can leave in the store: rows T140 to T144.

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

// TestT140SilentAuthorizationsLeaveABoundedNumberOfRecords: silent authorizations in a loop → 60 codes a minute, then
// temporarily_unavailable; other users are served, and unredeemed families are dropped a day later. A signed-in user of a first-party
// client can cause such a loop by redirects.
func TestT140SilentAuthorizationsLeaveABoundedNumberOfRecords(t *testing.T) {
	const rounds = 70
	now := setClock(t)
	u := openUsers(t, grantLimit()...)
	r := requestOf("first")
	r.scope = "trusted public refresh_token"
	u.code(r, ada)
	now.advance(time.Minute)
	b, before := u.browserOf(ada), u.sizes()
	u.awaitHousekeeping()
	var code string
	codes := 0
	for i := range rounds {
		r.state = fmt.Sprint("state ", i)
		p := b.open(r.path())
		if got := p.location().Query().Get("code"); got != "" {
			u.remember("code", got)
			code = got
			codes++
			continue
		}
		b.errorToClient(t, p, r, "temporarily_unavailable", tooManyGrants)
	}
	after := u.sizes()
	if codes != 60 || after.Families != before.Families+60 || after.Requests != before.Requests {
		t.Errorf("%d codes; %+v became %+v", codes, before, after)
	}
	first := u.gives(r.exchange(code))
	u.gives(r.refresh(first.RefreshToken))
	kept := u.familyOf(first.AccessToken).ID
	u.code(requestOf("first"), "max@acme.example")
	u.wait(now, time.Minute)
	u.code(requestOf("first"), ada)

	// An unredeemed code and its decision are deleted within a day.
	u.wait(now, 24*time.Hour+2*time.Minute)
	u.keepHouse()
	if left := u.sizes(); left.Families != 3 { // two sessions, and the redeemed one
		t.Errorf("a day later %d families are left of %d, and %d before", left.Families, after.Families, before.Families)
	}
	u.family(kept)
	u.wait(now, time.Hour)
	u.keepHouse()
	if left := u.sizes(); left.Requests > 2 { // the forms of two sign-ins
		t.Errorf("a day and an hour later %d requests are left", left.Requests)
	}
}

// TestT141DecisionsOnTheConsentPageAreBounded: yes and no on the consent page in a loop → 60 a minute together, then
// temporarily_unavailable. A decision beyond the limit leaves the request undecided.
func TestT141DecisionsOnTheConsentPageAreBounded(t *testing.T) {
	const rounds = 10
	now := setClock(t)
	u := openUsers(t, grantLimit("grants 20/1m per user")...)
	r := requestOf("pub")
	u.code(r, ada)
	now.advance(time.Minute)
	b, before := u.browserOf(ada), u.sizes()
	for i := range 20 {
		decision, want := "allow", ""
		if i%2 == 0 {
			decision, want = "deny", "access_denied"
		}
		if got := b.toClient(t, b.decide(b.open(r.path()), decision), r).Get("error"); got != want {
			t.Fatalf("%s: %q", decision, got)
		}
	}
	asked := b.open(r.path())
	for range rounds {
		for _, decision := range []string{"deny", "allow"} {
			b.errorToClient(t, b.decide(asked, decision), r, "temporarily_unavailable", tooManyGrants)
		}
	}
	if after := u.sizes(); after.Families != before.Families+10 || after.Requests != before.Requests+20 {
		t.Errorf("%+v became %+v", before, after)
	}
	u.wait(now, time.Minute)
	b.codeToClient(t, b.decide(asked, "allow"), r)
}

// TestT142SignInsAreBounded: right passwords in a loop, each token ended at once → 60 a minute, then 429; older sessions go on. Ending a
// session or a token does not make room for another one within the minute.
func TestT142SignInsAreBounded(t *testing.T) {
	now := setClock(t)
	u := openUsers(t, append(grantLimit("grants 5/1m per user"), passwordRefresh...)...)
	before := u.sizes()
	r := requestOf("conf")
	var last tokens
	for range 5 {
		last = u.gives(r.asPassword(ada, peoplePassword))
		u.revoked(t, u.revoke(r, last.AccessToken), true)
	}
	for range 5 {
		u.decisions(t)
		a := u.ask(t, "/oauth/token", r.asPassword(ada, peoplePassword).Encode())
		u.hold(t, a, throttledGrant)
		if a.header.Get("Retry-After") != "60" {
			t.Errorf("Retry-After %q", a.header.Get("Retry-After"))
		}
	}
	signIn := func() (*browser, page) {
		b := u.browser()
		return b, b.signIn(b.open("/oauth/login"), ada, peoplePassword)
	}
	var signedIn *browser
	for range 5 {
		b, p := signIn()
		if p.status != http.StatusSeeOther || !b.isSignedIn() {
			t.Fatalf("%d %s", p.status, p.body)
		}
		signedIn = b
	}
	for range 5 {
		b, p := signIn()
		if holdThrottled(t, p); b.isSignedIn() {
			t.Error("signed in all the same")
		}
	}
	after := u.sizes()
	if after.Families != before.Families+10 || after.Requests != before.Requests+5 || after.Revocations != before.Revocations+5 {
		t.Errorf("%+v became %+v", before, after)
	}
	if !signedIn.isSignedIn() {
		t.Error("a session of before has ended")
	}
	u.gives(r.asPassword("max@acme.example", peoplePassword))
	u.wait(now, time.Minute)
	u.gives(r.asPassword(ada, peoplePassword))
	if b, _ := signIn(); !b.isSignedIn() {
		t.Error("nobody gets in after the minute")
	}
}

// TestT143EndedServerTokensLeaveABoundedNumberOfRecords: a client gets and revokes server tokens in a loop → always 200 and dead at once,
// with 61 records a minute; others' tokens live.
func TestT143EndedServerTokensLeaveABoundedNumberOfRecords(t *testing.T) {
	const rounds = 20
	now := setClock(t)
	u := openUsers(t, append(grantLimit(), passwordRefresh...)...)
	r := requestOf("conf")
	users := u.gives(r.asPassword(ada, peoplePassword))
	serverToken := func() string {
		a := u.ask(t, "/oauth/token", url.Values{"grant_type": {"client_credentials"}, "client_id": {"conf"}, "client_secret": {confSecret}}.Encode())
		tok := member(t, a.body, "access_token")
		u.remember("access token", tok)
		return tok
	}
	lives := func(tok string) bool {
		return u.send(t, http.MethodGet, "/oauth/token/info", "", "Authorization", "Bearer "+tok).status == http.StatusOK
	}
	other, err := u.operator().MintServerToken(t.Context(), "other", "public", 0)
	check(t, err)
	before := u.sizes().Revocations
	kept := serverToken()
	for range 60 {
		tok := serverToken()
		u.revoked(t, u.revoke(r, tok), true)
		u.gone(tok)
	}
	if !lives(kept) {
		t.Error("within the limit a token ended with another")
	}
	u.wait(now, 2*time.Second) // within the minute
	for i := range rounds {
		if i%10 == 0 {
			u.wait(now, time.Second)
		}
		tok := serverToken()
		u.revoke(r, tok)
		u.gone(tok)
	}
	if n := u.sizes().Revocations - before; n != 61 {
		t.Errorf("%d records", n)
	}
	u.gone(kept)
	if !lives(other.AccessToken.Reveal()) || !u.alive(users.AccessToken) {
		t.Error("another client's token, or a user's, ended with them")
	}
	u.wait(now, time.Second)
	if !lives(serverToken()) {
		t.Error("a token that was issued afterwards is dead")
	}
	// Other nodes, and this one after a restart, see only recorded revocations.
	list, _, err := u.app().node.Store().Revocations(t.Context(), store.FeedPosition{})
	check(t, err)
	fresh := token.NewRevocationSet()
	fresh.Add(list...)
	claim := claims(t, kept)
	if !fresh.Revoked(&token.AccessToken{Issuer: u.url, Subject: "conf", ClientID: "conf", ID: claim["jti"].(string), IssuedAt: node.Clock().Add(-5 * time.Second)}) {
		t.Error("a node that starts accepts it")
	}
	u.wait(now, time.Minute)
	tok := serverToken()
	kept = serverToken()
	u.revoked(t, u.revoke(r, tok), true)
	if u.gone(tok); !lives(kept) {
		t.Error("after the minute a token still ends with another")
	}
}

// TestT144EndedTokensOfBeforeARefreshLeaveABoundedNumberOfRecords: a refresh and the revocation of the old access token, in a loop → always
// dead, with at most 61 records for each family. A refresh does not count as a grant, so a client that revokes after every refresh is
// otherwise unlimited.
func TestT144EndedTokensOfBeforeARefreshLeaveABoundedNumberOfRecords(t *testing.T) {
	const rounds = 40
	setClock(t)
	u := openUsers(t, append(grantLimit(), passwordRefresh...)...)
	r := requestOf("conf")
	before := u.sizes()
	first, second := u.gives(r.asPassword(ada, peoplePassword)), u.gives(r.asPassword(ada, peoplePassword))
	bystander := u.gives(r.asPassword(ada, peoplePassword))
	bystanders := u.gives(r.refresh(bystander.RefreshToken))
	for i := range rounds {
		for _, held := range []*tokens{&first, &second} {
			old := held.AccessToken
			*held = u.gives(r.refresh(held.RefreshToken))
			u.revoked(t, u.revoke(r, old), true)
			u.gone(old)
		}
		if i%10 == 0 && (!u.alive(first.AccessToken) || !u.alive(second.AccessToken)) {
			t.Fatal("a current token died")
		}
	}
	after := u.sizes()
	if n := after.Revocations - before.Revocations; n != 62 || after.Families != before.Families+3 { // 60, and one for each family
		t.Errorf("%d records, %d families", n, after.Families-before.Families)
	}
	for _, living := range []string{first.AccessToken, second.AccessToken, bystander.AccessToken, bystanders.AccessToken} {
		if !u.alive(living) {
			t.Error("another token died")
		}
	}
	u.gives(r.refresh(first.RefreshToken))
}

// TestT140TheLimitsAreConfigured checks that the limits can be changed or turned off.
func TestT140TheLimitsAreConfigured(t *testing.T) {
	for _, test := range []struct {
		name, lines         string
		grants, revocations attempts.Limit
	}{
		{"nothing", "", attempts.Limit{Failures: 60, Window: time.Minute}, attempts.Limit{Failures: 60, Window: time.Minute}},
		{"grants", "limits {\ngrants 1000/24h per user\n}", attempts.Limit{Failures: 1000, Window: 24 * time.Hour}, attempts.Limit{Failures: 60, Window: time.Minute}},
		{"revocations", "limits {\nrevocations 5/1h per client\n}", attempts.Limit{Failures: 60, Window: time.Minute}, attempts.Limit{Failures: 5, Window: time.Hour}},
		{"off", "limits {\ngrants off\nrevocations off\n}", attempts.Limit{}, attempts.Limit{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := startGatehouse(t, strings.Replace(site, "store memory\n", "store memory\n"+test.lines+"\n", 1))
			if s := g.app().settings.Limits; s.GrantLimit != test.grants || s.RevocationLimit != test.revocations {
				t.Errorf("%v, %v", s.GrantLimit, s.RevocationLimit)
			}
		})
	}
}
