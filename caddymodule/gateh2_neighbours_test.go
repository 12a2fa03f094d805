package caddymodule

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
)

// The gate among handlers that change the path or also authenticate.

// TestG70TheGateJudgesWhatGoesOn: a path rewritten before or behind the gate → decision and forwarded path agree.
func TestG70TheGateJudgesWhatGoesOn(t *testing.T) {
	const proxy, fixed = "reverse_proxy UPSTREAM", "rewrite * /api/fixed"
	g := startGate(t, siteWith("", gatedBelow("/x/*", "anonymous /public/*", "require /api/* scope trusted")+
		inOrder("/after/*", protect("anonymous /after/public/*", "require /after/api/* scope trusted"), "uri strip_prefix /after", proxy)+
		inOrder("/rewritten/*", protect("require /rewritten/api/* scope trusted"), fixed, proxy)+
		inOrder("/before/*", fixed, protect("anonymous /before/*", `require expression "!path('/api/*') || oauth_scope('trusted')"`), proxy)))
	public, trusted := g.server("public"), g.user("u-1", "", "", "trusted", "public")
	for target, c := range map[string]struct {
		forwarded                  string
		anonymous, public, trusted int
	}{
		"/x/api/s":           {"/api/s", 401, 403, 200},
		"/x/public/s":        {"/public/s", 200, 200, 200},
		"/x/other":           {"/other", 401, 200, 200},
		"/x/api%2fs":         {"", 401, 403, 200},
		"/x//api/s":          {"/api/s", 401, 403, 200}, // cleaned by handle_path
		"/x/public/../api/s": {"/api/s", 401, 403, 200},
		"/x/..;/api/s":       {"", 400, 400, 400},
		"/after/api/s":       {"/api/s", 401, 403, 200},
		"/after/public/s":    {"/public/s", 200, 200, 200},
		"/after//api/s":      {"", 400, 400, 400},
		"/rewritten/api/s":   {"/api/fixed", 401, 403, 200},
		"/rewritten/s":       {"/api/fixed", 401, 200, 200}, // the operator's own target
		"/before/s":          {"/api/fixed", 401, 403, 200},
		"/before/public/s":   {"/api/fixed", 401, 403, 200},
	} {
		t.Run(target, func(t *testing.T) {
			for lines, want := range map[string]int{"": c.anonymous, bearer(public): c.public, bearer(trusted): c.trusted} {
				request := g.request("GET", target)
				if lines != "" {
					request = g.request("GET", target, lines)
				}
				if want != http.StatusOK {
					g.refused(t, request, want)
				} else if seen := g.passed(t, request); c.forwarded != "" && seen.Target != c.forwarded {
					t.Errorf("forwarded as %s, want %s", seen.Target, c.forwarded)
				}
			}
		})
	}
}

// basicAlice configures Caddy's basic_auth with one user, alice, and the password "wonderland".
const basicAlice = "basic_auth {\n\t\t\t\talice $2a$04$Cmx1TpHVgKDNgf2kBuQJe.lm5OAIpKxYfYmCOytsQJtnz5ZDvM8ye\n\t\t\t}"

