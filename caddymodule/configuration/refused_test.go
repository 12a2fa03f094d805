package configuration

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// parsed reads the oauth blocks of a Caddyfile, whose name is Caddyfile, as the adapter does.
func parsed(text string) (*Block, error) {
	servers, err := caddyfile.Parse("Caddyfile", []byte(text))
	if err != nil || len(servers) == 0 {
		return nil, cmp.Or(err, errors.New("there is no block"))
	}
	b := new(Block)
	for _, segment := range servers[0].Segments {
		if err := b.UnmarshalCaddyfile(caddyfile.NewDispenser(segment)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// loaded reads the JSON of a block, as Caddy and Provision do.
func loaded(text string) (Settings, error) {
	b := new(Block)
	if err := caddy.StrictUnmarshalJSON([]byte(text), b); err != nil {
		return Settings{}, err
	}
	return b.Read()
}

// read reads a Caddyfile by way of its JSON.
func read(text string) (Settings, error) {
	b, err := parsed(text)
	if err != nil {
		return Settings{}, err
	}
	config, err := json.Marshal(b)
	if err != nil {
		return Settings{}, err
	}
	return loaded(string(config))
}

// whole returns an oauth block without an issuer, whose lines begin on line 3.
func whole(lines ...string) string { return "{\noauth {\n" + strings.Join(lines, "\n") + "\n}\n}\n" }

// withIssuer returns a Caddyfile in which the lines of an oauth block begin on line 3, before an issuer. A Caddyfile stays as it is.
func withIssuer(lines string) string {
	if strings.HasPrefix(lines, "{") {
		return lines
	}
	return whole(lines, "issuer https://a.example")
}

// refusal is a part of the configuration and the text of its error.
type refusal struct{ text, want string }

// factorUsage is the error for a line of second_factor on line 4.
const factorUsage = "write it as `second_factor required role <role>...`, or with group, organisation or everybody in place of role, at Caddyfile:4"

// peopleUsage is the error for a line of registration_of_people on line 3. peoplePassword and powerOf are two others.
const (
	peopleUsage    = "write it as `registration_of_people email_domain example.com` or `registration_of_people anybody`, at Caddyfile:3"
	peoplePassword = "people would choose a password, and nobody signs in with a password of ours: add `password` to sign_in"
	someMail       = "mail smtp://m.example:587 {\nfrom a@a.example\n}"
)

func powerOf(role string) string {
	return "role " + role + " has power over others, which nobody gets by registering: name another"
}

// acceptsOf are the six lines before an accept rule, and noHost is the error for a host of client_metadata on line 4.
const (
	acceptsOf = "scope deploy {\nserver_tokens\n}\ntrust ci https://ci.example {\naudience x\n}\n"
	noHost    = " is no host: write its name in lower case, without scheme, port and path, or *.example.com for all below it, at Caddyfile:4"
)

// refused are invalid forms of each setting: lines of the oauth block or a whole Caddyfile, with the whole error, and members of an app with
// an issuer in JSON, with a part of it. DIR is the directory of useFiles.
var refused = map[string]struct{ lines, json []refusal }{
	"issuer": {
		lines: []refusal{
			{`nonsense`, `unknown oauth option "nonsense", at Caddyfile:3`},
			{`issuer http://api.example.com`, `issuer "http://api.example.com" must be https: plain http is for loopback hosts only, at Caddyfile:3`},
			{`issuer https://a.example/`, `issuer "https://a.example/" must have no query, no fragment, no credentials and no trailing slash, at Caddyfile:3`},
			{`issuer https://a.example?x=1`, `issuer "https://a.example?x=1" must have no query, no fragment, no credentials and no trailing slash, at Caddyfile:3`},
			{`issuer https://a.example#f`, `issuer "https://a.example#f" must have no query, no fragment, no credentials and no trailing slash, at Caddyfile:3`},
			{`issuer https://u:p@a.example`, `issuer "https://u:p@a.example" must have no query, no fragment, no credentials and no trailing slash, at Caddyfile:3`},
			{`issuer api.example.com`, `issuer "api.example.com" is no URL: write it as https://api.example.com, at Caddyfile:3`},
			{`issuer ftp://a.example`, `issuer "ftp://a.example" must be https: plain http is for loopback hosts only, at Caddyfile:3`},
			{`issuer {http.request.host}`, `{http.request.host} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:3`},
			{`issuer ""`, `the value is empty; is a variable unset?, at Caddyfile:3`},
			{`audience ""`, `an audience must not be empty, at Caddyfile:3`},
			{`audience {http.request.host}`, `{http.request.host} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:3`},
			{`audience https://a.example {http.vars.x}`, `{http.vars.x} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:3`},
			{"audience https://b.example\naudience https://c.example {env.GATEHOUSE_TEST_UNSET}", `audience: evaluated placeholder {env.GATEHOUSE_TEST_UNSET} is empty, at Caddyfile:4`},
			{whole("client a s"), "issuer is missing: add `issuer https://…` to the oauth block, a provider to sign_in, or `trust …` for a gate that issues nothing, at Caddyfile:2"},
			{"{\noauth {\nscope x\n}\noauth {\nscope y\n}\n}\n", "issuer is missing: add `issuer https://…` to the oauth block, a provider to sign_in, or `trust …` for a gate that issues nothing, at Caddyfile:2"},
			{whole("scope x", "issuer {env.GATEHOUSE_TEST_UNSET}"), `issuer: evaluated placeholder {env.GATEHOUSE_TEST_UNSET} is empty, at Caddyfile:4`},
			{whole("issuer {env.GATEHOUSE_TEST_HTTP}"), `issuer "http://api.example.com" must be https: plain http is for loopback hosts only, at Caddyfile:3`},
		},
		json: []refusal{
			{`"audience":[""]`, "audience is missing"},
			{`"audience":["{http.request.host}"]`, "comes from the request"},
			{`"clint":[]`, `unknown field "clint"`},
		},
	},
	"store": {
		lines: []refusal{
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
			{`store sqlite ""`, `the store's path is empty; is a variable unset?, at Caddyfile:3`},
			{`store sqlite {http.request.uri.path}`, `{http.request.uri.path} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:3`},
			{`store file`, `unknown store "file": use sqlite, postgres or memory, at Caddyfile:3`},
			{"store sqlite {env.GATEHOUSE_TEST_UNSET}", `store path: evaluated placeholder {env.GATEHOUSE_TEST_UNSET} is empty, at Caddyfile:3`},
		},
		json: []refusal{
			{`"store":{"type":"postgres"}`, `store postgres needs a connection string`},
			{`"store":{"type":"postgres","dsn":"postgres://db/x","pool":4}`, "a pool of 4 is too small: use 5 or more"},
			{`"store":{"type":"postgres","dsn":"postgres://db/x","path":"x"}`, "store postgres has no path"},
			{`"store":{"type":"sqlite","dsn":"postgres://db/x"}`, "store sqlite has no dsn"},
			{`"store":{"type":"mysql"}`, `unknown store "mysql": use sqlite, postgres or memory`},
			{`"store":{"type":"memory","path":"x"}`, "store memory has no path"},
		},
	},
	"keys": {
		lines: []refusal{
			{"keys {\nalgorithm HS256\n}", `algorithm "HS256" is not supported: use ES256, RS256 or EdDSA, at Caddyfile:4`},
			{"keys {\nalgorithm PS256\n}", `algorithm "PS256" is not supported: use ES256, RS256 or EdDSA, at Caddyfile:4`},
			{"keys {\nalgorithm none\n}", `algorithm "none" is not supported: use ES256, RS256 or EdDSA, at Caddyfile:4`},
			{"keys {\nencrypt_with 0123456789abcdef0123456789abcdef\n}", `encrypt_with must not stand in the configuration: use {env.NAME} or {file./path}, at Caddyfile:4`},
			{"keys {\nencrypt_with {http.request.header.k}\n}", `{http.request.header.k} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:4`},
			{"keys {\nencrypt_with {env.A}\nencrypt_with {env.B}\n}", `encrypt_with is set twice, at Caddyfile:5`},
			{"keys {\nencrypt_with {env.A} {http.request.header.k}\n}", `{http.request.header.k} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:4`},
			{"keys {\nencrypt_with {env.A} \"\"\n}", `the value is empty; is a variable unset?, at Caddyfile:4`},
			{"keys {\nencrypt_with {env.A} 0123456789abcdef0123456789abcdef\n}", `encrypt_with must not stand in the configuration: use {env.NAME} or {file./path}, at Caddyfile:4`},
			{"keys {\nrotate soon\n}", `"soon" is no duration: write it as 90s, 15m, 2h or 28d, at Caddyfile:4`},
			{"keys {\nrotate 59m\n}", `rotate 59m0s: use 1h or more, or off, at Caddyfile:4`},
			{"keys {\nrotate 0\n}", `rotate 0s: use 1h or more, or off, at Caddyfile:4`},
			{"keys {\nrotate -90d\n}", `rotate -2160h0m0s: use 1h or more, or off, at Caddyfile:4`},
			{"keys {\nnonsense\n}", `unknown keys option "nonsense", at Caddyfile:4`},
			{"keys {\nencrypt_with half{env.KEK}\n}", `encrypt_with must not stand in the configuration: use {env.NAME} or {file./path}, at Caddyfile:4`},
			{"keys {\nencrypt_with {env.GATEHOUSE_TEST_UNSET}\n}", `encrypt_with: evaluated placeholder {env.GATEHOUSE_TEST_UNSET} is empty, at Caddyfile:4`},
			{"keys {\nencrypt_with {file.DIR/missing}\n}", `encrypt_with: {file.DIR/missing}: open DIR/missing: no such file or directory, at Caddyfile:4`},
			{"keys {\nencrypt_with {file.DIR/short}\n}", "encrypt_with: a key-encryption key has 32 bytes: make one with `openssl rand -base64 32`, at Caddyfile:4"},
			{"keys {\nencrypt_with {file.DIR/empty}\n}", `encrypt_with: {file.DIR/empty}: the file is empty, at Caddyfile:4`},
		},
		json: []refusal{
			{`"keys":{"algorithm":"HS256"}`, `algorithm "HS256" is not supported`},
			{`"keys":{"algorithm":"PS256"}`, `algorithm "PS256" is not supported`},
			{`"keys":{"algorithm":"none"}`, `algorithm "none" is not supported`},
			{`"keys":{"algorithm":"es256"}`, `algorithm "es256" is not supported`},
			{`"keys":{"rotate":"59m"}`, "keys: rotate 59m0s: use 1h or more, or off"},
			{`"keys":{"rotate":-1}`, "keys: rotate -1ns: use 1h or more, or off"},
			{`"keys":{"decrypt_with":["{env.A}"]}`, "keys: decrypt_with needs encrypt_with"},
			{`"keys":{"encrypt_with":"{env.HOME}","decrypt_with":["abc"]}`, "encrypt_with must not stand in the configuration"},
		},
	},
	"tokens": {
		lines: []refusal{
			{"tokens {\nclient_credentials soon\n}", `"soon" is no duration: write it as 90s, 15m, 2h or 28d, at Caddyfile:4`},
			{"tokens {\nclient_credentials 36d\n}", `token lifetime client_credentials 864h0m0s: use 1s to 35d, at Caddyfile:4`},
			{"tokens {\nclient_credentials 0s\n}", `token lifetime client_credentials 0s: use at least 1s, at Caddyfile:4`},
			{"tokens {\nclient_credentials -1h\n}", `token lifetime client_credentials -1h0m0s: use 1s to 35d, at Caddyfile:4`},
			{"tokens {\nclient_credentials 500ms\n}", `token lifetime client_credentials 500ms: use 1s to 35d, at Caddyfile:4`},
			{"tokens {\nnonsense 2h\n}", `unknown token lifetime "nonsense", at Caddyfile:4`},
			{"tokens {\nrefresh 401d\n}", `token lifetime refresh 9624h0m0s: use 1s to 400d, at Caddyfile:4`},
			{"tokens {\nrefresh 0\n}", `token lifetime refresh 0s: use at least 1s, at Caddyfile:4`},
			{"tokens {\nrefresh_idle 401d\n}", `token lifetime refresh_idle 9624h0m0s: use 1s to 400d, at Caddyfile:4`},
			{"tokens {\nrefresh_grace 6m\n}", `token lifetime refresh_grace 6m0s: use 0 to 5m, at Caddyfile:4`},
			{"tokens {\nrefresh_grace -1s\n}", `token lifetime refresh_grace: use 0 to 5m, at Caddyfile:4`},
			{"tokens {\nrefresh_grace -1ns\n}", `token lifetime refresh_grace: use 0 to 5m, at Caddyfile:4`},
			{"tokens {\nrefresh_grace off\n}", `"off" is no duration: write it as 90s, 15m, 2h or 28d, at Caddyfile:4`},
			{"tokens {\nrefresh_grace 30s same\n}", `unknown option "same" of refresh_grace: use same_address, at Caddyfile:4`},
			{"tokens {\nrefresh_grace same_address\n}", `"same_address" is no duration: write it as 90s, 15m, 2h or 28d, at Caddyfile:4`},
			{"tokens {\nrefresh_grace 0 same_address\n}", `token lifetime refresh_grace: 0 refuses every repeat, leave same_address out, at Caddyfile:4`},
			{"tokens {\ncode 11m\n}", `token lifetime code 11m0s: use 1s to 10m, at Caddyfile:4`},
			{"tokens {\ncode 500ms\n}", `token lifetime code 500ms: use 1s to 10m, at Caddyfile:4`},
			{"password_grant {\nnonsense\n}", `unknown password_grant option "nonsense", at Caddyfile:4`},
		},
		json: []refusal{
			{`"tokens":{"password":"36d"}`, "token lifetime password 864h0m0s: use 1s to 35d"},
			{`"tokens":{"password":-1}`, "token lifetime password -1ns: use 1s to 35d"},
			{`"tokens":{"refresh_grace":-1}`, "token lifetime refresh_grace: use 0 to 5m"},
			{`"tokens":{"refresh_grace":"6m"}`, "token lifetime refresh_grace 6m0s: use 0 to 5m"},
			{`"password_grant":{"refresh":true}`, `unknown field "refresh"`},
		},
	},
	"sessions": {
		lines: []refusal{
			{"sessions {\nidle soon\n}", `"soon" is no duration: write it as 90s, 15m, 2h or 28d, at Caddyfile:4`},
			{"sessions {\nidle 0\n}", `sessions idle 0s: use 10m to 400d, at Caddyfile:4`},
			{"sessions {\nidle 599s\n}", `sessions idle 9m59s: use 10m to 400d, at Caddyfile:4`},
			{"sessions {\nmax -1h\n}", `sessions max -1h0m0s: use 10m to 400d, at Caddyfile:4`},
			{"sessions {\nmax 401d\n}", `sessions max 9624h0m0s: use 10m to 400d, at Caddyfile:4`},
			{"sessions {\nlongest 8h\n}", `unknown sessions option "longest", at Caddyfile:4`},
			{"sessions {\nidle 9h\nmax 8h\n}", `sessions idle 9h0m0s: no session lives longer than max, which is 8h0m0s, at Caddyfile:3`},
			{"sessions {\nidle 31d\n}", `sessions idle 744h0m0s: no session lives longer than max, which is 720h0m0s, at Caddyfile:3`},
		},
		json: []refusal{
			{`"sessions":{"idle":-1}`, "sessions idle -1ns: use 10m to 400d"},
			{`"sessions":{"max":"401d"}`, "sessions max 9624h0m0s: use 10m to 400d"},
			{`"sessions":{"longest":"8h"}`, `unknown field "longest"`},
		},
	},
	"scope": {
		lines: []refusal{
			{`scope "a b"`, `scope "a b": use one name of visible ASCII without quotes and backslashes, at Caddyfile:3`},
			{`scope a"b`, `scope "a\"b": use one name of visible ASCII without quotes and backslashes, at Caddyfile:3`},
			{"scope s\nscope s", `scope s is set twice, at Caddyfile:4`},
			{"scope s {\nnonsense\n}", `unknown scope option "nonsense", at Caddyfile:4`},
		},
		json: []refusal{
			{`"scopes":[{"name":"a b"}]`, `scope "a b": use one name`},
			{`"scopes":[{"name":"a"},{"name":"a"}]`, `scope "a" is declared twice`},
			{`"scopes":[{"name":"trusted","server_tokens":true}]`, `scope "trusted" acts for a user: a server token cannot hold it`},
		},
	},
	"client": {
		lines: []refusal{
			{`client a`, `client a: a confidential client needs a secret, or keys of its own: jwks or jwks_uri, at Caddyfile:3`},
			{`client a ""`, `client a: the secret is empty; is a variable unset?, at Caddyfile:3`},
			{`client a {$UNSET_X}`, `client a: a confidential client needs a secret, or keys of its own: jwks or jwks_uri, at Caddyfile:3`},
			{`client a "-----BEGIN PRIVATE KEY-----"`, `client a: this is a PEM file, not a client secret, at Caddyfile:3`},
			{`client a env.SECRET`, `client a: "env.SECRET" looks like a placeholder without its braces: write {env.SECRET}, at Caddyfile:3`},
			{`client a {http.request.header.x}`, `{http.request.header.x} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:3`},
			{"client a {file.x} {\ntype wide\n}", `client a: unknown client type "wide": use confidential, public or native, at Caddyfile:4`},
			{"client a s {\nname \"\"\n}", `the value is empty; is a variable unset?, at Caddyfile:4`},
			{"client a s {\ngrants implicit\n}", `client a: unknown grant "implicit": use client_credentials, authorization_code, refresh_token, password, urn:ietf:params:oauth:grant-type:jwt-bearer, urn:ietf:params:oauth:grant-type:token-exchange, urn:ietf:params:oauth:grant-type:device_code, at Caddyfile:4`},
			{"client a s {\nredirect_uris /callback\n}", `client a: redirect URI "/callback": use an absolute URI, at Caddyfile:4`},
			{"client a s {\nredirect_uris https://x.example/#f\n}", `client a: redirect URI "https://x.example/#f": fragments, credentials, spaces, backslashes and control characters are not allowed, at Caddyfile:4`},
			{"client a s {\nredirect_uris javascript:alert(1)\n}", `client a: redirect URI "javascript:alert(1)": scheme "javascript" is not allowed, at Caddyfile:4`},
			{"client a s {\nredirect_uris https://u:p@x.example/\n}", `client a: redirect URI "https://u:p@x.example/": fragments, credentials, spaces, backslashes and control characters are not allowed, at Caddyfile:4`},
			{"client a s {\nredirect_uris https://x.example/?code=1\n}", `client a: redirect URI "https://x.example/?code=1": the query must not hold "code": the answer sets it, at Caddyfile:4`},
			{"client a s {\nredirect_uris https:///x\n}", `client a: redirect URI "https:///x": the host is missing, at Caddyfile:4`},
			{"client a s {\npkce plain\n}", `client a: pkce "plain": use required or optional, or leave it out, at Caddyfile:4`},
			{"pkce off", `pkce "off": use required, or leave it out, at Caddyfile:3`},
			{"client a s {\nsecret x\n}", `unknown client option "secret", at Caddyfile:4`},
			{"client a s {\ntokens {\nclient_credentials 36d\n}\n}", `token lifetime client_credentials 864h0m0s: use 1s to 35d, at Caddyfile:5`},
			{"client a s {\ntokens {\nnonsense 1h\n}\n}", `unknown token lifetime "nonsense", at Caddyfile:5`},
			{"client a s\nclient a t", `client a is set twice, at Caddyfile:4`},
			{`client a x{env.A}`, `client a: a placeholder must be the whole secret, at Caddyfile:3`},
			{"client a s {\nnonsense\n}", `unknown client option "nonsense", at Caddyfile:4`},
			{`client "" s`, `client : client id: use 1 to 255 bytes of text without control characters, at Caddyfile:3`},
			{"client a s {\nredirect_uris \"https://x.example/a b\"\n}", `client a: redirect URI "https://x.example/a b": fragments, credentials, spaces, backslashes and control characters are not allowed, at Caddyfile:4`},
			{"client a s {\ngrants client_credentials refresh\n}", `client a: unknown grant "refresh": use client_credentials, authorization_code, refresh_token, password, urn:ietf:params:oauth:grant-type:jwt-bearer, urn:ietf:params:oauth:grant-type:token-exchange, urn:ietf:params:oauth:grant-type:device_code, at Caddyfile:4`},
			{"client a s {\ntokens {\nrefresh_grace 6m\n}\n}", `token lifetime refresh_grace 6m0s: use 0 to 5m, at Caddyfile:5`},
			{"client a s {\ntokens {\ncode 0\n}\n}", `token lifetime code 0s: use at least 1s, at Caddyfile:5`},
			{"client a {env.GATEHOUSE_TEST_UNSET}", `client "a": secret: evaluated placeholder {env.GATEHOUSE_TEST_UNSET} is empty, at Caddyfile:3`},
			{"client a {env.GATEHOUSE_TEST_EMPTY}", `client "a": secret: evaluated placeholder {env.GATEHOUSE_TEST_EMPTY} is empty, at Caddyfile:3`},
			{"client a {file.DIR/missing}", `client "a": secret: {file.DIR/missing}: open DIR/missing: no such file or directory, at Caddyfile:3`},
			{"client a {file.DIR}", `client "a": secret: {file.DIR}: read DIR: is a directory, at Caddyfile:3`},
			{"client a {file.DIR/empty}", `client "a": secret: {file.DIR/empty}: the file is empty, at Caddyfile:3`},
			{"client a {file.DIR/pem}", `client "a": secret: this is a PEM file, not a client secret, at Caddyfile:3`},
			{"client a {env.GATEHOUSE_TEST_PEM}", `client "a": secret: this is a PEM file, not a client secret, at Caddyfile:3`},
			{"client a {nobody.knows}", `client "a": secret: unrecognized placeholder {nobody.knows}, at Caddyfile:3`},
			{"client a s {\nscopes orders\n}", `client "a": unknown scope "orders": declare it first, at Caddyfile:4`},
			{"client a s {\nredirect_uris https://a.example/\nredirect_uris /b\n}", `client a: redirect URI "/b": use an absolute URI, at Caddyfile:5`},
			{"client a s {\nscopes public\nscopes trusted orders.write\n}", `client "a": unknown scope "orders.write": declare it first, at Caddyfile:5`},
			{"scope b.read\nclient a s {\nscopes b.read\n}\nclient b s {\nscopes a.read\n}", `client "b": unknown scope "a.read": declare it first, at Caddyfile:8`},
			{"client a s {\nscopes public,trusted\n}", `client "a": unknown scope "public,trusted": declare it first, at Caddyfile:4`},
			{"session_scopes trusted\nsession_scopes public orders.write", `session_scopes: unknown scope "orders.write": declare it first, at Caddyfile:4`},
			{"session_scopes public,trusted", `session_scopes: unknown scope "public,trusted": declare it first, at Caddyfile:3`},
			{"session_scopes refresh_token", `session_scopes refresh_token: a session needs no refresh token, at Caddyfile:3`},
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
	},
	"openid": {
		lines: []refusal{
			{"openid {\nnonsense\n}", `openid has no option "nonsense", at Caddyfile:4`},
			{"client a s {\nid_token_alg HS256\n}", `client a: id_token_signed_response_alg: algorithm "HS256" is not supported: use ES256, RS256 or EdDSA, at Caddyfile:4`},
			{"client a s {\nid_token_alg none\n}", `client a: id_token_signed_response_alg: algorithm "none" is not supported: use ES256, RS256 or EdDSA, at Caddyfile:4`},
			{"client a s {\npost_logout_redirect_uris https://a.example/bye /bye\n}", `client a: post-logout redirect URI "/bye": use an absolute URI, at Caddyfile:4`},
			{"client a s {\npost_logout_redirect_uris https://*.a.example/bye\n}", `client a: post-logout redirect URI "https://*.a.example/bye": a * stands for nothing, because redirect URIs are compared byte for byte: name each of them, at Caddyfile:4`},
			{"client a s {\npost_logout_redirect_uris javascript:alert(1)\n}", `client a: post-logout redirect URI "javascript:alert(1)": scheme "javascript" is not allowed, at Caddyfile:4`},
			{"client a s {\nbackchannel_logout_uri /bye\n}", `client a: backchannel_logout_uri "/bye": use an absolute URL, at Caddyfile:4`},
			{"client a s {\nbackchannel_logout_uri https://a.example/bye#x\n}", `client a: backchannel_logout_uri "https://a.example/bye#x": credentials and fragments are not allowed, at Caddyfile:4`},
			{"client a s {\nbackchannel_logout_uri https://u:p@a.example/bye\n}", `client a: backchannel_logout_uri "https://u:p@a.example/bye": credentials and fragments are not allowed, at Caddyfile:4`},
			{"client a s {\nbackchannel_logout_uri http://a.example/bye\n}", `client a: backchannel_logout_uri "http://a.example/bye": use https, or http on loopback, at Caddyfile:4`},
			{"client a s {\nbackchannel_logout_session_required\n}", `client a: backchannel_logout_session_required needs a backchannel_logout_uri, at Caddyfile:3`},
			{"client a {\ntype public\nredirect_uris https://a.example/\npkce optional\n}", `client a: pkce optional is for confidential clients: only the code_challenge protects the code of a client without a secret, at Caddyfile:3`},
			{"pkce optional", `pkce "optional": use required, or leave it out, at Caddyfile:3`},
			{"client a s {\nid_token_alg ES256\n}", "client \"a\": id_token_alg is for OpenID Connect: add `openid` to the oauth block, at Caddyfile:3"},
			{"client a s {\npost_logout_redirect_uris https://a.example/\n}", "client \"a\": post_logout_redirect_uris is for OpenID Connect: add `openid` to the oauth block, at Caddyfile:3"},
			{"client a s {\nbackchannel_logout_uri https://a.example/\n}", "client \"a\": backchannel_logout_uri is for OpenID Connect: add `openid` to the oauth block, at Caddyfile:3"},
			{"client a s {\npkce optional\n}", "client \"a\": pkce optional is for OpenID Connect: add `openid` to the oauth block, at Caddyfile:3"},
		},
		json: []refusal{
			{`"openid":{"nonsense":1}`, `unknown field "nonsense"`},
			{`"openid":{},"clients":[{"id":"a","secret":"s","id_token_signed_response_alg":"HS256"}]`, `client "a": id_token_signed_response_alg: algorithm "HS256" is not supported`},
			{`"openid":{},"clients":[{"id":"a","secret":"s","backchannel_logout_uri":"http://10.0.0.1/"}]`, `client "a": backchannel_logout_uri "http://10.0.0.1/": use https, or http on loopback`},
			{`"openid":{},"clients":[{"id":"a","secret":"s","pkce":"plain"}]`, `pkce "plain": use required or optional`},
		},
	},
	"console": {
		lines: []refusal{
			{"console {\nroles operator\n}", `unknown console option "roles", at Caddyfile:4`},
			{"passkeys off\nconsole", "console: operators sign in with a second factor, and there is none that they could add: write `totp`, at Caddyfile:4"},
			{"totp\nconsole {\nrole boss\n}", "console: role \"boss\" is not declared: write `role boss \"…\"` in the oauth block, beside the roles of other users, at Caddyfile:4"},
			{"totp\nrole operator\nconsole {\norganisation_role operator\n}", "console: role operator is both a role and an organisation_role: take one of them out, at Caddyfile:5"},
			{"totp\nrole operator\nrole owner manages member operator\nrole member\nconsole {\norganisation_role owner\n}",
				"console: role owner manages operator, so its users could make operators of everything: take operator out of its `manages`, or owner out of organisation_role, at Caddyfile:7"},
		},
	},
	"accept": {
		lines: []refusal{
			{acceptsOf + "accept other {\nclaims a b\nsubject x:{a}\nscopes deploy\n}", "accept other: no `trust` has that name: add `trust other <issuer>`, at Caddyfile:9"},
			{acceptsOf + "accept ci {\nsubject x:{a}\nscopes deploy\n}", `accept ci: claims is missing: say which of the issuer's tokens are meant, for it makes tokens for others too, at Caddyfile:9`},
			{acceptsOf + "accept ci {\nclaims a **\nsubject x:{a}\nscopes deploy\n}", `accept ci: claims a: "**" fits anything: say what the claim must be, at Caddyfile:9`},
			{acceptsOf + "accept ci {\nclaims a b\nscopes deploy\n}", `accept ci: say whom the tokens are for: subject or client, one of the two, at Caddyfile:9`},
			{acceptsOf + "accept ci {\nclaims a b\nsubject x:{a}\nclient y\nscopes deploy\n}", `accept ci: say whom the tokens are for: subject or client, one of the two, at Caddyfile:9`},
			{acceptsOf + "accept ci {\nclaims a b\nsubject x:{a}\n}", `accept ci: scopes is missing: say what the tokens may do, at Caddyfile:9`},
			{acceptsOf + "accept ci {\nclaims a b\nsubject {a}\nscopes deploy\n}", `subject "{a}": begin with a text and a colon, as in github:{repository}, so that no claim can name somebody else, at Caddyfile:11`},
			{acceptsOf + "accept ci {\nclaims a b\nsubject x:{a}{b}\nscopes deploy\n}", `subject "x:{a}{b}": put a text between two claims, at Caddyfile:11`},
			{acceptsOf + "accept ci {\nclaims a b\nsubject x:{a}\nscopes nothing\n}", `accept ci: unknown scope "nothing": declare it first, at Caddyfile:9`},
			{acceptsOf + "accept ci {\nclaims a b\nsubject x:{a}\nscopes trusted\n}", `accept ci: scope "trusted" is none that a server token can hold, at Caddyfile:9`},
			{acceptsOf + "accept ci {\nclaims a b\ntyp logout+jwt\nsubject x:{a}\nscopes deploy\n}", `typ "logout+jwt" is not that of an access token: use at+jwt, JWT or none, at Caddyfile:11`},
			{acceptsOf + "accept ci {\nclaims a b\nlink verified_email\nclient y\n}", `accept ci: link is for people: it goes with id_jag, at Caddyfile:9`},
			{acceptsOf + "accept ci {\nid_jag\nsubject x:{a}\n}", `accept ci: with id_jag the token says who it is for, and its typ is given: leave subject, client and typ out, at Caddyfile:9`},
			{acceptsOf + "accept ci {\nid_jag\nlink always\n}", `link "always": the one word for it is verified_email, at Caddyfile:11`},
			{acceptsOf + "accept ci {\nwhatever\n}", `unknown accept option "whatever", at Caddyfile:10`},
		},
	},
	"may_exchange": {
		lines: []refusal{
			{"client c x {\nmay_exchange\n}", `wrong argument count or unexpected line ending after 'may_exchange', at Caddyfile:4`},
			{"client c x {\nmay_exchange a {\nto b\n}\n}", `unknown may_exchange option "to", at Caddyfile:5`},
			{"client c {\ntype public\nmay_exchange a\n}", `client c: may_exchange is for confidential clients: anybody can say to be a public one, at Caddyfile:3`},
			{"client c x {\ngrants urn:ietf:params:oauth:grant-type:token-exchange\n}", `client c: the grant urn:ietf:params:oauth:grant-type:token-exchange needs a rule that says what the client may exchange: add may_exchange, at Caddyfile:3`},
			{"client c x {\nmay_exchange https://a.example/\n}", `client "c": may_exchange https://a.example/: this is our issuer's own audience, with which a service could act as the caller everywhere: name that service alone, at Caddyfile:3`},
			{"client c x {\nmay_exchange a {\nscopes nothing\n}\n}", `client "c": may_exchange: unknown scope "nothing": declare it first, at Caddyfile:3`},
		},
	},
	"client_metadata": {
		lines: []refusal{
			{"client_metadata on", "write `client_metadata off`, or a block, at Caddyfile:3"},
			{"client_metadata off\nclient_metadata", `client_metadata is set twice, at Caddyfile:4`},
			{"client_metadata {\nallow https://claude.ai\n}", `"https://claude.ai"` + noHost},
			{"client_metadata {\nallow *\n}", `"*"` + noHost},
			{"client_metadata {\ndeny Claude.ai\n}", `"Claude.ai"` + noHost},
			{"client_metadata {\ndeny claude.ai:443\n}", `"claude.ai:443"` + noHost},
			{"client_metadata {\ndeny *.*.example\n}", `"*.*.example"` + noHost},
			{"client_metadata {\nscopes nobody:knows\n}", `client_metadata: unknown scope "nobody:knows": declare it first, at Caddyfile:4`},
			{"client_metadata {\npermit all\n}", `client_metadata has no option "permit", at Caddyfile:4`},
		},
	},
	"registration": {
		lines: []refusal{
			{"registration {\ninitial_access_token written-out-token-1\n}", `give the initial_access_token as {env.NAME} or {file./path}: Caddy keeps what stands here in the clear, at Caddyfile:4`},
			{"registration {\ninitial_access_token {file.DIR/short}\n}", `registration: initial_access_token: use at least 16 characters, at Caddyfile:3`},
			{"registration {\nmax_clients none\n}", `max_clients "none": use a number of clients, at Caddyfile:4`},
			{"registration {\nmax_clients 0\n}", `max_clients "0": use a number of clients, at Caddyfile:4`},
			{"registration {\nlimit 5\n}", "write a limit as `limit 20/1h per ip`, or as `limit off`, at Caddyfile:4"},
			{"registration {\nscopes nobody:knows\n}", `registration: unknown scope "nobody:knows": declare it first, at Caddyfile:4`},
			{"registration {\npermit all\n}", `registration has no option "permit", at Caddyfile:4`},
		},
	},
	"registration of people": {
		lines: []refusal{
			{"registration_of_people", peopleUsage}, {"registration_of_people everybody", peopleUsage}, {"registration_of_people example.com", peopleUsage},
			{"registration_of_people email_domain", "wrong argument count or unexpected line ending after 'email_domain', at Caddyfile:3"},
			{"registration_of_people anybody else", "wrong argument count or unexpected line ending after 'else', at Caddyfile:3"},
			{"registration_of_people email_domain Example.com", `domain "Example.com": write it as "example.com", at Caddyfile:3`},
			{"registration_of_people email_domain *.example.com", `"*.example.com" cannot stand behind the @ of an e-mail address: write a domain, as example.com, at Caddyfile:3`},
			{"registration_of_people email_domain @example.com", `"@example.com" cannot stand behind the @ of an e-mail address: write a domain, as example.com, at Caddyfile:3`},
			{"registration_of_people email_domain {env.DOMAIN}", `"{env.DOMAIN}" cannot stand behind the @ of an e-mail address: write a domain, as example.com, at Caddyfile:3`},
			{"registration_of_people email_domain a.example\nregistration_of_people email_domain b.example a.example", "registration_of_people: the domain a.example is there twice, at Caddyfile:4"},
			{"registration_of_people anybody\nregistration_of_people anybody", "registration_of_people: anybody is there twice, at Caddyfile:4"},
			{"registration_of_people anybody {\nmanager yes\n}", `registration_of_people has no option "manager", at Caddyfile:4`},
			{"registration_of_people anybody {\nrole member\nrole member\n}", "role is set twice, at Caddyfile:5"},
			{"registration_of_people anybody {\norganisation \"\"\n}", "the value is empty; is a variable unset?, at Caddyfile:4"},
			{"registration_of_people anybody {\ngroups a,b\n}", `group "a,b": use 1 to 64 bytes of printable text without commas and without spaces around it, at Caddyfile:4`},
			{"registration_of_people anybody", "registration_of_people: a letter proves the address: add `mail`, at Caddyfile:3"},
			{"sign_in {\ngithub hub {\nclient a s3cret\n}\n}\nregistration_of_people anybody\n" + someMail, "registration_of_people: " + peoplePassword + ", at Caddyfile:8"},
			{"sign_in {\nldap corp ldaps://ldap.example {\nuser_base dc=x\nuser_filter (mail={email})\n}\n}\nregistration_of_people anybody\n" + someMail, "registration_of_people: " + peoplePassword + ", at Caddyfile:9"},
			{someMail + "\nregistration_of_people anybody {\nrole boss\n}", "registration_of_people: unknown role \"boss\": use admin, group_manager, business_manager or member, at Caddyfile:6"},
			{someMail + "\nregistration_of_people email_domain b.example\nregistration_of_people email_domain a.example {\nrole admin\n}", "registration_of_people: " + powerOf("admin") + ", at Caddyfile:7"},
			{someMail + "\nrole operator\nregistration_of_people anybody {\nrole operator\n}", "registration_of_people: " + powerOf("operator") + ", at Caddyfile:7"},
			{someMail + "\nrole guest\nrole member manages guest\nregistration_of_people anybody", "registration_of_people: " + powerOf("member") + ", at Caddyfile:8"},
			{whole("registration_of_people anybody", "trust corp https://l.example {\naudience a\n}"), "registration_of_people needs an issuer: add `issuer https://…` to the oauth block, at Caddyfile:2"},
		},
		json: []refusal{
			{`"mail":{"url":"smtp://m.example:587","from":"a@a.example"},"registration_of_people":[{}]`, "say for whom: email_domain or anybody, and not both"},
			{`"mail":{"url":"smtp://m.example:587","from":"a@a.example"},"registration_of_people":[{"anybody":true,"email_domains":["a.example"]}]`, "say for whom: email_domain or anybody, and not both"},
			{`"mail":{"url":"smtp://m.example:587","from":"a@a.example"},"registration_of_people":[{"email_domains":["A.example"]}]`, `write it as "a.example"`},
			{`"mail":{"url":"smtp://m.example:587","from":"a@a.example"},"registration_of_people":[{"anybody":true,"groups":[""]}]`, `group ""`},
			{`"mail":{"url":"smtp://m.example:587","from":"a@a.example"},"registration_of_people":[{"anybody":true},{"anybody":true}]`, `anybody is there twice`},
			{`"registration_of_people":[{"anybody":true,"users":1}]`, `unknown field "users"`},
		},
	},
	"factors": {
		lines: []refusal{
			{"passkeys off\nsecond_factor required everybody", `second_factor: there is none that people could add: write ` + "`totp`" + `, at Caddyfile:4`},
			{whole("issuer http://127.0.0.1", "second_factor required everybody"), `second_factor: there is none that people could add: write ` + "`totp`" + `, at Caddyfile:4`},
			{"passkeys\npasskeys off", "passkeys is set twice, at Caddyfile:4"},
			{"passkeys on", "passkeys \"on\": write `passkeys`, or `passkeys off`, at Caddyfile:3"},
			{"passkeys off now", "wrong argument count or unexpected line ending after 'now', at Caddyfile:3"},
			{"passkeys {\nattestation direct\n}", "passkeys has no option \"attestation\", at Caddyfile:4"},
			{"passkeys {\nrelying_party\n}", "wrong argument count or unexpected line ending after 'relying_party', at Caddyfile:4"},
			{"passkeys {\nrelying_party b.example\n}", "passkeys: relying_party \"b.example\": use the issuer's host, a.example, or a parent domain of it, in lower case, at Caddyfile:3"},
			{"passkeys {\nrelying_party x.a.example\n}", "passkeys: relying_party \"x.a.example\": use the issuer's host, a.example, or a parent domain of it, in lower case, at Caddyfile:3"},
			{"passkeys {\nrelying_party ample\n}", "passkeys: relying_party \"ample\": use the issuer's host, a.example, or a parent domain of it, in lower case, at Caddyfile:3"},
			{"passkeys {\nrelying_party A.EXAMPLE\n}", "passkeys: relying_party \"A.EXAMPLE\": use the issuer's host, a.example, or a parent domain of it, in lower case, at Caddyfile:3"},
			{"passkeys {\nrelying_party example\n}", "passkeys: relying_party example: many sites share this public suffix, and browsers make no passkeys for it: use a domain of your own below it, at Caddyfile:3"},
			{whole("issuer https://ada.github.io", "passkeys {\nrelying_party github.io\n}"), "passkeys: relying_party github.io: many sites share this public suffix, and browsers make no passkeys for it: use a domain of your own below it, at Caddyfile:4"},
			{whole("issuer https://auth.example.co.uk", "passkeys {\nrelying_party co.uk\n}"), "passkeys: relying_party co.uk: many sites share this public suffix, and browsers make no passkeys for it: use a domain of your own below it, at Caddyfile:4"},
			{whole("issuer http://127.0.0.1:80", "passkeys"), "passkeys: browsers offer none at http://127.0.0.1:80: use a domain with https, or localhost by that name, at Caddyfile:4"},
			{whole("issuer https://192.0.2.7", "passkeys {\nrelying_party 2.7\n}"), "passkeys: browsers offer none at https://192.0.2.7: use a domain with https, or localhost by that name, at Caddyfile:4"},
			{whole("passkeys", "trust corp https://l.example {\naudience a\n}"), "passkeys needs an issuer: add `issuer https://…` to the oauth block, at Caddyfile:2"},
			{"totp\nsecond_factor required role nobody", `second_factor: role "nobody" is not declared, at Caddyfile:4`},
			{"totp\nsecond_factor required role member\nsecond_factor required role nobody", `second_factor: role "nobody" is not declared, at Caddyfile:4`},
			{"totp\nsecond_factor", factorUsage},
			{"totp\nsecond_factor required", factorUsage},
			{"totp\nsecond_factor optional everybody", factorUsage},
			{"totp\nsecond_factor required role", factorUsage},
			{"totp\nsecond_factor required group", factorUsage},
			{"totp\nsecond_factor required organisation", factorUsage},
			{"totp\nsecond_factor required everybody else", factorUsage},
			{"totp\nsecond_factor required user u-ada", factorUsage},
			{"totp\nsecond_factor required group \"\"", `second_factor: group "": use 1 to 64 bytes of printable text without commas and without spaces around it, at Caddyfile:4`},
			{"totp\nsecond_factor required organisation \"\"", `second_factor: organisation id: use 1 to 255 bytes of text without control characters, at Caddyfile:4`},
			{"totp on", `wrong argument count or unexpected line ending after 'on', at Caddyfile:3`},
			{whole("totp", "trust corp https://l.example {\naudience a\n}"), "totp needs an issuer: add `issuer https://…` to the oauth block, at Caddyfile:2"},
			{whole("totp", "second_factor required everybody", "trust corp https://l.example {\naudience a\n}"), "totp needs an issuer: add `issuer https://…` to the oauth block, at Caddyfile:2"},
		},
		json: []refusal{
			{`"passkeys":{"off":true},"second_factor":{"everybody":true}`, "write `totp`"},
			{`"passkeys":{"relying_party":"{env.UNSET_FOR_TESTS}"}`, "passkeys: relying_party"},
			{`"totp":true,"second_factor":{"roles":["nobody"]}`, `role "nobody" is not declared`},
			{`"totp":true,"second_factor":{"roles":[""]}`, `role "" is not declared`},
			{`"totp":true,"second_factor":{"users":["u-ada"]}`, `unknown field "users"`},
			{`"totp":true,"second_factor":{}`, `second_factor: nobody needs one`},
			{`"totp":true,"second_factor":{"groups":["a","b,c"]}`, `second_factor: group "b,c"`},
			{`"totp":true,"second_factor":{"organisations":[""]}`, `second_factor: organisation id`},
			{`"totp":"yes"`, `cannot unmarshal string`},
		},
	},
	"people": {
		lines: []refusal{
			{`organisation ""`, `organisation : organisation id: use 1 to 255 bytes of text without control characters, at Caddyfile:3`},
			{`organisation a ""`, `organisation a: the name is empty; is a variable unset?, at Caddyfile:3`},
			{`organisation a "  "`, `organisation a: organisation name: write more than spaces, or leave it out, at Caddyfile:3`},
			{`organisation a ` + strings.Repeat("x", 256), `organisation a: organisation name: use at most 255 bytes of text without control characters, at Caddyfile:3`},
			{"organisation a\norganisation a A", `organisation a is set twice, at Caddyfile:4`},
			{"user \"\" {\nemail a@b.example\npassword " + adaHash + "\norganisation acme\n}", `user : user id: use 1 to 255 bytes of text without control characters, at Caddyfile:3`},
			{"user u-ada {\npassword " + adaHash + "\norganisation acme\n}", `user u-ada: "" is no e-mail address: write it as ada@example.com, at Caddyfile:3`},
			{"user u-ada {\nemail ada\n}", `user u-ada: "ada" is no e-mail address: write it as ada@example.com, at Caddyfile:4`},
			{"user u-ada {\nemail Ada@Acme.Example\n}", `user u-ada: e-mail address "Ada@Acme.Example": write it as "ada@acme.example", at Caddyfile:4`},
			{`role ""`, `role "": use 1 to 64 bytes of printable text without commas and without spaces around it, at Caddyfile:3`},
			{`role a,b`, `role "a,b": use 1 to 64 bytes of printable text without commas and without spaces around it, at Caddyfile:3`},
			{`role ` + strings.Repeat("x", 65), `role "` + strings.Repeat("x", 65) + `": use 1 to 64 bytes of printable text without commas and without spaces around it, at Caddyfile:3`},
			{`role " boss"`, `role " boss": use 1 to 64 bytes of printable text without commas and without spaces around it, at Caddyfile:3`},
			{`role boss ""`, `role boss: the words are empty; is a variable unset?, at Caddyfile:3`},
			{`role boss "The boss" clerk`, roleUsage},
			{`role boss manages`, roleUsage},
			{`role boss "The boss" manages`, roleUsage},
			{"role boss\nrole boss manages boss", `role boss is set twice, at Caddyfile:4`},
			{aUser("disabled"), `unknown user option "disabled", at Caddyfile:7`},
			{aUser("") + "\n" + aUser(""), `user u-ada is set twice, at Caddyfile:9`},
			{aUser("") + "\n" + strings.Replace(aUser(""), "u-ada", "u-two", 1), `user u-two: user u-ada has the same e-mail address, at Caddyfile:9`},
			{"user u-ada {\npassword written-out-secret\n}", "user u-ada: use a password hash as `caddy hash-password` prints it: bcrypt or argon2id, at Caddyfile:4"},
			{"user u-ada {\npassword \"\"\n}", `the value is empty; is a variable unset?, at Caddyfile:4`},
			{"user u-ada {\npassword env.ADA\n}", `user u-ada: "env.ADA" looks like a placeholder without its braces: write {env.ADA}, at Caddyfile:4`},
			{"user u-ada {\npassword file./run/ada\n}", `user u-ada: "file./run/ada" looks like a placeholder without its braces: write {file./run/ada}, at Caddyfile:4`},
			{"user u-ada {\npassword x{env.ADA}\n}", `user u-ada: a placeholder must be the whole password, at Caddyfile:4`},
			{"user u-ada {\npassword {http.request.header.x}\n}", `{http.request.header.x} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:4`},
			{"user u-ada {\npassword $argon2id$v=19$m=999999,t=1,p=1$c2FsdHNhbHQ$c2FsdHNhbHRzYWx0c2FsdA\n}", `user u-ada: the argon2id hash costs too much: use at most m=262144 and t=16, at Caddyfile:4`},
			{"user u-ada {\nemail ada@acme.example\n}", "user \"u-ada\": a declared user needs a password, for no provider is in sign_in: give the hash that `caddy hash-password` prints, at Caddyfile:3"},
			{withPassword("{env.GATEHOUSE_TEST_UNSET}"), `user "u-ada": password: evaluated placeholder {env.GATEHOUSE_TEST_UNSET} is empty, at Caddyfile:6`},
			{withPassword("{file.DIR/missing}"), `user "u-ada": password: {file.DIR/missing}: open DIR/missing: no such file or directory, at Caddyfile:6`},
			{withPassword("{file.DIR/empty}"), `user "u-ada": password: {file.DIR/empty}: the file is empty, at Caddyfile:6`},
			{withPassword("{file.DIR/plain}"), "user \"u-ada\": password: use a password hash as `caddy hash-password` prints it: bcrypt or argon2id, at Caddyfile:6"},
			{aUser(""), "user \"u-ada\": organisation \"acme\" is not declared: add `organisation acme`, at Caddyfile:6"},
			{"organisation acme\n" + aUser("role boss"), `user "u-ada": unknown role "boss": use admin, group_manager, business_manager or member, at Caddyfile:8`},
			{"organisation acme\n" + aUser("role Admin"), `user "u-ada": unknown role "Admin": use admin, group_manager, business_manager or member, at Caddyfile:8`},
			{"role boss manages clerk\nrole clerk\norganisation acme\n" + aUser("role member"), `user "u-ada": unknown role "member": use boss or clerk, at Caddyfile:10`},
			{"role clerk\nrole boss manages clerk member", `role boss manages: unknown role "member": use clerk or boss, at Caddyfile:4`},
			{"client both s\n" + strings.Replace(aUser(""), "u-ada", "both", 1), `user both: a client and a user cannot have the same id, at Caddyfile:4`},   // T68
			{strings.Replace(aUser(""), "u-ada", "both", 1) + "\nclient both s", `client both: a client and a user cannot have the same id, at Caddyfile:9`}, // T68
		},
		json: []refusal{
			{`"organisations":[{"id":""}]`, `organisation "": organisation id: use 1 to 255 bytes`},
			{`"organisations":[{"id":"acme"},{"id":"acme"}]`, `organisation "acme" is declared twice`},
			{userMembers(`"organisation":"other","password_hash":"` + adaHash + `"`), `user "u-ada": organisation "other" is not declared: add ` + "`organisation other`"},
			{userMembers(`"organisation":"acme"`), `user "u-ada": a declared user needs a password`},
			{userMembers(`"organisation":"acme","password_hash":"correct-horse"`), `user "u-ada": password: use a password hash as`},
			{userMembers(`"organisation":"acme","password_hash":"{env.GATEHOUSE_TEST_UNSET}"`), `user "u-ada": password: `},
			{userMembers(`"organisation":"acme","password_hash":"{http.request.header.x}"`), "comes from the request"},
			{userMembers(`"organisation":"acme","password":"correct-horse"`), `unknown field "password"`},
			{`"roles":[{"name":"a"},{"name":"a"}]`, `role a is declared twice`},
			{`"roles":[{"name":"a","manages":["b"]}]`, `role a manages: unknown role "b": use a`},
			{`"roles":[{"name":"a\u200b"}]`, `use 1 to 64 bytes of printable text`},
			{userMembers(`"organisation":"acme","role":"boss","password_hash":"` + adaHash + `"`), `user "u-ada": unknown role "boss"`},
			{userMembers(`"organisation":"acme","password_hash":"` + adaHash + `"},{"id":"u-ada","email":"b@acme.example","organisation":"acme","password_hash":"` + adaHash + `"`), `user "u-ada": it is declared twice`},
			{userMembers(`"organisation":"acme","password_hash":"` + adaHash + `"},{"id":"u-bob","email":"ada@acme.example","organisation":"acme","password_hash":"` + adaHash + `"`), `user "u-bob": user "u-ada" has the same e-mail address`},
			{userMembers(`"organisation":"acme","password_hash":"` + adaHash + `"},{"id":"app","email":"b@acme.example","organisation":"acme","password_hash":"` + adaHash + `"`), `user "app": a client has this id`},
		},
	},
	"profile": {
		lines: []refusal{
			{aUser("address {\nlocality Berlin\n}\naddress {\ncountry DE\n}"), `address is set twice, at Caddyfile:10`},
			{aUser("given_name \" \""), `user u-ada: given_name: write more than spaces, or leave it out, at Caddyfile:7`},
			{aUser("family_name \"a\nb\""), `user u-ada: family_name: use at most 255 bytes of text without control characters, at Caddyfile:7`},
			{aUser("locale en_GB"), `user u-ada: locale "en_GB": write a language tag like de or en-GB, at Caddyfile:7`},
			{aUser("zoneinfo UTC+1:00"), `user u-ada: zoneinfo "UTC+1:00": write the name of a time zone like Europe/Berlin, at Caddyfile:7`},
			{aUser("groups a,b"), `user u-ada: group "a,b": use 1 to 64 bytes of printable text without commas and without spaces around it, at Caddyfile:7`},
			{aUser("picture http://acme.example/a.png"), `user u-ada: picture "http://acme.example/a.png": write an https URL of at most 2048 bytes, without credentials, at Caddyfile:7`},
			{aUser("picture javascript:alert(1)"), `user u-ada: picture "javascript:alert(1)": write an https URL of at most 2048 bytes, without credentials, at Caddyfile:7`},
			{aUser("phone_verified"), `user u-ada: phone_number_verified needs a phone_number, at Caddyfile:3`},
			{aUser("address {\ncity Berlin\n}"), `unknown address option "city", at Caddyfile:8`},
		},
		json: []refusal{
			{userMembers(`"picture":"http://a.example/","password_hash":"` + adaHash + `"`), `user "u-ada": picture "http://a.example/": write an https URL`},
			{userMembers(`"phone":"1","password_hash":"` + adaHash + `"`), `unknown field "phone"`},
			{userMembers(`"address":{"city":"Berlin"},"password_hash":"` + adaHash + `"`), `unknown field "city"`},
		},
	},
	"audit": {
		lines: []refusal{
			{"audit 30d", `wrong argument count or unexpected line ending after '30d', at Caddyfile:3`},
			{"audit {\nkeep\n}", `wrong argument count or unexpected line ending after 'keep', at Caddyfile:4`},
			{"audit {\nkeep 0s\n}", `keep must be more than nothing, at Caddyfile:4`},
			{"audit {\nkeep 59m\n}", `audit keep 59m0s: use 1h to 10 years, at Caddyfile:3`},
			{"audit {\nkeep 4000d\n}", `audit keep 96000h0m0s: use 1h to 10 years, at Caddyfile:3`},
			{"audit {\nkeep 2h\nkeep 3h\n}", `keep is set twice, at Caddyfile:5`},
			{"audit {\nmax_events many\n}", `"many" is no number, at Caddyfile:4`},
			{"audit {\nmax_events 999\n}", `audit max_events 999: use 1000 to 10000000, at Caddyfile:3`},
			{"audit {\nlevel info\n}", `unknown audit option "level", at Caddyfile:4`},
			{"audit\naudit", `audit is set twice, at Caddyfile:4`},
			{whole("audit", "trust corp https://l.example {\naudience a\n}"), "audit needs an issuer: add `issuer https://…` to the oauth block, at Caddyfile:2"},
		},
		json: []refusal{{`"audit":{"keep":1}`, `audit keep 1ns: use 1h to 10 years`}, {`"audit":{"max_events":-1}`, `audit max_events -1: use 1000 to 10000000`}},
	},
	"mail": {
		lines: []refusal{
			{"mail", `wrong argument count or unexpected line ending after 'mail', at Caddyfile:3`},
			{"mail smtp.example.com {\nfrom id@example.com\n}", `mail: "smtp.example.com" is no mail server: write it as smtp://smtp.example.com:587, or with smtps and port 465, at Caddyfile:3`},
			{"mail smtp://u:hunter2@m.example {\nfrom id@example.com\n}", `mail: the URL of the mail server has no credentials: write them as user and password, at Caddyfile:3`},
			{"mail smtp://m.example", `mail: from is missing, at Caddyfile:3`},
			{"mail smtp://m.example {\nfrom Acme\n}", `mail: from "Acme" is no sender: write it as "Acme <id@example.com>", at Caddyfile:3`},
			{"mail smtp://m.example {\nfrom id@example.com\nuser u\n}", `mail: give both user and password, or neither, at Caddyfile:3`},
			{"mail smtp://m.example {\nfrom id@example.com\nuser u\npassword \"\"\n}", `the value is empty; is a variable unset?, at Caddyfile:6`},
			{"mail smtp://m.example {\nfrom id@example.com\nuser u\npassword hunter2\ninsecure\n}", `mail: the password would be sent in the clear: take insecure away, or user and password, at Caddyfile:3`},
			{"mail smtp://m.example {\nfrom id@example.com\ntimeout 1h\n}", `mail: timeout: use at most 2m0s, at Caddyfile:3`},
			{"mail smtp://m.example {\nfrom id@example.com\nstarttls off\n}", `unknown mail option "starttls", at Caddyfile:5`},
			{"mail smtp://m.example {\nfrom id@example.com\n}\nmail smtp://n.example", `mail is set twice, at Caddyfile:6`},
		},
	},
	"sign_in": {
		lines: []refusal{
			{"sign_in {\nfacebook f\n}", `unknown sign_in option "facebook", at Caddyfile:4`},
			{"sign_in {\nprovider\n}", "write it as `provider <name> <issuer> [default] { … }`, at Caddyfile:4"},
			{"sign_in {\nprovider corp\n}", "write it as `provider <name> <issuer> [default] { … }`, at Caddyfile:4"},
			{"sign_in {\nprovider corp default\n}", "write it as `provider <name> <issuer> [default] { … }`, at Caddyfile:4"},
			{"sign_in {\nprovider corp https://a.example x\n}", "write it as `provider <name> <issuer> [default] { … }`, at Caddyfile:4"},
			{"sign_in {\nldap staff\n}", "write it as `ldap <name> <url> { … }`, at Caddyfile:4"},
			{"sign_in {\nldap staff ldaps://ldap.example.com {\n\n}\n}", `provider staff: user_base is missing: name the entry below which people are, as ou=people,dc=example,dc=com, at Caddyfile:4`},
			{"sign_in {\nldap staff ldap://ldap.example.com {\nuser_base dc=x\n}\n}", `provider staff: "ldap://ldap.example.com" would send passwords in the clear: use ldaps://, or say start_tls; insecure allows it, at Caddyfile:4`},
			{"sign_in {\nldap staff ldaps://ldap.example.com {\nuser_base dc=x\nstart_tls\n}\n}", `provider staff: start_tls is for ldap://: ldaps:// is secured from the first byte on, at Caddyfile:4`},
			{"sign_in {\nldap staff ldaps://ldap.example.com {\nuser_base dc=x\nuser_filter (mail=*{email})\n}\n}", `provider staff: user_filter: filter "(mail=*{email})": an asterisk beside a placeholder would find people who were not named, at Caddyfile:4`},
			{"sign_in {\nldap staff ldaps://ldap.example.com {\nuser_base dc=x\nuser_filter (mail=ada)\n}\n}", `provider staff: user_filter "(mail=ada)" finds the same people whoever signs in: it must have {email} or {username}, at Caddyfile:4`},
			{"sign_in {\nldap staff ldaps://ldap.example.com {\nuser_base people\n}\n}", `provider staff: user_base "people" is not a distinguished name: write one, as ou=people,dc=example,dc=com, at Caddyfile:4`},
			{"sign_in {\nldap staff ldaps://ldap.example.com {\nuser_base dc=x\nbind_dn cn=a\n}\n}", `provider staff: bind_dn and bind_password belong together: a name without a password is an anonymous bind, at Caddyfile:4`},
			{"sign_in {\nldap staff ldaps://ldap.example.com {\nuser_base dc=x\ngroup_depth 0\n}\n}", `group_depth "0": use a whole number above zero, at Caddyfile:6`},
			{"sign_in {\nldap staff ldaps://ldap.example.com {\nuser_base dc=x\ngroup_depth 21\n}\n}", `provider staff: group_depth 21: use 1 to 20, at Caddyfile:4`},
			{"sign_in {\nldap staff ldaps://ldap.example.com {\nuser_base dc=x\nallow group staff\n}\n}", `provider staff: allow group needs to know people's groups: add group_base, or groups in attributes, at Caddyfile:4`},
			{"sign_in {\nldap staff ldaps://ldap.example.com {\nuser_base dc=x\ndefault\n}\n}", `provider staff: people are not sent to a directory, they type its password here: take default and domains away, at Caddyfile:4`},
			{"sign_in {\nldap staff ldaps://ldap.example.com {\nuser_base dc=x\nallow_private_network\n}\n}", `provider staff: a directory may be at any address, private ones too: take allow_private_network away, at Caddyfile:4`},
			{"sign_in {\nldap staff ldaps://ldap.example.com {\nattributes {\nmail x\n}\n}\n}", `unknown attribute "mail", at Caddyfile:6`},
			{"sign_in {\nldap staff ldaps://ldap.example.com {\nscopes openid\n}\n}", `ldap has no option "scopes", at Caddyfile:5`},
			{"sign_in {\ngithub\n}", "write it as `github <name> [<url>] [default] { … }`, at Caddyfile:4"},
			{"sign_in {\nprovider a/b https://a.example {\nclient a {env.HOME}\n}\n}", `provider a/b: "a/b" is no name for a provider: use up to 64 letters, digits, - and _, at Caddyfile:4`},
			{"sign_in {\nprovider .. https://a.example {\nclient a {env.HOME}\n}\n}", `provider ..: ".." is no name for a provider: use up to 64 letters, digits, - and _, at Caddyfile:4`},
			{"sign_in {\nprovider corp {http.request.host} {\n}\n}", `{http.request.host} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:4`},
			{"sign_in {\nprovider corp http://login.example {\nclient a {env.HOME}\nallow_private_network\n}\n}", `provider corp: issuer "http://login.example" must be https, at Caddyfile:4`},
			{"sign_in {\nprovider corp http://127.0.0.1:1 {\nclient a {env.HOME}\n}\n}", `provider corp: issuer "http://127.0.0.1:1": a loopback address needs allow_private_network, at Caddyfile:4`},
			{aProvider("recheck 30s"), "provider corp: recheck 30s: use 1m to 7d, at Caddyfile:4"},
			{aProvider("recheck 8d"), "provider corp: recheck 192h0m0s: use 1m to 7d, at Caddyfile:4"},
			{aProvider("recheck 1h\nrecheck 1h"), "recheck is set twice, at Caddyfile:7"},
			{aProvider("recheck"), "wrong argument count or unexpected line ending after 'recheck', at Caddyfile:6"},
			{"sign_in {\ngithub corp {\nclient a {env.HOME}\nrecheck 1h\n}\n}", "provider corp: recheck: GitHub gives no refresh token to ask with: leave the line out, at Caddyfile:4"},
			{"sign_in {\nprovider corp https://login.example {\n}\n}", "provider corp: client is missing: say what we are called there, as in `client <id> <secret>`, at Caddyfile:4"},
			{"sign_in {\nprovider corp https://login.example {\nclient gw {http.request.header.x}\n}\n}", `{http.request.header.x} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:5`},
			{"sign_in {\nprovider corp https://login.example {\nclient gw env.SECRET\n}\n}", `provider corp: "env.SECRET" looks like a placeholder without its braces: write {env.SECRET}, at Caddyfile:5`},
			{aProvider("secret x"), `provider has no option "secret", at Caddyfile:6`},
			{aProvider("scopes \"a b\""), `"a b" is no scope, at Caddyfile:6`},
			{aProvider("allow user ada"), "allow \"user\": write it as `allow email_domain example.com`, `allow group staff` or `allow unverified_email`, at Caddyfile:6"},
			{aProvider("allow email_domain *.example.com"), `"*.example.com" cannot stand behind the @ of an e-mail address: write a domain, as example.com, at Caddyfile:6`},
			{aProvider("allow email_domain Example.com"), `domain "Example.com": write it as "example.com", at Caddyfile:6`},
			{aProvider("allow group staff"), "provider corp: allow group needs to know people's groups: add `groups claim <claim>`, at Caddyfile:4"},
			{aProvider("groups roles"), "write it as `groups claim <claim>`, at Caddyfile:6"},
			{aProvider("groups claim {env.X}"), `{env.X}: a rule compares with text and replaces no placeholder, at Caddyfile:6`},
			{aProvider("link always"), `unknown way to link "always": use never or verified_email, at Caddyfile:6`},
			{aProvider("create user"), "create … user: write it as `create organisation <id> role <role>`, at Caddyfile:6"},
			{aProvider("create role"), "create … role: write it as `create organisation <id> role <role>`, at Caddyfile:6"},
			{aProvider("create role a role b"), "create … role: write it as `create organisation <id> role <role>`, at Caddyfile:6"},
			{aProvider("domains example.com/"), `"example.com/" cannot stand behind the @ of an e-mail address: write a domain, as example.com, at Caddyfile:6`},
			{aProvider("}\nprovider corp https://b.example {"), `provider corp is there twice, at Caddyfile:7`},
			{"sign_in {\ngithub gh {\ngroups claim\n}\n}", `unknown groups of GitHub "claim": use organisations or teams, at Caddyfile:5`},
			{"sign_in {\ngithub gh {\nclient a {env.HOME}\ngroups teams\n}\n}", "provider gh: anybody can make an organisation at GitHub and call it as your groups are called: name those that count, as in `groups teams acme`, at Caddyfile:4"},
			{aProvider("group_prefix \"a,\""), `provider corp: group_prefix: group "a,x": use 1 to 64 bytes of printable text without commas and without spaces around it, at Caddyfile:4`},
			{"sign_in {\ngithub gh {\nscopes x\n}\n}", `github has no option "scopes", at Caddyfile:5`},
			{"sign_in {\ngithub gh {\nclient a {env.HOME}\nallow group acme\n}\n}", "provider gh: allow group needs to know people's groups: add `groups organisations` or `groups teams`, at Caddyfile:4"},
			{"sign_in {\n}", "nobody could sign in: add `password`, `provider`, `github` or `ldap` to sign_in, at Caddyfile:3"},
			{"sign_in {\nprovider a https://a.example default {\nclient a {env.HOME}\n}\nprovider b https://b.example {\nclient a {env.HOME}\ndefault\n}\n}", `provider b: provider a is the default already: only one can be, at Caddyfile:7`},
			{"sign_in {\nprovider a https://a.example {\nclient a {env.HOME}\ndomains x.example\n}\ngithub b {\nclient a {env.HOME}\ndomains y.example x.example\n}\n}", `provider b: provider a has the domain x.example already, at Caddyfile:8`},
			{aProvider("create role boss"), `provider corp: unknown role "boss": use admin, group_manager, business_manager or member, at Caddyfile:4`},
			{"sign_in {\nprovider corp https://login.example {\nclient gw {env.GATEHOUSE_TEST_UNSET}\n}\n}", `provider corp: client secret: evaluated placeholder {env.GATEHOUSE_TEST_UNSET} is empty, at Caddyfile:4`},
		},
		json: []refusal{
			{`"sign_in":{}`, `nobody could sign in`},
			{providerMembers(`,"kind":"saml"`), `provider corp: unknown kind "saml"`},
			{providerMembers(`,"kind":"github","groups_claim":"x"`), `provider corp: github has neither claims nor scopes`},
			{providerMembers(`,"kind":"github","github_groups":"gists"`), `provider corp: unknown groups of GitHub "gists"`},
			{providerMembers(`,"link":"always"`), `provider corp: unknown way to link "always"`},
			{providerMembers(`,"domains":["@x"]`), `provider corp: "@x" cannot stand behind the @ of an e-mail address`},
			{`"sign_in":{"providers":[{"name":"a b"}]}`, `provider a b: "a b" is no name for a provider`},
			{`"sign_in":{"providers":[{"name":"a","url":"https://a.example"}]}`, `provider a: client is missing`},
			{`"sign_in":{"providers":[{"name":"a","url":"{http.request.host}","client_id":"x","client_secret":"y"}]}`, `provider a: issuer: {http.request.host} comes from the request`},
		},
	},
	"trust": {
		lines: []refusal{
			{`trust`, "write it as `trust <name> <issuer> { … }`, at Caddyfile:3"},
			{`trust corp`, "write it as `trust <name> <issuer> { … }`, at Caddyfile:3"},
			{`trust corp https://l.example x`, "write it as `trust <name> <issuer> { … }`, at Caddyfile:3"},
			{`trust self https://l.example`, `"self" is no name for a trusted issuer, at Caddyfile:3`},
			{"trust corp https://l.example {\naudience a\n}\ntrust corp https://m.example {\naudience a\n}", `trust corp is there twice, at Caddyfile:6`},
			{"trust corp https://l.example {\naudience \"\"\n}", `an audience must not be empty, at Caddyfile:4`},
			{"trust corp https://l.example {\naudience {http.request.host}\n}", `{http.request.host} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:4`},
			// K13
			{"trust corp https://l.example {\naudience a\nalgorithms RS256 HS256\n}", `algorithm "HS256" is not supported: use ES256, RS256, EdDSA, ES384, ES512, RS384, RS512, PS256, PS384 or PS512, at Caddyfile:5`},
			{"trust corp https://l.example {\naudience a\nalgorithms none\n}", `algorithm "none" is not supported: use ES256, RS256, EdDSA, ES384, ES512, RS384, RS512, PS256, PS384 or PS512, at Caddyfile:5`},
			{"trust corp https://l.example {\naudience a\ntyp id_token\n}", `typ "id_token" is not that of an access token: use at+jwt, JWT or none, at Caddyfile:5`},
			{"trust corp http://l.example {\naudience a\nallow_private_network\n}", `trust corp: issuer "http://l.example" must be https, at Caddyfile:3`},
			{"trust corp http://127.0.0.1:8080 {\naudience a\n}", `trust corp: issuer "http://127.0.0.1:8080": a loopback address needs allow_private_network, at Caddyfile:3`},
			{"trust corp https://u:p@l.example {\naudience a\n}", `trust corp: issuer "https://u:p@l.example" is no URL: write it as https://login.example.com/…, at Caddyfile:3`},
			{"trust corp https://l.example?x {\naudience a\n}", `trust corp: issuer "https://l.example?x" must have no query, at Caddyfile:3`},
			{"trust corp https://l.example {\naudience a\njwks_uri http://l.example/keys\n}", `trust corp: jwks_uri "http://l.example/keys" must be https, at Caddyfile:3`},
			{"trust corp https://l.example {\naudience a\njwks_uri {http.request.host}\n}", `{http.request.host} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:5`},
			{"trust corp https://l.example {\naudience a\nmax_stale 0s\n}", `max_stale must be more than nothing, at Caddyfile:5`},
			{"trust corp https://l.example {\naudience a\nmax_stale soon\n}", `"soon" is no duration: write it as 90s, 15m, 2h or 28d, at Caddyfile:5`},
			{"trust corp https://l.example {\naudience a\naudience_from sub\n}", `audience_from "sub": the one word for it is client_id, at Caddyfile:5`},
			{"trust corp https://l.example {\naudience a\nroles_claim {http.request.host}\n}", `{http.request.host}: a rule compares with text and replaces no placeholder, at Caddyfile:5`},
			{"trust corp https://l.example {\naudience a\ninsecure\n}", `unknown trust option "insecure", at Caddyfile:5`},
			{"trust corp https://l.example {\naudience a\nintrospection https://l.example/i {\ncache 30s\n}\n}", "introspection needs the client that we are there: `client <id> <secret>`, at Caddyfile:7"},
			{"trust corp https://l.example {\naudience a\nintrospection https://l.example/i {\nclient gw {http.request.header.x}\n}\n}", `{http.request.header.x} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:6`},
			{"trust corp https://l.example {\naudience a\nintrospection https://l.example/i {\nclient gw env.SECRET\n}\n}", `an introspection: "env.SECRET" looks like a placeholder without its braces: write {env.SECRET}, at Caddyfile:6`},
			{"trust corp https://l.example {\naudience a\nintrospection https://l.example/i {\nclient gw {env.A}\nretries 3\n}\n}", `unknown introspection option "retries", at Caddyfile:7`},
			{"trust corp https://l.example {\naudience a\nintrospection http://l.example/i {\nclient gw {env.A}\n}\n}", `trust corp: introspection "http://l.example/i" must be https, at Caddyfile:3`},
			// G39, G78: an issuer also issues tokens for other audiences.
			{`trust corp https://l.example`, `trust corp: audience is missing: say which of its tokens are meant for us, at Caddyfile:3`},
			{trustLines("a", "https://l.example") + "\n" + trustLines("b", "https://l.example"), `trust b: trust a has the same issuer, at Caddyfile:6`},
			{trustLines("corp", "https://a.example"), "trust corp: https://a.example is our own issuer: `protect` calls it self, at Caddyfile:3"},
			{whole(trustLines("a", "https://l.example"), "trust b https://m.example {", "audience {env.GATEHOUSE_TEST_UNSET}", "}"), `trust b: audience: evaluated placeholder {env.GATEHOUSE_TEST_UNSET} is empty, at Caddyfile:6`},
			{whole(trustLines("a", "https://l.example"), "client x s"), "client needs an issuer: add `issuer https://…` to the oauth block, at Caddyfile:2"},
			{whole(trustLines("a", "https://l.example"), "limits {", "login off", "}"), "limits needs an issuer: add `issuer https://…` to the oauth block, at Caddyfile:2"},
			{whole(trustLines("a", "https://l.example"), "store memory"), "store needs an issuer: add `issuer https://…` to the oauth block, at Caddyfile:2"},
			{whole(trustLines("a", "https://l.example"), "openid"), "openid needs an issuer: add `issuer https://…` to the oauth block, at Caddyfile:2"},
			{"trust corp https://l.example {\naudience a\nintrospection https://l.example/i {\nclient gw {env.GATEHOUSE_TEST_UNSET}\n}\n}", `trust corp: introspection client secret: evaluated placeholder {env.GATEHOUSE_TEST_UNSET} is empty, at Caddyfile:3`},
			{"{\noauth {\n" + trustLines("a", "https://l.example") + "\n}\noauth {\n" + trustLines("b", "https://l.example") + "\n}\n}\n", `trust b: trust a has the same issuer, at Caddyfile:8`},
		},
	},
	"limits": {
		lines: []refusal{
			{"revocation {\nmax_staleness 1s\n}", `max_staleness 1s: use at least 2s, for the store is read once a second, at Caddyfile:4`},
			{"revocation {\nmax_staleness soon\n}", `"soon" is no duration: write it as 90s, 15m, 2h or 28d, at Caddyfile:4`},
			{"revocation {\nnonsense\n}", `unknown revocation option "nonsense", at Caddyfile:4`},
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
			{"limits {\nnonsense 10/1m per account\n}", `unknown limit "nonsense", at Caddyfile:4`},
			{"limits {\nlogin\n}", loginUsage},
			{"limits {\nlogin 10/1m\n}", loginUsage},
			{"limits {\nlogin 10/1m per client\n}", loginUsage},
			{"limits {\nlogin 10/1m for account\n}", loginUsage},
			{"limits {\nlogin 10 per account\n}", loginUsage},
			{"limits {\nlogin off per account\n}", loginUsage},
			{"limits {\nclient 10/1m per account\n}", clientUsage},
			{"limits {\nlogin 0/1m per account\n}", `"0" is no number, at Caddyfile:4`},
			{"limits {\nlogin 10/1ms per ip\n}", `"1ms" is no window: write it as 30s, 1m or 1h, at Caddyfile:4`},
			{"limits {\nlogin 10/1m per ip\nlogin off\n}", `limits login per ip is set twice, at Caddyfile:5`},
			{"limits {\ngrants 60/1m per client\n}", "write a limit as `grants 60/1m per user`, or as `grants off`, at Caddyfile:4"},
			{"limits {\nrevocations 60/1m per user\n}", "write a limit as `revocations 60/1m per client`, or as `revocations off`, at Caddyfile:4"},
			{"limits {\ngrants off\ngrants 60/1m per user\n}", "limits grants is set twice, at Caddyfile:5"},
		},
		json: []refusal{
			{`"limits":{"login_account":{"failures":-1}}`, "limits login_account: use a number"},
			{`"limits":{"login_ip":{"failures":1,"window":"10ms"}}`, "limits login_ip: use a number"},
			{`"revocation":{"max_staleness":"1s"}`, "max_staleness: use at least 2s"},
			{`"limits":{"client":{"failures":-1}}`, "limits client: "},
			{`"limits":{"client":{"failures":1}}`, "limits client: "},
		},
	},
	"pages": {
		lines: []refusal{
			{`pages "Acme"`, `wrong argument count or unexpected line ending after 'Acme', at Caddyfile:3`},
			{"pages {\nname \"\"\n}", `the value is empty; is a variable unset?, at Caddyfile:4`},
			{"pages {\nname A\n}\npages {\nname B\n}", `pages is set twice, at Caddyfile:6`},
			{"pages {\nnonsense\n}", `unknown pages option "nonsense", at Caddyfile:4`},
			{"pages {\nlogo a.gif\n}", `logo a.gif: use a file that ends in .svg, .png, .jpg or .webp, at Caddyfile:4`},
			{"pages {\nlogo https://x.example/logo\n}", `logo https://x.example/logo: use a file that ends in .svg, .png, .jpg or .webp, at Caddyfile:4`},
			{"pages {\nlogo {http.request.uri.path}\n}", `{http.request.uri.path} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:4`},
			{"pages {\nlogo DIR/missing.png\n}", `logo: stat DIR/missing.png: no such file or directory, at Caddyfile:4`},
			{"pages {\nlogo {env.GATEHOUSE_TEST_FOLDER}\n}", `logo DIR/folder.png: this is no regular file, at Caddyfile:4`},
			{"pages {\nlogo DIR/large.svg\n}", `logo DIR/large.svg: it has more than 65536 bytes, and every page carries it, at Caddyfile:4`},
			{"pages {\nlogo {env.GATEHOUSE_TEST_HTTP}\n}", `logo http://api.example.com: use a file that ends in .svg, .png, .jpg or .webp, at Caddyfile:4`},
			{"pages {\nlogo {env.GATEHOUSE_TEST_UNSET}\n}", `logo: evaluated placeholder {env.GATEHOUSE_TEST_UNSET} is empty, at Caddyfile:4`},
			{"pages {\naccent #2b50c8 #9db3ff\n}", "accent needs two colours, for the light and for the dark scheme, without a #: write it as `accent 2b50c8 9db3ff`, at Caddyfile:4"},
			{"pages {\nbackground ffffff\n}", "background needs two colours, for the light and for the dark scheme, without a #: write it as `background 2b50c8 9db3ff`, at Caddyfile:4"},
			{"pages {\nbackground white 000000\n}", `background: in the light scheme "white" is not a colour: use six hex digits, as 2b50c8, at Caddyfile:4`},
			{"pages {\naccent 2b50c8 9db3ff\naccent 2b50c8 9db3ff\n}", `accent is set twice, at Caddyfile:5`},
			{"pages {\naccent e0a800 ffd75e\n}", "accent: in the light scheme the contrast of the text of buttons #ffffff to the accent #e0a800 is 2.14:1, and at least 4.5:1 is needed: #866500 would do, at Caddyfile:4"},
			{"pages {\nlink https://a.example\n}", `wrong argument count or unexpected line ending after 'https://a.example', at Caddyfile:4`},
			{"pages {\nlink terms https://a.example\n}", `unknown link "terms": use help, imprint or privacy, at Caddyfile:4`},
			{"pages {\nlink help https://a.example\nlink help https://b.example\n}", `link help is set twice, at Caddyfile:5`},
			{"pages {\nlink help https://{http.request.host}/\n}", `https://{http.request.host}/ comes from the request: use {env.NAME} or {file./path}, at Caddyfile:4`},
			{"pages {\nlink help javascript:alert(1)\n}", "link help: use an address of https or mailto, at Caddyfile:4"},
			{"pages {\nlink help {env.GATEHOUSE_TEST_UNSET}\n}", "link help: evaluated placeholder {env.GATEHOUSE_TEST_UNSET} is empty, at Caddyfile:4"},
			{"pages {\nnote portal words\n}", `wrong argument count or unexpected line ending after 'words', at Caddyfile:4`},
			{"pages {\nnote application portal words\n}", "a note is about a client or a host: write it as `note client <id> <text>` or `note host <host> <text>`, at Caddyfile:4"},
			{"pages {\nnote client portal de Guten_Tag\n}", "note client portal: add a text without a language, for readers of all others, at Caddyfile:4"},
			{"pages {\nnote host a.example Hello\nnote host a.example ../de Hallo\n}", `note host a.example: "../de" is not a language tag: use one like it, pt-BR or zh-Hant, at Caddyfile:4`},
			{"pages {\nnote client gatehouse Hello\n}", "note client gatehouse: sign-ins at hosts have a note for each host: write it as `note host <host> <text>`, at Caddyfile:4"},
			{"pages {\nlanguages DIR/missing\n}", "languages: open DIR/missing: no such file or directory, at Caddyfile:4"},
			{"pages {\nlanguages DIR/folder.png\n}", "languages DIR/folder.png: there is no file in it: add one for each language, named like it.json, at Caddyfile:4"},
		},
		json: []refusal{
			{`"pages":{"logo":"/nowhere/logo.gif"}`, "logo /nowhere/logo.gif: use a file that ends in"},
			{`"pages":{"logo":"/nowhere/logo.png"}`, "logo: stat /nowhere/logo.png: no such file"},
			{`"pages":{"logo":"{http.request.uri.path}"}`, "comes from the request"},
			{`"pages":{"links":{"terms":"https://a.example"}}`, `unknown link "terms"`},
			{`"pages":{"links":{"help":"{http.request.host}"}}`, "comes from the request"},
			{`"pages":{"languages":"{http.request.host}"}`, "comes from the request"},
			{`"pages":{"notes":[{"text":"x"}]}`, "a note is about a client or a host"},
		},
	},
}

// aUser returns a user that is valid except for lines.
func aUser(lines string) string {
	return "user u-ada {\nemail ada@acme.example\npassword " + adaHash + "\norganisation acme\n" + lines + "\n}"
}

// adaHash is a bcrypt hash of the password "correct-horse" with the minimum cost.
const adaHash = "$2a$04$jxx5KdE/HQJA3PCznHrn5uJ5yfnQY/KKEbMxaxqg8rcb5gMim3g1y"

// withPassword returns the user u-ada and its organisation.
func withPassword(hash string) string {
	return "organisation acme\n" + strings.Replace(aUser(""), adaHash, hash, 1)
}

// userMembers returns a client, an organisation and a user with the given members.
func userMembers(members string) string {
	return `"clients":[{"id":"app","secret":"x"}],"organisations":[{"id":"acme"}],"users":[{"id":"u-ada","email":"ada@acme.example",` + members + `}]`
}

// trustLines returns a `trust` of three lines.
func trustLines(name, issuer string) string {
	return "trust " + name + " " + issuer + " {\naudience x\n}"
}

// aProvider returns a `sign_in` with one provider, which begins on line 4. The given lines begin on line 6.
func aProvider(lines string) string {
	return "sign_in {\nprovider corp https://login.example {\nclient gw {env.HOME}\n" + lines + "\n}\n}"
}

// providerMembers returns the JSON members of a `sign_in` with one provider.
func providerMembers(more string) string {
	return `"sign_in":{"providers":[{"name":"corp","url":"https://login.example","client_id":"gw","client_secret":"0123456789"` + more + `}]}`
}

const (
	roleUsage   = `write a role as role <name> ["<words>"] [manages <role>...], at Caddyfile:3`
	loginUsage  = "write limits as `login 10/1m per account` and `login 30/1m per ip`, or as `login off`, at Caddyfile:4"
	clientUsage = "write a limit as `client 20/1m per ip`, or as `client off`, at Caddyfile:4"
)

// useFiles returns a directory of files that no setting can be read from, and sets variables of the same kind.
func useFiles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"empty": "", "short": "tooshort", "pem": "-----BEGIN PRIVATE KEY-----\nMC4CAQ==", "plain": "correct-horse\n",
		"large.svg": "<svg>" + strings.Repeat(" ", 64<<10) + "</svg>",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder.png"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GATEHOUSE_TEST_EMPTY", "")
	t.Setenv("GATEHOUSE_TEST_PEM", "-----BEGIN PRIVATE KEY-----")
	t.Setenv("GATEHOUSE_TEST_HTTP", "http://api.example.com")
	t.Setenv("GATEHOUSE_TEST_FOLDER", filepath.Join(dir, "folder.png"))
	return dir
}

var (
	optionList = regexp.MustCompile(`((?:option|limit|lifetime|attribute) "[^"]*"): use [a-z_, ]+, at `)
	place      = regexp.MustCompile(`, at Caddyfile:\d+$`)
)

// TestG78Q48Q84Q162RefusedWithFileAndLine: an invalid setting → refused with file and line, whether that shows when it is read or only when everything
// is. JSON without positions gets the same error without one. No error repeats a secret.
func TestG78Q48Q84Q162RefusedWithFileAndLine(t *testing.T) {
	for name := range refused {
		if name != "sign_in" {
			t.Run(name, func(t *testing.T) { holdRefused(t, name) })
		}
	}
}

// TestP90P91SignInThatCannotWork: a provider's secret from the request, empty or written out; `sign_in` without any way to sign in; two of
// one name, two defaults → refused with file and line, no secret repeated.
func TestP90P91SignInThatCannotWork(t *testing.T) { holdRefused(t, "sign_in") }

func holdRefused(t *testing.T, setting string) {
	t.Helper()
	dir := useFiles(t)
	for _, r := range refused[setting].lines {
		t.Run(r.text, func(t *testing.T) {
			text, want := withIssuer(strings.ReplaceAll(r.text, "DIR", dir)), strings.ReplaceAll(r.want, "DIR", dir)
			_, err := read(text)
			if err == nil {
				t.Fatalf("accepted, want: %s", want)
			}
			// TestUnknownOptionsListTheKnownOnes has the lists.
			got := optionList.ReplaceAllString(err.Error(), `$1, at `)
			if got != want {
				t.Errorf("got:  %s\nwant: %s", got, want)
			}
			if unicode.IsUpper([]rune(got)[0]) || strings.HasSuffix(got, ".") || strings.Contains(got, "PRIVATE KEY") || strings.Contains(got, "correct-horse") {
				t.Errorf("no lower-case text without a full stop, or it tells a secret: %s", got)
			}
			b, err := parsed(text)
			if err != nil {
				return
			}
			b.Sources = nil
			config, err := json.Marshal(b)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := loaded(string(config)); err == nil || err.Error() != place.ReplaceAllString(want, "") {
				t.Errorf("without positions: %v, want: %s", err, want)
			}
		})
	}
	for _, r := range refused[setting].json {
		t.Run(r.text, func(t *testing.T) {
			if _, err := loaded(`{"issuer":"https://a.example",` + r.text + `}`); err == nil || !strings.Contains(err.Error(), r.want) {
				t.Errorf("got %v, want %s", err, r.want)
			}
		})
	}
}

// optionsOf are the options of each block, separated by semicolons: those that can be set once, with their arguments, those without an
// argument, and those with any number of them.
var optionsOf = []struct{ block, once, flags, lists string }{
	{"", "issuer https://b.example; store sqlite p; pages", "keys; tokens; revocation; limits; openid; password_grant; sign_in; sessions; strict_assertions", "audience x; session_scopes public; scope s; organisation a; user u; role r; client c s"},
	{"keys {", "algorithm ES256; rotate 90d", "", "encrypt_with {env.A}"},
	{"tokens {", "client_credentials 1h; refresh 90d; refresh_idle 10d; code 10s", "", ""},
	{"password_grant {", "", "refresh_tokens", ""},
	{"sessions {", "idle 8h; max 9h", "", ""},
	{"revocation {", "max_staleness 5m", "", ""},
	{"scope s {", "", "server_tokens", ""},
	{"pages {", "name A; logo a.png; languages /l", "", ""},
	{
		"client a s {", "type confidential; name A; pkce required; id_token_alg ES256; backchannel_logout_uri https://a.example/", "first_party; backchannel_logout_session_required",
		"grants refresh_token; scopes public; redirect_uris https://a.example/; post_logout_redirect_uris https://a.example/",
	},
	{"user u {", "email ada@acme.example; password {env.X}; organisation a; name A; role admin; given_name Ada; locale de", "phone_verified; email_verified", "groups a"},
	{"user u {\naddress {", "locality Berlin; country DE", "", ""},
	{"sign_in {", "", "password", ""},
	{"sign_in {\nprovider corp https://login.example {", "client gw {env.HOME}", "allow_private_network", "scopes a; allow group; domains a.example"},
	{"trust corp https://l.example {", "roles_claim a; max_stale 1h; jwks_uri https://l.example/k", "allow_private_network", "audience a; algorithms ES256; typ JWT"},
}

// TestOptionsStandOnceWithTheirArguments: an option with too few or too many arguments, or for a second time → refused with its line.
func TestOptionsStandOnceWithTheirArguments(t *testing.T) {
	const count = `^wrong argument count or unexpected line ending after '.*', at Caddyfile:%d$`
	for _, of := range optionsOf {
		line := 3 + strings.Count(of.block, "{")
		hold := func(text, want string, at int) {
			t.Helper()
			if of.block != "" {
				text = of.block + "\n" + text + strings.Repeat("\n}", line-3)
			}
			if _, err := parsed(withIssuer(text)); err == nil || !regexp.MustCompile(fmt.Sprintf(want, at)).MatchString(err.Error()) {
				t.Errorf("%q: %v, want %s", text, err, fmt.Sprintf(want, at))
			}
		}
		for option := range strings.SplitSeq(of.once+";"+of.lists, ";") {
			if name, _, has := strings.Cut(strings.TrimSpace(option), " "); has {
				hold(name, count, line)
			}
		}
		for option := range strings.SplitSeq(of.once+";"+of.flags, ";") {
			if option = strings.TrimSpace(option); option != "" {
				hold(option+" surplus", count, line)
			}
		}
		for option := range strings.SplitSeq(of.once, ";") {
			if option = strings.TrimSpace(option); option != "" {
				hold(option+"\n"+option, "^"+strings.Fields(option)[0]+` is set twice, at Caddyfile:%d$`, line+1)
			}
		}
	}
}

// FuzzBlock: no panic, and no block is accepted without an issuer or an audience.
func FuzzBlock(f *testing.F) {
	for _, of := range refused {
		for _, r := range of.lines {
			f.Add(withIssuer(r.text))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "import") { // would read whatever files there are
			return
		}
		if s, err := read(text); err == nil && (s.Issuer.URL != "" && len(s.Issuer.Audience) == 0 || slices.Contains(s.Issuer.Audience, "")) {
			t.Fatalf("accepted with audiences %q:\n%s", s.Issuer.Audience, text)
		}
	})
}
