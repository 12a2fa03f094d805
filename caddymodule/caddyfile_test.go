package caddymodule

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-auth/gatehouse/caddymodule/identity"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// goldenFiles are Caddyfiles with what becomes of them, below a line of ten dashes: JSON, or the text of the error.
const goldenFiles = "testdata/*.caddyfiletest"

// readGolden splits a golden file.
func readGolden(t testing.TB, path string) (caddyfile, want string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	caddyfile, want, ok := strings.Cut(string(text), "\n----------\n")
	if !ok {
		t.Fatalf("%s has no line of ten dashes", path)
	}
	return caddyfile + "\n", strings.TrimSpace(want)
}

// TestAdapt holds the adapter to its golden files.
func TestAdapt(t *testing.T) {
	files, err := filepath.Glob(goldenFiles)
	if err != nil || len(files) < 10 {
		t.Fatalf("there are %d golden files, %v", len(files), err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".caddyfiletest"), func(t *testing.T) {
			caddyfile, want := readGolden(t, path)
			config, err := adapt(caddyfile)
			if !strings.HasPrefix(want, "{") {
				checkRefusal(t, err, want)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := json.Indent(&got, config, "", "\t"); err != nil {
				t.Fatal(err)
			}
			if got.String() != want {
				t.Errorf("got\n%s", &got)
			}
			if strings.Contains(caddyfile, "written-out-secret") && strings.Contains(got.String(), "written-out-secret") {
				t.Error("the configuration holds a secret")
			}
		})
	}
}

// checkRefusal holds an error to its text, and the text to Caddy's style.
func checkRefusal(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted, want: %s", want)
	}
	if err.Error() != want {
		t.Errorf("got:  %s\nwant: %s", err, want)
	}
	if first := []rune(err.Error())[0]; unicode.IsUpper(first) || strings.HasSuffix(err.Error(), ".") {
		t.Errorf("the error is no lower-case text without a full stop: %s", err)
	}
}

// refusal is an option with the text of the error.
type refusal struct{ option, want string }

