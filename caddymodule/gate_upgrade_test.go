package caddymodule

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
)

// Protocol upgrades. The gate cannot see inside a tunnel.

// upgradeRoutes has one route of each kind that lets a request through.
var upgradeRoutes = gated("/anonymous/*", "anonymous /anonymous/*") + gated("/optional/*", "optional") +
	gated("/docker/*", "upgrade tcp") +
	handled("handle /asking/*", protect("anonymous /asking/*"), "reverse_proxy UPSTREAM {\nheader_up Connection Upgrade\nheader_up Upgrade h2c\n}") +
	gated("")

// eagerUpstream switches to any requested protocol, including HTTP/2 without HTTP2-Settings, as Hypercorn does. Inside HTTP/2 it serves
// every request and reports it on tunnelled.
func eagerUpstream(tunnelled chan<- string) func(net.Conn, *recorded) {
	return func(connection net.Conn, r *recorded) {
		protocols := strings.ToLower(strings.Join(r.Header["Upgrade"], ","))
		if !strings.Contains(protocols, "h2c") {
			websocketUpstream(connection, r)
			return
		}
		_, _ = fmt.Fprintf(connection, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header["Upgrade"][0])
		//lint:ignore SA1019 net/http serves listeners, and this is one connection that has switched
		new(http2.Server).ServeConn(connection, &http2.ServeConnOpts{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			tunnelled <- r.URL.Path + " of " + r.Header.Get(identity.Subject)
		})})
	}
}

// TestG50OtherUpgradesAreOrdinaryRequests: `Upgrade: h2c` or another protocol → an ordinary request, no tunnel. A client could use a route
// with no or a weak token to upgrade to h2c without HTTP2-Settings, which some servers accept. In the tunnel it could send any path and any
// identity header.
func TestG50OtherUpgradesAreOrdinaryRequests(t *testing.T) {
	g := startGate(t, siteWith("", upgradeRoutes))
	token := g.server("public")
	tunnelled := make(chan string, 1)
	g.upstream.answer = eagerUpstream(tunnelled)
	for name, lines := range map[string][]string{
		"h2c":                   {"Connection: Upgrade", "Upgrade: h2c"},
		"h2c with its settings": {"Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"},
		"naming identity":       {"Connection: Upgrade, X-Auth-Subject", "Upgrade: h2c"},
		"a list, h2c first":     {"Connection: Upgrade", "Upgrade: h2c, websocket"},
		"two lines, h2c first":  {"Connection: Upgrade", "Upgrade: h2c", "Upgrade: websocket"},
		"websocket twice":       {"Connection: Upgrade", "Upgrade: websocket", "Upgrade: websocket"},
		"websocket and a comma": {"Connection: Upgrade", "Upgrade: websocket,"},
		"tcp, of another route": {"Connection: Upgrade", "Upgrade: tcp"},
		"empty":                 {"Connection: Upgrade", "Upgrade:"},
	} {
		for target, more := range map[string][]string{
			"/any/x": {bearer(token)}, "/anonymous/x": nil, "/optional/x": nil, "/optional/y": {bearer(token)},
		} {
			t.Run(name+" at "+target, func(t *testing.T) {
				seen := g.ordinary(t, g.request("GET", target, append(lines, more...)...), tunnelled)
				seen.has(t, "Upgrade").has(t, "HTTP2-Settings")
				if more != nil {
					seen.ours(t, "conf")
				} else {
					seen.anonymous(t)
				}
				for _, line := range seen.Header["Connection"] {
					if strings.Contains(strings.ToLower(line), "upgrade") {
						t.Errorf("Connection: %s", line)
					}
				}
			})
		}
	}
}

