package caddymodule

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// userDoor is a door for users' tokens. It records every credential that passes through it, and checks at the end of
// the test that no log contains one.
type userDoor struct {
	*door
	*wallet
}

// wallet holds what a userDoor and its copies for sub-tests share.
type wallet struct {
	mu          sync.Mutex
	credentials map[string]string // kind of credential, by value
	browsers    map[string]*browser
}

// onDiskPeople gives people a persistent store, in the file that gatehouse.database names.
var onDiskPeople = []string{"store memory", "store sqlite DIR/state/oauth.db"}

// openUsers serves people, changed by the pairs of old and new text.
func openUsers(t *testing.T, changes ...string) *userDoor {
	t.Helper()
	u := &userDoor{openDoor(t, peopleSite(changes...)), &wallet{
		credentials: map[string]string{peoplePassword: "password", confSecret: "client secret"},
		browsers:    make(map[string]*browser),
	}}
	t.Cleanup(func() { u.noneIn("the log", u.logs()) })
	return u
}

// in returns the door for a sub-test.
func (u *userDoor) in(t *testing.T) *userDoor {
	house, front := *u.gatehouse, *u.door
	house.t, front.gatehouse = t, &house
	return &userDoor{&front, u.wallet}
}

// sub runs a sub-test with its own door.
func (u *userDoor) sub(name string, test func(*userDoor)) {
	u.t.Run(name, func(t *testing.T) { test(u.in(t)) })
}

func (w *wallet) remember(what string, credentials ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, credential := range credentials {
		if credential != "" {
			w.credentials[credential] = what
		}
	}
}

// noneIn checks that a text contains no credential: neither plain nor escaped, nor a token's signature alone.
func (u *userDoor) noneIn(place, text string) {
	u.t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	for credential, what := range u.credentials {
		for _, form := range []string{credential, url.QueryEscape(credential), credential[strings.LastIndexByte(credential, '.')+1:]} {
			if strings.Contains(text, form) {
				u.t.Errorf("%s holds a credential: a %s", place, what)
				break
			}
		}
	}
}

// wait advances the clock and refreshes the gate's revocations.
func (u *userDoor) wait(c *testClock, d time.Duration) {
	u.t.Helper()
	c.advance(d)
	check(u.t, u.app().node.Refresh(u.t.Context()))
}

// browserOf returns the user's one browser, which stays signed in.
func (u *userDoor) browserOf(email string) *browser {
	u.mu.Lock()
	defer u.mu.Unlock()
	b := u.browsers[email]
	if b == nil {
		b = u.browser()
		u.browsers[email] = b
	}
	of := *b
	of.gatehouse = u.gatehouse
	return &of
}

// code returns a code for a user who stays signed in.
func (u *userDoor) code(r request, email string) string {
	u.t.Helper()
	b := u.browserOf(email)
	p := b.authorize(r, email)
	code := p.location().Query().Get("code")
	if code == "" {
		u.t.Fatalf("no code: %d %s", p.status, p.header.Get("Location"))
	}
	u.remember("code", code)
	u.remember("session cookie", b.cookie("session"))
	return code
}

// userTokens obtains tokens by the code flow.
func (u *userDoor) userTokens(r request, email string) tokens {
	u.t.Helper()
	return u.gives(r.exchange(u.code(r, email)))
}

// userSuccess matches the body of a user's tokens: the members in the order of the contract, and no others.
var userSuccess = regexp.MustCompile(`^\{"access_token":"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+","token_type":"Bearer","expires_in":(\d+),("refresh_token":"[A-Za-z0-9]{40,}",)?"scope":"[^"]+","created_at":(\d+)\}\n?$`)

// gives posts a form to the token endpoint, or to another path, and expects tokens, with one audit line.
func (u *userDoor) gives(form url.Values, path ...string) tokens {
	u.t.Helper()
	u.decisions(u.t)
	a := u.ask(u.t, append(path, "/oauth/token")[0], form.Encode())
	u.hold(u.t, a, granted())
	return u.tokensIn(a)
}