// refusedOAuth are refused within `oauth {`, from line 3 on, with the issuer below.
var refusedOAuth = []refusal{
	{`nonsense`, `unknown oauth option "nonsense", at Caddyfile:3`},
	{`issuer`, `wrong argument count or unexpected line ending after 'issuer', at Caddyfile:3`},
	{`issuer a b`, `wrong argument count or unexpected line ending after 'a', at Caddyfile:3`},
	{`issuer https://b.example`, `issuer is set twice, at Caddyfile:4`},
	{`issuer http://api.example.com`, `issuer "http://api.example.com" must be https: plain http is for loopback hosts only, at Caddyfile:3`},
	{`issuer https://a.example/`, `issuer "https://a.example/" must have no query, no fragment, no credentials and no trailing slash, at Caddyfile:3`},
	{`issuer https://a.example?x=1`, `issuer "https://a.example?x=1" must have no query, no fragment, no credentials and no trailing slash, at Caddyfile:3`},
	{`issuer https://a.example#f`, `issuer "https://a.example#f" must have no query, no fragment, no credentials and no trailing slash, at Caddyfile:3`},
	{`issuer https://u:p@a.example`, `issuer "https://u:p@a.example" must have no query, no fragment, no credentials and no trailing slash, at Caddyfile:3`},
	{`issuer api.example.com`, `issuer "api.example.com" is no URL: write it as https://api.example.com, at Caddyfile:3`},
	{`issuer ftp://a.example`, `issuer "ftp://a.example" must be https: plain http is for loopback hosts only, at Caddyfile:3`},
	{`issuer {http.request.host}`, `{http.request.host} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:3`},
	{`issuer ""`, `the value is empty; is a variable unset?, at Caddyfile:3`},
	{`audience`, `wrong argument count or unexpected line ending after 'audience', at Caddyfile:3`},
	{`audience ""`, `an audience must not be empty, at Caddyfile:3`},
	{`audience {http.request.host}`, `{http.request.host} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:3`},
	{`store`, `wrong argument count or unexpected line ending after 'store', at Caddyfile:3`},
	{`store postgres`, `store postgres needs a connection string, as in postgres://user@host/database, at Caddyfile:3`},
	{`store postgres ""`, `the connection string is empty; is a variable unset?, at Caddyfile:3`},
	{`store postgres postgres://db/x {
			pool 4
		}`, `pool "4": use a number of connections, 5 or more, at Caddyfile:4`},
	{`store postgres postgres://db/x {
			migrate on
		}`, `migrate "on": use off, or leave it out, at Caddyfile:4`},
	{`store sqlite {
			pool 20
		}`, `store sqlite has no option "pool", at Caddyfile:4`},
	{`store sqlite a b`, `wrong argument count or unexpected line ending after 'b', at Caddyfile:3`},
	{`store memory a`, `wrong argument count or unexpected line ending after 'a', at Caddyfile:3`},
	{`store sqlite ""`, `the store's path is empty; is a variable unset?, at Caddyfile:3`},
	{`store sqlite {http.request.uri.path}`, `{http.request.uri.path} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:3`},
	{`store file`, `unknown store "file": use sqlite, postgres or memory, at Caddyfile:3`},
	{`keys x`, `wrong argument count or unexpected line ending after 'x', at Caddyfile:3`},
	{"keys {\nalgorithm HS256\n}", `algorithm "HS256" is not supported: use ES256, RS256 or EdDSA, at Caddyfile:4`},
	{"keys {\nalgorithm PS256\n}", `algorithm "PS256" is not supported: use ES256, RS256 or EdDSA, at Caddyfile:4`},
	{"keys {\nalgorithm none\n}", `algorithm "none" is not supported: use ES256, RS256 or EdDSA, at Caddyfile:4`},
	{"keys {\nalgorithm\n}", `wrong argument count or unexpected line ending after 'algorithm', at Caddyfile:4`},
	{"keys {\nalgorithm ES256 RS256\n}", `wrong argument count or unexpected line ending after 'ES256', at Caddyfile:4`},
	{"keys {\nalgorithm ES256\nalgorithm RS256\n}", `algorithm is set twice, at Caddyfile:5`},
	{"keys {\nencrypt_with 0123456789abcdef0123456789abcdef\n}", `encrypt_with must not stand in the configuration: use {env.NAME} or {file./path}, at Caddyfile:4`},
	{"keys {\nencrypt_with {http.request.header.k}\n}", `{http.request.header.k} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:4`},
	{"keys {\nencrypt_with {$UNSET_X}\n}", `wrong argument count or unexpected line ending after 'encrypt_with', at Caddyfile:4`},
	{"keys {\nencrypt_with {env.A}\nencrypt_with {env.B}\n}", `encrypt_with is set twice, at Caddyfile:5`},
	{"keys {\nencrypt_with {env.A} {http.request.header.k}\n}", `{http.request.header.k} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:4`},
	{"keys {\nencrypt_with {env.A} \"\"\n}", `the value is empty; is a variable unset?, at Caddyfile:4`},
	{"keys {\nencrypt_with {env.A} 0123456789abcdef0123456789abcdef\n}", `encrypt_with must not stand in the configuration: use {env.NAME} or {file./path}, at Caddyfile:4`},
	{"keys {\nrotate\n}", `wrong argument count or unexpected line ending after 'rotate', at Caddyfile:4`},
	{"keys {\nrotate soon\n}", `"soon" is no duration: write it as 90s, 15m, 2h or 28d, at Caddyfile:4`},
	{"keys {\nrotate 59m\n}", `rotate 59m0s: use 1h or more, or off, at Caddyfile:4`},
	{"keys {\nrotate 0\n}", `rotate 0s: use 1h or more, or off, at Caddyfile:4`},
	{"keys {\nrotate -90d\n}", `rotate -2160h0m0s: use 1h or more, or off, at Caddyfile:4`},
	{"keys {\nrotate off now\n}", `wrong argument count or unexpected line ending after 'off', at Caddyfile:4`},
	{"keys {\nrotate off\nrotate 90d\n}", `rotate is set twice, at Caddyfile:5`},
	{"keys {\nnonsense\n}", `unknown keys option "nonsense", at Caddyfile:4`},
	{`tokens x`, `wrong argument count or unexpected line ending after 'x', at Caddyfile:3`},
	{"tokens {\nclient_credentials\n}", `wrong argument count or unexpected line ending after 'client_credentials', at Caddyfile:4`},
	{"tokens {\nclient_credentials soon\n}", `"soon" is no duration: write it as 90s, 15m, 2h or 28d, at Caddyfile:4`},
	{"tokens {\nclient_credentials 1h 2h\n}", `wrong argument count or unexpected line ending after '1h', at Caddyfile:4`},
	{"tokens {\nclient_credentials 36d\n}", `token lifetime client_credentials 864h0m0s: use 1s to 35d, at Caddyfile:4`},
	{"tokens {\nclient_credentials 0s\n}", `token lifetime client_credentials 0s: use at least 1s, at Caddyfile:4`},
	{"tokens {\nclient_credentials -1h\n}", `token lifetime client_credentials -1h0m0s: use 1s to 35d, at Caddyfile:4`},
	{"tokens {\nclient_credentials 500ms\n}", `token lifetime client_credentials 500ms: use 1s to 35d, at Caddyfile:4`},
	{"tokens {\nclient_credentials 1h\nclient_credentials 2h\n}", `client_credentials is set twice, at Caddyfile:5`},
	{"tokens {\nnonsense 2h\n}", `unknown token lifetime "nonsense", at Caddyfile:4`},
	{`scope`, `wrong argument count or unexpected line ending after 'scope', at Caddyfile:3`},
	{`scope a b c`, `wrong argument count or unexpected line ending after 'c', at Caddyfile:3`},
	{`scope "a b"`, `scope "a b": use one name of visible ASCII without quotes and backslashes, at Caddyfile:3`},
	{`scope a"b`, `scope "a\"b": use one name of visible ASCII without quotes and backslashes, at Caddyfile:3`},
	{"scope s\nscope s", `scope s is set twice, at Caddyfile:4`},
	{"scope s {\nnonsense\n}", `unknown scope option "nonsense", at Caddyfile:4`},
	{"scope s {\nserver_tokens yes\n}", `wrong argument count or unexpected line ending after 'yes', at Caddyfile:4`},
	{`client`, `wrong argument count or unexpected line ending after 'client', at Caddyfile:3`},
	{`client a b c`, `wrong argument count or unexpected line ending after 'c', at Caddyfile:3`},
	{`client a`, `client a: a confidential client needs a secret, at Caddyfile:3`},
	{`client a ""`, `client a: the secret is empty; is a variable unset?, at Caddyfile:3`},
	{`client a {$UNSET_X}`, `client a: a confidential client needs a secret, at Caddyfile:3`},
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
	{"client a s {\ngrants implicit\n}", `client a: unknown grant "implicit": use client_credentials, authorization_code, refresh_token, password, at Caddyfile:4`},
	{"client a s {\nscopes\n}", `wrong argument count or unexpected line ending after 'scopes', at Caddyfile:4`},
	{"client a s {\nredirect_uris\n}", `wrong argument count or unexpected line ending after 'redirect_uris', at Caddyfile:4`},
	{"client a s {\nredirect_uris /callback\n}", `client a: redirect URI "/callback": use an absolute URI, at Caddyfile:4`},
	{"client a s {\nredirect_uris https://x.example/#f\n}", `client a: redirect URI "https://x.example/#f": fragments, credentials, spaces, backslashes and control characters are not allowed, at Caddyfile:4`},
	{"client a s {\nredirect_uris javascript:alert(1)\n}", `client a: redirect URI "javascript:alert(1)": scheme "javascript" is not allowed, at Caddyfile:4`},
	{"client a s {\nredirect_uris https://u:p@x.example/\n}", `client a: redirect URI "https://u:p@x.example/": fragments, credentials, spaces, backslashes and control characters are not allowed, at Caddyfile:4`},
	{"client a s {\nredirect_uris https://x.example/?code=1\n}", `client a: redirect URI "https://x.example/?code=1": the query must not hold "code": the answer sets it, at Caddyfile:4`},
	{"client a s {\nredirect_uris https:///x\n}", `client a: redirect URI "https:///x": the host is missing, at Caddyfile:4`},
	{"client a s {\npkce plain\n}", `pkce "plain": use required, or leave it out, at Caddyfile:4`},
	{"client a s {\npkce required\npkce required\n}", `pkce is set twice, at Caddyfile:5`},
	{"pkce off", `pkce "off": use required, or leave it out, at Caddyfile:3`},
	{"client a s {\nfirst_party yes\n}", `wrong argument count or unexpected line ending after 'yes', at Caddyfile:4`},
	{"client a s {\nsecret x\n}", `unknown client option "secret", at Caddyfile:4`},
	{"client a s {\ntokens {\nclient_credentials 36d\n}\n}", `token lifetime client_credentials 864h0m0s: use 1s to 35d, at Caddyfile:5`},
	{"client a s {\ntokens {\nnonsense 1h\n}\n}", `unknown token lifetime "nonsense", at Caddyfile:5`},
	{"client a s\nclient a t", `client a is set twice, at Caddyfile:4`},
	{`client a x{env.A}`, `client a: a placeholder must be the whole secret, at Caddyfile:3`},
	{`revocation x`, `wrong argument count or unexpected line ending after 'x', at Caddyfile:3`},
	{"revocation {\nmax_staleness 1s\n}", `max_staleness 1s: use at least 2s, for the store is read once a second, at Caddyfile:4`},
	{"revocation {\nmax_staleness soon\n}", `"soon" is no duration: write it as 90s, 15m, 2h or 28d, at Caddyfile:4`},
	{"revocation {\nmax_staleness\n}", `wrong argument count or unexpected line ending after 'max_staleness', at Caddyfile:4`},
	{"revocation {\nmax_staleness 5m\nmax_staleness 6m\n}", `max_staleness is set twice, at Caddyfile:5`},
	{"revocation {\nnonsense\n}", `unknown revocation option "nonsense", at Caddyfile:4`},
	{`limits x`, `wrong argument count or unexpected line ending after 'x', at Caddyfile:3`},
	{"limits {\nclient\n}", "write a limit as `client 20/1m per ip`, or as `client off`, at Caddyfile:4"},
	{"limits {\nclient 20\n}", "write a limit as `client 20/1m per ip`, or as `client off`, at Caddyfile:4"},
	{"limits {\nclient 20/1m per account\n}", "write a limit as `client 20/1m per ip`, or as `client off`, at Caddyfile:4"},
	{"limits {\nclient x/1m per ip\n}", `"x" is no number, at Caddyfile:4`},
	{"limits {\nclient 0/1m per ip\n}", `"0" is no number, at Caddyfile:4`},
	{"limits {\nclient 20/x per ip\n}", `"x" is no window: write it as 30s, 1m or 1h, at Caddyfile:4`},
	{"limits {\nclient 20/10ms per ip\n}", `"10ms" is no window: write it as 30s, 1m or 1h, at Caddyfile:4`},
	{"limits {\nclient 20 per ip\n}", "write a limit as `client 20/1m per ip`, or as `client off`, at Caddyfile:4"},
	{"limits {\nclient on\n}", "write a limit as `client 20/1m per ip`, or as `client off`, at Caddyfile:4"},
	{"limits {\nclient off\nclient 20/1m per ip\n}", `limits client is set twice, at Caddyfile:5`},
	{"limits {\ngate 60\n}", "write a limit as `gate 60/3s per ip`, or as `gate off`, at Caddyfile:4"},
	{"limits {\ngate 60/3s per account\n}", "write a limit as `gate 60/3s per ip`, or as `gate off`, at Caddyfile:4"},
	{"limits {\ngate off\ngate 60/3s per ip\n}", `limits gate is set twice, at Caddyfile:5`},
	{"limits {\nnonsense 10/1m per account\n}", `unknown limit "nonsense", at Caddyfile:4`},
	{"keys {\nencrypt_with half{env.KEK}\n}", `encrypt_with must not stand in the configuration: use {env.NAME} or {file./path}, at Caddyfile:4`},
	{"client a s {\nnonsense\n}", `unknown client option "nonsense", at Caddyfile:4`},
	{`client "" s`, `client : client id: use 1 to 255 bytes of text without control characters, at Caddyfile:3`},
	{"client a s {\nscopes orders\ntype confidential native\n}", `wrong argument count or unexpected line ending after 'confidential', at Caddyfile:5`},
	{"store memory\nstore memory", `store is set twice, at Caddyfile:4`},
	{`audience https://a.example {http.vars.x}`, `{http.vars.x} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:3`},
	{"client a s {\nredirect_uris \"https://x.example/a b\"\n}", `client a: redirect URI "https://x.example/a b": fragments, credentials, spaces, backslashes and control characters are not allowed, at Caddyfile:4`},
	{"client a s {\ntype\n}", `wrong argument count or unexpected line ending after 'type', at Caddyfile:4`},
	{"client a s {\ngrants client_credentials refresh\n}", `client a: unknown grant "refresh": use client_credentials, authorization_code, refresh_token, password, at Caddyfile:4`},
}

