package caddymodule

import (
	"maps"
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
				u.lives(got.AccessToken, tokens.AccessToken)
				tokens = got
			}
		})
	}
	u.denied(with(r.refresh("x"), "refresh_token", ""), missing("refresh_token"))
}

// TestT48T81CodesAndRefreshTokensExpire: a code after 59 s → 200; after 61 s, a refresh token idle for 30 days, or a family older than 90 →
// invalid_grant.
func TestT48T81CodesAndRefreshTokensExpire(t *testing.T) {
	now := setClock(t)
	u := openUsers(t, "redirect_uris https://other.example/cb",
		"redirect_uris https://other.example/cb\n\t\t\ttokens {\n\t\t\t\trefresh 5d\n\t\t\t\trefresh_idle 2d\n\t\t\t\tauthorization_code 1h\n\t\t\t\tcode 10s\n\t\t\t}")
	for client, lifetime := range map[string]time.Duration{"conf": time.Minute, "other": 10 * time.Second} {
		u.sub("a code of "+client, func(u *userDoor) {
			r := requestOf(client)
			young := u.code(r, ada)
			u.wait(now, lifetime-time.Second)
			u.gives(r.exchange(young))
			old := u.code(r, ada)
			u.wait(now, lifetime+time.Second)
			u.denied(r.exchange(old), badGrant("code_expired"))
		})
	}
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
			u.lives(bystander.AccessToken)
		})
	}
}

// TestT133TheTokenOfBeforeARefreshEndsAlone: revocation of an access token from before the refresh → that token
// alone; of the current access or refresh token → the family; of an expired one → nothing.
func TestT133TheTokenOfBeforeARefreshEndsAlone(t *testing.T) {
	setClock(t) // all within one second: iat does not tell them apart
	u := openUsers(t, append(onDiskPeople, passwordRefresh...)...)
	for _, clientID := range []string{"conf", "pub"} {
		u.sub(clientID, func(u *userDoor) {
			r := requestOf(clientID)
			first := u.userTokens(r, ada)
			second := u.gives(r.refresh(first.RefreshToken))
			repeated := u.gives(r.refresh(first.RefreshToken))
			u.revoked(u.t, u.revoke(r, first.AccessToken), true)
			u.gone(first.AccessToken)
			u.lives(second.AccessToken, repeated.AccessToken)
			u.revoked(u.t, u.revoke(r, first.AccessToken), false)
			third := u.gives(r.refresh(second.RefreshToken))
			u.revoked(u.t, u.revoke(r, repeated.AccessToken), true)
			u.gone(repeated.AccessToken)
			u.lives(second.AccessToken, third.AccessToken)
			u.revoked(u.t, u.revoke(r, third.AccessToken), true)
			u.gone(second.AccessToken, third.AccessToken)
			u.denied(r.refresh(third.RefreshToken), badGrant("refresh_token_revoked"))
		})
	}
}

// TestT134ARefreshEndsTheTokenOfBefore: `revoke_previous_access_token` and a refresh → the previous access token is dead at every gate
// within a second, with one revocation for each family.
func TestT134ARefreshEndsTheTokenOfBefore(t *testing.T) {
	now := setClock(t)
	u := openUsers(t, append(append(append([]string{}, onDiskPeople...), behindProxy...), "redirect_uris https://other.example/cb",
		"redirect_uris https://other.example/cb\n\t\t\trevoke_previous_access_token")...)
	u.must(http.StatusCreated, "POST", "/oauth/clients",
		`{"id":"stored","type":"public","scopes":["public","trusted"],"redirect_uris":["https://other.example/cb"],"revoke_previous_access_token":true}`)
	if shown := u.ok("client", "add", "--name", "x", "--id", "by-command", "--revoke-previous-access-token", "--json"); !strings.Contains(shown, `"revoke_previous_access_token":true`) &&
		!strings.Contains(shown, `"revoke_previous_access_token": true`) {
		t.Errorf("added %s", shown)
	}
	stored := requestOf("pub")
	stored.clientID, stored.redirectURI = "stored", "https://other.example/cb"
	for name, r := range map[string]request{"declared": requestOf("other"), "stored": stored} {
		u.sub(name, func(u *userDoor) {
			first, bystander := u.userTokens(r, ada), u.userTokens(r, ada)
			second := u.gives(r.refresh(first.RefreshToken))
			u.gone(first.AccessToken)
			repeated := u.gives(r.refresh(first.RefreshToken))
			if repeated.RefreshToken != second.RefreshToken || !u.alive(second.AccessToken) || !u.alive(repeated.AccessToken) {
				u.t.Error("a repeat, or what came of the refresh, is worth nothing")
			}
			before := u.app().node.Revocations.Len()
			third := u.gives(r.refresh(second.RefreshToken))
			u.gone(second.AccessToken, repeated.AccessToken)
			u.lives(third.AccessToken, bystander.AccessToken)
			if n := u.app().node.Revocations.Len(); n != before {
				u.t.Errorf("each refresh leaves a revocation: %d became %d", before, n)
			}
			form := with(r.refresh(third.RefreshToken), "refresh_token", third.RefreshToken)
			a := u.ask(u.t, "/oauth/token", form.Encode(), "X-Forwarded-For", "192.0.2.1")
			u.tokensIn(a)
			u.decisions(u.t)
			a = u.ask(u.t, "/oauth/token", form.Encode(), "X-Forwarded-For", "192.0.2.2")
			u.hold(u.t, a, badGrant("refresh_token_repeated_elsewhere"))
		})
	}
	u.sub("not for other clients", func(u *userDoor) {
		r := requestOf("conf")
		first := u.userTokens(r, ada)
		u.wait(now, time.Second)
		u.gives(r.refresh(first.RefreshToken))
		u.lives(first.AccessToken)
	})
}

