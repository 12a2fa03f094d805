package caddymodule

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// lets enables client registration for people, with lines of the block.
func lets(lines string) string {
	return "password_grant\n\t\tregistration {\n\t\t\tscopes trusted orders.read\n\t\t\t" + lines + "\n\t\t}"
}

// registered is the response to a registration.
type registered struct {
	ID            string   `json:"client_id"`
	IssuedAt      int64    `json:"client_id_issued_at"`
	Secret        string   `json:"client_secret"`
	SecretExpires *int64   `json:"client_secret_expires_at"`
	Token         string   `json:"registration_access_token"`
	URI           string   `json:"registration_client_uri"`
	Name          string   `json:"client_name"`
	RedirectURIs  []string `json:"redirect_uris"`
	Method        string   `json:"token_endpoint_auth_method"`
	Grants        []string `json:"grant_types"`
	ResponseTypes []string `json:"response_types"`
	Scope         string   `json:"scope"`
}

// register sends a registration request; headers are name, value, …
func (g *gatehouse) register(metadata string, headers ...string) (int, http.Header, registered, string) {
	g.t.Helper()
	status, header, body := g.do(http.MethodPost, "/oauth/register", metadata, append([]string{"Content-Type", "application/json"}, headers...)...)
	var got registered
	if status == http.StatusCreated {
		if got := header.Get("Content-Type"); !strings.HasPrefix(got, "application/json") { // RFC 7591 §3.2.1
			g.t.Errorf("the answer is %q", got)
		}
		check(g.t, json.Unmarshal([]byte(body), &got))
	}
	return status, header, got, body
}

// mustRegister is register for a request that must succeed.
func (g *gatehouse) mustRegister(metadata string) registered {
	g.t.Helper()
	status, _, got, body := g.register(metadata)
	if status != http.StatusCreated {
		g.t.Fatalf("%s: %d %s", metadata, status, body)
	}
	return got
}

// request returns the usual request of a registered client.
func (c registered) request(redirectURI string) request {
	r := requestOf("pub")
	r.clientID, r.secret, r.redirectURI = c.ID, c.Secret, redirectURI
	return r
}

// manage sends a request to the registration of a client.
func (g *gatehouse) manage(method string, c registered, token, body string) (int, string) {
	g.t.Helper()
	headers := []string{"Authorization", "Bearer " + token}
	if body != "" {
		headers = append(headers, "Content-Type", "application/json")
	}
	status, _, answer := g.do(method, strings.TrimPrefix(c.URI, g.url), body, headers...)
	return status, answer
}

// managed is manage for a request with this status, and returns the answer.
func (g *gatehouse) managed(t *testing.T, what string, want int, method string, c registered, token, body string) string {
	t.Helper()
	status, answer := g.manage(method, c, token, body)
	if status != want {
		t.Errorf("%s: %d %s, want %d", what, status, answer, want)
	}
	return answer
}

// knownClients are the redirect URIs with which well-known MCP clients register, each with one that the client then
// uses.
var knownClients = []struct {
	name     string
	uris     []string
	comesTo  string
	onDevice bool
}{
	{"Claude", []string{"https://claude.ai/api/mcp/auth_callback", "https://claude.com/api/mcp/auth_callback"}, "https://claude.com/api/mcp/auth_callback", false},
	{"Claude Code", []string{"http://localhost:53117/callback"}, "http://localhost:53117/callback", true},
	{"Claude Code on another port", []string{"http://localhost/callback"}, "http://localhost:61002/callback", true},
	{"Visual Studio Code", []string{"https://vscode.dev/redirect", "https://insiders.vscode.dev/redirect", "http://127.0.0.1/", "http://127.0.0.1:33418/"}, "http://127.0.0.1:33418/", true},
	{"Visual Studio Code in a browser", []string{"https://vscode.dev/redirect", "http://127.0.0.1:33418"}, "https://vscode.dev/redirect", false},
	{"Cursor", []string{"cursor://anysphere.cursor-mcp/oauth/callback"}, "cursor://anysphere.cursor-mcp/oauth/callback", true},
	{"Cursor, older", []string{"cursor://anysphere.cursor-retrieval/oauth/user-abc/callback"}, "cursor://anysphere.cursor-retrieval/oauth/user-abc/callback", true},
	{"Codex", []string{"http://127.0.0.1:1455/callback"}, "http://127.0.0.1:1455/callback", true},
	{"Zed", []string{"http://127.0.0.1/oauth/callback"}, "http://127.0.0.1:40411/oauth/callback", true},
	{"MCP Inspector", []string{"http://localhost:6274/oauth/callback", "http://localhost:6274/oauth/callback/debug"}, "http://localhost:6274/oauth/callback/debug", true},
}