// refusedProtect are refused after `protect`, from line 2 on.
var refusedProtect = []refusal{
	{`@typo`, `unrecognized matcher name: @typo`},
	{`@typo trusted`, `unrecognized matcher name: @typo`},
	{`trusted @typo`, `@typo stands among scopes: a matcher comes first, at Caddyfile:2`},
	{`trusted /x/*`, `/x/* stands among scopes: a matcher comes first, at Caddyfile:2`},
	{"{\nnonsense\n}", `unknown protect option "nonsense", at Caddyfile:3`},
	{"{\nissuer\n}", `wrong argument count or unexpected line ending after 'issuer', at Caddyfile:3`},
	{"{\nissuer self self\n}", `issuer self is there twice, at Caddyfile:3`},
	{"{\naudience\n}", `wrong argument count or unexpected line ending after 'audience', at Caddyfile:3`},
	{"{\naudience \"\"\n}", `an audience must not be empty, at Caddyfile:3`},
	{"{\naudience {host}\n}", `{http.request.host} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:3`},
	{"{\naudience {file.x}\n}", `in a site block {file.NAME} is a part of the request's path: use {env.NAME} or {file./path}, at Caddyfile:3`},
	{"{\naudience {header.X-Aud}\n}", `{http.request.header.X-Aud} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:3`},
	{"{\nrequire\n}", `wrong argument count or unexpected line ending after 'require', at Caddyfile:3`},
	{"{\nrequire scope\n}", "write a rule as `require [<matcher>] <kind> <value>...`, with scope, any_scope, role, group, claim, expression, acr or max_age, at Caddyfile:3"},
	{"{\nrequire @typo scope a\n}", `unrecognized matcher name: @typo, at Caddyfile:3`},
	{"{\nrequire /x/*\n}", "write a rule as `require [<matcher>] <kind> <value>...`, with scope, any_scope, role, group, claim, expression, acr or max_age, at Caddyfile:3"},
	{"{\nrequire /x/* scope\n}", "write a rule as `require [<matcher>] <kind> <value>...`, with scope, any_scope, role, group, claim, expression, acr or max_age, at Caddyfile:3"},
	{"{\nrequire role boss\n}", `unknown role "boss": use admin, group_manager, business_manager or member, at Caddyfile:3`},
	{"{\nrequire expression\n}", "write a rule as `require [<matcher>] <kind> <value>...`, with scope, any_scope, role, group, claim, expression, acr or max_age, at Caddyfile:3"},
	{"{\nrequire expression \"\"\n}", `require expression needs an expression, at Caddyfile:3`},
	{"{\nrequire expression @typo\n}", `@typo is no expression: a matcher comes first, at Caddyfile:3`},
	{"{\nrequire expression /x/* true\n}", `/x/* is no expression: a matcher comes first, at Caddyfile:3`},
	{"{\nrequire acr\n}", "write a rule as `require [<matcher>] <kind> <value>...`, with scope, any_scope, role, group, claim, expression, acr or max_age, at Caddyfile:3"},
	{"{\nrequire acr gold @m\n}", `acr @m looks like a matcher: a matcher comes first, at Caddyfile:3`},
	{"{\nrequire acr gold /x/*\n}", `acr /x/* looks like a matcher: a matcher comes first, at Caddyfile:3`},
	{"{\nrequire acr \"gold silver\"\n}", `acr "gold silver": use visible ASCII without quotes and backslashes, at Caddyfile:3`},
	{"{\nrequire max_age\n}", "write a rule as `require [<matcher>] <kind> <value>...`, with scope, any_scope, role, group, claim, expression, acr or max_age, at Caddyfile:3"},
	{"{\nrequire max_age soon\n}", `"soon" is no duration: write it as 90s, 15m, 2h or 28d, at Caddyfile:3`},
	{"{\nrequire max_age @m 5m\n}", `wrong argument count or unexpected line ending after '@m', at Caddyfile:3`},
	{"{\nrequire max_age 0s\n}", `max_age 0s: use whole seconds, at least one, at Caddyfile:3`},
	{"{\nrequire max_age 1500ms\n}", `max_age 1.5s: use whole seconds, at least one, at Caddyfile:3`},
	{"{\nrequire max_age -5m\n}", `max_age -5m0s: use whole seconds, at least one, at Caddyfile:3`},
	{"{\nrequire nonsense a\n}", `unknown rule "nonsense": use scope, any_scope, role, group, claim, expression, acr or max_age, at Caddyfile:3`},
	{"{\nrequire claim org\n}", `require claim org needs a value, at Caddyfile:3`},
	{"{\nrequire scope @m a\n}", `@m stands among scopes: a matcher comes first, at Caddyfile:3`},
	{"{\nrequire scope /x/* a\n}", `/x/* stands among scopes: a matcher comes first, at Caddyfile:3`},
	{"{\nrequire claim org {header.X-Org}\n}", `{http.request.header.X-Org}: a rule compares with text and replaces no placeholder, at Caddyfile:3`},
	{"{\nrequire claim org {env.ORG}\n}", `{env.ORG}: a rule compares with text and replaces no placeholder, at Caddyfile:3`},
	{"{\nrequire any_scope\n}", "write a rule as `require [<matcher>] <kind> <value>...`, with scope, any_scope, role, group, claim, expression, acr or max_age, at Caddyfile:3"},
	{"{\nanonymous\n}", `wrong argument count or unexpected line ending after 'anonymous', at Caddyfile:3`},
	{"{\nanonymous *\n}", "anonymous * would protect nothing: name the paths, or write `optional`, which still keeps forged identity headers away, at Caddyfile:3"},
	{"{\nanonymous @typo\n}", `unrecognized matcher name: @typo, at Caddyfile:3`},
	{"{\nanonymous public\n}", "write it as `anonymous <matcher>`: one path that starts with a slash, or a named matcher; further ones take lines of their own, at Caddyfile:3"},
	{"{\nanonymous /a /b\n}", "write it as `anonymous <matcher>`: one path that starts with a slash, or a named matcher; further ones take lines of their own, at Caddyfile:3"},
	{"{\noptional yes\n}", `wrong argument count or unexpected line ending after 'yes', at Caddyfile:3`},
	{"{\nforward\n}", "write it as `forward <Header> <claim>`, `forward + <Header> <claim>`, `forward assertion <Header> [<audience>]` or `forward off`, at Caddyfile:3"},
	{"{\nforward X-A\n}", "write it as `forward <Header> <claim>`, `forward + <Header> <claim>`, `forward assertion <Header> [<audience>]` or `forward off`, at Caddyfile:3"},
	{"{\nforward X-A sub extra\n}", "write it as `forward <Header> <claim>`, `forward + <Header> <claim>`, `forward assertion <Header> [<audience>]` or `forward off`, at Caddyfile:3"},
	{"{\nforward on\n}", "write it as `forward <Header> <claim>`, `forward + <Header> <claim>`, `forward assertion <Header> [<audience>]` or `forward off`, at Caddyfile:3"},
	{"{\nforward Host sub\n}", `forward Host: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward off\nforward X-A sub\n}", `forward off stands beside other forward lines, at Caddyfile:4`},
	{"{\nforward X-A sub\nforward off\n}", `forward off stands beside other forward lines, at Caddyfile:4`},
	{"{\nforward \"X A\" sub\n}", `forward X A: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nupstream_token\n}", `wrong argument count or unexpected line ending after 'upstream_token', at Caddyfile:3`},
	{"{\nupstream_token drop\n}", `upstream_token "drop": use strip, relay or swap <audience>, at Caddyfile:3`},
	{"{\nupstream_token relay\nupstream_token strip\n}", `upstream_token is set twice, at Caddyfile:4`},
	{"{\npaths loose\n}", `paths "loose": use strict or lenient, at Caddyfile:3`},
	{"{\npaths strict lenient\n}", `wrong argument count or unexpected line ending after 'strict', at Caddyfile:3`},
	{"{\npaths strict\npaths strict\n}", `paths is set twice, at Caddyfile:4`},
	{"{\ntoken_from cookie\n}", "write it as `token_from header` or `token_from cookie <name>`, at Caddyfile:3"},
	{"{\nchallenge browser\n}", "challenge browser needs `token_from cookie accessToken`: a browser that has signed in brings no other token, at Caddyfile:4"},
	{"{\nchallenge page\n}", `challenge "page": use api or browser, at Caddyfile:3`},
	{"{\ntrust_headers\n}", `wrong argument count or unexpected line ending after 'trust_headers', at Caddyfile:3`},
	{"{\ntrust_headers X-Method-Override X-Auth-Subject\n}", "trust_headers X-Auth-Subject: use headers by which a client would choose method or path: " +
		strings.Join(identity.Overriding, ", ") + ", at Caddyfile:3"},
	{"{\nforward +\n}", "write it as `forward <Header> <claim>`, `forward + <Header> <claim>`, `forward assertion <Header> [<audience>]` or `forward off`, at Caddyfile:3"},
	{"{\nforward + Host sub\n}", `forward Host: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward X-A sub\nforward + X-B org\n}", "forward + adds to the default headers, and other forward lines replace them: write all of them with +, or none, at Caddyfile:4"},
	{"{\nforward + X-B org\nforward X-A sub\n}", "forward + adds to the default headers, and other forward lines replace them: write all of them with +, or none, at Caddyfile:4"},
	{"{\nforward off\nforward + X-B org\n}", `forward off stands beside other forward lines, at Caddyfile:4`},
	{"{\nupgrade\n}", `wrong argument count or unexpected line ending after 'upgrade', at Caddyfile:3`},
	{"{\nupgrade tcp, foo\n}", `upgrade "tcp,": write a protocol as clients name it in Upgrade, like tcp, at Caddyfile:3`},
	{"{\nupgrade tcp/\n}", `upgrade "tcp/": write a protocol as clients name it in Upgrade, like tcp, at Caddyfile:3`},
	{"{\nupgrade tcp\nupgrade foo h2c\n}", "upgrade h2c: in this protocol a client could make further requests past the gate; " +
		"for HTTP/2 between Caddy and the upstream write `versions h2c` in the transport of reverse_proxy, at Caddyfile:4"},
	{"{\nstreams open\n}", `streams "open": use close or keep, at Caddyfile:3`},
	{"{\ncors\n}", `wrong argument count or unexpected line ending after 'cors', at Caddyfile:3`},
	{"{\ncors null\n}", `cors null would be every sandboxed page and every local file, at Caddyfile:3`},
	{"{\ncors * https://a.example\n}", `cors * stands beside other origins: leave one of them away, at Caddyfile:3`},
	{"{\ncors https://a.example\ncors *\n}", `cors * stands beside other origins: leave one of them away, at Caddyfile:4`},
	{"{\ncors *\ntoken_from cookie app\n}", `cors * stands beside token_from cookie app: name the origins, at Caddyfile:5`},
	{"{\ntoken_from cookie app\ncors *\n}", `cors * stands beside token_from cookie app: name the origins, at Caddyfile:5`},
	{"{\ncors https://a.example\nforward_to response\n}", `cors stands beside forward_to response: the proxy that asks would take the answer to a preflight for leave to ` +
		`pass the request on, with its body: leave cors out, and have that proxy answer preflights, at Caddyfile:5`},
	{"{\nforward_to\n}", `wrong argument count or unexpected line ending after 'forward_to', at Caddyfile:3`},
	{"{\nforward_to client\n}", `forward_to "client": use request or response, at Caddyfile:3`},
	{"{\nforward_to request response\n}", `wrong argument count or unexpected line ending after 'request', at Caddyfile:3`},
	{"{\nforward_to response\nforward_to response\n}", `forward_to is set twice, at Caddyfile:4`},
	{"{\nforward Connection sub\n}", `forward Connection: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward Transfer-Encoding sub\n}", `forward Transfer-Encoding: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward Content-Length sub\n}", `forward Content-Length: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward TE sub\n}", `forward TE: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward Trailer sub\n}", `forward Trailer: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward Upgrade sub\n}", `forward Upgrade: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward Authorization sub\n}", `forward Authorization: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward Cookie sub\n}", `forward Cookie: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward X-Forwarded-For sub\n}", `forward X-Forwarded-For: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward X-Forwarded-User sub\n}", `forward X-Forwarded-User: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward x_forwarded_host sub\n}", `forward x_forwarded_host: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward Forwarded sub\n}", `forward Forwarded: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward X-Real-IP sub\n}", `forward X-Real-IP: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward Proxy-Authorization sub\n}", `forward Proxy-Authorization: a claim cannot be written into this header, at Caddyfile:3`},
}

