package caddymodule

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"golang.org/x/net/html"
	"google.golang.org/protobuf/proto"
)

// traces is a collector of OpenTelemetry: it takes spans by OTLP over HTTP.
type traces struct {
	*httptest.Server
	t *testing.T

	mu    sync.Mutex
	raw   []byte
	spans []*otlp.Span
}

// collectTraces starts a collector and makes Caddy's `tracing` export to it.
func collectTraces(t *testing.T) *traces {
	c := &traces{t: t}
	c.Server = httptest.NewServer(http.HandlerFunc(c.take))
	t.Cleanup(c.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	return c
}

func (c *traces) take(w http.ResponseWriter, r *http.Request) {
	var reader io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			c.t.Error(err)
			return
		}
		reader = unzipped
	}
	body, err := io.ReadAll(reader)
	var message collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &message)
	}
	if err != nil {
		c.t.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw = append(c.raw, body...)
	for _, resource := range message.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// holds returns all that was exported, and forgets it.
func (c *traces) exported() (spans []*otlp.Span, raw []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	spans, raw, c.spans, c.raw = c.spans, c.raw, nil, nil
	return spans, raw
}

// of waits until a request with that traceparent is exported, and returns its spans as lines, each indented below its parent.
func (c *traces) of(traceID string) (spans []*otlp.Span, tree string) {
	c.t.Helper()
	eventually(c.t, "the request's own span is exported, which ends last", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return slices.ContainsFunc(c.spans, func(s *otlp.Span) bool {
			return hex.EncodeToString(s.GetTraceId()) == traceID && s.GetKind() == otlp.Span_SPAN_KIND_SERVER
		})
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if hex.EncodeToString(s.GetTraceId()) == traceID {
			spans = append(spans, s)
		}
	}
	slices.SortStableFunc(spans, func(a, b *otlp.Span) int {
		return int(int64(a.GetStartTimeUnixNano()) - int64(b.GetStartTimeUnixNano()))
	})
	var lines strings.Builder
	var below func(parent []byte, indent string)
	below = func(parent []byte, indent string) {
		for _, s := range spans {
			if bytes.Equal(s.GetParentSpanId(), parent) {
				lines.WriteString(indent + s.GetName() + "\n")
				below(s.GetSpanId(), indent+"  ")
			}
		}
	}
	for _, s := range spans {
		if s.GetKind() == otlp.Span_SPAN_KIND_SERVER {
			below(s.GetSpanId(), "")
		}
	}
	return spans, lines.String()
}

// spanAttributes returns the attributes of the span with that name.
func spanAttributes(t *testing.T, spans []*otlp.Span, name string) map[string]string {
	t.Helper()
	for _, s := range spans {
		if s.GetName() == name {
			attributes := map[string]string{"status": s.GetStatus().GetCode().String()}
			for _, a := range s.GetAttributes() {
				attributes[a.GetKey()] = a.GetValue().GetStringValue()
			}
			return attributes
		}
	}
	t.Errorf("there is no span %q", name)
	return nil
}

// tracedPeople serves people, with a provider and personal access tokens, on a site that is traced.
func tracedPeople(t *testing.T, provider *lyingProvider) *gatehouse {
	t.Helper()
	return startProviders(t, atProvider("corp", provider, "link verified_email"), "\t\tpassword_grant\n",
		"password_grant\npersonal_tokens {\nscopes public trusted\nlifetime 30d\n}\n", "\toauth_server\n", "\ttracing {\n\t\tspan request\n\t}\n\toauth_server\n")
}

// witness is a browser that remembers every value that it sends or receives in a query, a form, a cookie, a header for credentials or a
// member of JSON.
type witness struct {
	*browser
	traces int               // that have begun
	seen   map[string]string // where, by value
}

func (g *gatehouse) witness() *witness {
	jar, _ := cookiejar.New(nil)
	w := &witness{seen: map[string]string{}}
	w.browser = &browser{gatehouse: g, jar: jar, client: &http.Client{Jar: jar, Timeout: patience, Transport: w, CheckRedirect: stays}}
	return w
}

// RoundTrip sends a request.
func (w *witness) RoundTrip(r *http.Request) (*http.Response, error) {
	w.note("the query of "+r.URL.Path, r.URL.Query())
	for _, c := range r.Cookies() {
		w.see("the cookie "+c.Name, c.Value)
	}
	if scheme, value, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok {
		w.see("the header "+scheme, value)
	}
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		form, _ := url.ParseQuery(string(body))
		w.note("the form to "+r.URL.Path, form)
	}
	response, err := oneShot(new(net.Dialer)).RoundTrip(r)
	if err != nil {
		return nil, err
	}
	for _, c := range response.Cookies() {
		w.see("the cookie "+c.Name, c.Value)
	}
	if location, err := response.Location(); err == nil {
		w.note("the redirect from "+r.URL.Path, location.Query())
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(body))
	var object map[string]any
	if json.Unmarshal(body, &object) == nil {
		for name, value := range object {
			if text, ok := value.(string); ok && name != "error" { // its codes are in spans
				w.see(name+" from "+r.URL.Path, text)
			}
		}
	} else if tree, err := html.Parse(bytes.NewReader(body)); err == nil {
		for n := range tree.Descendants() {
			for _, a := range n.Attr {
				if n.Data == "input" && a.Key == "value" {
					w.see("a field of the page "+r.URL.Path, a.Val)
				}
			}
		}
	}
	return response, err
}

