package caddymodule

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// The refresh exchange, row by row.

// passwordRefresh makes people give refresh tokens with the password grant.
var passwordRefresh = []string{"password_grant\n", "password_grant {\n\t\t\trefresh_tokens\n\t\t}\n"}

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

func TestT81RefreshTokensExpire(t *testing.T) {
	now := setClock(t)
	u := openUsers(t, "redirect_uris https://other.example/cb",
		"redirect_uris https://other.example/cb\n\t\t\ttokens {\n\t\t\t\trefresh 5d\n\t\t\t\trefresh_idle 2d\n\t\t\t\tauthorization_code 1h\n\t\t\t}")
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		client string
		steps  []time.Duration // each but the last gives tokens
		alive  bool            // so does the last
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
	u.gives(r.refresh(got.RefreshToken)) // the refusals used nothing up
}

func TestT84AndT85ReuseEndsTheFamily(t *testing.T) {
	now := setClock(t)
	grace := func(value string) string {
		return "redirect_uris https://" + value + "\n\t\t\ttokens {\n\t\t\t\trefresh_grace "
	}
	u := openUsers(t, "redirect_uris https://other.example/cb", grace("other.example/cb")+"0\n\t\t\t}",
		"redirect_uris https://first.example/cb", grace("first.example/cb")+"5m\n\t\t\t}")
	for name, test := range map[string]struct {
		client string
		walk   []int           // the generations that are presented before
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

func TestT90OtherCredentialsAreNoRefreshTokens(t *testing.T) {
	setClock(t) // the code's minute does not pass
	u := openUsers(t)
	r := requestOf("conf")
	got, code := u.userTokens(r, ada), u.code(r, ada)
	for name, wrong := range map[string]string{
		"access token": got.AccessToken, "code": code, "session cookie": u.browserOf(ada).cookie("session"),
		"device cookie": u.browserOf(ada).cookie("gatehouse_device"), "family": u.familyOf(got.AccessToken).ID,
	} {
		u.sub(name, func(u *userDoor) { u.denied(r.refresh(wrong), badGrant("refresh_token_unknown")) })
	}
	for name, wrong := range map[string]string{"refresh token": got.RefreshToken, "code": code} {
		u.sub(name+" as bearer", func(u *userDoor) {
			for _, path := range []string{"/api/x", "/oauth/token/info"} {
				a := u.send(u.t, "GET", path, "", "Authorization", "Bearer "+wrong)
				if a.status != http.StatusUnauthorized || !strings.Contains(a.header.Get("Www-Authenticate"), `error="invalid_token"`) {
					u.t.Errorf("%s: %d %s", path, a.status, a.header)
				}
			}
			u.upstream.none(u.t)
		})
	}
	u.gives(r.exchange(code)) // none of this has used it up
	u.sub("of a deleted client", func(u *userDoor) {
		r := requestOf("conf")
		r.clientID = "doomed"
		r.secret = u.register(u.t, store.Client{
			ID: r.clientID, Grants: []oauth.GrantType{oauth.AuthorizationCode, oauth.RefreshTokenGrant},
			Scopes: oauth.Scopes{"public", "trusted"}, RedirectURIs: []string{r.redirectURI},
		})
		doomed := u.userTokens(r, ada)
		if err := u.app().registry.RemoveClient(u.t.Context(), r.clientID); err != nil {
			u.t.Fatal(err)
		}
		u.denied(r.refresh(doomed.RefreshToken), badClient("client_authentication_failed"))
		u.denied(requestOf("other").refresh(doomed.RefreshToken), badGrant("refresh_token_of_another_client"))
		u.gone(doomed.AccessToken)
	})
	u.gives(r.refresh(got.RefreshToken))
}

// TestT91UserHasChangedSinceTheTokens: tokens carry role and organisation, so they end with them.
func TestT91UserHasChangedSinceTheTokens(t *testing.T) {
	u := openUsers(t, passwordRefresh...)
	r := requestOf("conf")
	registry := u.app().registry
	for name, change := range map[string]func(id string) error{
		"nothing": nil,
		"disabled": func(id string) error {
			return registry.SetUserStatus(t.Context(), id, store.UserDisabled)
		},
		"disabled and enabled": func(id string) error {
			if err := registry.SetUserStatus(t.Context(), id, store.UserDisabled); err != nil {
				return err
			}
			return registry.SetUserStatus(t.Context(), id, store.UserActive)
		},
		"role": func(id string) error { return registry.SetRole(t.Context(), id, store.RoleGroupManager) },
		"password": func(id string) error {
			return registry.SetPasswordHash(t.Context(), id, oauth.NewSecret(peopleHash()))
		},
		"removed": func(id string) error { return registry.RemoveUser(t.Context(), id) },
	} {
		u.sub(name, func(u *userDoor) {
			email := strings.ReplaceAll(name, " ", "-") + "@acme.example"
			id := u.addUser(email, "acme", store.RoleMember)
			byCode, byPassword := u.userTokens(r, email), u.gives(r.asPassword(email, peoplePassword))
			if change == nil {
				u.gives(r.refresh(byCode.RefreshToken))
				u.gives(r.refresh(byPassword.RefreshToken))
				return
			}
			if err := change(id); err != nil {
				u.t.Fatal(err)
			}
			u.gone(byCode.AccessToken, byPassword.AccessToken)
			u.denied(r.refresh(byCode.RefreshToken), badGrant("refresh_token_revoked"))
			u.denied(r.refresh(byPassword.RefreshToken), badGrant("refresh_token_revoked"))
		})
	}
	// A declared user changes with the configuration. The organisation is the one that the admin's tokens speak for.
	u.sub("organisation", func(u *userDoor) {
		moved, stays := u.userTokens(r, maxim), u.userTokens(r, ada)
		u.reload(peopleSite(append([]string{"organisation acme\n\t\t\trole member", "organisation rival\n\t\t\trole member"}, passwordRefresh...)...))
		u.denied(r.refresh(moved.RefreshToken), badGrant(""))
		if u.alive(moved.AccessToken) {
			u.t.Error("the access token names the old organisation and lives on")
		}
		u.gives(r.refresh(stays.RefreshToken))
	})
}

func TestT93OnlyTheRefreshTokenItselfIsOne(t *testing.T) {
	u := openUsers(t)
	r := requestOf("conf")
	first := u.userTokens(r, ada)
	second := u.gives(r.refresh(first.RefreshToken))
	token := second.RefreshToken
	if !regexp.MustCompile(`^[0-9A-Za-z]{43,}$`).MatchString(token) {
		t.Errorf("the refresh token has another form, or fewer than 256 bits: %d characters", len(token))
	}
	near := []string{token[:len(token)-1], token[1:], token + "A", token + "=", " " + token, token + " ", strings.ToUpper(token), strings.ToLower(token)}
	for i := range token {
		if other := swapCase(token[i]); other != token[i] {
			near = append(near, token[:i]+string(other)+token[i+1:])
		}
	}
	for _, wrong := range near {
		u.denied(r.refresh(wrong), badGrant("refresh_token_unknown"))
	}
	if !u.alive(first.AccessToken) || !u.alive(second.AccessToken) {
		t.Error("a likeness ended the family")
	}
	u.gives(r.refresh(token))
}
