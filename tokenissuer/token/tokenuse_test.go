package token

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

func TestG24WhatIsConfiguredDecidesWhichTypPasses(t *testing.T) {
	const at, jwt, none = TypeAccessToken, TypeJWT, TypeNone
	for _, v := range []struct {
		name, typ string // as in the header; empty: absent
		as        string
	}{
		{"at+jwt", "at+jwt", at}, {"with prefix", "application/at+jwt", at}, {"in capitals", "AT+JWT", at}, {"both", "Application/AT+jwt", at},
		{"JWT", "JWT", jwt}, {"jwt", "jwt", jwt}, {"JWT with prefix", "application/jwt", jwt}, {"absent", "", none},
		{"none in words", "none", ""}, {"only the prefix", "application/", ""}, {"prefix twice", "application/application/jwt", ""},
		{"id_token", "id_token", ""}, {"logout token", "logout+jwt", ""}, {"DPoP proof", "dpop+jwt", ""}, {"assertion", "gateway-assertion+jwt", ""},
		{"security event", "secevent+jwt", ""}, {"introspection", "token-introspection+jwt", ""}, {"request", "oauth-authz-req+jwt", ""},
		{"space", "JWT ", ""}, {"refresh token", "rt+jwt", ""}, {"other", "x", ""},
	} {
		for _, types := range [][]string{nil, {at}, {jwt}, {none}, {at, jwt}, {at, none}, {jwt, none}, {at, jwt, none}} {
			t.Run(v.name+" at "+strings.Join(types, ","), func(t *testing.T) {
				p := newPartner(types...)
				token := p.token(v.typ, p.marked())
				if slices.Contains(types, v.as) || types == nil && v.as == at {
					p.accepts(t, token)
				} else {
					p.refuses(t, token, "header_unexpected")
				}
			})
		}
	}
	for name, known := range map[string]bool{at: true, jwt: true, none: true, "": false, "jwt": false, "NONE": false, "id_token": false, "logout+jwt": false, "gateway-assertion+jwt": false} {
		if err := CheckTokenType(name); (err == nil) != known {
			t.Errorf("typ %q in a configuration: %v", name, err)
		}
	}
}

