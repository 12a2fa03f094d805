package caddymodule

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/internal/faultproxy"
	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// Framing, faults, and requests that the gate cannot judge.

// TestG72Smuggling: the smuggling corpus → as many requests upstream as were answered.
func TestG72Smuggling(t *testing.T) {
	// Without an access log: Caddy counts the body for it while reverse_proxy may still read the body.
	g := startGate(t, strings.Replace(siteWith("\t\tprotocols h1 h2c", `	protect {
		anonymous /public/*
		require /api/* scope trusted
	}
	reverse_proxy UPSTREAM`), "\n\tlog\n", "\n", 1))
	token := g.server("public")
	auth := bearer(token) + "\r\n"
	hidden := "GET /api/hidden HTTP/1.1\r\nHost: " + g.addr + "\r\nX-Auth-Subject: admin\r\n\r\n"
	chunk := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(hidden), hidden)
	texts := map[string]string{
		"CL.TE":                   "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"TE.CL":                   "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n" + chunk,
		"no length":               "\r\n" + hidden,
		"chunked by Connection":   "Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk,
		"bare line feeds":         "X: y\nContent-Length: 0\n\n" + hidden,
		"expect":                  "Expect: 100-continue\r\nContent-Length: " + itoa(len(hidden)) + "\r\n\r\n" + hidden,
		"upgrade without a 101":   "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 777\r\nSec-WebSocket-Key: x\r\n\r\n" + hidden,
		"upgrade to h2c":          "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n" + hidden,
		"length in a spoofed":     "Content_Length: 0\r\nContent-Length: " + itoa(len(hidden)) + "\r\n\r\n" + hidden,
		"version 1.0 and chunked": "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
	}
	targets, answers := make(map[string]string), make(map[string][]answered)
	var mu sync.Mutex
	var running sync.WaitGroup
	for name, text := range texts {
		version := "HTTP/1.1"
		if strings.Contains(name, "1.0") {
			version = "HTTP/1.0"
		}
		target := "/x?" + url.QueryEscape(name)
		targets[name] = target
		running.Go(func() {
			got := g.exchange(t, "POST "+target+" "+version+"\r\nHost: "+g.addr+"\r\n"+auth+text, 0)
			mu.Lock()
			answers[name] = got
			mu.Unlock()
		})
	}
	running.Wait()
	seen := g.upstream.seen()
	for _, r := range seen {
		if !strings.HasPrefix(r.Target, "/x?") || strings.Contains(r.Raw, "admin") {
			t.Errorf("the upstream was sent\n%s", r.Raw)
		}
		r.has(t, identity.Subject, "conf")
	}
	for name := range texts {
		t.Run(name, func(t *testing.T) {
			accepted, sent := 0, 0
			for _, answer := range answers[name] {
				if answer.status == 200 && answer.body == "ok" {
					accepted++
				}
			}
			for _, r := range seen {
				if r.Target == targets[name] {
					sent++
				}
			}
			if sent > 1 || accepted > sent || sent > accepted && !brokenOff(answers[name]) {
				t.Errorf("%d requests at the upstream, %d of %d answers are its own", sent, accepted, len(answers[name]))
			}
		})
	}
}

// brokenOff reports whether the exchange ended with an error of Caddy's own for a request that it had begun to proxy, or without an answer.
func brokenOff(answers []answered) bool {
	answers = slices.DeleteFunc(slices.Clone(answers), func(a answered) bool { return a.status < 200 })
	return len(answers) == 0 || answers[len(answers)-1].status >= 400
}

// TestG73Pipelining: an unauthenticated and an authenticated request in one connection → judged apart.
func TestG73Pipelining(t *testing.T) {
	g := startGate(t, site)
	token := g.server("public")
	with, without := g.request("GET", "/any/with", bearer(token)), g.request("GET", "/any/without")
	scope := g.request("GET", "/api/scope", bearer(token))
	var statuses []int
	for _, answer := range g.exchange(t, without+with+without+scope+with+g.request("GET", "/any/last", bearer("bad"), "Connection: close"), 7) {
		statuses = append(statuses, answer.status)
	}
	if fmt.Sprint(statuses) != "[401 200 401 403 200 401]" {
		t.Errorf("statuses %v", statuses)
	}
	seen := g.upstream.seen()
	if len(seen) != 2 || seen[0].Target != "/any/with" || seen[1].Target != "/any/with" {
		t.Errorf("the upstream saw %d", len(seen))
	}
}