func (w *witness) note(where string, values url.Values) {
	for name, list := range values {
		for _, value := range list {
			w.see(name+" in "+where, value)
		}
	}
}

// see remembers a value. Short ones and the names of grants are words and no credentials.
func (w *witness) see(where, value string) {
	if len(value) >= 14 && !slices.Contains([]string{"authorization_code", "client_credentials"}, value) {
		w.seen[value] = where
	}
}

// calls sends a request with a bearer token as part of a trace, and returns the spans below the request's.
func (w *witness) calls(c *traces, method, path, token string, form url.Values) (answer, []*otlp.Span, string) {
	w.t.Helper()
	w.traces++
	traceID := fmt.Sprintf("4bf92f3577b34da6a3ce929d0e0e%04x", w.traces)
	headers := []string{"Traceparent", "00-" + traceID + "-00f067aa0ba902b7-01"}
	if token != "" {
		headers = append(headers, "Authorization", "Bearer "+token)
	}
	body := ""
	if form != nil {
		headers, body = append(headers, "Content-Type", "application/x-www-form-urlencoded"), form.Encode()
	}
	a := w.fetch(method, path, body, headers...)
	spans, tree := c.of(traceID)
	return a, spans, tree
}

// TestOT1WhatATraceShows: requests with `tracing` → spans of the endpoint, the grant, the client, the store, the gate and the provider, each
// below the one that it is a part of, with client, key, result and reason; the
// audit line names the trace.
func TestOT1WhatATraceShows(t *testing.T) {
	c, provider := collectTraces(t), newLyingProvider(t)
	g := tracedPeople(t, provider)
	w, r := g.witness(), requestOf("conf")
	kid := g.app().node.Status().Signing["ES256"]
	hold := func(method, path, token string, form url.Values, status int, want string, attributes ...string) answer {
		t.Helper()
		got, spans, tree := w.calls(c, method, path, token, form)
		if got.status != status || tree != want {
			t.Errorf("%s %s: %d %s, want %d and the spans\n%sand not\n%s", method, path, got.status, got.body, status, want, tree)
		}
		for i := 0; i < len(attributes); i += 3 {
			if span := spanAttributes(t, spans, attributes[i]); span[attributes[i+1]] != attributes[i+2] {
				t.Errorf("%s %s: %s of %s is not %q: %v", method, path, attributes[i+1], attributes[i], attributes[i+2], span)
			}
		}
		return got
	}
	const failed = "STATUS_CODE_ERROR"

	code := w.authorize(r, "ada@acme.example").location().Query().Get("code")
	redeemed := hold("POST", "/oauth/token", "", r.exchange(code), 200,
		"endpoint token\n  grant authorization_code\n    client authentication\n    grant proof\n    grant tokens\n    store redeeming code\n",
		"grant authorization_code", "gatehouse.client_id", "conf", "endpoint token", "error.type", "", "store redeeming code", "status", "STATUS_CODE_UNSET")
	access := member(t, redeemed.body, "access_token")
	if line := `"msg":"token issued"[^\n]*"trace_id":"4bf92f3577b34da6a3ce929d0e0e0001"`; !regexp.MustCompile(line).MatchString(g.logs()) {
		t.Error("the audit line does not name the trace")
	}
	hold("GET", "/api/x?q=1", access, nil, 200, "gate\n",
		"gate", "gatehouse.result", "passed", "gate", "gatehouse.client_id", "conf", "gate", "gatehouse.key_id", kid, "gate", "error.type", "")
	hold("GET", "/api/x", "", nil, 401, "gate\n", "gate", "gatehouse.result", "unauthenticated", "gate", "gatehouse.reason", "token_missing", "gate", "status", "STATUS_CODE_UNSET")
	hold("GET", "/pub/x", "", nil, 200, "gate\n", "gate", "gatehouse.result", "anonymous")
	hold("POST", "/oauth/token", "", r.exchange(code), 400,
		"endpoint token\n  grant authorization_code\n    client authentication\n    grant proof\n    store query families\n    store ending families\n",
		"grant authorization_code", "error.type", "invalid_grant", "endpoint token", "gatehouse.reason", "code_replayed", "grant proof", "status", "STATUS_CODE_UNSET")
	hold("POST", "/oauth/token", "", url.Values{"grant_type": {"a-grant-type-that-is-a-secret"}}, 400, "endpoint token\n",
		"endpoint token", "gatehouse.reason", "grant_type_unknown")
	p := w.chooses(t, w.open("/oauth/login?switch=1"), "corp")
	_, spans, tree := w.calls(c, "GET", provider.follow(p.header.Get("Location")), "", nil)
	if fetch := spanAttributes(t, spans, "fetch POST"); !strings.HasPrefix(tree, "endpoint provider_callback\n") || fetch["server.address"] != "127.0.0.1" || fetch["error.type"] != "" {
		t.Errorf("at the provider: %v\n%s", fetch, tree)
	}
	p = w.chooses(t, w.open("/oauth/login?switch=1"), "corp")
	back := provider.follow(p.header.Get("Location"))
	provider.change(func() { provider.down = true })
	_, spans, _ = w.calls(c, "GET", back, "", nil)
	if fetch := spanAttributes(t, spans, "fetch POST"); fetch["status"] != "STATUS_CODE_UNSET" {
		t.Errorf("a provider that answers 502: %v", fetch)
	}
	provider.Close()
	p = w.open("/oauth/login?switch=1")
	_, spans, _ = w.calls(c, "GET", back, "", nil)
	if fetch := spanAttributes(t, spans, "fetch POST"); fetch["status"] != failed || fetch["error.type"] != "_OTHER" {
		t.Errorf("a provider that is away: %v", fetch)
	}
	action, fields := formIn(t, p)
	fields.Set("email", "ada@acme.example")
	fields.Set("password", peoplePassword)
	if _, _, tree := w.calls(c, "POST", action, "", fields); !strings.Contains(tree, "\n  password hashing\n") {
		t.Errorf("the password is not there:\n%s", tree)
	}
	check(t, g.app().node.Store().Close())
	hold("POST", "/oauth/token", "", r.exchange(code), 503,
		"endpoint token\n  grant authorization_code\n    client authentication\n    grant proof\n    store query families\n",
		"store query families", "status", failed, "endpoint token", "status", failed, "endpoint token", "error.type", "temporarily_unavailable")
}