// TestQ50KnownClients: the redirect URIs of Claude, VS Code, Cursor, Codex, Zed and the MCP Inspector → each registers, signs in and
// refreshes.
func TestQ50KnownClients(t *testing.T) {
	g, d := startPeople(t, "password_grant", strings.Replace(admitsDescribed, "password_grant", lets("limit off"), 1)), newDescribing(t)
	for i, known := range knownClients {
		uris, _ := json.Marshal(known.uris)
		metadata := fmt.Sprintf(`"client_name":%q,"redirect_uris":%s,"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"none"`, known.name, uris)
		c := g.mustRegister("{" + metadata + "}")
		if c.Method != "none" || c.Secret != "" || c.SecretExpires != nil || !slices.Equal(c.RedirectURIs, known.uris) || c.Name != known.name || c.IssuedAt == 0 ||
			c.Scope != "public trusted orders.read" || !slices.Equal(c.Grants, []string{"authorization_code", "refresh_token"}) || !slices.Equal(c.ResponseTypes, []string{"code"}) {
			t.Errorf("%s: %+v", known.name, c)
		}
		for what, r := range map[string]request{"registered": c.request(known.comesTo), "described": d.client(fmt.Sprintf("/%d.json", i), metadata, known.comesTo)} {
			b := g.browser()
			p := b.signIn(b.open(r.path()), "max@acme.example", peoplePassword)
			if location := p.header.Get("Location"); location != "" {
				p = b.open(location)
			}
			if strings.Contains(p.body, "program on this device") != known.onDevice {
				t.Errorf("%s, %s: a warning, or none: %s", known.name, what, p.body)
			}
			got := g.obtain(r.exchange(b.codeToClient(t, b.decide(p, "allow"), r)))
			if got = g.obtain(r.refresh(got.RefreshToken)); !g.alive(got.AccessToken) {
				t.Errorf("%s, %s: its token is refused", known.name, what)
			}
		}
	}
	if _, _, metadata := g.get("/.well-known/oauth-authorization-server", ""); !strings.Contains(metadata, `"registration_endpoint":"`+g.url+`/oauth/register"`) {
		t.Errorf("the metadata are %s", metadata)
	}
}