// TestT130NobodySeesARefreshFromOutside: introspection of a used refresh token within the grace → byte for byte as
// before the refresh; another client or user → inactive. A thief who could see that the owner has used the token
// would present it within the grace, get the same successor, and cause no alarm.
func TestT130NobodySeesARefreshFromOutside(t *testing.T) {
	now := setClock(t)
	u := openUsers(t, passwordRefresh...)
	asked := func(u *userDoor, token, bearer string) string {
		u.t.Helper()
		a := u.ask(u.t, "/oauth/introspect", "token="+token, "Authorization", "Bearer "+bearer)
		if a.status != http.StatusOK {
			u.t.Fatalf("%d %s", a.status, a.body)
		}
		return strings.TrimSpace(a.body)
	}
	const inactive, active = `{"active":false}`, `{"active":true,`
	told := func(u *userDoor, what, token, bearer, want string) {
		u.t.Helper()
		if got := asked(u, token, bearer); !strings.HasPrefix(got, want) {
			u.t.Errorf("%s: %s", what, got)
		}
	}

	u.sub("a confidential client, while a repeat would be served", func(u *userDoor) {
		r := requestOf("conf")
		first := u.userTokens(r, ada)
		ask := func() map[string]any { return u.introspected(r, first.RefreshToken) }
		u.wait(now, time.Hour)
		before, seen := ask(), asked(u, first.RefreshToken, first.AccessToken)
		if before["active"] != true {
			u.t.Fatalf("before its use: %v", before)
		}
		second := u.gives(r.refresh(first.RefreshToken))
		for range 2 {
			if after := ask(); !maps.Equal(after, before) {
				u.t.Errorf("after its use it answers %v, before it %v", after, before)
			}
			if after := asked(u, first.RefreshToken, first.AccessToken); after != seen {
				u.t.Errorf("to a bearer it answers %s, before it %s", after, seen)
			}
			u.wait(now, 15*time.Second)
		}
		if again := u.gives(r.refresh(first.RefreshToken)); again.RefreshToken != second.RefreshToken {
			u.t.Fatal("it was active and is not served")
		}
		u.gives(r.refresh(second.RefreshToken))
		u.wantInactive(r, first.RefreshToken)
		u.wait(now, 31*time.Second)
		u.wantInactive(r, second.RefreshToken)
	})
	u.sub("bearers ask about their own subject alone", func(u *userDoor) {
		r := requestOf("conf")
		her, his := u.userTokens(r, ada), u.userTokens(r, maxim)
		server := u.obtain(with(r.refresh(""), "grant_type", "client_credentials", "refresh_token", "")).AccessToken
		for name, token := range map[string]string{"access token": her.AccessToken, "refresh token": her.RefreshToken} {
			told(u, "another user about her "+name, token, his.AccessToken, inactive)
			told(u, "a server token about her "+name, token, server, inactive)
			told(u, "she about her own "+name, token, u.userTokens(r, ada).AccessToken, active)
		}
		told(u, "a user about a server token", server, her.AccessToken, inactive)
	})
	u.sub("public clients learn nothing of refresh tokens", func(u *userDoor) {
		r := requestOf("pub")
		own, another := u.userTokens(r, ada), u.userTokens(r, ada)
		told(u, "about an access token", own.AccessToken, another.AccessToken, active)
		told(u, "of the same user", own.RefreshToken, another.AccessToken, inactive)
		u.gives(r.refresh(own.RefreshToken))
		told(u, "after its use", own.RefreshToken, another.AccessToken, inactive)
		u.decisions(u.t)
		form := with(r.refresh(""), "token", another.RefreshToken, "grant_type", "", "refresh_token", "")
		u.hold(u.t, u.ask(u.t, "/oauth/introspect", form.Encode()), badClient("client_is_public"))
		nobodys := u.gives(nobodysClient.asPassword(ada, peoplePassword))
		told(u, "of no client", nobodys.RefreshToken, u.gives(nobodysClient.asPassword(ada, peoplePassword)).AccessToken, inactive)
	})
}