func TestAdaptRefusesWithFileAndLine(t *testing.T) {
	for _, r := range slices.Concat(refusedOAuth, refusedLifetimes, refusedPeople, refusedLogins, refusedBrand) {
		t.Run(r.option, func(t *testing.T) {
			_, err := adapt("{\n\toauth {\n" + r.option + "\nissuer https://a.example\n\t}\n}\n")
			checkRefusal(t, err, "parsing caddyfile tokens for 'oauth': "+r.want)
		})
	}
	for _, r := range refusedProtect {
		t.Run("protect "+r.option, func(t *testing.T) {
			_, err := adapt("http://a.example {\n\tprotect " + r.option + "\n}\n")
			checkRefusal(t, err, "parsing caddyfile tokens for 'protect': "+r.want)
		})
	}
}

// TestK7WrittenOutSecret: Caddy shows its configuration and saves it to disk, so a secret that stands in a Caddyfile
// must not stand in the JSON, whatever it looks like.
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

// FuzzCaddyfile: no panic, adapting twice gives the same JSON, and what was adapted can be provisioned or refused.
func FuzzCaddyfile(f *testing.F) {
	files, err := filepath.Glob(goldenFiles)
	if err != nil || len(files) == 0 {
		f.Fatalf("there are %d golden files, %v", len(files), err)
	}
	for _, path := range files {
		caddyfile, _ := readGolden(f, path)
		f.Add(caddyfile)
	}
	for _, r := range slices.Concat(refusedOAuth, refusedLifetimes, refusedPeople, refusedLogins, refusedBrand) {
		f.Add("{\n\toauth {\n" + r.option + "\n\t}\n}\n")
	}
	for _, r := range refusedProtect {
		f.Add("http://a.example {\n\tprotect " + r.option + "\n}\n")
	}
	f.Fuzz(func(t *testing.T, caddyfile string) {
		if strings.Contains(caddyfile, "import") { // would read whatever files there are
			return
		}
		first, err := adapt(caddyfile)
		if err != nil {
			return
		}
		second, err := adapt(caddyfile)
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("adapted to\n%s\nand then to\n%s\n%v", first, second, err)
		}
		readApp(t, first)
	})
}