// TestQ51Registrations: a registration without or with unsafe redirect URIs, other grants, malformed, compressed, too large → refused; a
// good one → 201, with a secret.
func TestQ51Registrations(t *testing.T) {
	g := startPeople(t, "password_grant", lets("limit off"))
	const uri = "https://agent.example/callback"
	good := `"redirect_uris":["` + uri + `"]`
	secret := g.mustRegister("{" + good + `,"scope":"orders.read nobody:knows","software_statement":"x","contacts":["a@b.example"]}`)
	if secret.Method != "client_secret_basic" || secret.Secret == "" || secret.SecretExpires == nil || *secret.SecretExpires != 0 || secret.Name == "" {
		t.Errorf("a client that does not say how it authenticates: %+v", secret)
	}
	r := secret.request(uri)
	got := g.userTokens(r, "max@acme.example")
	g.obtain(r.refresh(got.RefreshToken))
	r.secret = "wrong"
	g.refused(r.exchange("x"), http.StatusUnauthorized, "invalid_client")
	r.secret = ""
	g.refused(r.exchange("x"), http.StatusUnauthorized, "invalid_client")
	r = secret.request(uri)
	r.verifier = ""
	holdRefusal(t, g.signedIn("max@acme.example").open(r.path()))
	if status, _, body := g.do(http.MethodPost, "/oauth/register", "{"+good+"}", "Content-Type", "text/plain"); status != http.StatusUnsupportedMediaType {
		t.Errorf("as text: %d %s", status, body)
	}
	g.refused(url.Values{"grant_type": {"client_credentials"}, "client_id": {secret.ID}, "client_secret": {secret.Secret}}, http.StatusBadRequest, "unauthorized_client")
	// A user is asked each time, with or without a client secret.
	b := g.consented("max@acme.example")
	r = secret.request(uri)
	for range 2 {
		p := b.open(r.path())
		holdWords(t, "the consent page", p.body, "that nobody here has registered", "<strong><bdi>agent.example</bdi></strong>")
		b.codeToClient(t, b.decide(p, "allow"), r)
	}

	for _, test := range []struct {
		name, body, code string
		status           int
		headers          []string
	}{
		{"no redirect URI", `{"client_name":"x"}`, "invalid_redirect_uri", 400, nil},
		{"javascript", `{"redirect_uris":["javascript:alert(1)"]}`, "invalid_redirect_uri", 400, nil},
		{"plain http", `{"redirect_uris":["http://agent.example/cb"]}`, "invalid_redirect_uri", 400, nil},
		{"fragment", `{"redirect_uris":["https://agent.example/cb#x"]}`, "invalid_redirect_uri", 400, nil},
		{"a browser's scheme", `{"redirect_uris":["microsoft-edge:https://evil.example"]}`, "invalid_redirect_uri", 400, nil},
		{"a search", `{"redirect_uris":["https://agent.example/cb","search-ms:query=x"]}`, "invalid_redirect_uri", 400, nil},
		{"a scheme in upper case", `{"redirect_uris":["MS-Settings:x"]}`, "invalid_redirect_uri", 400, nil},
		{"a scheme of one word", `{"redirect_uris":["myapp:/cb"]}`, "invalid_redirect_uri", 400, nil},
		{"a scheme that ends in a dot", `{"redirect_uris":["myapp.:/cb"]}`, "invalid_redirect_uri", 400, nil},
		{"a scheme with a plus", `{"redirect_uris":["com.example+app:/cb"]}`, "invalid_redirect_uri", 400, nil},
		{"an intent", `{"redirect_uris":["intent://x/y"]}`, "invalid_redirect_uri", 400, nil},
		{"implicit", `{` + good + `,"response_types":["token"]}`, "invalid_client_metadata", 400, nil},
		{"client_credentials alone", `{` + good + `,"grant_types":["client_credentials"]}`, "invalid_client_metadata", 400, nil},
		{"unknown method", `{` + good + `,"token_endpoint_auth_method":"tls_client_auth"}`, "invalid_client_metadata", 400, nil},
		{"member twice", `{` + good + `,` + good + `}`, "invalid_client_metadata", 400, nil},
		{"of another type", `{"redirect_uris":"` + uri + `"}`, "invalid_client_metadata", 400, nil},
		{"array", `[{` + good + `}]`, "invalid_client_metadata", 400, nil},
		{"no JSON", `redirect_uris=x`, "invalid_client_metadata", 400, nil},
		{"as a form", `redirect_uris=x`, "invalid_request", 415, []string{"Content-Type", "application/x-www-form-urlencoded"}},
		{"compressed", `{` + good + `}`, "invalid_request", 415, []string{"Content-Encoding", "gzip"}},
		{"too large", `{` + good + `,"pad":"` + strings.Repeat("x", 1<<20) + `"}`, "invalid_request", 413, nil},
	} {
		status, header, _, body := g.register(test.body, test.headers...)
		if status != test.status || member(t, body, "error") != test.code || header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %s, want %d %s", test.name, status, body, test.status, test.code)
		}
	}
	// Pages of any origin may register.
	status, header, _, _ := g.register("{"+good+"}", "Origin", "https://inspector.example")
	if status != http.StatusCreated || header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("from a page: %d %v", status, header)
	}
	status, header, _ = g.do(http.MethodOptions, "/oauth/register", "", "Origin", "https://inspector.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type")
	if status != http.StatusNoContent || header.Get("Access-Control-Allow-Origin") != "*" || !strings.Contains(header.Get("Access-Control-Allow-Methods"), "POST") {
		t.Errorf("a preflight: %d %v", status, header)
	}
	if status, _, _ = g.get("/oauth/register", ""); status != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", status)
	}
}

