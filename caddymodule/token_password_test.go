package caddymodule

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// The password grant, row by row. Its limits are tested in token_limits_test.go.

// nobodysClient is a password grant request without a client.
var nobodysClient = request{scope: "trusted public"}

// TestT69PasswordGivesATokenForFourWeeks: the right address and password, in each encoding → 200, for four weeks.
func TestT69PasswordGivesATokenForFourWeeks(t *testing.T) {
	u := openUsers(t)
	r := requestOf("conf")
	for _, e := range encodings {
		for _, name := range []string{"email", "username"} {
			u.sub(e.name+", "+name, func(u *userDoor) {
				body, contentType := e.body("grant_type", "password", name, ada, "password", peoplePassword, "scope", "trusted public",
					"client_id", "conf", "client_secret", confSecret)
				u.decisions(u.t)
				a := u.ask(u.t, "/oauth/token", body, "Content-Type", contentType)
				u.hold(u.t, a, granted())
				got := u.tokensIn(a)
				if got.ExpiresIn != 2419200 || got.RefreshToken != "" || got.Scope != "trusted public" || !u.alive(got.AccessToken) {
					u.t.Errorf("expires_in %d, a refresh token: %t, scope %q", got.ExpiresIn, got.RefreshToken != "", got.Scope)
				}
				if claim := claims(u.t, got.AccessToken); claim["sub"] != "u-ada" || claim["client_id"] != "conf" || claim["auth_time"] == nil {
					u.t.Errorf("claims %v", claim)
				}
			})
		}
	}
	both := with(r.asPassword(ada, peoplePassword), "username", ada)
	u.gives(both)
	got := u.gives(nobodysClient.asPassword(ada, peoplePassword))
	if claim := claims(t, got.AccessToken); claim["client_id"] != store.BuiltInClientID || claim["sub"] != "u-ada" || !u.alive(got.AccessToken) {
		t.Errorf("without a client: %v", claim)
	}
}

// TestT70EveryRefusedSignInLooksTheSame: unknown address, wrong password, disabled, locked or unconfirmed account → the same
// invalid_grant, to the byte.
func TestT70EveryRefusedSignInLooksTheSame(t *testing.T) {
	u := openUsers(t)
	registry := u.app().registry
	for email, status := range map[string]store.UserStatus{"disabled@acme.example": store.UserDisabled, "locked@acme.example": store.UserLocked} {
		check(t, registry.People.SetUserStatus(t.Context(), u.addUser(email, "acme", store.RoleMember), status))
	}
	if _, err := registry.People.AddUser(t.Context(), store.User{Email: "invited@acme.example", Organisation: "acme"}, oauth.Secret{}); err != nil {
		t.Fatal(err)
	}
	removed := u.addUser("removed@acme.example", "acme", store.RoleMember)
	check(t, registry.People.RemoveUser(t.Context(), removed))
	for _, r := range []request{requestOf("conf"), nobodysClient} {
		var first answer
		for _, test := range []struct{ name, email, password string }{
			{"wrong password", ada, "wrong horse battery staple"}, {"unknown", "nobody@acme.example", peoplePassword},
			{"disabled", "disabled@acme.example", peoplePassword}, {"locked", "locked@acme.example", peoplePassword},
			{"invited", "invited@acme.example", peoplePassword}, {"invited, short password", "invited@acme.example", "x"},
			{"removed", "removed@acme.example", peoplePassword}, {"no address", "nobody", peoplePassword},
			{"several @", "ada@acme.example@acme.example", peoplePassword}, {"user id", "u-ada", peoplePassword},
			{"other case of the password", ada, strings.ToUpper(peoplePassword)}, {"space behind the password", ada, peoplePassword + " "},
		} {
			u.sub(test.name, func(u *userDoor) {
				u.decisions(u.t)
				a := u.ask(u.t, "/oauth/token", r.asPassword(test.email, test.password).Encode())
				u.hold(u.t, a, badGrant("sign_in_failed"))
				if first.status == 0 {
					first = a
				}
				a.looksLike(u.t, first)
			})
		}
	}
	u.gives(requestOf("conf").asPassword(ada, peoplePassword))
}