// TestOT2NoTraceHoldsACredential: every flow with `tracing` → nothing that was in a query, a form, a cookie, an Authorization header or an
// answer is in what is exported, and no address of a person.
func TestOT2NoTraceHoldsACredential(t *testing.T) {
	c, provider := collectTraces(t), newLyingProvider(t)
	g := tracedPeople(t, provider)
	w, r := g.witness(), requestOf("conf")
	conf := url.Values{"client_id": {"conf"}, "client_secret": {confSecret}}
	form := func(more ...string) url.Values {
		values := maps.Clone(conf)
		for i := 0; i < len(more); i += 2 {
			values.Set(more[i], more[i+1])
		}
		return values
	}
	code := w.authorize(r, "ada@acme.example").location().Query().Get("code")
	tokens := w.send("/oauth/token", r.exchange(code)).body
	access, refresh := member(t, tokens, "access_token"), member(t, tokens, "refresh_token")
	server := member(t, w.send("/oauth/token", form("grant_type", "client_credentials")).body, "access_token")
	later := member(t, w.send("/oauth/token", r.refresh(refresh)).body, "access_token")
	if access == "" || server == "" || later == "" {
		t.Fatalf("no tokens: %s", tokens)
	}
	personal := member(t, g.ok("pat", "add", "--user", "u-ada", "--name", "backup", "--scope", "trusted", "--json"), "token")
	for _, token := range []string{access, server, later, personal, access + "x", "a-bearer-that-is-no-token"} {
		bearer := []string{"Authorization", "Bearer " + token}
		w.fetch("GET", "/api/x?secret=in-the-query-of-an-upstream", "", bearer...)
		w.fetch("GET", "/api/x?access_token="+token, "")
		w.fetch("GET", "/oauth/token/info", "", bearer...)
		w.send("/oauth/introspect", form("token", token))
	}
	for _, refused := range []url.Values{
		r.exchange(code), r.refresh(refresh), form("grant_type", "a-grant-type-that-is-a-secret"), form("grant_type", "client_credentials", "client_secret", "a-wrong-secret-of-conf"),
		form("grant_type", "client_credentials", "client_id", "a-client-that-is-not-there"), form("grant_type", "client_credentials", "scope", "a-scope-that-is-not-there"),
		form("grant_type", "password", "email", "ada@acme.example", "password", "a wrong password of ada"), form("grant_type", "password", "email", "ada@acme.example", "password", peoplePassword),
	} {
		w.send("/oauth/token", refused)
	}
	w.signIn(w.open("/oauth/login?switch=1"), "ada@acme.example", "another wrong password")
	w.signIn(w.open("/oauth/login?switch=1"), "nobody@acme.example", peoplePassword)
	w.signsInAt(t, "corp", provider)
	w.holdSignedInAs(t, "ada@acme.example")
	w.open("/oauth/authorize?" + r.with("redirect_uri", "https://attacker.example/cb").Encode())
	w.open("/oauth/callback/corp?state=a-state-that-is-not-ours&code=a-code-that-is-not-ours")
	w.open("/oauth/link#a-link-that-is-not-ours")
	w.open("/oauth/nothing?code=" + code)
	w.send("/oauth/revoke", form("token", later))
	check(t, g.app().node.Store().Close())
	w.send("/oauth/token", r.exchange(code))
	for _, value := range provider.lastAsked() {
		w.see("what the provider was asked", value[0])
	}
	w.see("an address", "ada@acme.example")

	_, last, _ := w.calls(c, "GET", "/pub/last", "", nil)
	if len(last) == 0 {
		t.Fatal("nothing was exported")
	}
	spans, raw := c.exported()
	if len(spans) < 200 || len(w.seen) < 60 {
		t.Fatalf("%d spans exported and %d values seen: the walk is too short", len(spans), len(w.seen))
	}
	for value, where := range w.seen {
		for form, written := range map[string]string{"as it is": value, "escaped": url.QueryEscape(value), "base64": strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(value)), "=")} {
			if i := bytes.Index(raw, []byte(written)); i >= 0 {
				t.Errorf("the trace holds %s, %s: %q", where, form, raw[max(0, i-60):min(len(raw), i+len(written)+20)])
			}
		}
	}
}