// TestQ52RegistrationFloods: continuous registrations from one address → 429; too many in all → 503, unused ones make
// room after an hour.
func TestQ52RegistrationFloods(t *testing.T) {
	g := startPeople(t, "password_grant", lets("limit 4/1h per ip\n\t\t\tmax_clients 2"))
	const good = `{"redirect_uris":["https://agent.example/callback"],"token_endpoint_auth_method":"none"}`
	first, second := g.mustRegister(good), g.mustRegister(good)
	g.userTokens(first.request("https://agent.example/callback"), "max@acme.example")
	status, header, _, body := g.register(good)
	if status != http.StatusServiceUnavailable || member(t, body, "error") != "temporarily_unavailable" || header.Get("Retry-After") == "" {
		t.Errorf("a third: %d %s", status, body)
	}
	if status, _, _, body = g.register(`{}`); status != http.StatusBadRequest {
		t.Errorf("the fourth attempt: %d %s", status, body)
	}
	status, header, _, _ = g.register(good)
	if status != http.StatusTooManyRequests || header.Get("Retry-After") == "" {
		t.Errorf("the fifth attempt: %d", status)
	}
	// An hour later the second, unused registration makes room. The first stays.
	age := func(id string) string {
		t.Helper()
		ctx, s := t.Context(), g.app().node.Store()
		c, err := s.Clients.Client(ctx, id)
		check(t, err)
		older := *c
		older.ID, older.CreatedAt = oauth.NewID(), c.CreatedAt.Add(-2*time.Hour)
		check(t, g.app().registry.Clients.RemoveClient(ctx, id))
		check(t, s.Clients.AddClient(ctx, &older))
		return older.ID
	}
	first.ID = age(first.ID)
	second.ID = age(second.ID)
	registrar := g.app().registrar()
	third, err := registrar.Register(t.Context(), clients.Metadata{RedirectURIs: []string{"https://agent.example/callback"}, AuthMethod: "none"}, oauth.Secret{}, "192.0.2.77")
	check(t, err)
	list, err := g.app().node.Store().Clients.Clients(t.Context())
	check(t, err)
	if len(list) != 2 || !slices.ContainsFunc(list, func(c *store.Client) bool { return c.ID == first.ID }) || !slices.ContainsFunc(list, func(c *store.Client) bool { return c.ID == third.Client.ID }) {
		t.Errorf("kept are %v", list)
	}
	// A token that it gets just now, from a node that has it cached, is revoked as long as it could live.
	revocations, _, err := g.app().node.Store().Revocations.Revocations(t.Context(), store.FeedPosition{})
	check(t, err)
	for _, r := range revocations {
		if r.ID == second.ID && r.IssuedUntil.After(time.Now().Add(clients.CacheTTL)) && r.ExpiresAt.After(r.IssuedUntil.Add(28*store.Day)) {
			return
		}
	}
	t.Errorf("revoked are %+v", revocations)
}

// TestQ222ChangesAreRegistrations: continuous registration changes → 429.
func TestQ222ChangesAreRegistrations(t *testing.T) {
	g := startPeople(t, "password_grant", lets("limit 3/1h per ip"))
	c := g.mustRegister(`{"redirect_uris":["https://agent.example/callback"]}`)
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		g.managed(t, fmt.Sprint("change ", i), want, http.MethodPut, c, c.Token, fmt.Sprintf(`{"client_id":%q,"redirect_uris":["https://agent.example/callback"],"client_name":"%d"}`, c.ID, i))
	}
	g.managed(t, "its own registration", http.StatusOK, http.MethodGet, c, c.Token, "")
}

// TestQ53InitialAccessToken: a demanded initial access token missing, wrong or as Basic → 401.
func TestQ53InitialAccessToken(t *testing.T) {
	t.Setenv("INITIAL_TOKEN", "an-initial-access-token")
	g := startPeople(t, "password_grant", lets("initial_access_token {env.INITIAL_TOKEN}"))
	const good = `{"redirect_uris":["https://agent.example/callback"]}`
	for _, headers := range [][]string{nil, {"Authorization", "Bearer another-access-token"}, {"Authorization", "Basic eDp5"}} {
		status, header, _, body := g.register(good, headers...)
		if status != http.StatusUnauthorized || member(t, body, "error") != "invalid_token" || !strings.HasPrefix(header.Get("Www-Authenticate"), "Bearer") {
			t.Errorf("%v: %d %s %v", headers, status, body, header)
		}
	}
	if status, _, _, body := g.register(good, "Authorization", "Bearer an-initial-access-token"); status != http.StatusCreated {
		t.Errorf("with it: %d %s", status, body)
	}
}