// tokensIn checks a success against the contract and the claims of its access token.
func (u *userDoor) tokensIn(a answer) tokens {
	u.t.Helper()
	var got tokens
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || a.status/100 != 2 || !userSuccess.MatchString(a.body) {
		u.t.Fatalf("no tokens: %d %v %s", a.status, err, a.body)
	}
	u.remember("access token", got.AccessToken)
	u.remember("refresh token", got.RefreshToken)
	claim := claims(u.t, got.AccessToken)
	issued, _ := claim["iat"].(float64)
	expires, _ := claim["exp"].(float64)
	if int64(issued) != got.CreatedAt || int(expires-issued) != got.ExpiresIn || claim["scope"] != got.Scope {
		u.t.Errorf("created_at %d, expires_in %d, scope %q, but the claims are %v", got.CreatedAt, got.ExpiresIn, got.Scope, claim)
	}
	if claim["sub"] == claim["client_id"] || claim["sid"] == nil || claim["org"] == nil || claim["role"] == nil {
		u.t.Errorf("the claims of no user: %v", claim)
	}
	return got
}

// denied posts a form to the token endpoint and expects a refusal, with its reason in one audit line and no secret in
// the answer.
func (u *userDoor) denied(form url.Values, want outcome, path ...string) {
	u.t.Helper()
	u.decisions(u.t)
	u.hold(u.t, u.ask(u.t, append(path, "/oauth/token")[0], form.Encode()), want)
	u.upstream.none(u.t)
}

// badGrant returns the outcome invalid_grant with a reason.
func badGrant(reason string) outcome {
	return outcome{status: http.StatusBadRequest, code: "invalid_grant", reason: reason}
}

// alive reports whether the gate accepts a token.
func (u *userDoor) alive(token string) bool {
	u.t.Helper()
	defer u.upstream.seen()
	return u.gatehouse.alive(token)
}

// lives checks that the gate accepts tokens.
func (u *userDoor) lives(tokens ...string) {
	u.t.Helper()
	for _, token := range tokens {
		if !u.alive(token) {
			u.t.Errorf("the gate refuses a token of %v", claims(u.t, token)["sub"])
		}
	}
}

// gone checks that the gate refuses tokens as revoked.
func (u *userDoor) gone(tokens ...string) {
	u.t.Helper()
	for _, token := range tokens {
		a := u.send(u.t, http.MethodGet, "/api/x", "", "Authorization", "Bearer "+token)
		const sentence = `error="invalid_token", error_description="The access token was revoked"`
		if challenge := a.header.Get("Www-Authenticate"); a.status != http.StatusUnauthorized || !strings.Contains(challenge, sentence) {
			u.t.Errorf("the gate: %d %s", a.status, challenge)
		}
		u.upstream.none(u.t)
	}
}

// with returns a copy of a form with other values. An empty value removes the parameter.
func with(form url.Values, pairs ...string) url.Values {
	changed := maps.Clone(form)
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] == "" {
			delete(changed, pair[0])
		} else {
			changed[pair[0]] = []string{pair[1]}
		}
	}
	return changed
}

// familyOf returns the stored family of an access token.
func (u *userDoor) familyOf(accessToken string) *store.TokenFamily {
	u.t.Helper()
	id, _ := claims(u.t, accessToken)["sid"].(string)
	return u.family(id)
}

// family returns a stored family.
func (u *userDoor) family(id string) *store.TokenFamily {
	u.t.Helper()
	f, err := u.app().node.Store().Families.Family(u.t.Context(), id)
	check(u.t, err)
	return f
}

// audited returns the only audit line since the last call.
func (u *userDoor) audited() map[string]any {
	u.t.Helper()
	lines := u.decisions(u.t)
	if len(lines) != 1 {
		u.t.Fatalf("%d audit lines, want 1: %v", len(lines), lines)
	}
	return lines[0]
}

// asPassword returns the form of the password grant.
func (r request) asPassword(email, password string) url.Values {
	values := url.Values{"grant_type": {"password"}, "email": {email}, "password": {password}}
	if r.clientID != "" {
		values.Set("client_id", r.clientID)
	}
	if r.secret != "" {
		values.Set("client_secret", r.secret)
	}
	if r.scope != "" {
		values.Set("scope", r.scope)
	}
	return values
}

// createdByAdmin returns the tokens that an organisation's admin obtains for a member.
func (u *userDoor) createdByAdmin(adminToken, userID string) tokens {
	u.t.Helper()
	a := u.send(u.t, http.MethodPost, "/api/v1/organisations/me/users/"+userID+"/access_tokens",
		`{"data":{"id":`+strconv.Quote(userID)+`,"type":"users"}}`,
		"Authorization", "Bearer "+adminToken, "Content-Type", "application/vnd.api+json")
	if a.status != http.StatusCreated {
		u.t.Fatalf("admin: %d %s", a.status, a.body)
	}
	return u.tokensIn(a)
}