// ordinary sends a request for another protocol, which must be answered like any other. If it is not, ordinary sends an attack through the
// tunnel.
func (g *gateway) ordinary(t *testing.T, request string, tunnelled <-chan string) *recorded {
	t.Helper()
	w := g.dial(t, request)
	defer func() { _ = w.Close() }()
	if w.status != http.StatusOK {
		t.Errorf("status %d, want 200", w.status)
	}
	if w.status == http.StatusSwitchingProtocols {
		inside, err := new(http2.Transport).NewClientConn(tunnel{w}) //lint:ignore SA1019 as above
		check(t, err)
		attack, err := http.NewRequest(http.MethodGet, "http://"+g.addr+"/admin", nil)
		check(t, err)
		attack.Header.Set(identity.Subject, "admin")
		if response, err := inside.RoundTrip(attack); err == nil {
			_ = response.Body.Close()
			t.Errorf("in the tunnel the upstream served %s", <-tunnelled)
		}
	}
	return g.upstream.one(t)
}

// tunnel is a connection after a 101. Its reader may have buffered bytes.
type tunnel struct{ *wire }

func (t tunnel) Read(p []byte) (int, error) { return t.reader.Read(p) }

// TestG50UpgradesThatARouteAllows checks that each other protocol needs its own `upgrade` line and is allowed on that route alone.
func TestG50UpgradesThatARouteAllows(t *testing.T) {
	g := startGate(t, siteWith("", upgradeRoutes))
	token := g.server("public")
	g.upstream.answer = websocketUpstream
	for name, test := range map[string]struct {
		method, target, protocol string
		want                     int
	}{
		"as it is written":         {"GET", "/docker/x", "tcp", 101},
		"in another case":          {"GET", "/docker/x", "TCP", 101},
		"with another method":      {"POST", "/docker/x", "tcp", 101},
		"WebSocket beside it":      {"GET", "/docker/x", "WebSocket", 101},
		"another protocol":         {"GET", "/docker/x", "h2c", 200},
		"one that begins the same": {"GET", "/docker/x", "tcp2", 200},
		"on another route":         {"GET", "/any/x", "tcp", 200},
	} {
		t.Run(name, func(t *testing.T) {
			w := g.dial(t, g.request(test.method, test.target, bearer(token), "Connection: Upgrade", "Upgrade: "+test.protocol))
			if w.status != test.want {
				t.Fatalf("status %d, want %d", w.status, test.want)
			}
			if test.want == http.StatusSwitchingProtocols {
				w.echoes(t)
			}
			_ = w.Close()
			g.upstream.one(t).ours(t, "conf")
		})
	}
	g.refused(t, g.request("GET", "/any/x", append(webSocket, "Early-Data: 0", "Authorization: Bearer bad")...), 401)
}

// TestG50NobodyAsked: an upstream that switches protocols unasked → no tunnel, what follows is judged. The gate reads what follows on the
// connection as further requests.
func TestG50NobodyAsked(t *testing.T) {
	g := startGate(t, siteWith("", upgradeRoutes))
	token := g.server("public")
	for name, test := range map[string]struct {
		target, upgrade string // of the upstream's answer
		asks            []string
		want            int
	}{
		"of a plain request":         {"/any/x", "Connection: Upgrade\r\nUpgrade: h2c\r\n", nil, 200}, // reverse_proxy's own answer, and empty
		"to WebSocket":               {"/any/x", "Connection: Upgrade\r\nUpgrade: websocket\r\n", nil, 200},
		"to nothing":                 {"/any/x", "", nil, 200},
		"of one without a token":     {"/anonymous/x", "Connection: Upgrade\r\nUpgrade: h2c\r\n", nil, 200},
		"of one for h2c":             {"/any/x", "Connection: Upgrade\r\nUpgrade: h2c\r\n", []string{"Connection: Upgrade", "Upgrade: h2c"}, 200},
		"of one for WebSocket":       {"/any/x", "Connection: Upgrade\r\nUpgrade: h2c\r\n", webSocket, 200},
		"the proxy itself asks":      {"/asking/x", "Connection: Upgrade\r\nUpgrade: h2c\r\n", nil, 502},
		"the proxy asks for another": {"/asking/x", "Connection: Upgrade\r\nUpgrade: h2c\r\n", webSocket, 502},
	} {
		t.Run(name, func(t *testing.T) {
			got := make(chan string, 1)
			g.upstream.answer = func(connection net.Conn, _ *recorded) {
				_, _ = io.WriteString(connection, "HTTP/1.1 101 Switching Protocols\r\n"+test.upgrade+"\r\n")
				text, _ := io.ReadAll(connection)
				got <- string(text)
			}
			text := g.request("GET", test.target, append(test.asks, bearer(token))...)
			text += g.request("GET", "/any/hidden", "X-Auth-Subject: admin", "Connection: close")
			var statuses []int
			for _, answer := range g.exchange(t, text, 2) {
				statuses = append(statuses, answer.status)
			}
			if !slices.Equal(statuses, []int{test.want, http.StatusUnauthorized}) {
				t.Errorf("statuses %v, want %d and 401", statuses, test.want)
			}
			if text := <-got; text != "" {
				t.Errorf("in the tunnel the upstream was sent\n%s", text)
			}
			g.upstream.one(t)
		})
	}
}