// TestQ54Management: a client reads, replaces and removes its registration with its own token; with another's → 401; of another kind →
// 400.
func TestQ54Management(t *testing.T) {
	g := startPeople(t, "password_grant", lets("limit off"))
	const uri = "https://agent.example/callback"
	const good = `{"redirect_uris":["` + uri + `"],"client_name":"Agent","token_endpoint_auth_method":"none"}`
	c, other := g.mustRegister(good), g.mustRegister(good)
	if c.URI != g.url+"/oauth/register/"+c.ID || c.Token == "" || c.Token == other.Token {
		t.Fatalf("registered is %+v", c)
	}
	if body := g.managed(t, "reading", http.StatusOK, http.MethodGet, c, c.Token, ""); member(t, body, "client_name") != "Agent" || member(t, body, "registration_access_token") != c.Token {
		t.Errorf("reading: %s", body)
	}
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		for _, token := range []string{other.Token, "x", c.Token + "x", c.ID} {
			g.managed(t, method+" with another token", http.StatusUnauthorized, method, c, token, map[string]string{http.MethodPut: good}[method])
		}
		if status, _, _ := g.do(method, "/oauth/register/"+c.ID, ""); status != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d", method, status)
		}
	}
	for _, test := range []struct {
		body string
		want int
	}{
		{`{"client_id":"` + c.ID + `","redirect_uris":["https://agent.example/other"],"client_name":"Renamed"}`, http.StatusOK},
		{`{"redirect_uris":["https://agent.example/other"]}`, http.StatusBadRequest},
		{`{"client_id":"` + other.ID + `","redirect_uris":["https://agent.example/other"]}`, http.StatusBadRequest},
		{`{"client_id":"` + c.ID + `","registration_access_token":"x","redirect_uris":["https://agent.example/other"]}`, http.StatusBadRequest},
		{`{"client_id":"` + c.ID + `","redirect_uris":["javascript:x"]}`, http.StatusBadRequest},
		{`{"client_id":"` + c.ID + `","redirect_uris":["https://agent.example/other"],"token_endpoint_auth_method":"client_secret_basic"}`, http.StatusBadRequest},
	} {
		g.managed(t, test.body, test.want, http.MethodPut, c, c.Token, test.body)
	}
	holdRefusal(t, g.browser().open(c.request(uri).path()))
	tokens := g.userTokens(c.request("https://agent.example/other"), "max@acme.example")
	g.managed(t, "removing", http.StatusNoContent, http.MethodDelete, c, c.Token, "")
	if g.alive(tokens.AccessToken) {
		t.Error("a removed client's token is taken")
	}
	// The token endpoint's error shows the client that it must register again.
	g.refused(c.request(uri).refresh(tokens.RefreshToken), http.StatusUnauthorized, "invalid_client")
	g.managed(t, "reading what is removed", http.StatusUnauthorized, http.MethodGet, c, c.Token, "")
	// A client that the operator has disabled cannot remove itself and come back under the same id. The operator's
	// own clients have no registration token.
	g.ok("client", "disable", other.ID)
	g.managed(t, "a disabled client", http.StatusUnauthorized, http.MethodDelete, other, other.Token, "")
	g.ok("client", "add", "--id", "stored", "--name", "Stored")
	for _, id := range []string{"conf", "stored"} {
		operators := g.app().issuer.Families.Master.RegistrationToken(id).Reveal()
		g.managed(t, "an operator's client", http.StatusUnauthorized, http.MethodDelete, registered{URI: g.url + "/oauth/register/" + id}, operators, "")
	}
}