// shapes are tokens in the form of well-known providers, beyond iss, sub, aud, iat and exp. The audience of the ID
// tokens is the expected one too, as for an API and its client that share one registration.
var shapes = []struct {
	name, typ string
	x5t       bool
	access    []string
	client    string // the client_id that is read
	scopes    oauth.Scopes
	ID        []string
}{
	{
		name: "Keycloak", typ: "JWT", client: "shop", scopes: oauth.Scopes{"openid", "profile"},
		access: []string{"typ", `"Bearer"`, "azp", `"shop"`, "scope", `"openid profile"`, "sid", `"s"`, "acr", `"1"`, "nonce", `"n"`,
			"realm_access", `{"roles":["user"]}`, "resource_access", `{"account":{"roles":["manage-account"]}}`, "allowed-origins", `["https://shop.example"]`},
		ID: []string{"typ", `"ID"`, "azp", `"shop"`, "at_hash", `"h"`, "nonce", `"n"`, "acr", `"1"`, "sid", `"s"`},
	},
	{
		name: "Auth0", typ: "JWT", client: "spa", scopes: oauth.Scopes{"openid", "read:orders"},
		access: []string{"azp", `"spa"`, "scope", `"openid read:orders"`, "permissions", `["read:orders"]`, "jti", ""},
		ID:     []string{"nickname", `"al"`, "updated_at", `"2026-01-01T00:00:00Z"`, "nonce", `"n"`, "sid", `"s"`, "jti", ""},
	},
	{
		name: "Auth0 to a machine", typ: "JWT", client: "m2m",
		access: []string{"sub", `"m2m@clients"`, "azp", `"m2m"`, "gty", `"client-credentials"`, "jti", ""},
		ID:     []string{"sub", `"m2m@clients"`, "azp", `"m2m"`, "jti", ""},
	},
	{
		name: "Entra v1", typ: "JWT", x5t: true, client: "app-guid", scopes: oauth.Scopes{"user_impersonation", "Files.Read"},
		access: []string{"appid", `"app-guid"`, "appidacr", `"1"`, "scp", `"user_impersonation Files.Read"`, "ver", `"1.0"`, "nbf", "1799999999", "jti", ""},
		ID:     []string{"amr", `["pwd"]`, "oid", `"o"`, "tid", `"t"`, "unique_name", `"al"`, "ver", `"1.0"`, "jti", ""},
	},
	{
		name: "Entra v2", typ: "JWT", x5t: true, client: "app-guid", scopes: oauth.Scopes{"access_as_user"},
		access: []string{"azp", `"app-guid"`, "azpacr", `"1"`, "scp", `"access_as_user"`, "oid", `"o"`, "uti", `"u"`, "ver", `"2.0"`, "roles", `["Reader"]`, "jti", ""},
		ID:     []string{"name", `"Al"`, "preferred_username", `"al"`, "oid", `"o"`, "uti", `"u"`, "ver", `"2.0"`, "roles", `["Reader"]`, "jti", ""},
	},
	{
		name: "Entra v2 to a machine", typ: "JWT", x5t: true, client: "app-guid",
		access: []string{"azp", `"app-guid"`, "azpacr", `"2"`, "roles", `["Reader"]`, "idtyp", `"app"`, "jti", ""},
		ID:     []string{"azp", `"app-guid"`, "roles", `["Reader"]`, "jti", ""},
	},
	{
		name: "Okta", typ: "", client: "0oa1", scopes: oauth.Scopes{"openid", "orders"},
		access: []string{"ver", "1", "cid", `"0oa1"`, "uid", `"u"`, "scp", `["openid","orders"]`, "auth_time", "1799999999"},
		ID:     []string{"ver", "1", "amr", `["pwd"]`, "idp", `"00o"`, "nonce", `"n"`, "at_hash", `"h"`, "auth_time", "1799999999", "preferred_username", `"al"`},
	},
	{
		name: "Cognito", typ: "", client: "pool-app", scopes: oauth.Scopes{"aws.cognito.signin.user.admin", "orders/read"},
		access: []string{"client_id", `"pool-app"`, "token_use", `"access"`, "scope", `"aws.cognito.signin.user.admin orders/read"`, "username", `"al"`, "cognito:groups", `["g"]`, "origin_jti", `"o"`},
		ID:     []string{"token_use", `"id"`, "at_hash", `"h"`, "cognito:username", `"al"`, "cognito:groups", `["g"]`, "origin_jti", `"o"`},
	},
	{
		name: "Zitadel", typ: "JWT", client: "z-app",
		access: []string{"client_id", `"z-app"`},
		ID:     []string{"client_id", `"z-app"`, "azp", `"z-app"`, "at_hash", `"h"`},
	},
}

func TestG24TokensInTheShapeOfWellKnownProviders(t *testing.T) {
	p := anyType()
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			make := func(edits []string) string {
				h := []string{"typ", ""}
				if s.typ != "" {
					h[1] = strconv.Quote(s.typ)
				}
				if s.x5t {
					h = append(h, "x5t", `"AAAA"`)
				}
				return testkeys.Sign(p.key, testkeys.Header(p.key, h...), p.claims(edits...))
			}
			got := p.accepts(t, make(s.access))
			if got.ClientID != s.client || !slices.Equal(got.Scopes, s.scopes) || got.Issuer != otherIssuer {
				t.Errorf("client %q, scopes %q of %s, want %q, %q", got.ClientID, got.Scopes, got.Issuer, s.client, s.scopes)
			}
			if claimed := got.Claim("client_id"); !slices.Equal(claimed, []string{s.client}) {
				t.Errorf("the claim client_id is %q", claimed)
			}
			p.refuses(t, make(s.ID), "not_an_access_token")
		})
	}
}

