package caddymodule

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
)

// These tests run the gate behind other proxies, with the configurations of docs/other-proxies.md. They run nginx.
// For Traefik and Envoy they send the documented requests.

const otherProxies = "../docs/other-proxies.md"

// documented returns the code blocks of a language in the document.
func documented(t *testing.T, language string) []string {
	t.Helper()
	text, err := os.ReadFile(otherProxies)
	check(t, err)
	var blocks []string
	for _, block := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, block[1])
	}
	return blocks
}

// documentedGate returns a Caddyfile of the document with the gate at an address, for startGate.
func documentedGate(t *testing.T, block int, gate string) string {
	t.Helper()
	blocks := documented(t, "caddyfile")
	if len(blocks) <= block {
		t.Fatalf("%s has %d Caddyfiles", otherProxies, len(blocks))
	}
	_, port, _ := net.SplitHostPort(gate)
	return strings.NewReplacer(
		"issuer https://auth.example.com", "issuer http://ADDR\n\t\tstore memory", "http://auth.example.com:9081 {", "http://ADDR {",
		"client portal {env.PORTAL_SECRET}", "client conf SECRET", ":9080", ":"+port,
	).Replace("{\n\tadmin ADMIN\n\tlog {\n\t\toutput file LOG\n\t\tlevel DEBUG\n\t}\n" + strings.TrimPrefix(blocks[block], "{\n"))
}

// front returns another proxy in front of the gate and the upstream, or the gate as such a proxy sees it.
func (g *gateway) front(addr string) *gateway {
	return &gateway{gatehouse: &gatehouse{t: g.t, addr: addr, url: "http://" + addr}}
}

// startNginx runs nginx with the document's configuration, in front of a gate at an address and the issuer and
// upstream of g.
func startNginx(g *gateway, gate string, more ...string) string {
	g.t.Helper()
	return runNginx(g, gate, documentedNginx(g.t)["api"], more...)
}

// documentedNginx returns the nginx configurations in the document: those of its http block for an API and for
// applications, and the files that they include. The first server serves unknown hosts.
func documentedNginx(t *testing.T) map[string]string {
	t.Helper()
	blocks := documented(t, "nginx")
	if len(blocks) != 5 {
		t.Fatalf("%s has %d configurations of nginx", otherProxies, len(blocks))
	}
	return map[string]string{
		"api": blocks[1] + blocks[0], "headers.conf": blocks[2], "applications": blocks[3] + blocks[0], "gate.conf": blocks[4],
	}
}

// runNginx is startNginx with another configuration.
func runNginx(g *gateway, gate, config string, more ...string) string {
	g.t.Helper()
	addr := freeAddr(g.t)
	config = strings.NewReplacer("127.0.0.1:9080", gate, "127.0.0.1:9081", g.addr, "127.0.0.1:8080", g.upstream.addr).Replace(config)
	runNginxAt(g.t, addr, strings.Join(more, "\n")+"\n"+config, map[string]string{"headers.conf": documentedNginx(g.t)["headers.conf"]})
	return addr
}

// runNginxAt runs nginx at an address, with further files next to its configuration, by name.
func runNginxAt(t *testing.T, addr, config string, files map[string]string) {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		program = "/usr/sbin/nginx" // Debian keeps it off the PATH of users
	}
	dir := t.TempDir()
	server := regexp.MustCompile(`(?m)^\s*ssl_certificate.*\n`).ReplaceAllString(config, "")
	server = strings.ReplaceAll(server, "443 ssl", addr)
	for name, text := range files {
		check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	file := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf("daemon off;\nmaster_process off;\npid %[1]s/pid;\nevents {}\nhttp {\naccess_log off;\nclient_body_temp_path %[1]s/body;\n"+
		"proxy_temp_path %[1]s/proxy;\nfastcgi_temp_path %[1]s/fastcgi;\nuwsgi_temp_path %[1]s/uwsgi;\nscgi_temp_path %[1]s/scgi;\n%[2]s}\n",
		dir, server)
	check(t, os.WriteFile(file, []byte(text), 0o600))
	startServer(t, exec.Command(program, "-e", "stderr", "-p", dir, "-c", file), addr)
}