// TestOT3AMisplacedTokenIsRedacted: a personal access token in the path, in User-Agent or in X-Forwarded-For, at the gate and at the issuer →
// Caddy's own span has REDACTED for it. With OTEL_TRACES_SAMPLER=always_on a client cannot turn recording off.
func TestOT3AMisplacedTokenIsRedacted(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "always_on")
	c := collectTraces(t)
	g := tracedPeople(t, newLyingProvider(t))
	w := g.witness()
	personal := member(t, g.ok("pat", "add", "--user", "u-ada", "--name", "backup", "--scope", "trusted", "--json"), "token")
	for _, path := range []string{"/api/", "/pub/", "/oauth/", "/oauth/token/"} {
		w.open(path + personal)
		w.open(path + "%" + hex.EncodeToString([]byte(personal[:1])) + personal[1:])
		w.fetch("GET", path, "", "User-Agent", personal)
		w.fetch("GET", path, "", "X-Forwarded-For", personal)
	}
	w.fetch("GET", "/pub/silent", "", "Traceparent", "00-4bf92f3577b34da6a3ce929d0e0eeeee-00f067aa0ba902b7-00")
	c.of("4bf92f3577b34da6a3ce929d0e0eeeee")
	spans, raw := c.exported()
	redacted := 0
	for _, s := range spans {
		if s.GetKind() == otlp.Span_SPAN_KIND_SERVER && spanAttributes(t, []*otlp.Span{s}, s.GetName())["url.path"] == "REDACTED" {
			redacted++
		}
	}
	if i := bytes.Index(raw, []byte(personal[:20])); i >= 0 || redacted != 16 {
		t.Errorf("%d spans are redacted, want 16; token at %d: %q", redacted, i, raw[max(0, i-60):max(0, i)+20])
	}
}