// TestT78SignInsAtOnce: 500 sign-ins at once → at most as many concurrent hashes as slots, bounded memory, the gate
// stays fast, and the surplus gets 503 or 429 within a second. The surplus waits for a moment first.
func TestT78SignInsAtOnce(t *testing.T) {
	before := runtime.GOMAXPROCS(2) // which also limits the slots to two
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	slow, err := bcrypt.GenerateFromPassword([]byte(peoplePassword), 9)
	for err == nil && configurationWord.Match(slow) { // it is in the configuration, like peopleHash
		slow, err = bcrypt.GenerateFromPassword([]byte(peoplePassword), 9)
	}
	check(t, err)
	u := openUsers(t, "user u-max {\n\t\t\temail max@acme.example\n\t\t\tpassword HASH", "user u-max {\n\t\t\temail max@acme.example\n\t\t\tpassword "+string(slow))
	r := requestOf("conf")
	token := u.userTokens(r, ada).AccessToken
	flood, done := context.WithCancel(t.Context())
	var gate sync.WaitGroup
	gate.Go(func() {
		for passed := 0; flood.Err() == nil || passed == 0; passed++ {
			if a := u.send(t, "GET", "/api/x", "", "Authorization", "Bearer "+token); a.status != http.StatusOK {
				t.Errorf("the gate: %d", a.status)
				return
			}
		}
	})
	kinds := make(map[int]int)
	for _, a := range u.atOnce(120, r.asPassword(maxim, peoplePassword)) {
		kinds[a.status]++
		switch a.status {
		case http.StatusOK:
			u.tokensIn(a)
		default:
			u.holdUnaudited(t, a, outcome{status: http.StatusServiceUnavailable, code: "temporarily_unavailable", text: busy})
		}
	}
	done()
	gate.Wait()
	u.upstream.seen()
	if kinds[http.StatusOK] == 0 || kinds[http.StatusServiceUnavailable] == 0 {
		t.Errorf("answers by status: %v", kinds)
	}
	u.gives(r.asPassword(maxim, peoplePassword)) // a moment later
}

const busy = "The service is temporarily unable to handle the request. Try again later."

// TestT79CheapHashesAreReplaced: a sign-in against bcrypt or weak argon2id → the password is stored under the current
// parameters. Nothing else of the user changes.
func TestT79CheapHashesAreReplaced(t *testing.T) {
	u := openUsers(t, passwordRefresh...)
	r := requestOf("conf")
	current := passwords.CurrentScheme()
	old, err := bcrypt.GenerateFromPassword([]byte(peoplePassword), bcrypt.MinCost)
	check(t, err)
	for name, hash := range map[string]string{"bcrypt": string(old), "weak argon2id": peopleHash()} {
		u.sub(name, func(u *userDoor) {
			email := strings.ReplaceAll(name, " ", "-") + "@acme.example"
			id := u.addUser(email, "acme", store.RoleMember)
			stored := func() *store.User {
				user, err := u.app().registry.People.User(u.t.Context(), id)
				check(u.t, err)
				return user
			}
			check(u.t, u.app().registry.People.SetPasswordHash(u.t.Context(), id, oauth.NewSecret(hash)))
			u.denied(r.asPassword(email, "wrong horse battery staple"), badGrant("sign_in_failed"))
			if stored().PasswordHash.Reveal() != hash {
				u.t.Error("a wrong password replaced the hash")
			}
			version := stored().Version
			first := u.gives(r.asPassword(email, peoplePassword))
			if user := stored(); passwords.SchemeOf(user.PasswordHash) != current || user.Version != version {
				u.t.Errorf("scheme %s, version %s, was %s", passwords.SchemeOf(user.PasswordHash), user.Version, version)
			}
			replaced := stored().PasswordHash
			u.gives(r.asPassword(email, peoplePassword))
			if stored().PasswordHash.Reveal() != replaced.Reveal() {
				u.t.Error("a current hash was replaced")
			}
			u.lives(first.AccessToken)
			u.gives(r.refresh(first.RefreshToken))
		})
	}
	// The sign-in page does the same.
	id := u.addUser("page@acme.example", "acme", store.RoleMember)
	check(t, u.app().registry.People.SetPasswordHash(t.Context(), id, oauth.NewSecret(string(old))))
	u.userTokens(r, "page@acme.example")
	if user, err := u.app().registry.People.User(t.Context(), id); err != nil || passwords.SchemeOf(user.PasswordHash) != current {
		t.Errorf("after signing in on the page: %v", err)
	}
}