// TestG82AnotherAuthentication: another authentication handler in the route → neither overrides ours nor leaks an identity.
func TestG82AnotherAuthentication(t *testing.T) {
	asked := make(chan http.Header, 100)
	authority := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Clone()
		for _, name := range identityNames {
			w.Header().Set(name, "admin")
		}
		w.Header().Set("X-Other", "other")
		if r.Header.Get("X-Fail") != "" {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer authority.Close()
	forwardAuth := "forward_auth " + authority.Listener.Addr().String() + " {\n\t\t\t\turi /ask\n\t\t\t\tcopy_headers X-Other\n\t\t\t}"
	proxy := "reverse_proxy UPSTREAM {\n\t\t\t\theader_up X-User {http.auth.user.id}\n\t\t\t}"
	route := func(path string, steps ...string) string { return inOrder(path+"/*", append(steps, proxy)...) }
	cookied := "protect {\n\t\t\t\ttoken_from cookie app_token\n\t\t\t}"
	g := startGate(t, siteWith("", route("/before", basicAlice, cookied)+route("/after", cookied, basicAlice)+
		route("/open", basicAlice, "protect {\n\t\t\t\toptional\n\t\t\t}")+
		route("/asked-before", forwardAuth, "protect")+route("/asked-after", "protect", forwardAuth)+
		route("/copied-before", strings.Replace(forwardAuth, "X-Other", "X-Auth-Subject X-Auth-Role", 1), "protect")+
		route("/twice", "protect", "protect trusted")+route("/twice-open", "protect", "protect {\n\t\t\t\tanonymous /twice-open/*\n\t\t\t}")+
		"\thandle_errors {\n\t\treverse_proxy UPSTREAM {\n\t\t\theader_up X-User {http.auth.user.id}\n\t\t}\n\t}"))
	token := g.server("public")
	alice, mallory, cookie := "Authorization: Basic YWxpY2U6d29uZGVybGFuZA==", "Authorization: Basic YWxpY2U6d3Jvbmc=", "Cookie: app_token="+token
	for name, c := range map[string]struct {
		target        string
		lines         []string
		subject, user string // of a request that passes
		errorUser     string // of a refused one: what the error route gets
		refused       bool
	}{
		"both good, ours last":       {target: "/before/x", lines: []string{alice, cookie}, subject: "conf", user: "conf"},
		"ours missing, ours last":    {target: "/before/x", lines: []string{alice}, refused: true, errorUser: "alice"}, // basic_auth has accepted her
		"ours bad, ours last":        {target: "/before/x", lines: []string{alice, "Cookie: app_token=bad"}, refused: true, errorUser: "alice"},
		"both good, ours first":      {target: "/after/x", lines: []string{alice, cookie}, subject: "conf", user: "alice"},
		"ours bad, ours first":       {target: "/after/x", lines: []string{alice, "Cookie: app_token=bad"}, refused: true},
		"theirs bad, ours first":     {target: "/after/x", lines: []string{mallory, cookie}, refused: true, errorUser: "conf"},
		"asked before":               {target: "/asked-before/x", lines: []string{bearer(token)}, subject: "conf", user: "conf"},
		"asked after":                {target: "/asked-after/x", lines: []string{bearer(token)}, subject: "conf", user: "conf"},
		"asked after, refused":       {target: "/asked-after/x", lines: []string{bearer(token), "X-Fail: 1"}, refused: true, errorUser: "conf"},
		"asked before with identity": {target: "/copied-before/x", lines: []string{bearer(token)}, subject: "conf", user: "conf"},
	} {
		t.Run(name, func(t *testing.T) {
			lines := append(c.lines[:len(c.lines):len(c.lines)], "X-Auth-Subject: admin", "X-Auth-Role: admin")
			status, _, body := g.asked(t, g.request("GET", c.target, lines...))
			for len(asked) > 0 {
				if told := (<-asked).Get(identity.Subject); strings.HasPrefix(c.target, "/asked-after") && told != "conf" {
					t.Errorf("the other authority was told %q", told)
				}
			}
			seen := g.upstream.seen()
			if !c.refused && (status != http.StatusOK || len(seen) != 1) {
				t.Fatalf("%d %s, and the upstream saw %d", status, body, len(seen))
			}
			for _, r := range seen {
				user := c.user
				if c.refused {
					user = c.errorUser
				}
				if got := r.Header.Get("X-User"); got != user {
					t.Errorf("%d: {http.auth.user.id} %q, want %q", status, got, user)
				}
				if c.subject == "" {
					r.anonymous(t)
				} else {
					r.has(t, identity.Subject, c.subject).has(t, identity.Role)
				}
			}
		})
	}
}

// TestG93HeadersThatNoClaimGoesInto checks that such headers are refused with their line when the Caddyfile is adapted.
func TestG93HeadersThatNoClaimGoesInto(t *testing.T) {
	for _, name := range []string{
		"Host", "Connection", "Transfer-Encoding", "Content-Length", "TE", "Trailer", "Upgrade", "Authorization",
		"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Uri", "X-Forwarded-Anything", "Forwarded",
		"Proxy-Authorization", "Proxy-Connection", "Keep-Alive", "Cookie", "Set-Cookie", "Proxy", "Via", "Early-Data", "Expect", "HTTP2-Settings",
		"Content-Type", "Content-Encoding", "Sec-Fetch-Site", "Origin", "Referer", "X-Real-IP", "X-HTTP-Method-Override", "X-Original-URL",
		"Accept", "Accept-Encoding", "Accept-Language", "accept_charset", "Range", "If-None-Match", "If-Range", "if.modified.since", "Date",
		"Cache-Control", "Pragma", "Warning", "Priority", "Prefer", "Max-Forwards", "Allow", "Accept-Ranges", "Age", "ETag", "Expires",
		"Last-Modified", "Location", "Retry-After", "Vary", "WWW-Authenticate", "Authentication-Info", "Sec-WebSocket-Key", " ", "X-Auth(", "{env.X}",
		"hOST", "content_length", "X_Forwarded_For", "x.forwarded.for", ":authority", "X Who", "X-Who:", "X\u00e9", "",
	} {
		quoted := `"` + name + `"`
		_, err := adapt(":80 {\n protect {\n\taudience https://a.example\n\tforward " + quoted + " sub\n }\n}\n")
		if err == nil || !strings.Contains(err.Error(), "a claim cannot be written into this header") || !strings.Contains(err.Error(), "at Caddyfile:4") {
			t.Errorf("forward %s: %v", quoted, err)
		}
	}
	for _, name := range []string{"X-Who", "X-Auth-Subject", "Remote-User", "X-Hosted", "TEA", "X-Content-Length", "X-Forward-User", "From", "User-Agent", "Accepted", "Iffy", "Dates"} {
		if _, err := adapt(":80 {\n protect {\n\tforward " + name + " sub\n }\n}\n"); err != nil {
			t.Errorf("forward %s: %v", name, err)
		}
	}
}

// TestG99EveryOperationOfTheAdminAPI checks that a GET shows no secret and changes nothing, and that only the documented methods of a path
// do anything.
func TestG99EveryOperationOfTheAdminAPI(t *testing.T) {
	g := startGatehouse(t, durableSite)
	created := g.must(http.StatusCreated, "POST", "/oauth/clients", `{"id":"acme","name":"Acme"}`)
	secret := member(t, created, "client_secret")
	g.must(http.StatusCreated, "POST", "/oauth/organisations", `{"id":"org-1","name":"One"}`)

	methods := make(map[string][]string) // by path; a test of package admin compares the document with the routes
	documented := regexp.MustCompile("`(GET|POST|PATCH|DELETE) (/oauth/[^`?]*)`")
	for _, operation := range documented.FindAllStringSubmatch(readFile(t, "../docs/operations.md"), -1) {
		path := strings.ReplaceAll(operation[2], "ID", "acme")
		methods[path] = append(methods[path], operation[1])
	}
	if len(methods) < 20 {
		t.Fatalf("%d paths", len(methods))
	}
	state := func() string {
		var all strings.Builder
		for _, path := range []string{"/oauth/clients", "/oauth/organisations", "/oauth/users", "/oauth/keys"} {
			status, _, body := g.operate("GET", path, "")
			all.WriteString(path + itoa(status) + body)
		}
		return all.String()
	}
	before := state()
	if !strings.Contains(before, "acme") || !strings.Contains(before, "org-1") {
		t.Fatal(before)
	}
	hashes := regexp.MustCompile(`\$argon2|\$2[aby]\$|PRIVATE|"(d|hash|secret|client_secret|secret_hash|password|private)":`)
	for path, has := range methods {
		for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "POST", "TRACE", "OPTIONS", "get", "FOO"} {
			if slices.Contains(has, method) && method != "GET" || method == "HEAD" && slices.Contains(has, "GET") {
				continue // documented methods may have effects
			}
			status, header, body := g.operate(method, path, "{}")
			if method == "GET" && slices.Contains(has, "GET") {
				if status >= 500 && path != "/oauth/ready" {
					t.Errorf("GET %s: %d %s", path, status, body)
				}
				if path != "/oauth/admin-api.json" && hashes.MatchString(body) || strings.Contains(body, secret) || strings.Contains(body, confSecret) {
					t.Errorf("GET %s shows %s", path, body)
				}
				continue
			}
			if status != http.StatusMethodNotAllowed || !strings.Contains(header.Get("Allow"), has[0]) {
				t.Errorf("%s %s: %d, Allow: %q", method, path, status, header.Get("Allow"))
			}
		}
	}
	if after := state(); after != before {
		t.Errorf("something changed: %s\nwas: %s", after, before)
	}
}