// startServer runs a third-party program until the test ends, and waits until it listens at an address.
func startServer(t *testing.T, command *exec.Cmd, addr string) {
	t.Helper()
	var said bytes.Buffer
	command.Stderr = &said
	if err := command.Start(); err != nil {
		t.Fatalf("starting %s: %v", command, err)
	}
	ended := make(chan struct{})
	go func() {
		_ = command.Wait() // it is killed at the end
		close(ended)
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("%s said:\n%s", command, &said)
		}
	})
	awaitListener(t, addr, ended, &said)
}

// awaitListener waits until a server listens at an address.
func awaitListener(t *testing.T, addr string, ended chan struct{}, said *bytes.Buffer) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		select {
		case <-ended:
			t.Fatalf("the program for %s ended: %s", addr, said)
		default:
		}
		if connection, err := net.Dial("tcp", addr); err == nil {
			_ = connection.Close()
			return
		}
	}
	t.Fatalf("nobody listens at %s", addr)
}

// startBehindNginx returns the gate and nginx in front of it.
func startBehindNginx(t *testing.T, more ...string) (g, nginx *gateway) {
	t.Helper()
	addr := freeAddr(t)
	g = startGate(t, documentedGate(t, 0, addr))
	return g, g.front(startNginx(g, addr, more...))
}

func TestNginxAsksTheGate(t *testing.T) {
	g, nginx := startBehindNginx(t)
	reads, writes := g.server("orders.read"), g.server("orders.read", "orders.write")
	revoked := g.server("orders.read")
	g.revokeOverTheWire(revoked)
	for name, test := range map[string]struct {
		method, target string
		lines          []string
		want           int
		challenge      string
	}{
		"no token":                      {"GET", "/orders/1", nil, 401, ""},
		"a revoked token":               {"GET", "/orders/1", []string{bearer(revoked)}, 401, `error_description="The access token was revoked"`},
		"a scope is missing":            {"GET", "/orders/1", []string{bearer(g.server("public"))}, 403, `scope="orders.read"`},
		"a method's scope is missing":   {"POST", "/orders/1", []string{bearer(reads), "Content-Length: 0"}, 403, `scope="orders.read orders.write"`},
		"a good token":                  {"GET", "/orders/1", []string{bearer(reads)}, 200, ""},
		"no token needed":               {"GET", "/status", nil, 200, ""},
		"nobody knows the path":         {"GET", "/other", []string{bearer(writes)}, 403, ""},
		"the gate's own location":       {"GET", "/_gate", []string{bearer(writes)}, 404, ""},
		"another address in a header":   {"GET", "/orders/1", []string{"X-Original-URI: /status", "X-Original-URL: /status", "X-Forwarded-Uri: /status"}, 401, ""},
		"another method in a header":    {"POST", "/orders/1", []string{bearer(reads), "X-HTTP-Method-Override: GET", "X-Forwarded-Method: GET", "Content-Length: 0"}, 403, ""},
		"a preflight":                   {"OPTIONS", "/orders/1", []string{"Origin: " + spa, "Access-Control-Request-Method: PUT"}, 401, ""},
		"a good token, to the absolute": {"GET", "http://api.example.com/orders/1", []string{bearer(reads)}, 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			status, header, body := nginx.raw(nginx.request(test.method, test.target, append(test.lines, "Connection: close")...))
			if status != test.want {
				t.Fatalf("%d %s, want %d", status, body, test.want)
			}
			challenges := header.Values("Www-Authenticate")
			if (status == 401 || test.challenge != "") && (len(challenges) != 1 || !strings.Contains(challenges[0], test.challenge)) {
				t.Errorf("challenge %q, want one with %q", challenges, test.challenge)
			}
			if status != http.StatusOK {
				g.upstream.none(t)
				return
			}
			seen := g.upstream.one(t)
			if target := strings.TrimPrefix(test.target, "http://api.example.com"); seen.Target != target || seen.Method != test.method {
				t.Errorf("the upstream saw %s %s", seen.Method, seen.Target)
			}
			if test.target == "/status" {
				seen.anonymous(t)
			} else {
				seen.has(t, "X-Auth-Subject", "conf").has(t, "X-Auth-Client", "conf")
			}
			seen.has(t, "Authorization")
		})
	}
	t.Run("G146 what chooses another method or path", func(t *testing.T) {
		lines := []string{bearer(reads)}
		for _, name := range identity.Overriding {
			lines = append(lines, name+": chosen")
		}
		status, _, body := nginx.raw(nginx.request("GET", "/orders/1", lines...))
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		seen := g.upstream.one(t)
		for _, name := range identity.Overriding {
			seen.has(t, name)
		}
	})
	t.Run("a body goes to the upstream alone", func(t *testing.T) {
		status, _, body := nginx.raw(nginx.requestWith(strings.Repeat("x", 1<<20), "POST", "/orders/1", bearer(writes), "Content-Length: 1048576"))
		if seen := g.upstream.one(t); status != 200 || len(seen.Body) != 1<<20 {
			t.Errorf("%d %s, and the upstream got %d bytes", status, body, len(seen.Body))
		}
	})
}

