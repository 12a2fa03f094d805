package caddymodule

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
)

// These tests cover the refresh exchange, row by row.

// passwordRefresh makes people issue refresh tokens with the password grant.
var passwordRefresh = []string{"password_grant\n", "password_grant {\n\t\t\trefresh_tokens\n\t\t}\n"}

// TestT80RefreshGivesNewTokens: a refresh → new access and refresh token, the same scope, the lifetime of the grant that it came from.
func TestT80RefreshGivesNewTokens(t *testing.T) {
	now := setClock(t)
	u := openUsers(t, passwordRefresh...)
	r := requestOf("conf")
	byCode := u.userTokens(r, ada)
	for name, test := range map[string]struct {
		r        request
		first    tokens
		lifetime int
	}{
		"code":     {r, byCode, 21600},
		"public":   {requestOf("pub"), u.userTokens(requestOf("pub"), ada), 21600},
		"password": {r, u.gives(r.asPassword(ada, peoplePassword)), 2419200},
		"admin":    {r, u.createdByAdmin(byCode.AccessToken, "u-grace"), 2419200},
	} {
		u.sub(name, func(u *userDoor) {
			tokens, before := test.first, claims(u.t, test.first.AccessToken)
			for range 3 {
				u.wait(now, time.Minute)
				got := u.gives(test.r.refresh(tokens.RefreshToken))
				if got.AccessToken == tokens.AccessToken || got.RefreshToken == tokens.RefreshToken || got.RefreshToken == "" {
					u.t.Error("the tokens are not new")
				}
				if got.ExpiresIn != test.lifetime || got.Scope != test.first.Scope || got.CreatedAt != node.Clock().Unix() {
					u.t.Errorf("expires_in %d, scope %q, created_at %d", got.ExpiresIn, got.Scope, got.CreatedAt)
				}
				after := claims(u.t, got.AccessToken)
				for _, member := range []string{"sub", "sid", "client_id", "org", "role", "auth_time", "aud"} {
					if after[member] != before[member] {
						u.t.Errorf("%s: %v, was %v", member, after[member], before[member])
					}
				}
				if (after["act"] == nil) != (before["act"] == nil) || after["jti"] == before["jti"] {
					u.t.Errorf("act %v, jti as before: %t", after["act"], after["jti"] == before["jti"])
				}
				if !u.alive(got.AccessToken) || !u.alive(tokens.AccessToken) {
					u.t.Error("an access token is dead")
				}
				tokens = got
			}
		})
	}
	u.denied(with(r.refresh("x"), "refresh_token", ""), missing("refresh_token"))
}

// TestT81RefreshTokensExpire: a refresh token idle for 30 days, or a family older than 90 → invalid_grant.
func TestT81RefreshTokensExpire(t *testing.T) {
	now := setClock(t)
	u := openUsers(t, "redirect_uris https://other.example/cb",
		"redirect_uris https://other.example/cb\n\t\t\ttokens {\n\t\t\t\trefresh 5d\n\t\t\t\trefresh_idle 2d\n\t\t\t\tauthorization_code 1h\n\t\t\t}")
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		client string
		steps  []time.Duration // every step but the last yields tokens
		alive  bool            // the last step does too
	}{
		"idle 30 d":                          {"conf", []time.Duration{30 * day}, true},
		"idle 30 d + 1 s":                    {"conf", []time.Duration{30*day + time.Second}, false},
		"idle again":                         {"conf", []time.Duration{20 * day, 30*day + time.Second}, false},
		"90 d - 1 s, rotated":                {"conf", []time.Duration{29 * day, 29 * day, 29 * day, 3*day - time.Second}, true},
		"90 d + 1 s, although rotated":       {"conf", []time.Duration{29 * day, 29 * day, 29 * day, 3*day + time.Second}, false},
		"its client's idle time":             {"other", []time.Duration{2*day + time.Second}, false},
		"its client's, in time":              {"other", []time.Duration{2 * day, 2 * day, day - time.Second}, true},
		"its client's end, although rotated": {"other", []time.Duration{2 * day, 2 * day, day + time.Second}, false},
	} {
		u.sub(name, func(u *userDoor) {
			r := requestOf(test.client)
			got := u.userTokens(r, ada)
			if want := map[string]int{"conf": 21600, "other": 3600}[test.client]; got.ExpiresIn != want {
				u.t.Errorf("expires_in %d, want %d", got.ExpiresIn, want)
			}
			last := len(test.steps) - 1
			for _, step := range test.steps[:last] {
				u.wait(now, step)
				got = u.gives(r.refresh(got.RefreshToken))
			}
			u.wait(now, test.steps[last])
			if test.alive {
				u.gives(r.refresh(got.RefreshToken))
			} else {
				u.denied(r.refresh(got.RefreshToken), badGrant("refresh_token_expired"))
			}
		})
	}
}

// TestT82RefreshTokenOfAnotherClient: a refresh token of A used by B → invalid_grant, the family is untouched.
func TestT82RefreshTokenOfAnotherClient(t *testing.T) {
	u := openUsers(t)
	r, other, public := requestOf("conf"), requestOf("other"), requestOf("pub")
	first := u.userTokens(r, ada)
	second := u.gives(r.refresh(first.RefreshToken))
	for _, token := range []string{first.RefreshToken, second.RefreshToken} {
		u.denied(other.refresh(token), badGrant("refresh_token_of_another_client"))
		u.denied(public.refresh(token), badGrant("refresh_token_of_another_client"))
		u.denied(with(r.refresh(token), "client_secret", "wrong"), badClient("client_authentication_failed"))
		u.denied(with(r.refresh(token), "client_id", "", "client_secret", ""), badClient("client_credentials_missing"))
		u.denied(requestOf("legacy").refresh(token), outcome{status: 400, code: "unauthorized_client", reason: "grant_not_allowed"})
	}
	if !u.alive(first.AccessToken) || !u.alive(second.AccessToken) {
		t.Error("the owner's tokens died")
	}
	u.gives(r.refresh(second.RefreshToken))
}

