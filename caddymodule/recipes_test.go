package caddymodule

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

// recipeOf returns the Caddyfile that docs/trust.md gives for a product, with the product on loopback: the provider
// serves every address in hosts. The rest is unchanged.
func recipeOf(t *testing.T, product string, p *provider, hosts ...string) string {
	t.Helper()
	page, err := os.ReadFile("../docs/trust.md")
	check(t, err)
	_, section, found := strings.Cut(string(page), "\n### "+product+"\n")
	block := regexp.MustCompile("(?s)```caddyfile\n(.*?)```").FindStringSubmatch(section)
	if !found || block == nil {
		t.Fatalf("docs/trust.md has no recipe for %s", product)
	}
	text := block[1]
	for _, host := range hosts {
		if !strings.Contains(text, host) {
			t.Fatalf("the recipe for %s does not mention %s:\n%s", product, host, text)
		}
		text = strings.ReplaceAll(text, host, p.url)
	}
	text = regexp.MustCompile(`(?m)^(\t\ttrust \S+ \S+ \{)$`).ReplaceAllString(text, "$1\n\t\t\tallow_private_network")
	for _, change := range [][2]string{
		{"{\n\toauth {", "{\n\tadmin ADMIN\n\tstorage file_system DIR/storage\n\tlog {\n\t\toutput file LOG\n\t\tlevel DEBUG\n\t}\n\toauth {"},
		{"\napi.example.com {", "\nhttp://ADDR {"}, {"orders:8080", "UPSTREAM"},
	} {
		if strings.Count(text, change[0]) != 1 {
			t.Fatalf("the recipe for %s has %q not once:\n%s", product, change[0], text)
		}
		text = strings.Replace(text, change[0], change[1], 1)
	}
	return text
}

// tokenShape is the form of a product's token, and whether the gate accepts it.
type tokenShape struct {
	name string
	// changes apply to the product's usual header and claims; nil removes a member.
	header, claims map[string]any
	request        string // method and path
	reason         string // empty: it passes
	told           map[string]string
}

// product describes how a product issues tokens.
type product struct {
	name           string
	hosts          []string       // of the recipe's issuer and keys
	issuer         string         // its path, or the whole URL where that differs
	discovery      string         // the path of its metadata; empty: the recipe names its keys
	keys           string         // the path of its keys
	jwk            map[string]any // changes to the published key
	kid            string
	header, claims map[string]any
	shapes         []tokenShape
}

const tenant = "8a2f0e1c-33b1-4b0e-9d51-1c1f6a0f0b11"

