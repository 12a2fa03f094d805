package caddymodule

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// gateway is a running Caddy whose decisions are checked. Every refusal must not reach the upstream and must write one line to the audit
// log. No log may contain a token.
type gateway struct {
	*gatehouse
	read   int64 // offset in the log up to which it has been read
	tokens []string

	others []transport // every request over HTTP/1.1 is repeated over these
	said   int         // how many requests could be repeated
	keptH3 *h3Wire
}

func startGate(t *testing.T, caddyfile string) *gateway {
	t.Helper()
	return watchedGate(t, startGatehouse(t, caddyfile))
}

func watchedGate(t *testing.T, running *gatehouse) *gateway {
	t.Helper()
	g := &gateway{gatehouse: running}
	t.Cleanup(func() {
		logs := g.logs()
		for _, token := range g.tokens {
			if strings.Contains(logs, token) {
				i := strings.Index(logs, token)
				start, end := strings.LastIndexByte(logs[:i], '\n')+1, strings.IndexByte(logs[i:], '\n')
				t.Errorf("a token is in the logs: %s", logs[start:i+end])
			}
		}
	})
	return g
}

// siteWith is the configuration `site` with other routes and options of Caddy's servers.
func siteWith(servers, routes string) string {
	globals, _, _ := strings.Cut(site, "\nhttp://ADDR {")
	if servers != "" {
		globals = strings.Replace(globals, "\tadmin ADMIN\n", "\tadmin ADMIN\n\tservers {\n"+servers+"\n\t}\n", 1)
	}
	return globals + "\nhttp://ADDR {\n\tlog\n\toauth_server\n" + routes + "\n}\n"
}

// relaying is the configuration `site` whose upstreams below /any/ get the client's token.
func relaying() string {
	return strings.Replace(site, "handle /any/* {\n\t\tprotect\n", "handle /any/* {\n\t\tprotect {\n\t\t\tupstream_token relay\n\t\t}\n", 1)
}

// user issues a token that acts for a user.
func (g *gateway) user(id, organisation, role string, scopes ...string) string {
	g.t.Helper()
	return g.watched(g.issue(issuer.Grant{
		Type: oauth.AuthorizationCode, User: &store.User{ID: id, Organisation: organisation, Role: store.Role(role)},
		Scopes: scopes, Family: &store.TokenFamily{ID: "family-of-" + id, SignIn: store.SignIn{Time: node.Clock()}}}))
}

// server issues a token that acts for the client conf alone.
func (g *gateway) server(scopes ...string) string {
	g.t.Helper()
	return g.watched(g.issue(issuer.Grant{Type: oauth.ClientCredentials, Scopes: scopes}))
}

func (g *gateway) watched(token string) string {
	g.tokens = append(g.tokens, token)
	return token
}

// request returns a request without a body. Lines are header lines.
func (g *gateway) request(method, target string, lines ...string) string {
	return g.requestWith("", method, target, lines...)
}

// requestWith returns a request with a body. The caller provides the framing.
func (g *gateway) requestWith(body, method, target string, lines ...string) string {
	head := append([]string{method + " " + target + " HTTP/1.1", "Host: " + g.addr}, lines...)
	return strings.Join(head, "\r\n") + "\r\n\r\n" + body
}

func bearer(token string) string { return "Authorization: Bearer " + token }

// audited returns the gate's audit lines since the last call.
func (g *gateway) audited() []map[string]any {
	g.t.Helper()
	return g.auditLines(&g.read)
}

// auditLines returns the audit lines behind an offset of the log, which it moves to the end. The last line may be incomplete.
func (g *gatehouse) auditLines(read *int64) (lines []map[string]any) {
	g.t.Helper()
	file, err := os.Open(g.logFile)
	check(g.t, err)
	defer func() { _ = file.Close() }()
	_, err = file.Seek(*read, io.SeekStart)
	check(g.t, err)
	text, err := io.ReadAll(file)
	check(g.t, err)
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	*read += int64(len(text))
	for line := range strings.SplitSeq(string(text), "\n") {
		var entry map[string]any
		if strings.Contains(line, "oauth.audit") && json.Unmarshal([]byte(line), &entry) == nil && entry["logger"] == "oauth.audit" {
			lines = append(lines, entry)
		}
	}
	return lines
}

// refused sends a request that the gate must refuse with one of the statuses. It checks that the upstream got nothing and that there is one
// audit line.
func (g *gateway) refused(t *testing.T, request string, statuses ...int) (http.Header, string) {
	t.Helper()
	g.audited()
	status, header, body := g.raw(request)
	g.checkRefused(t, status, body, statuses...)
	g.refusedAlike(t, request, status, header, body)
	return header, body
}