// behindProxy makes every request come from the address in X-Forwarded-For.
var behindProxy = []string{"\tadmin ADMIN\n", "\tadmin ADMIN\n\tservers {\n\t\ttrusted_proxies static 127.0.0.1/32\n\t}\n"}

// TestT131ARepeatFromElsewhere: a refresh repeated within the grace from another network → served with a warning in
// audit log and metrics; under `same_address` → a reuse; no address is stored. A repeat within the grace yields the
// same successor. A thief who is fast enough must at least be noticed, and same_address refuses the repeat.
// TestT131WhatMakesAnotherRequester has every other requester.
func TestT131ARepeatFromElsewhere(t *testing.T) {
	u := openUsers(t, append(behindProxy, "redirect_uris https://other.example/cb",
		"redirect_uris https://other.example/cb\n\t\t\ttokens {\n\t\t\t\trefresh_grace 30s same_address\n\t\t\t}")...)
	ask := func(u *userDoor, r request, token, address, agent string) answer {
		u.t.Helper()
		u.decisions(u.t)
		return u.ask(u.t, "/oauth/token", r.refresh(token).Encode(), "X-Forwarded-For", address, "User-Agent", agent)
	}
	for _, test := range []struct {
		client, address, agent string // of the repeat; the refresh is by curl/8.1 from 2001:db8:1:2::1
		from                   any    // what the warning says; nil: there is none
		refused                bool
	}{
		{"conf", "2001:db8:1:2:ffff::9", "curl/8.2", nil, false}, {"conf", "192.0.2.2", "curl/8.1", "another address", false},
		{"conf", "2001:db8:1:3::1", "okhttp/4.1", "another address and user agent", false}, {"other", "2001:db8:1:2:ffff::9", "curl/8.2", nil, false}, {"other", "192.0.2.2", "curl/8.1", nil, true},
	} {
		u.sub(test.client+" "+test.address, func(u *userDoor) {
			r := requestOf(test.client)
			first := u.userTokens(r, ada)
			second := u.tokensIn(ask(u, r, first.RefreshToken, "2001:db8:1:2::1", "curl/8.1"))
			before := u.measured()
			a := ask(u, r, first.RefreshToken, test.address, test.agent)
			line, after := u.audited(), u.measured()
			grew := func(metric string) bool {
				grown := after[metric] - before[metric]
				if grown > 1 {
					u.t.Errorf("%s has grown by %v", metric, grown)
				}
				return grown > 0
			}
			if elsewhere := `gatehouse_refresh_repeats_elsewhere_total{result="`; grew(elsewhere+`served"}`) != (test.from != nil) || grew(elsewhere+`refused"}`) != test.refused || grew("gatehouse_refresh_reuse_total") != test.refused {
				u.t.Errorf("counted %v, before %v", after, before)
			}
			if (line["level"] == "warn") != (test.refused || test.from != nil) || line["repeated_from"] != test.from || (line["repeated"] == true) == test.refused {
				u.t.Errorf("audited %v", line)
			}
			if by := u.familyOf(first.AccessToken).Refresh.RotatedBy; len(by) != 16 || strings.Contains(by, ".") {
				u.t.Errorf("the family remembers %q", by)
			}
			if !test.refused {
				if u.tokensIn(a).RefreshToken != second.RefreshToken {
					u.t.Error("another successor")
				}
				return
			}
			u.holdUnaudited(u.t, a, badGrant(""))
			if line["reason"] != "refresh_token_repeated_elsewhere" {
				u.t.Errorf("audited %v", line)
			}
			u.gone(first.AccessToken, second.AccessToken)
			u.denied(r.refresh(second.RefreshToken), badGrant("refresh_token_revoked"))
		})
	}
}