// TestG24WhatIsNoAccessTokenNeverPasses: ID tokens, logout tokens and other JWTs of an issuer whose typ is legacy → 401.
func TestG24WhatIsNoAccessTokenNeverPasses(t *testing.T) {
	p := anyType()
	for _, v := range []struct {
		name   string
		edits  []string
		reason string
		always bool // whatever typ is
	}{
		{name: "no mark at all", edits: nil},
		{name: "azp alone, as in ID tokens", edits: []string{"azp", `"app"`}},
		{name: "scope that is no text", edits: []string{"scope", `["read"]`}},
		{name: "empty marks", edits: []string{"scope", `""`, "client_id", `""`, "scp", "null", "gty", "null"}},
		{name: "nonce", edits: []string{"client_id", `"app"`, "scope", `"read"`, "nonce", `"n"`}},
		{name: "at_hash", edits: []string{"client_id", `"app"`, "scope", `"read"`, "at_hash", `"h"`}},
		{name: "c_hash", edits: []string{"client_id", `"app"`, "scope", `"read"`, "c_hash", `"h"`}},
		{name: "s_hash", edits: []string{"client_id", `"app"`, "scope", `"read"`, "s_hash", `"h"`}},
		{name: "typ claim ID", edits: []string{"client_id", `"app"`, "scope", `"read"`, "typ", `"ID"`}, always: true},
		{name: "typ claim Refresh", edits: []string{"client_id", `"app"`, "scope", `"read"`, "typ", `"Refresh"`}, always: true},
		{name: "typ claim Offline", edits: []string{"client_id", `"app"`, "scope", `"read"`, "typ", `"Offline"`}, always: true},
		{name: "typ claim Logout", edits: []string{"client_id", `"app"`, "typ", `"Logout"`}, always: true},
		{name: "typ claim of another kind", edits: []string{"client_id", `"app"`, "typ", `["Bearer"]`}, always: true},
		{name: "typ claim empty", edits: []string{"client_id", `"app"`, "typ", `""`}, always: true},
		{name: "token_use id", edits: []string{"client_id", `"app"`, "token_use", `"id"`}, always: true},
		{name: "token_use refresh_token", edits: []string{"client_id", `"app"`, "token_use", `"refresh_token"`}, always: true},
		{name: "both access and id", edits: []string{"client_id", `"app"`, "typ", `"Bearer"`, "token_use", `"id"`}, always: true},
		{name: "token_type refresh", edits: []string{"client_id", `"app"`, "token_type", `"refresh"`}, always: true},
		{name: "tokenType refresh-token", edits: []string{"client_id", `"app"`, "scope", `"read"`, "tokenType", `"refresh-token"`}, always: true},
		{name: "tokenName refresh_token", edits: []string{"client_id", `"app"`, "scope", `["read"]`, "tokenName", `"refresh_token"`}, always: true},
		{name: "tty id", edits: []string{"client_id", `"app"`, "tty", `"id"`}, always: true},
		{name: "logout token", edits: []string{"client_id", `"app"`, "events", `{"http://schemas.openid.net/event/backchannel-logout":{}}`}, always: true},
		{name: "logout token that says Bearer", edits: []string{"typ", `"Bearer"`, "events", `{}`}, always: true},
		{name: "bound to a key", edits: []string{"client_id", `"app"`, "cnf", `{"jkt":"AAAA"}`}, reason: "token_bound", always: true},
		{name: "bound to a certificate", edits: []string{"typ", `"Bearer"`, "scope", `"read"`, "cnf", `{"x5t#S256":"AAAA"}`}, reason: "token_bound", always: true},
		{name: "to be used with DPoP", edits: []string{"client_id", `"app"`, "typ", `"DPoP"`}, always: true},
	} {
		if v.reason == "" {
			v.reason = "not_an_access_token"
		}
		t.Run(v.name, func(t *testing.T) {
			for _, typ := range []string{"JWT", "application/jwt", ""} {
				p.refuses(t, p.token(typ, p.claims(v.edits...)), v.reason)
			}
			if v.always {
				p.refuses(t, p.token("at+jwt", p.marked(v.edits...)), v.reason)
			}
		})
	}
	// A token that is explicitly marked as an access token may have been requested with a nonce.
	for _, word := range [][]string{{"typ", `"Bearer"`}, {"token_use", `"access"`}, {"token_type", `"bearer"`}} {
		p.accepts(t, p.token("JWT", p.claims(slices.Concat(word, []string{"nonce", `"n"`})...)))
	}
}