// TestG73StreamsOfOneConnection checks that a stream never gets the fields of another one, however their frames are interleaved, although
// both share the HPACK table.
func TestG73StreamsOfOneConnection(t *testing.T) {
	g := startGate(t, speakingH2(site))
	token := g.server("public")
	w := g.dialH2(t)
	post := func(stream uint32, path string, further ...string) {
		w.heads(stream, false, g.fields("POST", path, further...))
	}
	post(1, "/any/without")
	post(3, "/any/with", "authorization", "Bearer "+token)
	post(5, "/any/without")
	post(7, "/api/scope", "authorization", "Bearer "+token)
	post(9, "/any/bad", "authorization", "Bearer bad")
	post(11, "/any/with", "authorization", "Bearer "+token)
	post(13, "/any/twice", "authorization", "Bearer "+token, "authorization", "Bearer "+token)
	post(15, "/mixed/pub/x")
	for _, text := range []string{"one", "two"} {
		for stream := uint32(1); stream <= 15; stream += 2 {
			_ = w.framer.WriteData(stream, text == "two", []byte(text))
		}
	}
	answers := w.answers(8)
	for stream, want := range map[uint32]int{1: 401, 3: 200, 5: 401, 7: 403, 9: 401, 11: 200, 13: 400, 15: 200} {
		if answer := answers[stream]; answer == nil || answer.status != want {
			t.Errorf("stream %d: %+v, want %d", stream, answer, want)
		}
	}
	targets := make(map[string]int)
	for _, r := range g.upstream.seen() {
		targets[r.Target]++
		if r.Body != "onetwo" {
			t.Errorf("%s has the body %q", r.Target, r.Body)
		}
		if r.Target == "/any/with" {
			r.ours(t, "conf")
		} else {
			r.anonymous(t).has(t, "Authorization")
		}
	}
	if len(targets) != 2 || targets["/any/with"] != 2 || targets["/mixed/pub/x"] != 1 {
		t.Errorf("the upstream saw %v", targets)
	}
}

