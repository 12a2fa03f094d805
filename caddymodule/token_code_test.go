package caddymodule

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// These tests cover the authorization code grant, row by row, through sign-in, consent and the wire.

const (
	ada   = "ada@acme.example"
	maxim = "max@acme.example"
)

// TestT47T59T60CodeGivesTokens: a valid code → 200 with tokens of the granted scope, also beside code_challenge_method or another scope in the
// token request, which are ignored.
func TestT47T59T60CodeGivesTokens(t *testing.T) {
	setClock(t)
	u := openUsers(t)
	offline := requestOf("conf")
	offline.scope = "offline_access public trusted"
	legacy := requestOf("legacy")
	native := requestOf("nat")
	native.scope = "public trusted"
	for name, test := range map[string]struct {
		r       request
		refresh bool
	}{
		"confidential": {requestOf("conf"), true}, "public": {requestOf("pub"), true}, "native, order of scopes": {native, true},
		"first party": {requestOf("first"), true}, "legacy": {legacy, false}, "offline access": {offline, true},
	} {
		u.sub(name, func(u *userDoor) {
			got := u.userTokens(test.r, ada)
			if got.ExpiresIn != 21600 || got.Scope != test.r.scope || got.CreatedAt != node.Clock().Unix() {
				u.t.Errorf("expires_in %d, scope %q, created_at %d", got.ExpiresIn, got.Scope, got.CreatedAt)
			}
			if (got.RefreshToken != "") != test.refresh {
				u.t.Errorf("a refresh token: %t, want %t", got.RefreshToken != "", test.refresh)
			}
			claim := claims(u.t, got.AccessToken)
			for member, want := range map[string]any{
				"iss": u.url, "sub": "u-ada", "aud": u.url, "client_id": test.r.clientID, "org": "acme", "role": "admin", "act": nil,
			} {
				if claim[member] != want {
					u.t.Errorf("%s: %v, want %v", member, claim[member], want)
				}
			}
			if claim["auth_time"] == nil || !u.alive(got.AccessToken) {
				u.t.Errorf("auth_time %v, or the gate refuses the token", claim["auth_time"])
			}
		})
	}
	r := requestOf("conf")
	form := with(r.exchange(u.code(r, ada)), "client_id", "", "client_secret", "")
	u.tokensIn(u.ask(t, "/oauth/token", form.Encode(), basic("conf:"+confSecret)...))
	for _, scope := range []string{"public", "trusted public orders.read", "nonsense"} {
		form := with(r.exchange(u.code(r, ada)), "scope", scope, "code_challenge", "x", "code_challenge_method", "plain", "state", "x", "response_type", "token")
		if got := u.gives(form); got.Scope != r.scope {
			t.Errorf("asked for %q, scope %q", scope, got.Scope)
		}
	}
	u.denied(with(r.exchange(""), "code", ""), missing("code"))
}

// TestT54RedirectURIIsComparedByteForByte: redirect_uri with another slash, case, port, query or encoding than at the
// authorization → invalid_grant; absent with a PKCE challenge → 200, without → invalid_request. A wrong one does not
// use the code up, so all of them use one code.
func TestT54RedirectURIIsComparedByteForByte(t *testing.T) {
	u := openUsers(t)
	for name, verifier := range map[string]string{"with a challenge": requestOf("conf").verifier, "without a challenge": ""} {
		u.sub(name, func(u *userDoor) {
			r := requestOf("conf")
			r.verifier = verifier
			form := r.exchange(u.code(r, ada))
			for _, wrong := range []string{
				"https://client.example/cb/?x=1", "https://client.example/CB?x=1", "https://CLIENT.example/cb?x=1",
				"https://client.example:443/cb?x=1", "https://client.example/cb?x=1&y=2", "https://client.example/%63b?x=1",
				"https://client.example/cb?x=1#f", "https://client.example/other", "https://client.example/cb", "x",
				"https://client.example/cb?x=1 ", "https://evil.example/cb?x=1",
			} {
				u.denied(with(form, "redirect_uri", wrong), badGrant("redirect_uri_wrong"))
			}
			if verifier == "" {
				u.denied(with(form, "redirect_uri", ""), missing("redirect_uri"))
			}
			u.gives(form)
		})
	}
	r := requestOf("conf")
	u.gives(with(r.exchange(u.code(r, ada)), "redirect_uri", "")) // the challenge replaces it
	// The authorization request may omit it when the client has only one. Without a challenge, the exchange must
	// still name it.
	legacy := requestOf("legacy")
	legacy.more = url.Values{"redirect_uri": nil}
	form := legacy.exchange(u.code(legacy, ada))
	u.denied(with(form, "redirect_uri", ""), missing("redirect_uri"))
	u.gives(form)
}

