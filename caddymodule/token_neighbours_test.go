package caddymodule

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// These tests cover the neighbours of the token endpoint: revocation, introspection, token info, metadata, keys, and
// unused paths. Rows T95, T106, T107, T108 and K8.

// revoked checks a successful answer of the revocation endpoint.
func (d *door) revoked(t *testing.T, a answer, found bool) {
	t.Helper()
	d.holdUnaudited(t, a, granted())
	if strings.TrimSpace(a.body) != "{}" {
		t.Errorf("body %q", a.body)
	}
	lines := d.decisions(t)
	if len(lines) != 1 || lines[0]["msg"] != "token revoked" || lines[0]["found"] != found {
		t.Errorf("audited %v, want found %t", lines, found)
	}
}

// gateSays checks the gate's answer to a token that is no longer valid.
func (d *door) gateSays(t *testing.T, token, sentence string) {
	t.Helper()
	a := d.send(t, http.MethodGet, "/any/x", "", "Authorization", "Bearer "+token)
	challenge := a.header.Get("Www-Authenticate")
	if a.status != 401 || !strings.Contains(challenge, `error="invalid_token", error_description="`+sentence+`"`) {
		t.Errorf("the gate: %d %s", a.status, challenge)
	}
	d.upstream.none(t)
}

// TestT95RevocationIsAtOnce: revocation of one's own server token → 200 and dead at the gate at once, also after a reload; of another client's
// → 403; unknown → 200; named in the query → 400. TestT95RevokingEitherTokenEndsTheFamily has the tokens of users and wrong credentials, and
// TestT106T20Introspection the store that is down.
func TestT95RevocationIsAtOnce(t *testing.T) {
	d := openDoor(t, onDisk)
	fresh := func() string { d.decisions(t); return d.token() }
	revoke := func(t *testing.T, form string, headers ...string) answer {
		t.Helper()
		d.decisions(t)
		return d.ask(t, "/oauth/revoke", form, headers...)
	}

	t.Run("own token, which the gate knows", func(t *testing.T) {
		token, neighbour := fresh(), fresh()
		for range 2 {
			if !d.passes(t, token) {
				t.Fatal("a fresh token is refused")
			}
		}
		d.revoked(t, revoke(t, "token="+token, basic("conf:"+confSecret)...), true)
		d.gateSays(t, token, "The access token was revoked")
		if !d.passes(t, neighbour) {
			t.Error("another token of the client died too")
		}
		d.revoked(t, revoke(t, "token="+token+"&"+asConf), false) // again: nothing is left to do
	})
	t.Run("unknown", func(t *testing.T) {
		token := fresh()
		for _, unknown := range []string{
			"x", "nonsense.of.three", token[:len(token)-4], token + "x", strings.Repeat("x", 20<<10), "%20" + token,
			"eyJhbGciOiJub25lIiwidHlwIjoiYXQrand0In0." + strings.Split(token, ".")[1] + ".",
		} {
			d.revoked(t, revoke(t, "token="+unknown+"&"+asConf), false)
		}
		if !d.passes(t, token) {
			t.Error("a token was revoked by a likeness")
		}
	})
	t.Run("another client's token", func(t *testing.T) {
		token, theirs := fresh(), d.issue(issuer.Grant{Client: &store.Client{ID: "pub"}, Scopes: oauth.Scopes{"public"}})
		notYours := outcome{403, "unauthorized_client", "token_of_another_client", "You are not authorized to revoke this token", false}
		d.hold(t, revoke(t, "token="+token, basic("other:other-"+confSecret)...), notYours)
		d.hold(t, revoke(t, "token="+token+"&client_id=pub"), notYours)
		d.hold(t, revoke(t, "token="+theirs+"&"+asConf), notYours)
		d.hold(t, revoke(t, "token="+token, "Authorization", "Bearer "+token), badBasic("client_credentials_missing"))
		d.hold(t, d.ask(t, "/oauth/revoke?token="+token, asConf), missing("token"))
		if !d.passes(t, token) || !d.passes(t, theirs) {
			t.Error("the token died")
		}
	})
	t.Run("after a reload", func(t *testing.T) {
		token, alive := fresh(), fresh()
		d.revoked(t, revoke(t, "token="+token+"&"+asConf), true)
		d.reload(onDisk + "\n# another configuration\n")
		d.gateSays(t, token, "The access token was revoked")
		if !d.passes(t, alive) {
			t.Error("a reload ended a token")
		}
	})
}