// TestOT4AProviderIsToldNoTrace: a sign-in at a provider in a trace with `traceparent`, `tracestate` and `baggage` → none of them in a request
// to the provider; an upstream behind the gate gets the trace. A client that asks not to be recorded is not.
func TestOT4AProviderIsToldNoTrace(t *testing.T) {
	c, provider := collectTraces(t), newLyingProvider(t)
	serve, told := provider.Config.Handler, make(chan http.Header, 100)
	provider.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/authorize" { // which a browser asks for
			told <- r.Header.Clone()
		}
		serve.ServeHTTP(w, r)
	})
	g := tracedPeople(t, provider)
	w := g.witness()
	p := w.chooses(t, w.open("/oauth/login?switch=1"), "corp")
	back := provider.follow(p.header.Get("Location"))
	w.fetch("GET", back, "", "Traceparent", "00-4bf92f3577b34da6a3ce929d0e0effff-00f067aa0ba902b7-01", "Tracestate", "a=b", "Baggage", "c=d")
	if len(told) < 2 {
		t.Fatalf("%d requests to the provider", len(told))
	}
	for len(told) > 0 {
		for name := range <-told {
			if slices.Contains([]string{"Traceparent", "Tracestate", "Baggage", "B3", "Uber-Trace-Id"}, name) {
				t.Errorf("the provider was told %s", name)
			}
		}
	}
	w.fetch("GET", "/pub/silent", "", "Traceparent", "00-4bf92f3577b34da6a3ce929d0e0eeeee-00f067aa0ba902b7-00")
	w.calls(c, "GET", "/pub/x", "", nil)
	seen := g.upstream.seen()
	if trace := seen[len(seen)-1].Header["Traceparent"]; len(trace) != 1 || !strings.HasPrefix(trace[0], "00-4bf92f3577b34da6a3ce929d0e0e0001-") {
		t.Errorf("the upstream was told %q", trace)
	}
	spans, _ := c.exported()
	for _, s := range spans {
		if strings.HasSuffix(hex.EncodeToString(s.GetTraceId()), "eeeee") {
			t.Errorf("%s is recorded", s.GetName())
		}
	}
}