// TestT55T56A85VerifierIsChecked: verifier absent, malformed, wrong, as of a code injected into another session, or sent without a challenge → refused
// in constant time, and the code is still good.
func TestT55T56A85VerifierIsChecked(t *testing.T) {
	u := openUsers(t)
	for _, id := range []string{"conf", "pub"} {
		r := requestOf(id)
		for name, wrong := range map[string]string{
			"42 characters": r.verifier[:42], "129 characters": strings.Repeat("v", 129), "bad alphabet": strings.Repeat("v", 42) + "+",
			"the challenge itself": challengeOf(r.verifier), "well-formed": strings.Repeat("w", 43), "one less": r.verifier[:len(r.verifier)-1],
			"other case": strings.ToUpper(r.verifier),
		} {
			u.sub(id+", "+name, func(u *userDoor) {
				form := r.exchange(u.code(r, ada))
				u.denied(with(form, "code_verifier", ""), missing("code_verifier"))
				u.denied(with(form, "code_verifier", wrong), badGrant("code_verifier_wrong"))
				u.gives(form)
			})
		}
	}
	u.sub("T56 nobody asked for one", func(u *userDoor) {
		form := requestOf("legacy").exchange(u.code(requestOf("legacy"), ada))
		u.denied(with(form, "code_verifier", strings.Repeat("v", 43)), badGrant("code_verifier_unasked"))
		u.gives(form)
	})
}

// TestT122PKCEIsRequiredWhereTheConfigurationSaysSo: `pkce required` of a client, stored or declared, or of the issuer: no challenge →
// invalid_request that names code_challenge; S256 → 200.
func TestT122PKCEIsRequiredWhereTheConfigurationSaysSo(t *testing.T) {
	without := func(r request) request { r.verifier = ""; return r }
	refused := func(u *userDoor, r request) {
		u.t.Helper()
		b := u.browserOf(ada)
		b.errorToClient(u.t, b.open(without(r).path()), r, "invalid_request", "Missing required parameter: code_challenge.")
	}
	t.Run("of a client", func(t *testing.T) {
		u := openUsers(t, "client first first-SECRET {", "client first first-SECRET {\n\t\t\tpkce required")
		refused(u, requestOf("first"))
		u.userTokens(requestOf("first"), ada)
		u.userTokens(without(requestOf("legacy")), ada)
		secret := u.register(t, store.Client{ID: "stored", Grants: []oauth.GrantType{oauth.AuthorizationCode}, Scopes: oauth.Scopes{"public", "trusted"},
			RedirectURIs: []string{"https://stored.example/cb"}, FirstParty: true, PKCE: oauth.PKCERequired})
		r := requestOf("first")
		r.clientID, r.secret, r.redirectURI = "stored", secret, "https://stored.example/cb"
		refused(u, r)
		u.userTokens(r, ada)
	})
	t.Run("of all", func(t *testing.T) {
		u := openUsers(t, "password_grant\n", "password_grant\n\t\tpkce required\n")
		refused(u, requestOf("legacy"))
		refused(u, requestOf("first"))
		u.userTokens(requestOf("first"), ada)
	})
}

// TestT63T93OnlyTheCredentialItselfIsOne: a code or refresh token cut, extended, in another case, padded, or one of 100,000 guesses →
// invalid_grant, and no family is harmed.
func TestT63T93OnlyTheCredentialItselfIsOne(t *testing.T) {
	setClock(t) // keeps the code's minute from passing
	u := openUsers(t)
	r := requestOf("conf")
	first := u.userTokens(r, ada)
	second, code := u.gives(r.refresh(first.RefreshToken)), u.code(r, ada)
	for name, test := range map[string]struct {
		is   string
		form func(string) url.Values
	}{"code": {code, r.exchange}, "refresh_token": {second.RefreshToken, r.refresh}} {
		if !regexp.MustCompile(`^[0-9A-Za-z]{43,}$`).MatchString(test.is) {
			t.Errorf("the %s has another form, or fewer than 256 bits: %d characters", name, len(test.is))
		}
		for _, wrong := range likenesses(test.is) {
			u.denied(with(test.form(wrong), name, wrong), badGrant(name+"_unknown"))
		}
	}
	if other := u.code(r, ada); other == code {
		t.Error("two codes are the same")
	}
	u.lives(first.AccessToken, second.AccessToken)
	u.gives(r.exchange(code))
	u.gives(r.refresh(second.RefreshToken))
}