// granted sends 56 KiB on an answered stream and returns by how many bytes the server extends its window.
func (w *h2Wire) granted(stream uint32) (bytes uint32) {
	block := make([]byte, 8<<10)
	for range 7 { // less than the initial window of 64 KiB
		_ = w.framer.WriteData(stream, false, block)
	}
	_ = w.framer.WritePing(false, [8]byte{'d', 'o', 'n', 'e'})
	for {
		frame, err := w.framer.ReadFrame()
		if err != nil {
			return bytes
		}
		switch f := frame.(type) {
		case *http2.WindowUpdateFrame:
			if f.StreamID == stream {
				bytes += f.Increment
			}
		case *http2.PingFrame:
			if f.IsAck() {
				return bytes
			}
		}
	}
}

// begun reads until data has arrived on each of the streams.
func (w *h2Wire) begun(t *testing.T, streams ...uint32) {
	t.Helper()
	waiting := make(map[uint32]bool)
	for _, stream := range streams {
		waiting[stream] = true
	}
	for len(waiting) > 0 {
		frame, err := w.framer.ReadFrame()
		if err != nil {
			t.Fatalf("%v, and %v have not begun", err, waiting)
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = w.framer.WriteSettingsAck()
			}
		case *http2.DataFrame:
			delete(waiting, f.StreamID)
		case *http2.RSTStreamFrame:
			t.Fatalf("stream %d was reset", f.StreamID)
		}
	}
}