// TestG50ARefusalIsNoTunnel: a refused WebSocket with `handle_errors` → an ordinary request to the error route.
func TestG50ARefusalIsNoTunnel(t *testing.T) {
	g := startGate(t, siteWith("", gatedDown("/down/*")+gated("")+errorsProxied))
	g.upstream.answer = websocketUpstream
	for _, request := range []string{
		g.request("GET", "/x", webSocket...), g.request("GET", "/x", "Connection: Upgrade", "Upgrade: h2c"),
		g.request("GET", "/a//b", webSocket...), g.request("GET", "/down/x", append(webSocket, bearer(g.server("public")))...),
	} {
		w := g.dial(t, request)
		seen := g.upstream.one(t)
		if seen.has(t, "Upgrade"); w.status != http.StatusOK {
			t.Errorf("%d after\n%s", w.status, request)
		}
		_ = w.Close()
	}
}

// TestG50AProxyThatAsksUs checks forward_auth from another proxy, which sends its client's Upgrade along. An upgrade to another protocol is
// refused.
func TestG50AProxyThatAsksUs(t *testing.T) {
	g := startGate(t, siteWith("", handled("handle /status", protect("anonymous /status", "forward_to response"), "respond 204")+
		handled("handle", protect("forward_to response", "upgrade tcp"), "respond 204")))
	token := g.server("public")
	for upgrade, want := range map[string]int{
		"websocket": 204, "WebSocket": 204, "tcp": 204, "h2c": 400, "h2c, websocket": 400, "websocket\r\nUpgrade: h2c": 400, "": 400,
	} {
		answerOf(g.raw(g.request("GET", "/x", bearer(token), "Upgrade: "+upgrade))).is(t, want, upgrade)
		if status, _, body := g.raw(g.request("GET", "/status", "Upgrade: "+upgrade)); status != want && upgrade != "tcp" {
			t.Errorf("%q without a token: %d %s, want %d", upgrade, status, body, want)
		}
	}
	g.audited()
	_, body := g.refused(t, g.request("GET", "/x", bearer(token), "Upgrade: h2c"), 400)
	if got := member(t, body, "error_description"); got != "This route does not allow the protocol that Upgrade names." {
		t.Error(got)
	}
}

// TestG50ProtocolsInJSON checks that JSON cannot allow protocols in which HTTP continues either.
func TestG50ProtocolsInJSON(t *testing.T) {
	config, err := adapt(configVars(t).Replace(siteWith("", "	protect {\n		upgrade tcp\n	}\n	reverse_proxy UPSTREAM")))
	check(t, err)
	if err := validateJSON(t, config); err != nil {
		t.Error(err)
	}
	config = []byte(strings.Replace(string(config), `"upgrade":["tcp"]`, `"upgrade":["h2c"]`, 1))
	checkPlace(t, validateJSON(t, config), "write `versions h2c` in the transport of reverse_proxy", 33)
}
