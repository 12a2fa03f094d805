package caddymodule

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// refusedClient holds the invalid forms of `client` and `pkce`.
var refusedClient = refusedBlock{
	adapted: []refusal{
		{`client`, `wrong argument count or unexpected line ending after 'client', at Caddyfile:3`},
		{`client a b c`, `wrong argument count or unexpected line ending after 'c', at Caddyfile:3`},
		{`client a`, `client a: a confidential client needs a secret, or keys of its own: jwks or jwks_uri, at Caddyfile:3`},
		{`client a ""`, `client a: the secret is empty; is a variable unset?, at Caddyfile:3`},
		{`client a {$UNSET_X}`, `client a: a confidential client needs a secret, or keys of its own: jwks or jwks_uri, at Caddyfile:3`},
		{`client a "-----BEGIN PRIVATE KEY-----"`, `client a: this is a PEM file, not a client secret, at Caddyfile:3`},
		{`client a env.SECRET`, `client a: "env.SECRET" looks like a placeholder without its braces: write {env.SECRET}, at Caddyfile:3`},
		{`client a {http.request.header.x}`, `{http.request.header.x} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:3`},
		{"client a {file.x} {\ntype wide\n}", `client a: unknown client type "wide": use confidential, public or native, at Caddyfile:4`},
		{"client a {\ntype native public\n}", `wrong argument count or unexpected line ending after 'native', at Caddyfile:4`},
		{"client a s {\ntype confidential\ntype public\n}", `type is set twice, at Caddyfile:5`},
		{"client a s {\nname A\nname B\n}", `name is set twice, at Caddyfile:5`},
		{"client a s {\nname\n}", `wrong argument count or unexpected line ending after 'name', at Caddyfile:4`},
		{"client a s {\nname A B\n}", `wrong argument count or unexpected line ending after 'A', at Caddyfile:4`},
		{"client a s {\nname \"\"\n}", `the value is empty; is a variable unset?, at Caddyfile:4`},
		{"client a s {\ngrants\n}", `wrong argument count or unexpected line ending after 'grants', at Caddyfile:4`},
		{"client a s {\ngrants implicit\n}", `client a: unknown grant "implicit": use client_credentials, authorization_code, refresh_token, password, urn:ietf:params:oauth:grant-type:jwt-bearer, urn:ietf:params:oauth:grant-type:token-exchange, at Caddyfile:4`},
		{"client a s {\nscopes\n}", `wrong argument count or unexpected line ending after 'scopes', at Caddyfile:4`},
		{"client a s {\nredirect_uris\n}", `wrong argument count or unexpected line ending after 'redirect_uris', at Caddyfile:4`},
		{"client a s {\nredirect_uris /callback\n}", `client a: redirect URI "/callback": use an absolute URI, at Caddyfile:4`},
		{"client a s {\nredirect_uris https://x.example/#f\n}", `client a: redirect URI "https://x.example/#f": fragments, credentials, spaces, backslashes and control characters are not allowed, at Caddyfile:4`},
		{"client a s {\nredirect_uris javascript:alert(1)\n}", `client a: redirect URI "javascript:alert(1)": scheme "javascript" is not allowed, at Caddyfile:4`},
		{"client a s {\nredirect_uris https://u:p@x.example/\n}", `client a: redirect URI "https://u:p@x.example/": fragments, credentials, spaces, backslashes and control characters are not allowed, at Caddyfile:4`},
		{"client a s {\nredirect_uris https://x.example/?code=1\n}", `client a: redirect URI "https://x.example/?code=1": the query must not hold "code": the answer sets it, at Caddyfile:4`},
		{"client a s {\nredirect_uris https:///x\n}", `client a: redirect URI "https:///x": the host is missing, at Caddyfile:4`},
		{"client a s {\npkce plain\n}", `client a: pkce "plain": use required or optional, or leave it out, at Caddyfile:4`},
		{"client a s {\npkce required\npkce required\n}", `pkce is set twice, at Caddyfile:5`},
		{"pkce off", `pkce "off": use required, or leave it out, at Caddyfile:3`},
		{"client a s {\nfirst_party yes\n}", `wrong argument count or unexpected line ending after 'yes', at Caddyfile:4`},
		{"client a s {\nsecret x\n}", `unknown client option "secret", at Caddyfile:4`},
		{"client a s {\ntokens {\nclient_credentials 36d\n}\n}", `token lifetime client_credentials 864h0m0s: use 1s to 35d, at Caddyfile:5`},
		{"client a s {\ntokens {\nnonsense 1h\n}\n}", `unknown token lifetime "nonsense", at Caddyfile:5`},
		{"client a s\nclient a t", `client a is set twice, at Caddyfile:4`},
		{`client a x{env.A}`, `client a: a placeholder must be the whole secret, at Caddyfile:3`},
		{"client a s {\nnonsense\n}", `unknown client option "nonsense", at Caddyfile:4`},
		{`client "" s`, `client : client id: use 1 to 255 bytes of text without control characters, at Caddyfile:3`},
		{"client a s {\nscopes orders\ntype confidential native\n}", `wrong argument count or unexpected line ending after 'confidential', at Caddyfile:5`},
		{"client a s {\nredirect_uris \"https://x.example/a b\"\n}", `client a: redirect URI "https://x.example/a b": fragments, credentials, spaces, backslashes and control characters are not allowed, at Caddyfile:4`},
		{"client a s {\ntype\n}", `wrong argument count or unexpected line ending after 'type', at Caddyfile:4`},
		{"client a s {\ngrants client_credentials refresh\n}", `client a: unknown grant "refresh": use client_credentials, authorization_code, refresh_token, password, urn:ietf:params:oauth:grant-type:jwt-bearer, urn:ietf:params:oauth:grant-type:token-exchange, at Caddyfile:4`},
		{"client a s {\ntokens {\nrefresh_grace 6m\n}\n}", `token lifetime refresh_grace 6m0s: use 0 to 5m, at Caddyfile:5`},
		{"client a s {\ntokens {\ncode 0\n}\n}", `token lifetime code 0s: use at least 1s, at Caddyfile:5`},
	},
	loaded: []namedRefusal{
		{"secret unset", "client a {env.GATEHOUSE_TEST_UNSET}", `client "a": secret: `},
		{"secret empty", "client a {env.GATEHOUSE_TEST_EMPTY}", `client "a": secret: `},
		{"secret file missing", "client a {file.DIR/missing}", `client "a": secret: `},
		{"secret file is a directory", "client a {file.DIR}", `client "a": secret: `},
		{"secret file empty", "client a {file.DIR/empty}", `client "a": secret: `},
		{"secret file is PEM", "client a {file.DIR/pem}", "this is a PEM file, not a client secret"},
		{"secret is PEM", "client a {env.GATEHOUSE_TEST_PEM}", "this is a PEM file, not a client secret"},
		{"secret placeholder unknown", "client a {nobody.knows}", `client "a": secret: `},
		{"scope of a client", "client a s {\nscopes orders\n}", `client "a": unknown scope "orders": declare it first`},
	},
	json: []refusal{
		{`"clients":[{"id":"a","secret":"x","tokens":{"refresh_grace":-1}}]`, `client "a": token lifetime refresh_grace: use 0 to 5m`},
		{`"clients":[{"id":"a","secret":"x","tokens":{"code":"11m"}}]`, `client "a": token lifetime code 11m0s: use 1s to 10m`},
		{`"clients":[{"id":"a"}]`, "a confidential client needs a secret"},
		{`"clients":[{"id":"a","secret":"x","secret_sha256":"00"}]`, "set secret or secret_sha256, not both"},
		{`"clients":[{"id":"a","secret_sha256":"00"}]`, "secret_sha256: use 64 hex digits"},
		{`"clients":[{"id":"a","secret":"x"},{"id":"a","secret":"y"}]`, `client "a" is declared twice`},
		{`"clients":[{"id":"a","secret":"x","grants":["implicit"]}]`, `unknown grant "implicit"`},
	},
}

// TestK7WrittenOutSecret checks that a secret in a Caddyfile does not occur in the JSON, whatever it looks like. Caddy shows its
// configuration and saves it to disk.
func TestK7WrittenOutSecret(t *testing.T) {
	for _, secret := range []string{"written-out", "}written-out{", "a{written-out}c", "writ{ten.out}", "%77ritten-out"} {
		config, err := adapt("{\n\toauth {\n\t\tissuer https://a.example\n\t\tclient a `" + secret + "`\n\t}\n}\n")
		if err != nil {
			t.Errorf("%s: %v", secret, err)
			continue
		}
		digest := oauth.NewSecret(secret).Digest()
		if text := string(config); strings.Contains(text, "out") || !strings.Contains(text, hex.EncodeToString(digest[:])) {
			t.Errorf("%s became %s", secret, text)
		}
	}
}