// TestQ55UnusedClients: a registered client without a token for 30 days → removed; operators' clients stay.
func TestQ55UnusedClients(t *testing.T) {
	g, d := startPeople(t, "password_grant", strings.Replace(admitsDescribed, "password_grant", lets("limit off"), 1)), newDescribing(t)
	const uri = "https://agent.example/callback"
	const good = `{"redirect_uris":["` + uri + `"],"token_endpoint_auth_method":"none"}`
	unused, used, disabled := g.mustRegister(good), g.mustRegister(good), g.mustRegister(good)
	g.userTokens(d.client("/agent.json", `"redirect_uris":["`+uri+`"]`, uri), "max@acme.example")
	g.must(http.StatusCreated, "POST", "/oauth/clients", `{"id":"operators","name":"x"}`)
	g.ok("client", "disable", disabled.ID)
	registrar, now := g.app().registrar(), time.Now()
	check := func(since time.Time, want int) {
		t.Helper()
		if n, err := registrar.RemoveUnused(t.Context(), since); n != want || err != nil {
			t.Errorf("%d clients are removed, want %d: %v", n, want, err)
		}
	}
	check(now.Add(-clients.UnusedFor), 0)
	tokens := g.userTokens(used.request(uri), "max@acme.example")
	check(now.Add(-time.Minute), 0)
	c, err := g.app().node.Store().Clients.Client(t.Context(), used.ID)
	if err != nil || c.LastUsedAt.IsZero() {
		t.Fatalf("the use is not noted: %+v, %v", c, err)
	}
	check(c.LastUsedAt, 1)
	if out := g.ok("client", "list", "--origin", "registration"); strings.Contains(out, unused.ID) || !strings.Contains(out, used.ID) || !strings.Contains(out, disabled.ID) {
		t.Errorf("left are %s", out)
	}
	check(time.Now().Add(time.Minute), 1)
	g.refused(used.request(uri).refresh(tokens.RefreshToken), http.StatusUnauthorized, "invalid_client")
	if g.alive(tokens.AccessToken) {
		t.Error("the token of a client that was removed is taken")
	}
	holdWords(t, "the list", g.ok("client", "list"), "operators", "agent.json", disabled.ID)
}

// TestQ56NoRegistration: `registration` taken out → 404, clients that registered go on with the scopes of now.
func TestQ56NoRegistration(t *testing.T) {
	g := startPeople(t, "password_grant", lets("limit off"))
	const uri = "https://agent.example/callback"
	c := g.mustRegister(`{"redirect_uris":["` + uri + `"],"token_endpoint_auth_method":"none"}`)
	tokens := g.userTokens(c.request(uri), "max@acme.example")
	// The scopes of such clients follow the current configuration.
	g.reload(peopleSite("password_grant", strings.Replace(lets("limit off"), "trusted orders.read", "orders.read", 1)))
	holdRefusal(t, g.signedIn("max@acme.example").open(c.request(uri).path()))
	got := g.obtain(c.request(uri).refresh(tokens.RefreshToken))
	if got.Scope != "public" {
		t.Errorf("refreshed is %q", got.Scope)
	}
	g.reload(peopleSite())
	if status, _, _, _ := g.register(`{"redirect_uris":["` + uri + `"]}`); status != http.StatusNotFound {
		t.Errorf("without the block: %d", status)
	}
	if _, _, metadata := g.get("/.well-known/oauth-authorization-server", ""); strings.Contains(metadata, "registration_endpoint") {
		t.Errorf("the metadata are %s", metadata)
	}
	g.obtain(c.request(uri).refresh(got.RefreshToken))
}

// registersOpenID lets clients register at an OpenID provider.
const registersOpenID = "password_grant\n\t\topenid\n\t\tregistration {\n\t\t\tscopes openid trusted\n\t\t\tlimit off\n\t\t}"