// TestNginxG145AnswersPreflightsItself: a preflight behind nginx with the lines that the document names → 204 by nginx, the upstream sees nothing.
// Without them it is a request as any other, and TestNginxAsksTheGate has its 401.
func TestNginxG145AnswersPreflightsItself(t *testing.T) {
	const answering = "\t\tif ($request_method = OPTIONS) {\n\t\t\treturn 204;\n\t\t}\n"
	addr := freeAddr(t)
	g := startGate(t, documentedGate(t, 0, addr))
	config := documentedNginx(t)["api"]
	asks := "\t\tauth_request     /_gate;\n"
	answers := strings.Replace(config, asks, answering+asks, 1)
	if answers == config {
		t.Fatal("the document has no auth_request")
	}
	nginx := g.front(runNginx(g, addr, answers))
	for _, body := range []string{"", "delete=everything"} {
		status, _, text := nginx.raw(nginx.requestWith(body, "OPTIONS", "/orders/1", "Origin: "+spa, "Access-Control-Request-Method: PUT",
			fmt.Sprintf("Content-Length: %d", len(body)), "Connection: close"))
		if status != http.StatusNoContent {
			t.Errorf("with %d bytes: %d %s", len(body), status, text)
		}
	}
	answerOf(nginx.raw(nginx.request("GET", "/orders/1"))).is(t, http.StatusUnauthorized, "no token")
	g.upstream.none(t)
}