var products = []product{
	{
		name: "Keycloak", hosts: []string{"https://login.example.com"}, issuer: "/realms/main",
		discovery: "/realms/main/.well-known/openid-configuration", keys: "/realms/main/protocol/openid-connect/certs",
		kid: "pXwz4yH8Yzj6Hn1Yb7mS1oJmTn7Cq9qk0g0m4c2H1fU", jwk: map[string]any{"x5c": []string{"MIICmzCCAYMCBgGT"}, "x5t": "zD9W", "x5t#S256": "hJ8a"},
		header: map[string]any{"typ": "JWT"},
		claims: map[string]any{
			"jti": "onrtac:5c9f5a3c-3b0e-4a57-a4a4-5b3c3c1c2f51", "aud": []string{"orders-api", "account"}, "sub": "f6c1f5d6-3bb2-4cf8-8f0b-0a3c1a1d5b5c",
			"typ": "Bearer", "azp": "frontend", "sid": "0b7a5a60-5a53-4ed9-9d7e-4a3f0b1d7c11", "acr": "1", "allowed-origins": []string{"https://app.example.com"},
			"realm_access":    map[string]any{"roles": []string{"default-roles-main", "offline_access", "clerk"}},
			"resource_access": map[string]any{"orders-api": map[string]any{"roles": []string{"read", "write"}}, "account": map[string]any{"roles": []string{"manage-account"}}},
			"scope":           "openid profile email", "email_verified": true, "name": "Ada L", "preferred_username": "ada", "client_id": nil,
		},
		shapes: []tokenShape{
			{name: "a person", request: "GET /orders/7", told: map[string]string{
				"X-Auth-Subject": "f6c1f5d6-3bb2-4cf8-8f0b-0a3c1a1d5b5c", "X-Auth-Name": "ada", "X-Auth-Role": "default-roles-main offline_access clerk", "X-Auth-Client-Roles": "read write",
			}},
			{name: "a client role", request: "POST /orders/7"},
			{name: "no client role", request: "POST /orders/7", claims: map[string]any{"resource_access": map[string]any{"account": map[string]any{"roles": []string{"write"}}}}, reason: "claim_missing"},
			{name: "a realm role", request: "GET /orders/admin/x", claims: map[string]any{"realm_access": map[string]any{"roles": []string{"boss"}}}},
			{name: "no realm role", request: "GET /orders/admin/x", claims: map[string]any{"role": "boss"}, reason: "role_missing"},
			{name: "a service account", request: "GET /orders/7", claims: map[string]any{
				"sid": nil, "client_id": "batch", "azp": "batch", "clientHost": "10.0.0.1", "clientAddress": "10.0.0.1", "preferred_username": "service-account-batch", "jti": "trrtcc:5c9f5a3c",
			}},
			{name: "one audience", request: "GET /orders/7", claims: map[string]any{"aud": "orders-api"}},
			{name: "no audience mapper", request: "GET /orders/7", claims: map[string]any{"aud": "account"}, reason: "audience_wrong"},
			{name: "no audience at all", request: "GET /orders/7", claims: map[string]any{"aud": nil}, reason: "claims_malformed"},
			{name: "an ID token", request: "GET /orders/7", claims: map[string]any{"typ": "ID", "aud": "orders-api", "at_hash": "x"}, reason: "not_an_access_token"},
			{name: "at+jwt", request: "GET /orders/7", header: map[string]any{"typ": "at+jwt"}, reason: "header_unexpected"},
		},
	},
	{
		name: "Entra ID", hosts: []string{"https://login.microsoftonline.com", "https://sts.windows.net"}, issuer: "/" + tenant + "/v2.0",
		discovery: "/" + tenant + "/v2.0/.well-known/openid-configuration", keys: "/" + tenant + "/discovery/v2.0/keys",
		kid: "Mc7l3Iz93g7uwgNeEmmw_WYGPko", jwk: map[string]any{"alg": nil, "x5t": "Mc7l3Iz93g7uwgNeEmmw_WYGPko", "x5c": []string{"MIIC/jCCAeag"}, "issuer": "https://login.microsoftonline.com/" + tenant + "/v2.0"},
		header: map[string]any{"typ": "JWT"},
		claims: map[string]any{
			"aud": "6e74172b-be56-4843-9ff4-e66a39bb12e3", "aio": "AXQAi/8TAAAA", "azp": "a1b2c3d4-0000-4000-8000-aaaaaaaaaaaa", "azpacr": "1", "name": "Ada L",
			"oid": "690222be-ff1a-4d56-abd1-7e4f7d38e474", "preferred_username": "ada@example.com", "rh": "I", "roles": []string{"Orders.Admin", "Orders.Reader"}, "scp": "orders.read orders.write",
			"sub": "HKZpfaHyWadeOouYlitjrI-KffTm222X5rrV3xDqfKQ", "tid": tenant, "uti": "fqiBqXLPj0eQa82S-IYFAA", "ver": "2.0", "wids": []string{"b79fbf4d-3ef9-4689-8143-76b194e85509"},
			"jti": nil, "client_id": nil, "scope": nil, "xms_ftd": "x", "acct": 0,
		},
		shapes: []tokenShape{
			{name: "a person", request: "GET /orders/7", told: map[string]string{
				"X-Auth-Subject": "HKZpfaHyWadeOouYlitjrI-KffTm222X5rrV3xDqfKQ", "X-Auth-Client": "a1b2c3d4-0000-4000-8000-aaaaaaaaaaaa",
				"X-Auth-Scope": "orders.read orders.write", "X-Auth-Role": "Orders.Admin Orders.Reader",
			}},
			{name: "an app role", request: "GET /orders/admin/x"},
			{name: "no app role", request: "GET /orders/admin/x", claims: map[string]any{"roles": nil}, reason: "role_missing"},
			{name: "a scope", request: "POST /orders/7"},
			{name: "a program", request: "GET /orders/admin/x", claims: map[string]any{"scp": nil, "name": nil, "preferred_username": nil, "idtyp": "app", "sub": "690222be", "oid": "690222be"}},
			{name: "a program that writes", request: "POST /orders/7", claims: map[string]any{"scp": nil, "idtyp": "app"}, reason: "scope_missing"},
			{name: "v1", request: "GET /orders/admin/x", header: map[string]any{"x5t": "Mc7l3Iz93g7uwgNeEmmw_WYGPko"}, claims: map[string]any{
				"iss": "ISSUER/" + tenant + "/", "aud": "api://orders", "ver": "1.0", "appid": "a1b2c3d4-0000-4000-8000-aaaaaaaaaaaa", "appidacr": "1", "azp": nil, "azpacr": nil,
				"acr": "1", "amr": []string{"pwd", "mfa"}, "upn": "ada@example.com", "unique_name": "ada@example.com", "family_name": "L", "ipaddr": "198.51.100.7",
			}, told: map[string]string{"X-Auth-Client": "a1b2c3d4-0000-4000-8000-aaaaaaaaaaaa", "X-Auth-Issuer": "ISSUER/" + tenant + "/"}},
			{name: "v1 for the audience of v2", request: "GET /orders/7", claims: map[string]any{"iss": "ISSUER/" + tenant + "/"}, reason: "audience_wrong"},
			{name: "another tenant", request: "GET /orders/7", claims: map[string]any{"iss": "ISSUER/11111111-33b1-4b0e-9d51-1c1f6a0f0b11/v2.0"}, reason: "issuer_unknown"},
			{name: "Microsoft Graph", request: "GET /orders/7", header: map[string]any{"nonce": "q7"}, claims: map[string]any{"aud": "00000003-0000-0000-c000-000000000000"}, reason: "header_unexpected"},
			{name: "an ID token", request: "GET /orders/7", claims: map[string]any{"azp": nil, "azpacr": nil, "scp": nil, "nonce": "n", "at_hash": "x"}, reason: "not_an_access_token"},
		},
	},
	{
		name: "Auth0", hosts: []string{"https://example.eu.auth0.com"}, issuer: "/", discovery: "/.well-known/openid-configuration", keys: "/.well-known/jwks.json",
		kid: "NjVBRjY5MDlCMUIwNzU4RTA2QzZFMDQ4QzQ2MDAyQjVDNjk1RTM2Qg", jwk: map[string]any{"x5c": []string{"MIIDBTCC"}, "x5t": "NjVBRjY5"},
		header: map[string]any{"typ": "JWT"},
		claims: map[string]any{
			"sub": "auth0|65f0c2a1b4d3e7f8a9b0c1d2", "aud": []string{"https://api.example.com/orders", "https://example.eu.auth0.com/userinfo"}, "scope": "openid profile orders.read",
			"azp": "my1Client2Id3ofthirtytwoletters4", "permissions": []string{"orders.read", "orders.write"}, "https://example.com/roles": []string{"clerk", "boss"},
			"client_id": nil, "jti": nil,
		},
		shapes: []tokenShape{
			{name: "a person", request: "GET /orders/7", told: map[string]string{
				"X-Auth-Subject": "auth0|65f0c2a1b4d3e7f8a9b0c1d2", "X-Auth-Client": "my1Client2Id3ofthirtytwoletters4", "X-Auth-Role": "clerk boss", "X-Auth-Issuer": "ISSUER/",
			}},
			{name: "a role", request: "GET /orders/admin/x"},
			{name: "no role", request: "GET /orders/admin/x", claims: map[string]any{"https://example.com/roles": []string{"clerk"}}, reason: "role_missing"},
			{name: "a permission", request: "POST /orders/7"},
			{name: "no permission", request: "POST /orders/7", claims: map[string]any{"permissions": []string{}}, reason: "claim_missing"},
			{name: "a program", request: "GET /orders/7", claims: map[string]any{
				"sub": "my1Client2Id3ofthirtytwoletters4@clients", "aud": "https://api.example.com/orders", "gty": "client-credentials", "scope": "orders.read",
			}},
			{name: "RFC 9068 profile", request: "GET /orders/7", header: map[string]any{"typ": "at+jwt"}, claims: map[string]any{"jti": "pPd0", "client_id": "my1Client2Id3ofthirtytwoletters4", "azp": nil}},
			{name: "userinfo alone", request: "GET /orders/7", claims: map[string]any{"aud": "https://example.eu.auth0.com/userinfo"}, reason: "audience_wrong"},
			{name: "without the slash", request: "GET /orders/7", claims: map[string]any{"iss": "ISSUER"}, reason: "issuer_wrong"},
			{name: "an ID token", request: "GET /orders/7", claims: map[string]any{"aud": "my1Client2Id3ofthirtytwoletters4", "azp": nil, "scope": nil, "permissions": nil, "nonce": "n"}, reason: "not_an_access_token"},
		},
	},
	{
		name: "Okta", hosts: []string{"https://example.okta.com"}, issuer: "/oauth2/default",
		discovery: "/oauth2/default/.well-known/openid-configuration", keys: "/oauth2/default/v1/keys", kid: "1bO2mS0rCq2Xf0n3Wn9b0Gk7Hq5e8Jr4Tt6Uu8Vv0Ww",
		header: map[string]any{"typ": nil},
		claims: map[string]any{
			"ver": 1, "jti": "AT.uJYlCHOkwq0F5CvY9RZ0Rk3fd6n4i6v8Xr2Jq1n0abc", "aud": "api://default", "cid": "0oa1b2c3d4e5f6g7h8i9", "uid": "00u1b2c3d4e5f6g7h8i9",
			"scp": []string{"openid", "orders.read"}, "auth_time": 1760000000, "sub": "ada@example.com", "groups": []string{"Everyone", "boss"}, "client_id": nil, "scope": nil,
		},
		shapes: []tokenShape{
			{name: "a person", request: "GET /orders/7", told: map[string]string{
				"X-Auth-Subject": "ada@example.com", "X-Auth-Client": "0oa1b2c3d4e5f6g7h8i9", "X-Auth-Scope": "openid orders.read", "X-Auth-Role": "Everyone boss",
			}},
			{name: "a group", request: "GET /orders/admin/x"},
			{name: "no group", request: "GET /orders/admin/x", claims: map[string]any{"groups": nil}, reason: "role_missing"},
			{name: "a program", request: "GET /orders/7", claims: map[string]any{"uid": nil, "auth_time": nil, "groups": nil, "sub": "0oa1b2c3d4e5f6g7h8i9", "scp": []string{"orders.read"}}},
			{name: "another scope", request: "GET /orders/7", claims: map[string]any{"scp": []string{"openid"}}, reason: "scope_missing"},
			{name: "another authorization server", request: "GET /orders/7", claims: map[string]any{"iss": "ISSUER"}, reason: "issuer_wrong"},
			{name: "an ID token", request: "GET /orders/7", claims: map[string]any{
				"aud": "api://default", "cid": nil, "uid": nil, "scp": nil, "jti": "ID.x", "amr": []string{"pwd"}, "idp": "00o1", "at_hash": "x", "name": "Ada L",
			}, reason: "not_an_access_token"},
		},
	},
	{
		name: "Cognito", hosts: []string{"https://cognito-idp.eu-central-1.amazonaws.com"}, issuer: "/eu-central-1_AbCdEfGhI",
		discovery: "/eu-central-1_AbCdEfGhI/.well-known/openid-configuration", keys: "/eu-central-1_AbCdEfGhI/.well-known/jwks.json",
		kid: "K/8nS1+JzWq3wbWl1qM0A2y3gXQ5nS2oZkq0p3jU0e4=", header: map[string]any{"typ": nil},
		claims: map[string]any{
			"sub": "b3c4e8d2-1041-70f1-9d3a-4b1c2d3e4f50", "cognito:groups": []string{"boss", "eu-central-1_AbCdEfGhI_Google"}, "version": 2, "client_id": "2lbn1pdqi0q3sk9s6pgo2jq3lv",
			"origin_jti": "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", "event_id": "64f513be-32db-42b0-b78e-b02127b4f463", "token_use": "access", "scope": "orders/read openid",
			"auth_time": 1760000000, "jti": "aaaaaaaa-bbbb-cccc-dddd-ffffffffffff", "username": "ada", "aud": nil,
		},
		shapes: []tokenShape{
			{name: "a person", request: "GET /orders/7", told: map[string]string{
				"X-Auth-Subject": "b3c4e8d2-1041-70f1-9d3a-4b1c2d3e4f50", "X-Auth-Client": "2lbn1pdqi0q3sk9s6pgo2jq3lv", "X-Auth-Role": "boss eu-central-1_AbCdEfGhI_Google",
			}},
			{name: "a group", request: "GET /orders/admin/x"},
			{name: "no group", request: "GET /orders/admin/x", claims: map[string]any{"cognito:groups": nil}, reason: "role_missing"},
			{name: "a program", request: "GET /orders/7", claims: map[string]any{
				"sub": "2lbn1pdqi0q3sk9s6pgo2jq3lv", "username": nil, "cognito:groups": nil, "origin_jti": nil, "event_id": nil, "scope": "orders/read",
			}},
			{name: "another app client", request: "GET /orders/7", claims: map[string]any{"client_id": "7otherclient1q3sk9s6pgo2jq3"}, reason: "audience_wrong"},
			{name: "for a resource", request: "GET /orders/7", claims: map[string]any{"aud": "https://other.example"}, reason: "audience_wrong"},
			{name: "signed in without a scope", request: "GET /orders/7", claims: map[string]any{"scope": "aws.cognito.signin.user.admin"}, reason: "scope_missing"},
			{name: "another pool", request: "GET /orders/7", claims: map[string]any{"iss": "ISSUER/eu-central-1_ZZZZZZZZZ"}, reason: "issuer_wrong"},
			{name: "an ID token", request: "GET /orders/7", claims: map[string]any{
				"aud": "2lbn1pdqi0q3sk9s6pgo2jq3lv", "client_id": nil, "scope": nil, "token_use": "id", "email": "ada@example.com", "cognito:username": "ada", "at_hash": "x",
			}, reason: "not_an_access_token"},
		},
	},
}

