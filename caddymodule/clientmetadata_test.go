package caddymodule

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// describing is a host that serves client ID metadata documents.
type describing struct {
	*httptest.Server
	mu        sync.Mutex
	documents map[string]string // the members other than client_id, by path; a number is a status
	asked     int
}

func newDescribing(t *testing.T) *describing {
	d := &describing{documents: make(map[string]string)}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.asked++
		members, ok := d.documents[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if members == "503" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"client_id":"http://%s%s",%s}`, r.Host, r.URL.Path, members)
	}))
	t.Cleanup(d.Close)
	return d
}

// client publishes a document and returns the usual request of its client.
func (d *describing) client(path, members, redirectURI string) request {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.documents[path] = members
	r := requestOf("pub")
	r.clientID, r.redirectURI = d.URL+path, redirectURI
	return r
}

func (d *describing) host() string { return strings.TrimPrefix(d.URL, "http://") }

func (d *describing) questions() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked
}

// admitsDescribed lets users admit clients with metadata documents on this machine.
const admitsDescribed = "password_grant\n\t\tclient_metadata {\n\t\t\tscopes trusted orders.read\n\t\t\tallow_private_network\n\t\t}"

// TestQ45ClientsThatDescribeThemselves: a client with a document, without PKCE, with another redirect URI or scope → refused as a public
// client is; its own page may read the token endpoint's answers once a user has let it in.
func TestQ45ClientsThatDescribeThemselves(t *testing.T) {
	g, d := startPeople(t, "password_grant", admitsDescribed), newDescribing(t)
	const web = "https://agent.example/callback"
	agent := d.client("/agent.json", `"client_name":"Agent","redirect_uris":["https://agent.example/callback"]`, web)

	_, _, metadata := g.get("/.well-known/oauth-authorization-server", "")
	holdWords(t, "the metadata", metadata, `"client_id_metadata_document_supported":true`)
	// The token endpoint does not fetch the document of a client that no user has admitted.
	g.refused(agent.exchange("a-code"), http.StatusUnauthorized, "invalid_client")
	if d.questions() != 0 {
		t.Error("its document was fetched for the token endpoint")
	}
	b := g.browser()
	code := b.codeToClient(t, b.authorize(agent, "max@acme.example"), agent)
	got := g.obtain(agent.exchange(code))
	if got.RefreshToken == "" || !g.alive(got.AccessToken) {
		t.Errorf("the tokens are %+v", got)
	}
	readable := func(r request, refreshToken, origin string) tokens { // by its pages, once a user has let it in
		t.Helper()
		status, header, body := g.do(http.MethodPost, "/oauth/token", r.refresh(refreshToken).Encode(), "Content-Type", urlEncoded, "Origin", origin)
		if status != http.StatusOK || header.Get("Access-Control-Allow-Origin") != origin {
			t.Errorf("%s: %d %v %s", origin, status, header, body)
		}
		return decoded[tokens](t, body)
	}
	got = readable(agent, got.RefreshToken, "https://agent.example")
	if d.questions() != 1 {
		t.Errorf("its document was fetched %d times", d.questions())
	}
	// The same user is asked again, although the client is known.
	holdWords(t, "the consent page", b.open(agent.path()).body, `name="decision"`)

	for _, test := range []struct {
		name   string
		change func(*request)
	}{
		{"without PKCE", func(r *request) { r.verifier = "" }},
		{"another redirect URI", func(r *request) { r.redirectURI = "https://evil.example/callback" }},
		{"a longer redirect URI", func(r *request) { r.redirectURI += "/x" }},
		{"another port of a URI that is not on loopback", func(r *request) { r.redirectURI = "https://agent.example:8443/callback" }},
		{"a scope that is for others", func(r *request) { r.scope = "refresh_token" }},
		{"another spelling of its id", func(r *request) { r.clientID = strings.Replace(r.clientID, "/agent", "/./agent", 1) }},
		{"an id with a fragment", func(r *request) { r.clientID += "#x" }},
		{"no such document", func(r *request) { r.clientID += "x" }},
	} {
		r := agent
		test.change(&r)
		t.Run(test.name, func(t *testing.T) { holdRefusal(t, b.open(r.path())) })
	}

	// For a client on a device, a loopback redirect URI may have any port.
	device := d.client("/device.json", `"redirect_uris":["http://127.0.0.1/callback","http://localhost:3118/callback","com.example.app:/back"]`, "")
	for _, uri := range []string{"http://127.0.0.1:49152/callback", "http://localhost:50000/callback", "http://localhost:3118/callback", "com.example.app:/back"} {
		r := device
		r.redirectURI = uri
		b := g.browser()
		first := g.obtain(r.exchange(b.codeToClient(t, b.authorize(r, "max@acme.example"), r)))
		if uri == "http://localhost:3118/callback" {
			readable(r, first.RefreshToken, "http://localhost:3118")
		}
	}
	for _, uri := range []string{"http://127.0.0.1:49152/other", "http://127.0.0.2/callback", "http://localhost.evil.example/callback", "https://localhost/callback", "app:/back/x"} {
		r := device
		r.redirectURI = uri
		holdRefusal(t, g.browser().open(r.path()))
	}
}

// TestQ46ConsentSaysWhoAsks: a document with a famous name, markup, reversing characters or 300 letters → the consent page shows its host
// and the destination of the answer, the name harmless and cut.
func TestQ46ConsentSaysWhoAsks(t *testing.T) {
	g, d := startPeople(t, "password_grant", admitsDescribed), newDescribing(t)
	const uris = `"redirect_uris":["https://agent.example/callback","http://127.0.0.1/callback"]`
	page := func(name, redirectURI, language string) string {
		t.Helper()
		r := d.client(fmt.Sprintf("/%d.json", d.questions()), `"client_name":`+name+`,`+uris, redirectURI) // documents are cached
		b := g.browser()
		p := b.signIn(b.open(r.path()), "max@acme.example", peoplePassword)
		if location := p.header.Get("Location"); location != "" {
			p = b.fetch(http.MethodGet, location, "", "Accept-Language", language)
		}
		holdWords(t, "the consent page", p.body, `name="decision"`)
		return p.body
	}
	claude := page(`"Claude"`, "https://agent.example/callback", "en")
	holdWords(t, "the answer", claude, "An application of <strong><bdi>"+d.host()+"</bdi></strong> would like", "It calls itself “<bdi>Claude</bdi>”.", "<strong><bdi>agent.example</bdi></strong>")
	if strings.Contains(claude, "program on this device") || strings.Contains(claude, "Claude would like") {
		t.Errorf("the page says %s", claude)
	}
	device := page(`"Claude"`, "http://127.0.0.1:4711/callback", "de")
	holdWords(t, "the answer", device, "Eine Anwendung von <strong><bdi>"+d.host()+"</bdi></strong>", "Programm auf diesem Gerät", "<strong><bdi>127.0.0.1:4711</bdi></strong>")
	for _, name := range []string{`"Claude” of “claude.ai"`, `"Claude\" of \"claude.ai"`, `"\u202eedualC"`, `"Cla\u200bude"`, `"<b>Claude</b>"`, `"` + strings.Repeat("Claude ", 40) + `"`} {
		_, rest, _ := strings.Cut(page(name, "https://agent.example/callback", "en"), "It calls itself “<bdi>")
		shown, _, found := strings.Cut(rest, "</bdi>”. Nobody has checked this name.")
		if !found || strings.ContainsAny(shown, "“”„\"\u202e\u200b<") || len([]rune(shown)) > 64+len("&lt;b&gt;&lt;/b&gt;") {
			t.Errorf("%s is shown as %q", name, shown)
		}
	}
	// The sign-in page shows the host too.
	r := d.client("/last.json", `"client_name":"Claude",`+uris, "https://agent.example/callback")
	if p := g.browser().open(r.path()); !strings.Contains(p.body, d.host()+" “Claude”") {
		t.Errorf("the sign-in page says %s", p.body)
	}
}

// TestQ47OperatorsSeeWhoDescribesThemselves: an operator disables a client with a document → out at once with its tokens; changes it →
// refused.
func TestQ47OperatorsSeeWhoDescribesThemselves(t *testing.T) {
	g, d := startPeople(t, "password_grant", admitsDescribed), newDescribing(t)
	const uri = "https://agent.example/callback"
	agent := d.client("/agent.json", `"client_name":"Agent","redirect_uris":["`+uri+`"]`, uri)
	other := d.client("/other.json", `"redirect_uris":["`+uri+`"]`, uri)
	if out := g.ok("client", "list", "--origin", "metadata"); strings.Contains(out, "agent.json") {
		t.Errorf("a client is listed that nobody has let in: %s", out)
	}
	tokens := g.userTokens(agent, "max@acme.example")
	g.userTokens(other, "max@acme.example")
	if out := g.ok("client", "list", "--origin", "metadata"); !strings.Contains(out, agent.clientID) || !strings.Contains(out, other.clientID) || strings.Contains(out, "conf") {
		t.Errorf("listed are %s", out)
	}
	if out := g.ok("client", "list", "--origin", "operator"); strings.Contains(out, agent.clientID) || !strings.Contains(out, "conf") {
		t.Errorf("listed as the operator's are %s", out)
	}
	if _, err := g.run("", "client", "list", "--origin", "mars"); err == nil {
		t.Error("an unknown origin is taken")
	}
	shown := decoded[admin.Client](t, g.ok("client", "show", agent.clientID, "--json"))
	if shown.Name != "Agent" || shown.Origin != store.FromMetadata || shown.LastUsedAt.IsZero() || shown.Type != store.PublicClient {
		t.Errorf("shown is %+v", shown)
	}
	for _, args := range [][]string{{"update", agent.clientID, "--first-party"}, {"update", agent.clientID, "--redirect-uri", "https://x.example/"}, {"rotate-secret", agent.clientID}} {
		if _, err := g.run("", append([]string{"client"}, args...)...); err == nil {
			t.Errorf("client %v is taken", args)
		}
	}
	if !g.alive(tokens.AccessToken) {
		t.Fatal("its token is refused")
	}
	g.ok("client", "disable", agent.clientID)
	if g.alive(tokens.AccessToken) {
		t.Error("a disabled client's token is taken")
	}
	g.refused(agent.refresh(tokens.RefreshToken), http.StatusUnauthorized, "invalid_client")
	holdRefusal(t, g.browser().open(agent.path()))
	g.ok("client", "enable", agent.clientID)
	g.browser().open(agent.path()).is(t, http.StatusOK, "an enabled client")

	// A removed client stays refused for as long as its tokens could live, and then needs another consent.
	tokens = g.userTokens(other, "max@acme.example")
	g.ok("client", "remove", other.clientID)
	g.refused(other.refresh(tokens.RefreshToken), http.StatusUnauthorized, "invalid_client")
	if got := g.browser().authorize(other, "max@acme.example").location().Query(); got.Get("error") != "access_denied" || !strings.Contains(got.Get("error_description"), "removed") {
		t.Errorf("a removed client gets %v", got)
	}
	if g.alive(tokens.AccessToken) {
		t.Error("a removed client's token is taken")
	}
}

// TestQ49DocumentsThatGo: a token request of a client whose document is gone or which no user admitted → invalid_client; its host down →
// 503 unless remembered.
func TestQ49DocumentsThatGo(t *testing.T) {
	g, d := startPeople(t, "password_grant", admitsDescribed), newDescribing(t)
	const uri = "https://agent.example/callback"
	agent := d.client("/agent.json", `"redirect_uris":["`+uri+`"]`, uri)
	tokens := g.userTokens(agent, "max@acme.example")
	away := d.client("/away.json", `503`, uri)
	for range 2 { // the second answer comes from the cache
		if p := g.browser().open(away.path()); p.status != http.StatusServiceUnavailable || p.header.Get("Retry-After") == "" {
			t.Errorf("a host that is away: %d, Retry-After %q", p.status, p.header.Get("Retry-After"))
		}
	}
	// A new configuration has no cached documents.
	g.reload(peopleSite("password_grant", strings.Replace(admitsDescribed, "allow_private", "deny other.example\n\t\t\tallow_private", 1)))
	d.client("/agent.json", `503`, uri)
	form := agent.refresh(tokens.RefreshToken)
	g.refused(form, http.StatusServiceUnavailable, "temporarily_unavailable")
	d.client("/agent.json", `"redirect_uris":["javascript:x"]`, uri)
	g.reload(peopleSite("password_grant", strings.Replace(admitsDescribed, "allow_private", "deny another.example\n\t\t\tallow_private", 1)))
	g.refused(form, http.StatusUnauthorized, "invalid_client")
	holdAnswer(t, "a document that cannot be used", g.browser().open(agent.path()), http.StatusBadRequest, "is not allowed")
	// Without client metadata documents there are no such clients.
	g.reload(peopleSite("password_grant", "password_grant\n\t\tclient_metadata off"))
	g.refused(form, http.StatusUnauthorized, "invalid_client")
	if _, _, metadata := g.get("/.well-known/oauth-authorization-server", ""); strings.Contains(metadata, "client_id_metadata") {
		t.Errorf("the metadata are %s", metadata)
	}
	asked := d.questions()
	if p := g.browser().open(agent.path()); p.status != http.StatusBadRequest || d.questions() != asked {
		t.Errorf("without such clients: %d, and %d questions", p.status, d.questions()-asked)
	}
}

// TestQ227NoOpenRedirector: a link with a self-described client and an erroneous request → a page; the browser is redirected only after the
// user's decision, a denial too, and never to a custom scheme, which could start a program.
func TestQ227NoOpenRedirector(t *testing.T) {
	g, d := startPeople(t, "password_grant", admitsDescribed), newDescribing(t)
	const web, device, scheme = "https://agent.example/callback", "http://127.0.0.1:4711/callback", "com.example.agent:/callback"
	agent := d.client("/agent.json", `"redirect_uris":["`+web+`","`+device+`","`+scheme+`"]`, web)
	visitor := g.signedIn("max@acme.example")
	stays := func(what string, r request) {
		t.Helper()
		for who, b := range map[string]*browser{"signed out": g.browser(), "signed in": visitor} {
			p := b.open(r.path())
			if p.status != http.StatusBadRequest || p.header.Get("Location") != "" {
				t.Errorf("%s, %s: %d to %q", what, who, p.status, p.header.Get("Location"))
			}
		}
	}
	for name, change := range map[string]func(*request){
		"a scope that nobody knows": func(r *request) { r.scope = "nobody:knows" }, "without PKCE": func(r *request) { r.verifier = "" }, "prompt=none": func(r *request) { r.more = url.Values{"prompt": {"none"}} },
	} {
		r := agent
		change(&r)
		stays(name, r)
		r.redirectURI = scheme
		stays(name+", at a program", r)
		r.redirectURI = device
		if p := g.browser().open(r.path()); p.location().Host != "127.0.0.1:4711" || p.location().Query().Get("error") == "" {
			t.Errorf("%s, on the device: %d to %q", name, p.status, p.header.Get("Location"))
		}
	}
	stays("a program's scheme", d.client("/other.json", `"redirect_uris":["microsoft-edge:https://evil.example"]`, "microsoft-edge:https://evil.example"))
	if p := visitor.decide(visitor.open(agent.path()), "deny"); p.location().Host != "agent.example" || p.location().Query().Get("error") != "access_denied" {
		t.Errorf("a denial: %d to %q", p.status, p.header.Get("Location"))
	}
}

// TestQ223ClientsThatUsersLetIn checks that requests for other documents on a client's host do not keep the client from its tokens.
func TestQ223ClientsThatUsersLetIn(t *testing.T) {
	g, d := startPeople(t, "password_grant", admitsDescribed), newDescribing(t)
	const uri = "https://agent.example/callback"
	agent := d.client("/agent.json", `"redirect_uris":["`+uri+`"]`, uri)
	tokens := g.userTokens(agent, "max@acme.example")
	g.reload(peopleSite("password_grant", strings.Replace(admitsDescribed, "allow_private", "deny other.example\n\t\t\tallow_private", 1))) // empties the document cache
	throttled := 0
	for i := range 17 {
		stranger := d.client(fmt.Sprintf("/stranger%d.json", i), `"redirect_uris":["`+uri+`"]`, uri)
		if p := g.browser().open(stranger.path()); p.status == http.StatusServiceUnavailable {
			throttled++
		}
	}
	if throttled != 2 {
		t.Errorf("%d strangers of 17 have to wait", throttled)
	}
	g.obtain(agent.refresh(tokens.RefreshToken))
}

// TestQ57RoutesForAgentsAdmitClients: a route with `mcp` → clients with documents may request only its scopes; `client_metadata off` → no
// such clients.
func TestQ57RoutesForAgentsAdmitClients(t *testing.T) {
	const uri = "https://agent.example/callback"
	site := func(lines string) string {
		return peopleSite("password_grant", "password_grant\n\t\tscope tools:use\n\t\tscope tools:admin\n\t\t"+lines,
			"handle /pub/* {", "handle /mcp* {\n\t\tprotect tools:use {\n\t\t\tmcp\n\t\t\ttool drop* {\n\t\t\t\tscope tools:admin\n\t\t\t}\n\t\t}\n\t\treverse_proxy UPSTREAM\n\t}\n\thandle /pub/* {")
	}
	g, d := startGatehouse(t, site("")), newDescribing(t)
	metadata := func(want bool) {
		t.Helper()
		_, _, body := g.get("/.well-known/oauth-authorization-server", "")
		if strings.Contains(body, `"client_id_metadata_document_supported":true`) != want {
			t.Errorf("the metadata are %s, want clients with documents: %t", body, want)
		}
	}
	metadata(true)
	agent := d.client("/agent.json", `"redirect_uris":["`+uri+`"]`, uri)
	if p := g.browser().open(agent.path()); p.status != http.StatusBadRequest || d.questions() != 0 {
		t.Errorf("a document on loopback: %d", p.status)
	}
	g.reload(site("client_metadata {\n\t\t\tallow_private_network\n\t\t}"))
	metadata(true)
	agent.scope = "tools:use tools:admin"
	if got := g.userTokens(agent, "max@acme.example"); got.Scope != agent.scope {
		t.Errorf("granted is %q", got.Scope)
	}
	agent.scope = "trusted"
	holdRefusal(t, g.signedIn("max@acme.example").open(agent.path()))
	g.reload(site("client_metadata off"))
	metadata(false)
	g.reload(peopleSite())
	metadata(false)
}
