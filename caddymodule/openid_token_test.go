package caddymodule

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// TestT176TheNonceComesBackAsItWasSent: a nonce of markup, control characters, emoji, 2 KiB → the same in the ID token to the letter;
// twice, with NUL, not UTF-8, longer → invalid_request.
func TestT176TheNonceComesBackAsItWasSent(t *testing.T) {
	g := startOpenID(t)
	b := g.consented("ada@acme.example")
	b.authorize(openIDRequestOf("conf", "openid"), "ada@acme.example")
	for _, query := range []string{
		"", "nonce=n-0S6_WzA2Mj", "nonce=a;b;c", "nonce=" + url.QueryEscape(`"><script>alert(1)</script>'`), "nonce=" + url.QueryEscape("a+b c%20&d=e;f#g?h\\/ \r\n\t\x01\x7f"),
		"nonce=" + url.QueryEscape("ﷺ 👩‍❤️‍💋‍👩 \u202e\u2028\ufeff"), "nonce=++", "nonce=" + strings.Repeat("x", 2<<10),
	} {
		r := openIDRequestOf("conf", "openid")
		_, claims := g.identity(t, b.redeem(t, b.open(r.path()+"&"+query), r).IDToken)
		sent, err := url.PathUnescape(strings.ReplaceAll(strings.TrimPrefix(query, "nonce="), "+", " "))
		if got, has := claims["nonce"]; err != nil || has != (query != "") || has && got != sent {
			t.Errorf("nonce %q, want %q, %v", got, sent, err)
		}
	}
	for name, query := range map[string]string{
		"twice": "nonce=a&nonce=a", "NUL": "nonce=a%00b", "not UTF-8": "nonce=%ff", "too long": "nonce=" + strings.Repeat("x", 2<<10+1),
		"too long in JSON": "nonce=" + strings.Repeat("%01", 2<<10),
	} {
		r := openIDRequestOf("conf", "openid")
		t.Run(name, func(t *testing.T) { b.errorToClient(t, b.open(r.path()+"&"+query), r, "invalid_request", "") })
	}
}

