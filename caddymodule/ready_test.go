package caddymodule

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json"
)

// readySite is durableSite with public readiness.
var readySite = strings.Replace(durableSite, "\toauth_server\n", "\toauth_server {\n\t\tready\n\t}\n", 1)

// ready checks the public answer, and returns whether the node is ready.
func (g *gatehouse) ready() bool {
	g.t.Helper()
	status, header, body := g.do(http.MethodGet, "/oauth/ready", "")
	for _, host := range []string{"10.0.0.7:8080", "node1", "nowhere.example"} { // a load balancer uses the node's address
		if other, otherHeader, said := g.raw("GET /oauth/ready HTTP/1.1\nHost: " + host + "\nConnection: close\n\n"); other != status || said != body || otherHeader.Get("Retry-After") != header.Get("Retry-After") {
			if now, _, _ := g.do(http.MethodGet, "/oauth/ready", ""); now != status {
				return g.ready() // it has changed meanwhile
			}
			g.t.Errorf("asked for %s: %d %s, want %d %s", host, other, said, status, body)
		}
	}
	if header.Get("Cache-Control") != "no-store" || !strings.HasPrefix(header.Get("Content-Type"), "application/json") {
		g.t.Errorf("headers %v", header)
	}
	switch {
	case status == http.StatusOK && body == `{"ready":true}` && header.Get("Retry-After") == "":
		return true
	case status == http.StatusServiceUnavailable && body == `{"ready":false}` && header.Get("Retry-After") == "2":
		return false
	}
	g.t.Fatalf("readiness: %d %v %s", status, header, body)
	return false
}

// reasons returns the reasons that the operator sees.
func (g *gatehouse) reasons() string {
	g.t.Helper()
	status, header, body := g.operate(http.MethodGet, "/oauth/ready", "")
	answer := decoded[readiness](g.t, body)
	want := http.StatusOK
	if !answer.Ready {
		want = http.StatusServiceUnavailable
	}
	if status != want || answer.Ready != (len(answer.Reasons) == 0) || answer.Ready != (header.Get("Retry-After") == "") {
		g.t.Fatalf("readiness: %d %v %s", status, header, body)
	}
	return strings.Join(answer.Reasons, "; ")
}

// live checks that the program says that it answers.
func (g *gatehouse) live() {
	g.t.Helper()
	status, header, body := g.do(http.MethodGet, "/oauth/live", "")
	if status != http.StatusOK || body != `{"live":true}` || header.Get("Cache-Control") != "no-store" {
		g.t.Errorf("liveness: %d %v %s", status, header, body)
	}
}