// TestG125Recipes: the recipes of docs/trust.md with tokens of Keycloak, Entra, Auth0, Okta and Cognito → access tokens pass; ID tokens,
// other tenants and audiences → refused.
func TestG125Recipes(t *testing.T) {
	for _, product := range products {
		t.Run(product.name, func(t *testing.T) {
			p := startProvider(t)
			key := p.addKey("RS256")
			key.kid = product.kid
			published, encryption := make(map[string]any), make(map[string]any)
			for name, value := range key.jwk() {
				published[name] = value
			}
			for name, value := range p.addKey("RS256").jwk() {
				encryption[name] = value
			}
			encryption["use"], encryption["alg"] = "enc", "RSA-OAEP"
			keys := `{"keys":[` + changed(published, product.jwk) + "," + changed(encryption, nil) + "]}"
			answer := func(text string) http.HandlerFunc {
				return func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					_, _ = w.Write([]byte(text))
				}
			}
			p.says(product.keys, answer(keys))
			p.says("/"+tenant+"/discovery/keys", answer(keys)) // of Entra's first version
			p.says(providerMetadata, http.NotFound)
			metadata, err := json.Marshal(map[string]any{
				"issuer": p.url + product.issuer, "jwks_uri": p.url + product.keys, "id_token_signing_alg_values_supported": []string{"RS256"},
				"response_types_supported": []string{"code"}, "subject_types_supported": []string{"pairwise"},
			})
			check(t, err)
			p.says(product.discovery, answer(string(metadata)))
			g := startBoth(t, recipeOf(t, product.name, p, product.hosts...))
			key.issuer = p.url + product.issuer
			ours := func(text string) string { return strings.ReplaceAll(text, "ISSUER", p.url) }
			for _, shape := range product.shapes {
				t.Run(shape.name, func(t *testing.T) {
					header := changed(product.headerOf(key), shape.header)
					claims := make(map[string]any)
					check(t, json.Unmarshal([]byte(key.claims(product.claims)), &claims))
					token := g.watched(key.token(header, ours(changed(claims, shape.claims))))
					method, target, _ := strings.Cut(shape.request, " ")
					request := g.request(method, target, bearer(token))
					if shape.reason != "" {
						status := http.StatusUnauthorized
						if strings.HasSuffix(shape.reason, "_missing") {
							status = http.StatusForbidden
						}
						g.because(t, request, status, shape.reason)
						return
					}
					seen := g.passed(t, request)
					for name, value := range shape.told {
						seen.has(t, name, ours(value))
					}
				})
			}
		})
	}
}

// headerOf returns the usual header of a product's tokens.
func (p *product) headerOf(key *forger) map[string]any {
	header := make(map[string]any)
	if err := json.Unmarshal([]byte(key.header(p.header)), &header); err != nil {
		panic(err)
	}
	return header
}