// TestT177WhoGetsAnIDToken: a code or refresh with openid → an ID token, after a refresh of the same person and session with the new
// at_hash and no nonce; without openid, password and client_credentials → none.
func TestT177WhoGetsAnIDToken(t *testing.T) {
	g := startOpenID(t)
	b := g.browser()
	r := openIDRequestOf("conf", "openid email refresh_token", "nonce", "n")
	first := b.redeem(t, b.authorize(r, "ada@acme.example"), r)
	header, claims := g.identity(t, first.IDToken)
	if header["typ"] != "JWT" || claims["aud"] != "conf" || claims["sub"] != "u-ada" || claims["iss"] != g.url || claims["acr"] != "1" || claims["email"] != nil {
		t.Errorf("%v %v", header, claims)
	}
	second := g.obtain(r.refresh(first.RefreshToken))
	_, again := g.identity(t, second.IDToken)
	for _, name := range []string{"iss", "sub", "aud", "auth_time", "sid", "acr"} {
		if claims[name] == nil || again[name] != claims[name] {
			t.Errorf("%s: %v, and after a refresh %v", name, claims[name], again[name])
		}
	}
	if again["nonce"] != nil || again["at_hash"] == nil || again["at_hash"] == claims["at_hash"] {
		t.Errorf("after a refresh: %v", again)
	}
	repeated := g.obtain(r.refresh(first.RefreshToken))
	if repeated.IDToken == "" {
		t.Error("a repeat has no ID token")
	}
	narrow := r.refresh(second.RefreshToken)
	narrow.Set("scope", "email")
	if got := g.obtain(narrow); got.IDToken != "" {
		t.Error("a refresh without openid has an ID token")
	}
	plain := requestOf("conf")
	for name, form := range map[string]map[string][]string{
		"code without openid": plain.exchange(b.codeToClient(t, b.authorize(plain, "ada@acme.example"), plain)),
		"password":            {"grant_type": {"password"}, "client_id": {"conf"}, "client_secret": {confSecret}, "email": {"ada@acme.example"}, "password": {peoplePassword}, "scope": {"openid"}},
		"client credentials":  {"grant_type": {"client_credentials"}, "client_id": {"conf"}, "client_secret": {confSecret}},
	} {
		if status, _, body := g.post("/oauth/token", form); status != http.StatusOK || strings.Contains(body, "id_token") {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	minted, err := g.operator().MintUserToken(t.Context(), "conf", "u-ada", "openid", 0)
	check(t, err)
	if !minted.IDToken.IsEmpty() {
		t.Error("an operator's token says that the user has signed in")
	}
	g.notLogged(t, first.IDToken, second.IDToken)
}

// TestT177ARefreshTellsOfTheUserAsOfNow: an ID token from a refresh has the user's current claims, whatever this
// process has cached.
func TestT177ARefreshTellsOfTheUserAsOfNow(t *testing.T) {
	g := startOpenID(t)
	id := g.addUser("may@acme.example", "acme", "member")
	r := openIDRequestOf("conf", "openid refresh_token", "claims", `{"id_token":{"email":null,"email_verified":null}}`)
	got := g.userTokens(r, "may@acme.example")
	address := "june@acme.example"
	for _, c := range []struct {
		change   store.UserChange
		email    string
		verified bool
	}{
		{store.UserChange{KeepsTokens: true, VerifiesEmail: true}, "may@acme.example", true},
		{store.UserChange{KeepsTokens: true, Edit: func(u *store.User) error { u.SetEmail(address); return nil }}, "june@acme.example", false},
	} {
		check(t, g.app().registry.People.UpdateUser(t.Context(), id, c.change))
		got = g.obtain(r.refresh(got.RefreshToken))
		if _, claims := g.identity(t, got.IDToken); claims["email"] != c.email || claims["email_verified"] != c.verified {
			t.Errorf("%v, want %s, verified: %t", claims, c.email, c.verified)
		}
	}
}

// TestT177AScopeThatAClientHasLostIsToldNoMore: the claims of a scope that the client has lost are omitted, even if
// the `claims` parameter had requested them.
func TestT177AScopeThatAClientHasLostIsToldNoMore(t *testing.T) {
	g := startOpenID(t)
	r := openIDRequestOf("shop", "openid refresh_token", "claims", `{"id_token":{"email":null,"name":null},"userinfo":{"email":null,"name":null}}`)
	r.redirectURI = "https://shop.example/cb"
	r.secret = g.addClient(t, store.Client{
		ID: "shop", Grants: []oauth.GrantType{oauth.AuthorizationCode, oauth.RefreshTokenGrant}, RedirectURIs: []string{r.redirectURI},
		Scopes: oauth.Scopes{"openid", "refresh_token", "email", "profile"},
	})
	got := g.userTokens(r, "ada@acme.example")
	hold := func(email any) {
		t.Helper()
		_, claims := g.identity(t, got.IDToken)
		told := g.told(t, got.AccessToken)
		if claims["email"] != email || told["email"] != email || claims["name"] == nil || told["name"] == nil {
			t.Errorf("ID token %v, userinfo %v, want the address %v", claims, told, email)
		}
	}
	hold("ada@acme.example")
	_, err := g.app().registry.Clients.UpdateClient(t.Context(), "shop", func(c *store.Client) error {
		c.Scopes = oauth.Scopes{"openid", "refresh_token", "profile"}
		return nil
	})
	check(t, err)
	got = g.obtain(r.refresh(got.RefreshToken))
	hold(nil)
}

// TestT213TheLargestUserFitsAnIDToken: the largest profile, all groups and the longest nonce → an ID token with all of it.
func TestT213TheLargestUserFitsAnIDToken(t *testing.T) {
	g := startOpenID(t)
	name, lines := strings.Repeat(`"`, 255), strings.Repeat("\n\"", 511)+"x"
	profile := &store.Profile{
		GivenName: name, FamilyName: name, PreferredUsername: name, Locale: "de-" + strings.Repeat("abcdefgh-", 27) + "x",
		Zoneinfo: "Europe/" + strings.Repeat("x", 248), Picture: "https://example.com/" + strings.Repeat("x", 2028), Phone: name, PhoneVerified: true,
		Address: store.Address{Formatted: lines, StreetAddress: lines, Locality: name, Region: name, PostalCode: name, Country: name},
	}
	user, err := g.app().registry.People.AddUser(t.Context(), store.User{
		Email: strings.Repeat("x", 64) + "@" + strings.Repeat(strings.Repeat("y", 45)+".", 3) + "example", Name: name, Organisation: "acme", Role: "member",
		PasswordHash: oauth.NewSecret(peopleHash()), Profile: profile, Groups: largestGroups(),
	}, oauth.Secret{})
	check(t, err)
	all := make([]string, 0, 20)
	for _, claim := range token.IDClaimNames() {
		all = append(all, `"`+claim+`":null`)
	}
	r := openIDRequestOf("conf", openIDScopes, "nonce", strings.Repeat(`"`, 1<<10), "claims", `{"id_token":{`+strings.Join(all, ",")+`}}`)
	_, claims := g.identity(t, g.userTokens(r, user.Email).IDToken)
	for _, name := range token.IDClaimNames() {
		if claims[name] == nil && name != "updated_at" {
			t.Errorf("the ID token has no %s", name)
		}
	}
}

// largestGroups returns the groups of a user who can join no further one: 2 KiB of JSON.
func largestGroups() (groups []string) {
	for i := range 100 {
		groups = append(groups, fmt.Sprintf("group-%010d", i))
	}
	return groups
}