// TestG75BodyWithoutAToken: a 1 GB body without a token → 401 at once.
func TestG75BodyWithoutAToken(t *testing.T) {
	g := startGate(t, speakingH2(site))
	for _, lines := range [][]string{{"Content-Length: 1073741824"}, {"Transfer-Encoding: chunked"}, {"Content-Length: 10", "Expect: 100-continue"}, {"Content-Length: 65537"}, {"Content-Length: 1073741824", "Expect: 100-continue"}, {"Content-Length: 1073741824", "Authorization: Bearer bad"}} {
		connection, err := net.Dial("tcp", g.addr)
		check(t, err)
		_ = connection.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(connection, g.request("POST", "/any/x", lines...))
		head := make([]byte, 12) // the answer comes before any of the body is sent
		if _, err := io.ReadFull(connection, head); err != nil || string(head) != "HTTP/1.1 401" {
			t.Errorf("%q %v", head, err)
		}
		// The server reads hardly more than what was already sent. Further writes fail soon.
		sent := 0
		for block := make([]byte, 64<<10); sent < 64<<20; {
			n, err := connection.Write(block)
			sent += n
			if err != nil {
				break
			}
		}
		if sent >= 64<<20 {
			t.Error("the server read 64 MiB of a refused request")
		}
		_ = connection.Close()
		g.upstream.none(t)
	}
	// Over HTTP/2 the answer does not wait for the body either, and the server requests no more of it.
	for _, further := range [][]string{
		{"content-length", "1073741824"}, nil, {"content-length", "1073741824", "expect", "100-continue"}, {"content-length", "1073741824", "authorization", "Bearer bad"},
	} {
		w := g.dialH2(t)
		w.heads(1, false, g.fields("POST", "/any/x", further...))
		answer := w.answers(1)[1]
		if answer == nil || answer.status != http.StatusUnauthorized {
			t.Fatalf("%q: %+v", further, answer)
		}
		if granted := w.granted(1); granted != 0 {
			t.Errorf("%q: the server asked for %d more bytes of a refused request", further, granted)
		}
		g.upstream.none(t)
	}
}

// TestG76UpstreamsThatFail: an upstream down, slow or failing → 502, 504, its status; never 401.
func TestG76UpstreamsThatFail(t *testing.T) {
	g := startBoth(t, siteWith("", "\tprotect\n"+handled("handle /down/*", "reverse_proxy 127.0.0.1:1")+
		handled("handle /slow/*", "reverse_proxy UPSTREAM {\ntransport http {\nresponse_header_timeout 200ms\n}\n}")+handled("handle", "reverse_proxy UPSTREAM")))
	token := g.server("public")
	if status, header, _ := g.asked(t, g.request("GET", "/down/x", bearer(token))); status != 502 || header.Get("Www-Authenticate") != "" {
		t.Errorf("down: %d", status)
	}
	g.refused(t, g.request("GET", "/down/x"), 401)
	g.upstream.answer = func(connection net.Conn, r *recorded) {
		if strings.HasPrefix(r.Target, "/slow") {
			_, _ = io.Copy(io.Discard, connection) // until the proxy closes the connection
			return
		}
		_, _ = fmt.Fprintf(connection, "HTTP/1.1 %s Whatever\r\nWWW-Authenticate: Basic realm=\"theirs\"\r\nContent-Length: 5\r\nConnection: close\r\n\r\nsorry", r.Target[1:])
	}
	request, answered := g.request("GET", "/slow/x", bearer(token)), 0
	fields, _, _ := g.inH2(request)
	for _, ask := range []func() (int, http.Header, string){
		func() (int, http.Header, string) { return g.raw(request) }, func() (int, http.Header, string) { return g.h2(t, fields) },
	} {
		answerOf(ask()).is(t, 504, "slow")
	}
	g.eventually("the slow upstream has seen both", func() bool { // perhaps only after the proxy has closed the connection
		answered += len(g.upstream.seen())
		return answered == 2
	})
	for _, want := range []int{500, 401} {
		status, header, body := g.asked(t, g.request("GET", "/"+itoa(want), bearer(token)))
		if status != want || body != "sorry" || header.Get("Www-Authenticate") != `Basic realm="theirs"` {
			t.Errorf("%d came as %d %v %s", want, status, header, body)
		}
	}
}

// TestG77PanicIsARefusal: a panic in the verifier → 500, nothing upstream, the next request is fine.
func TestG77PanicIsARefusal(t *testing.T) {
	var broken atomic.Pointer[func()]
	clockFrom(t, func() time.Time {
		if breaks := broken.Load(); breaks != nil && verifies() {
			(*breaks)()
		}
		return time.Now()
	})
	g := startGate(t, site)
	tok := g.server("public")
	for name, breaks := range map[string]func(){
		"panic":     func() { panic("injected") },
		"panic nil": func() { var t *token.AccessToken; _ = t.ID },
	} {
		t.Run(name, func(t *testing.T) {
			g.passed(t, g.request("GET", "/any/x", bearer(tok)))
			broken.Store(&breaks)
			for _, path := range []string{"/any/x", "/api/x", "/mixed/orders/1", "/optional/x"} {
				header, body := g.refused(t, g.request("GET", path, bearer(tok), "X-Auth-Subject: admin"), 500)
				if header.Get("Www-Authenticate") != "" || strings.Contains(body, "injected") {
					t.Errorf("%v %s", header, body)
				}
			}
			broken.Store(nil)
			g.passed(t, g.request("GET", "/any/x", bearer(tok)))
		})
	}
}

// verifies reports whether the verifier of our own tokens called the caller's caller.
func verifies() bool {
	callers := make([]uintptr, 16)
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers)])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, "token.(*Verifier).Recall") {
			return true
		}
		if !more {
			return false
		}
	}
}