// TestNginxLeadsClientsToTheirIssuer follows the challenge to the metadata, and to a token. No response of the
// `oauth_server` of the gate's site counts as acceptance.
func TestNginxLeadsClientsToTheirIssuer(t *testing.T) {
	addr := freeAddr(t)
	config := documentedGate(t, 0, addr)
	g := startGate(t, config)
	_, port, _ := net.SplitHostPort(g.addr)
	g.reload(strings.Replace(config, "http://ADDR {", "http://ADDR, http://auth.example.com:"+port+" {", 1))
	nginx := g.front(startNginx(g, addr))
	ask := func(host, method, target, body string) (int, http.Header, string) {
		lines := []string{"Content-Type: application/x-www-form-urlencoded", fmt.Sprintf("Content-Length: %d", len(body)), "Connection: close"}
		return nginx.raw(strings.Replace(nginx.requestWith(body, method, target, lines...), "Host: "+nginx.addr, "Host: "+host, 1))
	}
	const api, issuer = "api.example.com", "auth.example.com"

	status, header, body := ask(api, "GET", "/orders/1", "")
	if got := parameters(t, header)["resource_metadata"]; status != 401 || got != "https://api.example.com"+wellKnown+"/orders" {
		t.Errorf("%d %s: metadata at %q", status, body, got)
	}
	status, _, body = ask(api, "GET", wellKnown+"/orders", "")
	if status != 200 || !strings.HasPrefix(body, `{"resource":"https://api.example.com/orders","authorization_servers":["`+g.url+`"],`) {
		t.Errorf("%d %s", status, body)
	}
	form := "grant_type=client_credentials&scope=orders.read&client_id=conf&client_secret=" + confSecret
	status, _, body = ask(issuer, "POST", "/oauth/token", form)
	if status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	token, _ := decoded[map[string]any](t, body)["access_token"].(string)
	if status, _, body = nginx.raw(nginx.request("GET", "/orders/1", bearer(g.watched(token)))); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	g.upstream.one(t).has(t, "X-Auth-Subject", "conf")

	for target, want := range map[string]int{
		"/oauth/jwks": 403, "/oauth/nothing": 403, "/.well-known/oauth-authorization-server": 403, wellKnown + "x": 403, wellKnown + "/other": 404,
		"/orders/.." + wellKnown + "/orders": 404, wellKnown + "/../../oauth/jwks": 403, wellKnown + "/../../orders/1": 400,
	} {
		answerOf(ask(api, "GET", target, "")).is(t, want, target)
	}
	answerOf(ask(api, "POST", "/oauth/token", form)).is(t, 403, "a token at the API's own address")
	g.upstream.none(t)
}

// TestNginxG48FakedIdentity: identity headers of a client, in any spelling → only those of the gate reach the upstream.
func TestNginxG48FakedIdentity(t *testing.T) {
	var faked []string
	for _, name := range []string{"Subject", "Client", "Scope", "Organisation", "Role", "Groups", "Issuer"} {
		for _, form := range []string{"X-Auth-%s", "x-auth-%s", "X_Auth_%s", "X-Auth_%s", "X_Auth-%s", "X.Auth.%s", "X-AUTH-%s"} {
			faked = append(faked, fmt.Sprintf(form, name)+": admin")
		}
	}
	g, nginx := startBehindNginx(t, "underscores_in_headers on;")
	for target, lines := range map[string][]string{
		"/status": nil, "/orders/1": {bearer(g.server("orders.read"))}, "/orders/2": {bearer(g.user("u-ada", "acme", "admin", "orders.read"))},
	} {
		status, _, body := nginx.raw(nginx.request("GET", target, slices.Concat(faked, lines, []string{"X_Harmless: 1"})...))
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", target, status, body)
		}
		seen := g.upstream.one(t)
		if strings.Contains(seen.Raw, "admin") != (target == "/orders/2") || strings.Count(seen.Raw, "admin") > 1 {
			t.Errorf("%s reached the upstream:\n%s", target, seen.Raw)
		}
		if !strings.Contains(seen.Raw, "X_Harmless") {
			t.Errorf("nginx has other rules for underscores than this test:\n%s", seen.Raw)
		}
		switch target {
		case "/status":
			seen.anonymous(t)
		case "/orders/1":
			seen.has(t, "X-Auth-Subject", "conf").has(t, "X-Auth-Role")
		default:
			seen.has(t, "X-Auth-Subject", "u-ada").has(t, "X-Auth-Role", "admin")
		}
	}
}