func (g *gateway) checkRefused(t *testing.T, status int, body string, statuses ...int) {
	t.Helper()
	if !slices.Contains(statuses, status) {
		t.Errorf("status %d %s, want %v", status, body, statuses)
	}
	g.upstream.none(t)
	lines := g.audited()
	if len(lines) != 1 || lines[0]["status"] != float64(status) || !hasReason(lines[0]) {
		t.Errorf("audit lines for a %d: %v", status, lines)
	}
}

// hasReason reports whether an audit line has a reason.
func hasReason(line map[string]any) bool {
	reason, _ := line["reason"].(string)
	return reason != ""
}

// turnedAway sends a request that the gate, or Caddy before it, must refuse. It must not reach the upstream.
func (g *gateway) turnedAway(t *testing.T, request string, statuses ...int) {
	t.Helper()
	status, _, body := g.raw(request)
	if !slices.Contains(statuses, status) {
		t.Errorf("status %d %s, want %v", status, body, statuses)
	}
	g.upstream.none(t)
	g.turnedAwayAlike(t, request, statuses)
}

// passed sends a request that must pass, and returns the upstream's request.
func (g *gateway) passed(t *testing.T, request string) *recorded {
	t.Helper()
	g.audited()
	status, _, body := g.raw(request)
	if status != http.StatusOK || body != "ok" {
		g.upstream.seen()
		t.Fatalf("status %d %s, want 200", status, body)
	}
	if lines := g.audited(); len(lines) != 1 || lines[0]["msg"] != "request passed the gate" {
		t.Errorf("audit lines: %v", lines)
	}
	seen := g.upstream.one(t)
	g.passedAlike(t, request, seen)
	return seen
}

// has checks that the request has exactly these values of a header. Without values the header must be absent in every spelling.
func (r *recorded) has(t *testing.T, name string, values ...string) *recorded {
	t.Helper()
	var got []string
	for spelling, found := range r.Header {
		if identity.Fold(spelling) == identity.Fold(name) {
			got = append(got, found...)
		}
	}
	if !slices.Equal(got, values) {
		t.Errorf("%s: %q, want %q, in:\n%s", name, got, values, r.Raw)
	}
	return r
}

// setClock gives every node created from now on a clock that only the test advances. Results to the second are then the same on a busy
// machine.
func setClock(t *testing.T) *testClock {
	t.Helper()
	now := time.Now().Truncate(time.Microsecond) // with the precision of stores, for exact limits
	return clockFrom(t, func() time.Time { return now })
}

// runningClock is like setClock with a clock that also runs, for comparisons with a database's clock.
func runningClock(t *testing.T) *testClock {
	t.Helper()
	return clockFrom(t, time.Now)
}

func clockFrom(t *testing.T, now func() time.Time) *testClock {
	c := new(testClock)
	before, machine := node.Clock, node.MonotonicClock
	node.Clock = func() time.Time { return now().Add(time.Duration(c.offset.Load())) }
	node.MonotonicClock = now
	t.Cleanup(func() { node.Clock, node.MonotonicClock = before, machine })
	return c
}

type testClock struct{ offset atomic.Int64 }

func (c *testClock) advance(d time.Duration) { c.offset.Add(int64(d)) }

// parameters parses the auth-params of a Bearer challenge.
func parameters(t *testing.T, header http.Header) map[string]string {
	t.Helper()
	challenges := header.Values("Www-Authenticate")
	if len(challenges) != 1 {
		t.Fatalf("WWW-Authenticate: %q, want one", challenges)
	}
	rest, ok := strings.CutPrefix(challenges[0], "Bearer ")
	if !ok {
		t.Fatalf("WWW-Authenticate: %q", challenges[0])
	}
	found := make(map[string]string)
	for rest != "" {
		name, after, ok := strings.Cut(rest, "=")
		quoted, err := strconv.QuotedPrefix(after)
		if !ok || err != nil {
			t.Fatalf("WWW-Authenticate: %q at %q", challenges[0], rest)
		}
		value, _ := strconv.Unquote(quoted)
		found[strings.TrimPrefix(name, ", ")] = value
		rest = after[len(quoted):]
	}
	return found
}

// websocketUpstream answers upgrades with 101 and echoes.
func websocketUpstream(connection net.Conn, r *recorded) {
	protocol := r.Header.Get("Upgrade")
	if protocol == "" {
		_, _ = io.WriteString(connection, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
		return
	}
	_, _ = fmt.Fprintf(connection, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", protocol)
	_, _ = io.Copy(connection, connection)
}