// TestQ51OpenIDMetadata: OpenID Connect metadata that the issuer supports is stored and returned, values that it
// refuses get their error, and unknown members are omitted from the response.
func TestQ51OpenIDMetadata(t *testing.T) {
	g := startPeople(t, "password_grant", registersOpenID)
	const uri = "https://agent.example/callback"
	metadata := func(members string) string { return `{"redirect_uris":["` + uri + `"]` + members + "}" }
	all := `"id_token_signed_response_alg":"EdDSA","post_logout_redirect_uris":["https://agent.example/bye","com.example.agent:/bye"],"backchannel_logout_uri":"https://agent.example/out",` +
		`"backchannel_logout_session_required":true,"response_modes":["query"],"default_max_age":0`
	told := func(body string) map[string]json.RawMessage {
		t.Helper()
		var members map[string]json.RawMessage
		check(t, json.Unmarshal([]byte(body), &members))
		return members
	}
	wantAll := func(what, body string) {
		t.Helper()
		got := told(body)
		for name, want := range told("{" + all + "}") {
			if string(got[name]) != string(want) {
				t.Errorf("%s: %s is %s, want %s", what, name, got[name], want)
			}
		}
	}
	status, _, c, body := g.register(metadata("," + all + `,"token_endpoint_auth_method":"none","frontchannel_logout_uri":"https://agent.example/x","logo_uri":"https://agent.example/l"`))
	if status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	wantAll("registered", body)
	if got := told(body); got["frontchannel_logout_uri"] != nil || got["logo_uri"] != nil {
		t.Errorf("what is ignored is told: %s", body)
	}
	_, body = g.manage(http.MethodGet, c, c.Token, "")
	wantAll("read", body)
	_, body = g.manage(http.MethodPut, c, c.Token, `{"client_id":"`+c.ID+`","redirect_uris":["`+uri+`"],`+all+"}")
	wantAll("changed", body)
	r := c.request(uri)
	r.scope = "openid"
	b := g.signedIn("max@acme.example")
	if p := b.open(r.path()); p.header.Get("Location") != "" || strings.Contains(p.body, `name="scope"`) {
		t.Errorf("default_max_age 0, and nobody is asked to sign in: %d %s", p.status, p.header.Get("Location"))
	}
	r.more = url.Values{"response_mode": {"form_post"}}
	holdRefusal(t, b.open(r.path()))

	_, _, c, body = g.register(metadata(`,"id_token_signed_response_alg":"EdDSA","response_modes":["fragment","form_post","query"]`))
	if modes := string(told(body)["response_modes"]); modes != `["form_post","query"]` {
		t.Errorf("response_modes %s", modes)
	}
	r = c.request(uri)
	r.scope = "openid"
	got := g.userTokens(r, "max@acme.example")
	head, _, _ := strings.Cut(got.IDToken, ".")
	if decoded, err := base64.RawURLEncoding.DecodeString(head); err != nil || !strings.Contains(string(decoded), `"EdDSA"`) {
		t.Errorf("the ID token is signed with %s", decoded)
	}

	for name, members := range map[string]string{
		"no algorithm": `"id_token_signed_response_alg":"none"`, "a shared secret": `"id_token_signed_response_alg":"HS256"`, "a number": `"id_token_signed_response_alg":1`,
		"a script": `"post_logout_redirect_uris":["javascript:x"]`, "another program": `"post_logout_redirect_uris":["ms-settings:x"]`, "plain http": `"post_logout_redirect_uris":["http://agent.example/bye"]`,
		"no list": `"post_logout_redirect_uris":"https://agent.example/bye"`, "logout in plain http": `"backchannel_logout_uri":"http://agent.example/out"`,
		"logout at this machine": `"backchannel_logout_uri":"https://localhost/out"`, "logout at loopback": `"backchannel_logout_uri":"http://127.0.0.1:2019/stop"`, "logout nowhere": `"backchannel_logout_session_required":true`,
		"no such mode": `"response_modes":["fragment"]`, "a negative age": `"default_max_age":-1`, "an age in words": `"default_max_age":"1h"`,
	} {
		if status, _, _, body := g.register(metadata("," + members)); status != http.StatusBadRequest || member(t, body, "error") != "invalid_client_metadata" {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	// Without OpenID Connect, it is ignored.
	g.reload(peopleSite("password_grant", lets("limit off")))
	status, _, _, body = g.register(metadata("," + all))
	if got := told(body); status != http.StatusCreated || got["id_token_signed_response_alg"] != nil || got["default_max_age"] != nil || got["post_logout_redirect_uris"] != nil {
		t.Errorf("without openid: %d %s", status, body)
	}
}