// TestNginxG62PathTricks: a path that nginx, the gate and the upstream could read differently is judged in the form
// that the upstream receives.
func TestNginxG62PathTricks(t *testing.T) {
	g, nginx := startBehindNginx(t)
	token := g.server("orders.read")
	for target, want := range map[string]struct{ without, with int }{
		"/orders/1":                     {401, 200},
		"/status":                       {200, 200},
		"/status/../orders/1":           {400, 400},
		"/status%2f..%2forders/1":       {400, 400},
		"/orders/../status":             {400, 400},
		"//orders/1":                    {400, 400},
		"/status%3b/orders/1":           {403, 403},
		"/orders%2f1":                   {401, 200},
		"/%6frders/1":                   {401, 200},
		"/st%61tus":                     {401, 200},
		"/status?/../orders/1":          {200, 200},
		"/status%00/orders/1":           {400, 400},
		"http://api.example.com/status": {200, 200},
	} {
		for _, try := range []struct {
			name  string
			lines []string
			want  int
		}{{"without a token", nil, want.without}, {"with a token", []string{bearer(token)}, want.with}} {
			status, _, body := nginx.raw(nginx.request("GET", target, append(try.lines, "Connection: close")...))
			if status != try.want {
				t.Errorf("%s %s: %d %s, want %d", target, try.name, status, body, try.want)
			}
			seen := g.upstream.seen()
			switch sent := strings.TrimPrefix(target, "http://api.example.com"); {
			case status != http.StatusOK && len(seen) > 0:
				t.Errorf("%s %s reached the upstream", target, try.name)
			case status == http.StatusOK && (len(seen) != 1 || seen[0].Target != sent):
				t.Errorf("%s %s: the upstream saw %v", target, try.name, seen)
			}
		}
	}
}

// TestNginxG50PassesNoOtherUpgrade: nginx forwards WebSocket upgrades to the upstream, with a token, and no others. Where another
// configuration of nginx forwards more, the gate still forwards only those.
func TestNginxG50PassesNoOtherUpgrade(t *testing.T) {
	g, nginx := startBehindNginx(t)
	g.upstream.answer = websocketUpstream
	upgrade, token := []string{"Connection: Upgrade", "Upgrade: websocket"}, bearer(g.server("orders.read"))
	answerOf(nginx.raw(nginx.request("GET", "/orders/ws", upgrade...))).is(t, http.StatusUnauthorized, "without a token")
	g.upstream.none(t)
	w := nginx.dial(t, nginx.request("GET", "/orders/ws", append(upgrade, token, "X-Auth-Subject: admin")...))
	w.echoes(t)
	g.upstream.one(t).has(t, "X-Auth-Subject", "conf")
	_ = w.Close()
	tunnelled := make(chan string, 1)
	g.upstream.answer = eagerUpstream(tunnelled)
	nginx.upstream = g.upstream
	for name, lines := range map[string][]string{
		"h2c":    {"Connection: Upgrade", "Upgrade: h2c"},
		"a list": {"Connection: Upgrade", "Upgrade: websocket, h2c"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, request := range []string{
				nginx.request("GET", "/status", lines...), nginx.request("GET", "/orders/1", append(lines, token)...),
			} {
				seen := nginx.ordinary(t, request, tunnelled)
				seen.has(t, "Upgrade").has(t, "HTTP2-Settings")
			}
		})
	}
}

// TestNginxSaysThatTheGateCannotTell: an outage is neither a refusal nor a way in.
func TestNginxSaysThatTheGateCannotTell(t *testing.T) {
	now := setClock(t)
	g, nginx := startBehindNginx(t)
	token := g.server("orders.read")
	g.silenceFeed()
	g.app().node.Revocations.MarkFresh(node.Clock())
	now.advance(5*time.Minute + time.Second)
	status, header, body := nginx.raw(nginx.request("GET", "/orders/1", bearer(token)))
	if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
		t.Errorf("revocations too old: %d %v %s", status, header, body)
	}
	alone := g.front(startNginx(g, freeAddr(t)))
	for _, target := range []string{"/orders/1", "/status"} {
		answerOf(alone.raw(alone.request("GET", target, bearer(token)))).is(t, http.StatusServiceUnavailable, target, " without a gate")
	}
	g.upstream.none(t)
}