// TestG78NoKeys: a node that has not read its keys yet → 503 for every token; requests that need no token are served.
func TestG78NoKeys(t *testing.T) {
	server := pgtest.Shared(t)
	proxy := faultproxy.Start(t, server.Addr())
	remote := strings.Replace(site, "store memory", "store postgres "+pgtest.Via(server.Database(t), proxy.Addr()), 1)
	g := startGate(t, remote)
	g.awaitServing()
	token := g.server("public")
	g.passed(t, g.request("GET", "/any/x", bearer(token)))
	check(t, caddy.Stop())
	proxy.Cut()
	g.reload(remote)
	for _, path := range []string{"/any/x", "/optional/x"} {
		header, body := g.refused(t, g.request("GET", path, bearer(token)), 503)
		if header.Get("Retry-After") == "" || header.Get("Www-Authenticate") != "" || member(t, body, "error") != "temporarily_unavailable" {
			t.Errorf("%v %s", header, body)
		}
	}
	g.refused(t, g.request("GET", "/any/x"), 401)
	g.passed(t, g.request("GET", "/mixed/pub/x"))
}

// TestG79RevocationsTooOld: revocation data older than `max_staleness` → 503 with Retry-After, not ready.
func TestG79RevocationsTooOld(t *testing.T) {
	now := setClock(t)
	g := startGate(t, site)
	token, revoked := g.server("public"), g.server("public")
	g.revoke(t, g.claims(t, revoked), store.RevokeToken)
	g.passed(t, g.request("GET", "/any/x", bearer(token)))
	known := g.app().node.Revocations
	g.silenceFeed()
	known.MarkFresh(node.Clock())
	now.advance(5*time.Minute - 3*time.Second)
	g.passed(t, g.request("GET", "/any/x", bearer(token)))
	g.refused(t, g.request("GET", "/any/x", bearer(revoked)), 401)
	now.advance(6 * time.Second)
	for _, path := range []string{"/any/x", "/api/x", "/optional/x", "/mixed/orders/1"} {
		for _, t2 := range []string{token, revoked} {
			header, body := g.refused(t, g.request("GET", path, bearer(t2)), 503)
			if header.Get("Retry-After") == "" || header.Get("Www-Authenticate") != "" || member(t, body, "error") != "temporarily_unavailable" {
				t.Errorf("%v %s", header, body)
			}
		}
	}
	g.refused(t, g.request("GET", "/any/x", bearer("bad")), 401)
	g.refused(t, g.request("GET", "/any/x"), 401)
	g.passed(t, g.request("GET", "/mixed/pub/x"))
	known.MarkFresh(node.Clock())
	g.passed(t, g.request("GET", "/any/x", bearer(token)))
}

// TestG72TheRestOfABodyIsNoRequest checks that the unread rest of a body is not read as another request after an early answer. Behind a
// proxy that shares its connections it would be a request in another client's name.
func TestG72TheRestOfABodyIsNoRequest(t *testing.T) {
	servers := "\t\ttimeouts {\n\t\t\tread_body 500ms\n\t\t}"
	early := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	}))
	t.Cleanup(early.Close)
	// Without an access log: Caddy counts the body for it while reverse_proxy may still read the body.
	g := startGate(t, strings.Replace(siteWith(servers, "\thandle /early/* {\n\t\tprotect\n\t\treverse_proxy "+early.URL+"\n\t}\n"+
		"\thandle {\n\t\tprotect\n\t\treverse_proxy UPSTREAM\n\t}"), "\tlog\n\toauth_server", "\toauth_server", 1))
	token := g.server("public")
	smuggled := g.request("GET", "/smuggled", "Connection: close")
	for name, test := range map[string]struct {
		path   string
		length int
		sent   string
	}{
		"a body that stalls":       {"/upload", 100 + len(smuggled), "x"},
		"a body that nobody reads": {"/early/upload", 2 << 20, strings.Repeat("x", 400<<10)},
	} {
		t.Run(name, func(t *testing.T) {
			connection, err := net.Dial("tcp", g.addr)
			check(t, err)
			defer func() { _ = connection.Close() }()
			_ = connection.SetDeadline(time.Now().Add(patience))
			head := g.request("POST", test.path, bearer(token), fmt.Sprintf("Content-Length: %d", test.length))
			if _, err := io.WriteString(connection, head+test.sent); err != nil {
				t.Fatal(err)
			}
			reader := bufio.NewReader(connection)
			response, err := http.ReadResponse(reader, nil)
			check(t, err)
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			if !response.Close {
				t.Errorf("a %d on a connection that stays open", response.StatusCode)
			}
			for range 40 { // wherever a reader may resume
				_, _ = io.WriteString(connection, smuggled)
			}
			if rest, _ := io.ReadAll(reader); len(rest) > 0 {
				t.Errorf("another answer: %.80q", rest)
			}
			for _, r := range g.upstream.seen() {
				if r.Target != "/upload" {
					t.Errorf("the upstream saw %s", r.Target)
				}
			}
		})
	}
}