// holdSentence is hold for temporarily_unavailable, whose text is free.
func (d *door) holdSentence(t *testing.T, a answer, want outcome) {
	t.Helper()
	var body struct {
		Description string `json:"error_description"`
	}
	_ = json.Unmarshal([]byte(a.body), &body)
	if !strings.HasSuffix(body.Description, ".") {
		t.Errorf("no sentence: %q", body.Description)
	}
	want.text = body.Description
	d.hold(t, a, want)
}

// TestT106T20Introspection: introspection of one's own token → active with its claims; unknown, expired, revoked or another client's → inactive;
// without authentication, or with a public client's secret → 401; a bearer token beside another credential → 400, another scheme → ignored; with the
// store down → 503.
func TestT106T20Introspection(t *testing.T) {
	move := setClock(t).advance
	d := openDoor(t, strings.Replace(onDisk, "scope orders.read", "revocation {\n\t\t\tmax_staleness 2s\n\t\t}\n\t\tscope orders.read", 1))
	stored := d.register(t, store.Client{ID: "stored"})
	ask := func(form string, headers ...string) answer {
		d.decisions(t)
		return d.ask(t, "/oauth/introspect", form, headers...)
	}
	inactive := func(t *testing.T, a answer) {
		t.Helper()
		d.hold(t, a, granted())
		if strings.TrimSpace(a.body) != `{"active":false}` {
			t.Errorf("body %s", a.body)
		}
	}
	active := func(t *testing.T, a answer, token string) map[string]any {
		t.Helper()
		d.hold(t, a, granted())
		var body map[string]any
		check(t, json.Unmarshal([]byte(a.body), &body))
		if body["active"] != true || body["token_type"] != "Bearer" {
			t.Errorf("body %s", a.body)
		}
		claim := claims(t, token)
		for _, name := range []string{"scope", "client_id", "exp", "iat", "sub", "iss", "jti"} {
			if body[name] == nil || body[name] != claim[name] {
				t.Errorf("%s: %v, want %v", name, body[name], claim[name])
			}
		}
		if aud := body["aud"]; !reflect.DeepEqual(aud, claim["aud"]) && !reflect.DeepEqual(aud, []any{claim["aud"]}) {
			t.Errorf("aud: %v, want %v", aud, claim["aud"])
		}
		return body
	}

	token, bearer := d.token(), d.token()
	t.Run("own token", func(t *testing.T) {
		body := active(t, ask("token="+token+"&"+asConf), token)
		want := []string{"active", "aud", "client_id", "exp", "iat", "iss", "jti", "scope", "sub", "token_type", "token_use"}
		if names := slices.Sorted(maps.Keys(body)); !slices.Equal(names, want) {
			t.Errorf("members %v, want %v", names, want)
		}
		active(t, ask("token="+token, basic("conf:"+confSecret)...), token)
	})
	t.Run("inactive, whatever the reason", func(t *testing.T) {
		short := d.issue(issuer.Grant{Scopes: oauth.Scopes{"public"}, Lifetime: time.Second})
		theirs := d.issue(issuer.Grant{Client: &store.Client{ID: "other"}, Scopes: oauth.Scopes{"public"}})
		revoked := d.token()
		d.ask(t, "/oauth/revoke", "token="+revoked+"&"+asConf).is(t, 200, "revocation")
		parts := strings.Split(token, ".")
		for name, dead := range map[string]string{
			"unknown": "x", "another client's": theirs, "revoked": revoked, "too long": strings.Repeat("x", 20<<10),
			"alg none": "eyJhbGciOiJub25lIiwidHlwIjoiYXQrand0In0." + parts[1] + ".", "cut": token[:len(token)-4],
			"another payload": parts[0] + "." + strings.Split(bearer, ".")[1] + "." + parts[2],
		} {
			t.Run(name, func(t *testing.T) { inactive(t, ask("token="+dead+"&"+asConf)) })
		}
		active(t, ask("token="+short+"&"+asConf), short)
		move(7 * time.Second)
		if err := d.app().node.Refresh(t.Context()); err != nil { // now only the token is stale
			t.Fatal(err)
		}
		inactive(t, ask("token="+short+"&"+asConf))
	})
	t.Run("who may not ask", func(t *testing.T) {
		d.hold(t, ask("token="+token), badClient("client_credentials_missing"))
		d.hold(t, ask("token="+token+"&client_id=conf&client_secret=wrong"), badClient("client_authentication_failed"))
		d.hold(t, ask("token="+token, basic("conf:wrong")...), badBasic("client_authentication_failed"))
		d.hold(t, ask("token="+token+"&client_id=pub"), badClient("client_is_public"))
		d.hold(t, ask("token="+token+"&client_id=keyed&client_secret=keyed-"+confSecret), badClient("client_is_public"))
		for _, beside := range []string{"&" + asConf, "&client_id=pub"} {
			d.hold(t, ask("token="+token+beside, "Authorization", "Bearer "+bearer), twoMechanisms())
			d.hold(t, ask("token="+token+beside, "Authorization", "Bearer stale"), twoMechanisms())
		}
		for _, ignored := range []string{"", "Token x", "Token " + bearer} {
			active(t, ask("token="+token+"&"+asConf, "Authorization", ignored), token)
		}
		d.decisions(t)
		d.hold(t, d.ask(t, "/oauth/introspect?token="+token+"&"+asConf, "x=y"), badClient("client_credentials_missing"))
	})
	t.Run("by bearer", func(t *testing.T) {
		active(t, ask("token="+token, "Authorization", "Bearer "+bearer), token)
		for name, headers := range map[string][]string{
			"itself": {"Authorization", "Bearer " + token}, "no token of ours": {"Authorization", "Bearer x"},
		} {
			a := ask("token="+token, headers...)
			challenge := a.header.Get("Www-Authenticate")
			if a.status != 401 || !strings.HasPrefix(challenge, `Bearer realm="`+d.url+`", error="invalid_token"`) {
				t.Errorf("%s: %d %s", name, a.status, challenge)
			}
			holdHeaders(t, a)
			holdError(t, a, "invalid_token", "The access token is invalid")
			if lines := d.decisions(t); len(lines) != 1 {
				t.Errorf("%s: audited %v", name, lines)
			}
		}
		theirs := d.issue(issuer.Grant{Client: &store.Client{ID: "other"}, Scopes: oauth.Scopes{"public"}})
		inactive(t, ask("token="+token, "Authorization", "Bearer "+theirs))
		a := ask("token="+token, "Authorization", "Bearer "+bearer, "Authorization", "Bearer "+bearer)
		d.hold(t, a, malformed("authorization_header_duplicate"))
		a = ask("token="+token, "Authorization", "Bearer  "+bearer)
		d.hold(t, a, outcome{status: 400, code: "invalid_request", reason: "bearer_malformed"})
	})
	t.Run("store down", func(t *testing.T) {
		check(t, d.app().node.Store().Close())
		d.app().issuer.Clients.Authenticated.Forget("stored")
		down := outcome{status: 503, code: "temporarily_unavailable", reason: "store_unavailable"}
		d.holdSentence(t, ask("token="+token+"&client_id=stored&client_secret="+stored), down)
		d.holdSentence(t, ask("token="+token+"&"+asConf), down)
		d.holdSentence(t, d.ask(t, "/oauth/revoke", "token="+token+"&"+asConf), down)
		d.holdSentence(t, d.ask(t, "/oauth/token", ccGrant, basic("stored:x")...), down)
		d.hold(t, d.ask(t, "/oauth/token", ccGrant+"&"+asConf), granted())
		d.send(t, http.MethodGet, "/any/x", "", "Authorization", "Bearer "+token).is(t, 200, "the gate, with what it knows")
		d.upstream.one(t)
		move(3 * time.Second) // what is known of revocations is now too old
		a := d.send(t, http.MethodGet, "/any/x", "", "Authorization", "Bearer "+token)
		if a.status != 503 || a.header.Get("Retry-After") == "" || a.header.Get("Www-Authenticate") != "" {
			t.Errorf("the gate: %d %v", a.status, a.header)
		}
		d.upstream.none(t)
	})
}