// TestF27ReadinessOnTheWire: readiness not configured → 404, as at any other unused path of ours; configured, GET or HEAD → the readiness,
// and at /oauth/live that the program answers; other methods → 405.
func TestF27ReadinessOnTheWire(t *testing.T) {
	g := startGatehouse(t, durableSite)
	status, _, body := g.do(http.MethodGet, "/oauth/ready", "")
	other, _, unknown := g.do(http.MethodGet, "/oauth/nothing", "")
	if status != http.StatusNotFound || other != status || body != unknown {
		t.Errorf("%d %s, and elsewhere %d %s", status, body, other, unknown)
	}
	if _, _, said := g.raw("GET /oauth/ready HTTP/1.1\nHost: nowhere.example\nConnection: close\n\n"); said != "" {
		t.Errorf("on another host: %s", said)
	}
	if reasons := g.reasons(); reasons != "" {
		t.Errorf("the operator is told: %s", reasons)
	}
	before := len(g.logs())
	g.reload(readySite)
	if !g.ready() {
		t.Fatalf("not ready: %s", g.reasons())
	}
	if status, header, body := g.do(http.MethodHead, "/oauth/ready", ""); status != http.StatusOK || body != "" || header.Get("Cache-Control") != "no-store" {
		t.Errorf("HEAD: %d %v %q", status, header, body)
	}
	g.live()
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS"} {
		for _, path := range []string{"/oauth/ready", "/oauth/live"} {
			if status, header, body := g.do(method, path, ""); status != http.StatusMethodNotAllowed || header.Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %d %v %s", method, path, status, header, body)
			}
		}
	}
	for _, path := range []string{"/oauth/ready/", "/oauth//ready", "/oauth/Ready", "/oauth/%72eady"} {
		if status, _, body := g.do(http.MethodGet, path, ""); status == http.StatusOK {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if strings.Contains(g.logs()[before:], `"uri":"/oauth/ready"`) {
		t.Error("the access log has a line for every look of the balancer")
	}
}

// startTakesLong makes requests that wait for the start of a configuration wait longer than any test, until end is
// called.
func startTakesLong() (end func()) {
	before := startTimeout
	startTimeout = time.Hour
	return func() { startTimeout = before }
}

// TestF5NotReadyWithoutItsStore: a store that cannot be read → not ready within a second, and alive; only the operator is told
// why, because errors of databases name hosts and paths.
func TestF5NotReadyWithoutItsStore(t *testing.T) {
	c := setClock(t)
	g := startGatehouse(t, readySite)
	if !g.ready() {
		t.Fatal("not ready")
	}
	check(t, g.app().node.Store().Close())
	if !g.ready() {
		t.Error("the store is asked on every look")
	}
	c.advance(time.Second)
	if g.ready() {
		t.Error("ready without a store")
	}
	g.live()
	if reasons := g.reasons(); !strings.HasPrefix(reasons, "store: ") {
		t.Errorf("the operator is told: %s", reasons)
	}
	out, err := g.run("", "status")
	if err == nil || printed(t, out, "ready") != "no" || !strings.HasPrefix(printed(t, out, "because"), "store: ") {
		t.Errorf("caddy oauth status: %v\n%s", err, out)
	}
}

// TestG79NotReadyWithOldRevocations: revocations older than max_staleness → not ready from the moment in which the gate answers 503.
func TestG79NotReadyWithOldRevocations(t *testing.T) {
	c := setClock(t)
	g := startGatehouse(t, readySite)
	token := g.token()
	const staleness = 5 * time.Minute                    // the default
	g.behind("ALTER TABLE revocations RENAME TO hidden") // nothing can be read from now on
	c.advance(staleness - g.app().node.Status().Staleness - 2*time.Second)
	if status, _, _ := g.get("/any/x", token); status != http.StatusOK || !g.ready() {
		t.Errorf("before max_staleness: %d, %s", status, g.reasons())
	}
	c.advance(4 * time.Second)
	if status, header, _ := g.get("/any/x", token); status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
		t.Errorf("after max_staleness: %d %v", status, header)
	}
	if g.ready() {
		t.Error("ready with old revocations")
	}
	if reasons := g.reasons(); !strings.HasPrefix(reasons, "revocations: ") {
		t.Errorf("the operator is told: %s", reasons)
	}
	if age := g.measured()[`gatehouse_revocation_staleness_seconds`]; age < staleness.Seconds() {
		t.Errorf("the metric says %v s", age)
	}
}

// TestF21NotReadyFirst: a node is told to stop → not ready at once, and it serves until the balancer has noticed.
// Requests in progress then are completed.
func TestF21NotReadyFirst(t *testing.T) {
	const delay = 4 * time.Second
	g := startGatehouse(t, strings.Replace(readySite, "\tadmin ADMIN\n", "\tadmin ADMIN\n\tshutdown_delay "+delay.String()+"\n\tgrace_period 10s\n", 1))
	token := g.token()
	if !g.ready() {
		t.Fatal("not ready")
	}
	stopped := make(chan error, 1)
	told := time.Now()
	go func() { stopped <- caddy.Stop() }()
	g.eventually("the node is not ready", func() bool { return !g.ready() })
	if len(stopped) > 0 {
		t.Fatal("the node has stopped already")
	}
	for range 20 {
		if time.Since(told) > delay/2 {
			break // a busy machine manages no further one, and requests after the delay are refused
		}
		if status, _, body := g.get("/any/x", token); status != http.StatusOK {
			t.Errorf("the gate of a node that is leaving: %d %s", status, body)
		}
		g.token()
		if g.ready() {
			t.Error("ready again")
		}
	}
	select {
	case err := <-stopped:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("the node does not stop")
	}
}

// TestCommandStatus: the command reports the state of a node, as text and as JSON.
func TestCommandStatus(t *testing.T) {
	g := startGatehouse(t, readySite)
	g.token()
	g.awaitHousekeeping()
	out := g.ok("status")
	for word, want := range map[string]string{"ready": "yes", "issuer": g.url, "store": "sqlite", "keys": "1 signing", "housekeeper": "yes"} {
		if got := printed(t, out, word); got != want {
			t.Errorf("%s is %q, want %q, in\n%s", word, got, want, out)
		}
	}
	s := toldStatus(t, g.ok("status", "--json"))
	if own := s.Own; !s.Ready || own == nil || own.Issuer != g.url || own.Staleness == nil || *own.Staleness > 60 || own.Keys["signing"] != 1 ||
		own.Verified < 1 || len(own.Stored) != 7 {
		t.Errorf("status: %+v", s)
	}
	if status, _, body := g.operate(http.MethodPost, "/oauth/status", "{}"); status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d %s", status, body)
	}
}

// toldStatus decodes the command's output.
func toldStatus(t *testing.T, text string) (s nodeStatus) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &s, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return s
}