// TestT77T104WhoMayUseThePasswordGrant: the password grant not configured, not allowed to the client, with contradicting names or wrong
// client credentials → refused each with its error, and no refresh token unless switched on; a password over 1 KiB or with NUL → 400 before hashing.
func TestT77T104WhoMayUseThePasswordGrant(t *testing.T) {
	u := openUsers(t)
	r := requestOf("conf")
	good := r.asPassword(ada, peoplePassword)
	if got := u.gives(good); got.RefreshToken != "" {
		t.Error("a refresh token, though they are not switched on")
	}
	if got := u.gives(with(good, "scope", "trusted refresh_token")); got.RefreshToken != "" {
		t.Error("a refresh token, because the scope asks for one")
	}
	u.denied(requestOf("legacy").asPassword(ada, peoplePassword), outcome{status: 400, code: "unauthorized_client", reason: "grant_not_allowed"})
	u.denied(requestOf("pub").asPassword(ada, peoplePassword), outcome{status: 400, code: "unauthorized_client", reason: "grant_not_allowed"})
	u.denied(r.asPassword(ada, strings.Repeat("p", 1025)), malformed("password_unusable"))
	u.denied(r.asPassword(ada, strings.Repeat("p", 1024)), badGrant("sign_in_failed"))
	u.denied(r.asPassword(ada, peoplePassword+"\x00"), malformed("parameter_value_invalid"))
	u.denied(with(good, "password", ""), missing("password"))
	u.denied(with(good, "email", ""), missing("email"))
	u.denied(with(good, "username", maxim), malformed("email_is_not_username"))
	u.denied(with(good, "client_secret", "wrong"), badClient("client_authentication_failed"))
	u.denied(with(good, "client_id", "nobody"), badClient("client_authentication_failed"))
	u.denied(with(good, "client_secret", ""), badClient("client_authentication_failed"))
	u.denied(with(good, "client_id", ""), badClient(""))
	u.denied(with(good, "client_id", store.BuiltInClientID, "client_secret", ""), badClient("client_authentication_failed"))
	u.denied(with(good, "client_id", store.BuiltInClientID), badClient("client_authentication_failed"))
	// The client is authenticated before the password is checked.
	u.denied(with(good, "client_secret", "wrong", "password", "wrong"), badClient("client_authentication_failed"))
	u.reload(peopleSite("\t\tpassword_grant\n", ""))
	off := outcome{status: 400, code: "unsupported_grant_type", reason: "grant_type_unknown"}
	u.denied(good, off)
	u.denied(nobodysClient.asPassword(ada, peoplePassword), off)
	u.denied(with(good, "client_secret", "wrong"), off)
}

func TestT105ScopesOfThePasswordGrant(t *testing.T) {
	u := openUsers(t)
	for name, test := range map[string]struct {
		r            request
		asked, scope string // no scope: refused
	}{
		"absent": {requestOf("conf"), "", "public"}, "blank": {requestOf("conf"), " ", "public"},
		"all":                         {requestOf("conf"), "orders.read trusted public", "orders.read trusted public"},
		"duplicates":                  {requestOf("conf"), "public trusted public", "public trusted"},
		"unknown":                     {requestOf("conf"), "public nonsense", ""},
		"beyond":                      {requestOf("other"), "orders.read", ""},
		"beyond, mixed":               {requestOf("other"), "public orders.read", ""},
		"no client":                   {nobodysClient, "", "public"},
		"no client, all":              {nobodysClient, "trusted public", "trusted public"},
		"no client, a client's scope": {nobodysClient, "orders.read", ""},
		"no client, a scope that only clients have": {nobodysClient, "refresh_token", ""},
	} {
		u.sub(name, func(u *userDoor) {
			test.r.scope = test.asked
			form := test.r.asPassword(ada, peoplePassword)
			if test.scope == "" {
				u.denied(form, badScope())
				return
			}
			if got := u.gives(form); got.Scope != test.scope {
				u.t.Errorf("scope %q, want %q", got.Scope, test.scope)
			}
		})
	}
	u.gives(with(requestOf("conf").asPassword(ada, peoplePassword), "scope", ""))
}