// TestT107TokenInfo: token info by header → 200; by query → 401; of a bad token → 401 with a challenge; of a server token →
// `resource_owner_id: null`.
func TestT107TokenInfo(t *testing.T) {
	setClock(t)
	d := openDoor(t, patient)
	info := func(path string, headers ...string) answer {
		d.decisions(t)
		return d.send(t, http.MethodGet, path, "", headers...)
	}
	token := d.token()
	users := d.issue(issuer.Grant{
		Type: oauth.AuthorizationCode, User: &store.User{ID: "u-ada", Organisation: "acme", Role: "admin"},
		Family: &store.TokenFamily{ID: "f-1"}, Scopes: oauth.Scopes{"trusted", "public"},
	})
	for name, test := range map[string]struct{ token, scheme, want string }{
		"server token": {token, "Bearer", `{"resource_owner_id":null,"scope":["public"],"expires_in":%d,"application":{"uid":"conf"},"created_at":%d}`},
		"user token":   {users, "Bearer", `{"resource_owner_id":"u-ada","scope":["trusted","public"],"expires_in":%d,"application":{"uid":"conf"},"created_at":%d}`},
		"other case":   {token, "bEARER", `{"resource_owner_id":null,"scope":["public"],"expires_in":%d,"application":{"uid":"conf"},"created_at":%d}`},
	} {
		a := info("/oauth/token/info", "Authorization", test.scheme+" "+test.token)
		d.hold(t, a, granted())
		var body struct {
			ExpiresIn int   `json:"expires_in"`
			CreatedAt int64 `json:"created_at"`
		}
		_ = json.Unmarshal([]byte(a.body), &body)
		claim := claims(t, test.token)
		left := claim["exp"].(float64) - float64(node.Clock().Unix())
		if float64(body.ExpiresIn) > left+2 || float64(body.ExpiresIn) < left-2 || float64(body.CreatedAt) != claim["iat"] {
			t.Errorf("%s: %s", name, a.body)
		}
		if want := fmt.Sprintf(test.want, body.ExpiresIn, body.CreatedAt); strings.TrimSpace(a.body) != want {
			t.Errorf("%s: %s, want %s", name, a.body, want)
		}
	}

	realm := `Bearer realm="` + d.url + `"`
	refused := func(name string, a answer, status int, code, challenge string) {
		t.Helper()
		if a.status != status || a.header.Get("Www-Authenticate") != challenge {
			t.Errorf("%s: %d %q, want %d %q", name, a.status, a.header.Get("Www-Authenticate"), status, challenge)
		}
		holdHeaders(t, a)
		holdError(t, a, code, "")
		if lines := d.decisions(t); len(lines) != 1 || lines[0]["reason"] == nil {
			t.Errorf("%s: audited %v", name, lines)
		}
	}
	invalid := realm + `, error="invalid_token", error_description="The access token is invalid"`
	twice := realm + `, error="invalid_request", error_description="` + contract["invalid_request"] + `"`
	refused("no token", info("/oauth/token/info"), 401, "unauthorized", realm)
	refused("in the query", info("/oauth/token/info?access_token="+token), 401, "unauthorized", realm)
	refused("in a cookie", info("/oauth/token/info", "Cookie", "accessToken="+token), 401, "unauthorized", realm)
	refused("Basic", info("/oauth/token/info", basic("conf:"+confSecret)...), 401, "unauthorized", realm)
	refused("no token of ours", info("/oauth/token/info", "Authorization", "Bearer x"), 401, "invalid_token", invalid)
	refused("cut", info("/oauth/token/info", "Authorization", "Bearer "+token[:len(token)-2]), 401, "invalid_token", invalid)
	refused("header and query", info("/oauth/token/info?access_token="+token, "Authorization", "Bearer "+token), 400, "invalid_request", twice)
	refused("two headers", info("/oauth/token/info", "Authorization", "Bearer "+token, "Authorization", "Bearer "+token), 400, "invalid_request", twice)
	d.ask(t, "/oauth/revoke", "token="+token+"&"+asConf).is(t, 200, "revocation")
	refused("revoked", info("/oauth/token/info", "Authorization", "Bearer "+token), 401, "invalid_token",
		realm+`, error="invalid_token", error_description="The access token was revoked"`)
}