// likenesses returns texts that resemble a credential. They are few, because the audit log omits lines beyond a
// thousand a second.
func likenesses(is string) []string {
	near := []string{is[:len(is)-1], is[1:], is + "A", "A" + is, is + "=", is + "==", " " + is, is + " ", is[:22], is + is, strings.ToUpper(is), strings.ToLower(is)}
	for i := range is {
		if other := is[i] ^ 0x20; 'A' <= other && other <= 'z' { // the same letter in the other case
			near = append(near, is[:i]+string(other)+is[i+1:])
		}
		near = append(near, is[:i]+"_"+is[i+1:])
	}
	for range 100 {
		guess := make([]byte, len(is))
		_, _ = rand.Read(guess)
		for i := range guess {
			guess[i] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[guess[i]%62]
		}
		near = append(near, string(guess), is[:22]+string(guess[22:]))
	}
	return near
}

// TestT65T90OtherCredentialsAreNeitherCodesNorRefreshTokens: an access token, state or form token as a code or refresh token, a refresh
// token as a bearer → invalid_grant or 401.
func TestT65T90OtherCredentialsAreNeitherCodesNorRefreshTokens(t *testing.T) {
	setClock(t) // keeps the code's minute from passing
	u := openUsers(t)
	r := requestOf("conf")
	got, code := u.userTokens(r, ada), u.code(r, ada)
	b := u.browser()
	_, form := formIn(t, b.open(r.path()))
	for name, wrong := range map[string]string{
		"access token": got.AccessToken, "refresh token": got.RefreshToken, "code": code, "state": r.state, "form token": form.Get("form_token"),
		"pending request": form.Get("pending"), "session cookie": u.browserOf(ada).cookie("session"), "family": u.familyOf(got.AccessToken).ID,
		"browser cookie": b.cookie("gatehouse_browser"), "device cookie": u.browserOf(ada).cookie("gatehouse_device"),
	} {
		u.sub(name, func(u *userDoor) {
			if wrong == "" {
				u.t.Fatal("there is none")
			}
			if name != "code" {
				u.denied(r.exchange(wrong), badGrant("code_unknown"))
			}
			if name != "refresh token" {
				u.denied(r.refresh(wrong), badGrant("refresh_token_unknown"))
			}
			for _, path := range []string{"/api/x", "/oauth/token/info"} {
				a := u.send(u.t, "GET", path, "", "Authorization", "Bearer "+wrong)
				if refused := a.status == http.StatusUnauthorized && strings.Contains(a.header.Get("Www-Authenticate"), `error="invalid_token"`); refused == (name == "access token") {
					u.t.Errorf("as a bearer at %s: %d %s", path, a.status, a.header)
				}
			}
			u.upstream.seen()
		})
	}
	u.sub("of a deleted client", func(u *userDoor) {
		r := requestOf("conf")
		r.clientID = "doomed"
		r.secret = u.register(u.t, store.Client{
			ID: r.clientID, Grants: []oauth.GrantType{oauth.AuthorizationCode, oauth.RefreshTokenGrant},
			Scopes: oauth.Scopes{"public", "trusted"}, RedirectURIs: []string{r.redirectURI},
		})
		doomed := u.userTokens(r, ada)
		check(u.t, u.app().registry.Clients.RemoveClient(u.t.Context(), r.clientID))
		u.denied(r.refresh(doomed.RefreshToken), badClient("client_authentication_failed"))
		u.denied(requestOf("other").refresh(doomed.RefreshToken), badGrant("refresh_token_of_another_client"))
		u.gone(doomed.AccessToken)
	})
	u.gives(r.exchange(code)) // the refusals have used nothing up
	u.gives(r.refresh(got.RefreshToken))
}