// readApp reads the app's settings out of a configuration, as Provision does.
func readApp(t *testing.T, config []byte) {
	var parsed caddy.Config
	if err := caddy.StrictUnmarshalJSON(config, &parsed); err != nil || parsed.AppsRaw["oauth"] == nil {
		return
	}
	app := new(App)
	if err := caddy.StrictUnmarshalJSON(parsed.AppsRaw["oauth"], app); err != nil {
		t.Fatalf("the app's own JSON is not the app's: %v", err)
	}
	settings, err := app.read()
	if err == nil && (settings.issuer == "" || slices.Contains(settings.audience, "")) {
		t.Fatalf("accepted without issuer or audience: %s", parsed.AppsRaw["oauth"])
	}
}

// TestG93NothingIsForwardedIntoHeadersOfTheProtocol: neither a claim nor an assertion, and the line is named.
func TestG93NothingIsForwardedIntoHeadersOfTheProtocol(t *testing.T) {
	for _, name := range []string{"Accept-Encoding", "Accept", "Date", "Range", "If-Match", "Cache-Control", "Pragma", "Allow", "ETag"} {
		for option, want := range map[string]string{
			"forward " + name + " sub":  "forward " + name + ": a claim cannot be written into this header, at Caddyfile:3",
			"forward assertion " + name: "forward assertion " + name + ": an assertion cannot be written into this header, at Caddyfile:3",
		} {
			_, err := adapt("http://a.example {\nprotect {\n" + option + "\n}\n}\n")
			checkRefusal(t, err, "parsing caddyfile tokens for 'protect': "+want)
		}
	}
}