// TestT108MetadataComesFromTheConfiguration: metadata asked with foreign Host or X-Forwarded-Host → the configured issuer, unchanged.
func TestT108MetadataComesFromTheConfiguration(t *testing.T) {
	open := freeAddr(t)
	_, port, err := net.SplitHostPort(open)
	check(t, err)
	// The site serves every host, as one behind a proxy may.
	d := openDoor(t, strings.Replace(patient, "http://ADDR {\n", "http://:"+port+" {\n\tbind 127.0.0.1\n", 1))
	issuer := d.url
	d.addr, d.url = open, "http://"+open
	server := fmt.Sprintf(`{"issuer":%q,"authorization_endpoint":%q,"token_endpoint":%q,"device_authorization_endpoint":%q,"jwks_uri":%q,"revocation_endpoint":%q,"introspection_endpoint":%q,`+
		`"scopes_supported":["public","trusted","refresh_token","offline_access","groups","orders.read"],"response_types_supported":["code"],`+
		`"response_modes_supported":["query"],"grant_types_supported":["client_credentials","authorization_code","refresh_token","urn:ietf:params:oauth:grant-type:token-exchange","urn:ietf:params:oauth:grant-type:device_code"],`+
		`"token_endpoint_auth_methods_supported":["client_secret_basic","client_secret_post","private_key_jwt","none"],`+
		`"revocation_endpoint_auth_methods_supported":["client_secret_basic","client_secret_post","private_key_jwt","none"],`+
		`"introspection_endpoint_auth_methods_supported":["client_secret_basic","client_secret_post","private_key_jwt"],`+
		`"token_endpoint_auth_signing_alg_values_supported":ALGS,"revocation_endpoint_auth_signing_alg_values_supported":ALGS,"introspection_endpoint_auth_signing_alg_values_supported":ALGS,`+
		`"code_challenge_methods_supported":["S256"],"authorization_response_iss_parameter_supported":true,`+
		`"ui_locales_supported":["en","de","es","fr"]}`,
		issuer, issuer+"/oauth/authorize", issuer+"/oauth/token", issuer+"/oauth/device_authorization", issuer+"/oauth/jwks", issuer+"/oauth/revoke", issuer+"/oauth/introspect")
	server = strings.ReplaceAll(server, "ALGS", `["ES256","RS256","EdDSA","ES384","ES512","RS384","RS512","PS256","PS384","PS512","Ed25519"]`)
	resource := fmt.Sprintf(`{"resource":%q,"authorization_servers":[%q],"scopes_supported":["public","trusted","groups","orders.read"],"bearer_methods_supported":["header"]}`, issuer, issuer)
	for path, want := range map[string]string{
		"/.well-known/oauth-authorization-server": server, "/.well-known/oauth-protected-resource": resource,
	} {
		for _, host := range []string{open, "evil.example", "evil.example:443", "127.0.0.1:1"} {
			for _, more := range []string{"", "X-Forwarded-Host: evil.example\nX-Forwarded-Proto: https\nForwarded: host=evil.example\nX-Original-URL: //evil.example\n"} {
				status, header, body := d.raw("GET " + path + " HTTP/1.1\nHost: " + host + "\n" + more + "\n")
				if status != 200 || body != want {
					t.Errorf("%s for %s: %d %s\nwant %s", path, host, status, body, want)
				}
				if header.Get("Content-Type") != "application/json" || header.Get("Access-Control-Allow-Origin") == "null" {
					t.Errorf("%s: %v", path, header)
				}
			}
		}
		if status, _, body := d.raw("GET " + path + "?issuer=evil HTTP/1.1\nHost: " + open + "\n\n"); status != 200 || body != want {
			t.Errorf("with a query: %d %s", status, body)
		}
	}
	// The same holds for tokens and challenges.
	form := ccGrant + "&" + asConf
	_, _, body := d.raw(fmt.Sprintf("POST /oauth/token HTTP/1.1\nHost: evil.example\nX-Forwarded-Host: evil.example\nContent-Type: %s\nContent-Length: %d\n\n%s", urlEncoded, len(form), form))
	if claim := claims(t, member(t, body, "access_token")); claim["iss"] != issuer || claim["aud"] != issuer {
		t.Errorf("iss %v, aud %v", claim["iss"], claim["aud"])
	}
	for _, path := range []string{"/any/x", "/oauth/token/info"} {
		_, header, body := d.raw("GET " + path + " HTTP/1.1\nHost: evil.example\nX-Forwarded-Host: evil.example\n\n")
		if challenge := header.Get("Www-Authenticate"); !strings.Contains(challenge, issuer) || strings.Contains(challenge+body, "evil") {
			t.Errorf("%s: %s %s", path, challenge, body)
		}
	}
}