// TestT83ScopeOfARefresh: scope equal or a subset → 200, the refresh token keeps all; a superset or unknown → invalid_scope.
func TestT83ScopeOfARefresh(t *testing.T) {
	u := openUsers(t)
	r := requestOf("conf")
	got := u.userTokens(r, ada) // trusted public
	for _, test := range []struct {
		name, asked, scope string
		want               outcome
	}{
		{"equal", "trusted public", "trusted public", granted()},
		{"another order", "public trusted", "public trusted", granted()},
		{"duplicates", "public public", "public", granted()},
		{"subset", "public", "public", granted()},
		{"none after a subset", "", "trusted public", granted()},
		{"superset", "trusted public orders.read", "", badScope()},
		{"another one", "orders.read", "", badScope()},
		{"unknown", "nonsense", "", badScope()},
		{"a plus sign", "trusted+public", "", badScope()},
		{"malformed", `"public"`, "", badScope()},
		{"another one that asks for a refresh token", "refresh_token", "", badScope()},
	} {
		u.sub(test.name, func(u *userDoor) {
			form := with(r.refresh(got.RefreshToken), "scope", test.asked)
			if test.want.status != http.StatusOK {
				u.denied(form, test.want)
				return
			}
			got = u.gives(form)
			if got.Scope != test.scope {
				u.t.Errorf("scope %q, want %q", got.Scope, test.scope)
			}
			if trusted := strings.Contains(test.scope, "trusted"); u.alive(got.AccessToken) != trusted {
				u.t.Errorf("the gate takes it: %t", !trusted)
			}
			if held := u.familyOf(got.AccessToken).Scopes.String(); held != "trusted public" {
				u.t.Errorf("the family holds %q", held)
			}
		})
	}
	u.gives(r.refresh(got.RefreshToken)) // the refusals have used nothing up
}

// TestT84AndT85ReuseEndsTheFamily: a refresh token after its successor was used, or 31 s after its own use, or two generations old →
// invalid_grant, the family and its access tokens are dead.
func TestT84AndT85ReuseEndsTheFamily(t *testing.T) {
	now := setClock(t)
	grace := func(value string) string {
		return "redirect_uris https://" + value + "\n\t\t\ttokens {\n\t\t\t\trefresh_grace "
	}
	u := openUsers(t, "redirect_uris https://other.example/cb", grace("other.example/cb")+"0\n\t\t\t}",
		"redirect_uris https://first.example/cb", grace("first.example/cb")+"5m\n\t\t\t}")
	for name, test := range map[string]struct {
		client string
		walk   []int           // the generations presented before
		wait   []time.Duration // before each of them
		later  time.Duration
		reused int
		alive  bool
	}{
		"T84 after its successor was used":            {client: "conf", walk: []int{1, 2}, reused: 1},
		"T84 31 s after its use":                      {client: "conf", walk: []int{1}, later: 31 * time.Second, reused: 1},
		"30 s after its use":                          {client: "conf", walk: []int{1}, later: 30 * time.Second, reused: 1, alive: true},
		"T85 the one before, within the grace":        {client: "conf", walk: []int{1, 2}, later: time.Second, reused: 1},
		"two before":                                  {client: "conf", walk: []int{1, 2, 3, 4}, reused: 2},
		"repeated, then too late":                     {client: "conf", walk: []int{1, 1, 1}, wait: []time.Duration{0, 20 * time.Second, 10 * time.Second}, later: time.Second, reused: 1},
		"no grace":                                    {client: "other", walk: []int{1}, reused: 1},
		"a longer grace":                              {client: "first", walk: []int{1}, later: 299 * time.Second, reused: 1, alive: true},
		"a longer grace, over":                        {client: "first", walk: []int{1}, later: 301 * time.Second, reused: 1},
		"a longer grace does not outlive a successor": {client: "first", walk: []int{1, 2}, reused: 1},
	} {
		u.sub(name, func(u *userDoor) {
			r := requestOf(test.client)
			all := []tokens{{}, u.userTokens(r, ada)}
			for i, generation := range test.walk {
				if test.wait != nil {
					u.wait(now, test.wait[i])
				}
				all = append(all[:generation+1], u.gives(r.refresh(all[generation].RefreshToken)))
			}
			u.wait(now, test.later)
			form := r.refresh(all[test.reused].RefreshToken)
			if test.alive {
				if got := u.gives(form); got.RefreshToken != all[test.reused+1].RefreshToken {
					u.t.Error("another successor")
				}
				return
			}
			bystander := u.userTokens(r, ada)
			u.decisions(u.t)
			u.holdUnaudited(u.t, u.ask(u.t, "/oauth/token", form.Encode()), badGrant(""))
			if line := u.audited(); line["level"] != "warn" || line["reason"] != "refresh_token_reused" || line["client_id"] != test.client {
				u.t.Errorf("audited %v", line)
			}
			for _, dead := range all[1:] {
				u.gone(dead.AccessToken)
				u.denied(r.refresh(dead.RefreshToken), badGrant("refresh_token_revoked"))
			}
			if !u.alive(bystander.AccessToken) {
				u.t.Error("another family died")
			}
		})
	}
}