// TestK8PublishedKeys: the key set → by GET and HEAD, to be cached while a new key waits, and the tokens name its key. Package keys tests the
// members.
func TestK8PublishedKeys(t *testing.T) {
	d := openDoor(t, patient)
	a := d.send(t, http.MethodGet, "/oauth/jwks", "")
	if a.status != 200 || a.header.Get("Content-Type") != "application/jwk-set+json" || a.header.Get("Pragma") != "" {
		t.Fatalf("%d %v", a.status, a.header)
	}
	public, age, _ := strings.Cut(a.header.Get("Cache-Control"), ", max-age=")
	if seconds, err := strconv.Atoi(age); public != "public" || err != nil || seconds < 1 || 2*time.Duration(seconds)*time.Second > keys.Lead {
		t.Errorf("Cache-Control %q", a.header.Get("Cache-Control"))
	}
	head, err := base64.RawURLEncoding.DecodeString(strings.Split(d.token(), ".")[0])
	if err != nil || !strings.Contains(a.body, `"kid":"`+member(t, string(head), "kid")+`"`) {
		t.Errorf("keys %s, header %s, %v", a.body, head, err)
	}
	if status, header, body := d.do(http.MethodHead, "/oauth/jwks", ""); status != 200 || body != "" || header.Get("Content-Type") != "application/jwk-set+json" {
		t.Errorf("HEAD: %d %v", status, header)
	}
}

// TestT124M36PagesOfOtherOriginsAtTheIssuer: pages of other origins → metadata and keys for all; token, revocation and
// userinfo for the origins of public clients and `cors_origins`, errors too; the rest, tokens for members among it, for none, and never with
// credentials. No origin may ever send cookies.
func TestT124M36PagesOfOtherOriginsAtTheIssuer(t *testing.T) {
	g := startPeople(t, "client other other-SECRET {", "client other other-SECRET {\n\t\t\tcors_origins https://named.example http://localhost:3000")
	d := &door{gatehouse: g, client: http.DefaultClient}
	allowed := []string{"https://pub.example", "https://named.example", "http://localhost:3000"}
	others := []string{"https://evil.example", "https://client.example", "https://PUB.example", "https://pub.example:8443", "http://pub.example", "https://pub.example.evil.example", "null", "http://127.0.0.1", ""}
	readable := func(t *testing.T, a answer, origin string) {
		t.Helper()
		if got := a.header.Values("Access-Control-Allow-Origin"); origin == "" && got != nil || origin != "" && !slices.Equal(got, []string{origin}) {
			t.Errorf("%d: allowed %q, want %q", a.status, got, origin)
		}
		if got := a.header.Values("Access-Control-Allow-Credentials"); got != nil {
			t.Errorf("credentials: %q", got)
		}
	}
	preflight := func(path, origin, method string) answer {
		return d.send(t, "OPTIONS", path, "", "Origin", origin, "Access-Control-Request-Method", method, "Access-Control-Request-Headers", "authorization, content-type")
	}
	for _, path := range []string{"/oauth/token", "/oauth/revoke"} {
		for _, origin := range allowed {
			a := preflight(path, origin, "POST")
			if readable(t, a, origin); a.status != http.StatusNoContent || a.header.Get("Access-Control-Allow-Methods") != "POST" || a.header.Get("Access-Control-Allow-Headers") != "Authorization, *" ||
				!slices.Contains(a.header.Values("Vary"), "Origin") || a.header.Get("Access-Control-Max-Age") == "" {
				t.Errorf("%s for %s: %d %v", path, origin, a.status, a.header)
			}
			a = d.ask(t, path, "grant_type=nonsense&client_id=pub", "Origin", origin)
			if readable(t, a, origin); a.status != http.StatusBadRequest || a.header.Get("Access-Control-Expose-Headers") != "WWW-Authenticate, Retry-After" || !slices.Contains(a.header.Values("Vary"), "Origin") {
				t.Errorf("an error of %s for %s: %d %v", path, origin, a.status, a.header)
			}
		}
		for _, origin := range others {
			if a := preflight(path, origin, "POST"); a.status != http.StatusMethodNotAllowed {
				t.Errorf("%s for %q: %d", path, origin, a.status)
			} else {
				readable(t, a, "")
			}
			readable(t, d.ask(t, path, "grant_type=nonsense&client_id=pub", "Origin", origin), "")
		}
		readable(t, d.send(t, "OPTIONS", path, "", "Origin", allowed[0], "Origin", allowed[1], "Access-Control-Request-Method", "POST"), "")
		d.send(t, "OPTIONS", path, "", "Origin", allowed[0]).is(t, http.StatusMethodNotAllowed, "no preflight")
	}
	for _, path := range []string{"/oauth/jwks", "/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/api"} {
		for _, origin := range append(others[:len(others)-1:len(others)-1], allowed...) {
			if a := preflight(path, origin, "GET"); a.status != http.StatusNoContent {
				t.Errorf("%s for %s: %d", path, origin, a.status)
			} else {
				readable(t, a, "*")
			}
			if a := d.send(t, "GET", path, "", "Origin", origin); a.status != http.StatusOK {
				t.Errorf("%s: %d", path, a.status)
			} else {
				readable(t, a, "*")
			}
		}
	}
	for _, path := range []string{"/oauth/authorize", "/oauth/login", "/oauth/consent", "/oauth/logout", "/oauth/account", "/oauth/introspect", "/oauth/token/info", "/oauth/nothing", "/api/v1/organisations/me/users/u-max/access_tokens"} {
		for _, method := range []string{"OPTIONS", "GET", "POST"} {
			readable(t, d.send(t, method, path, "", "Origin", allowed[0], "Access-Control-Request-Method", "POST"), "")
		}
	}
	t.Run("a client that is added and removed", func(t *testing.T) {
		readable(t, preflight("/oauth/token", "https://new.example", "POST"), "")
		d.register(t, store.Client{ID: "new", Type: store.PublicClient, RedirectURIs: []string{"https://NEW.example:443/cb"}})
		readable(t, preflight("/oauth/token", "https://new.example", "POST"), "https://new.example")
		g.ok("client", "update", "new", "--redirect-uri", "https://newer.example/cb")
		readable(t, preflight("/oauth/token", "https://new.example", "POST"), "")
		readable(t, preflight("/oauth/token", "https://newer.example", "POST"), "https://newer.example")
		check(t, d.app().registry.Clients.RemoveClient(t.Context(), "new"))
		readable(t, preflight("/oauth/token", "https://new.example", "POST"), "")
	})
}
