package caddymodule

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/floodgate"
)

// floodSite holds back what comes beyond ten failures of one address. Its clock stands still in most tests, so that no
// failure is ever forgiven, and whoever has passed has passed just now.
var floodSite = `{
	admin ADMIN
	skip_install_trust
	log {
		output file LOG
		level DEBUG
	}
	servers {
		trusted_proxies static 127.0.0.1/32
	}
	oauth {
		issuer http://ADDR
		store memory
		scope orders.write
		client conf SECRET {
			scopes public
		}
		limits {
			gate 10/1s per ip
		}
	}
}
http://ADDR {
	oauth_server
` + gated("/api/*") + gated("/scoped/* orders.write") + gated("/optional/*", "optional") +
	gated("/browser/*", "challenge browser") + handled("handle", "respond 404") + "}\n"

// floodScene is a node, and what its floodgate has counted since the scene began.
type floodScene struct {
	*gateway
	good         string
	held, closed float64
}

func startFloodScene(t *testing.T, caddyfile string) *floodScene {
	t.Helper()
	s := &floodScene{gateway: startGate(t, caddyfile)}
	s.good = s.server("public")
	s.held, s.closed = s.risen(heldMetric), s.risen(closedMetric)
	return s
}

const (
	heldMetric   = "gatehouse_gate_held_refusals_total"
	closedMetric = "gatehouse_gate_closed_connections_total"
	lanesMetric  = `gatehouse_gate_signature_waits_total{result="verified"}`
)

func (s *floodScene) risen(metric string) float64 { return s.measured()[metric] }

func (s *floodScene) heldSince() int   { return int(s.risen(heldMetric) - s.held) }
func (s *floodScene) closedSince() int { return int(s.risen(closedMetric) - s.closed) }

// send asks as a client at that address, on a connection that may be kept.
func (s *floodScene) send(address, path, token string, headers ...string) (status int, closed bool) {
	request, err := http.NewRequest(http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Error(err)
		return 0, false
	}
	if address != "" {
		request.Header.Set("X-Forwarded-For", address)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{
		Transport: &http.Transport{}, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		s.t.Error(err)
		return 0, false
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Close
}

// must is send for an answer with that status.
func (s *floodScene) must(t *testing.T, status int, address, path, token string, headers ...string) {
	t.Helper()
	if got, closed := s.send(address, path, token, headers...); got != status || closed {
		t.Errorf("%s %s from %s: %d, closed %v", path, token, address, got, closed)
	}
}

// flood shows so many bad tokens, several at once, and returns how many connections were closed with the answer.
func (s *floodScene) flood(t *testing.T, address string, times int) (closed int) {
	t.Helper()
	var mu sync.Mutex
	var clients sync.WaitGroup
	for range times {
		clients.Go(func() {
			status, ended := s.send(address, "/api/x", "bad")
			mu.Lock()
			defer mu.Unlock()
			if status != http.StatusUnauthorized {
				t.Errorf("a bad token: %d", status)
			}
			if ended {
				closed++
			}
		})
	}
	clients.Wait()
	return closed
}

const (
	flooder  = "192.0.2.7"
	stranger = "192.0.2.8"
)

// TestG81AFloodIsHeldBack while somebody passes, from its own address alone. Whoever comes from there with a good token passes at
// once, known or not.
func TestG81AFloodIsHeldBack(t *testing.T) {
	c := setClock(t)
	s := startFloodScene(t, floodSite)
	first := s.forger().good() // nobody has verified it
	s.must(t, 200, stranger, "/api/x", s.good)
	for range 10 {
		s.must(t, 401, flooder, "/api/x", "bad")
	}
	if n := s.heldSince(); n != 0 {
		t.Errorf("%d refusals within the budget are held", n)
	}
	begin := time.Now()
	s.must(t, 401, flooder, "/api/x", "bad")
	if took := time.Since(begin); took < 70*time.Millisecond || s.heldSince() != 1 {
		t.Errorf("the one beyond the budget took %v, %d are held", took, s.heldSince())
	}
	s.must(t, 401, stranger, "/api/x", "bad")
	s.must(t, 200, flooder, "/api/x", s.good)
	s.must(t, 200, flooder, "/api/x", first)
	if n := s.heldSince(); n != 1 {
		t.Errorf("%d refusals are held", n)
	}
	c.advance(time.Minute)
	s.must(t, 200, stranger, "/api/x", s.good)
	s.must(t, 401, flooder, "/api/x", "bad")
	if n := s.heldSince(); n != 1 {
		t.Error("a flood is held back when it is long over")
	}
}

// TestG81AnIPv6NetworkIsOneSource: an address of IPv6 stands for its /64, of which a client has as many as it likes.
func TestG81AnIPv6NetworkIsOneSource(t *testing.T) {
	setClock(t)
	s := startFloodScene(t, floodSite)
	s.must(t, 200, stranger, "/api/x", s.good)
	for i := range 10 {
		s.must(t, 401, fmt.Sprintf("2001:db8:1:2:%x::%x", i, i+1), "/api/x", "bad")
	}
	if n := s.heldSince(); n != 0 {
		t.Errorf("%d refusals within the budget are held", n)
	}
	s.must(t, 401, "2001:db8:1:2:ffff:ffff:ffff:ffff", "/api/x", "bad")
	if n := s.heldSince(); n != 1 {
		t.Errorf("%d refusals of a /64 are held, want 1", n)
	}
	s.must(t, 401, "2001:db8:1:3::1", "/api/x", "bad")
	if n := s.heldSince(); n != 1 {
		t.Errorf("%d refusals are held, want those of the one /64", n)
	}
	for range 10 {
		s.must(t, 401, flooder, "/api/x", "bad")
	}
	if s.must(t, 401, "::ffff:"+flooder, "/api/x", "bad"); s.heldSince() != 2 { // is the same address
		t.Error("IPv4 in an IPv6 address is another source")
	}
}

// TestG81AFloodAlone is answered at once: nobody is protected by a delay.
func TestG81AFloodAlone(t *testing.T) {
	setClock(t)
	s := startFloodScene(t, floodSite)
	if closed := s.flood(t, flooder, 100); closed != 0 || s.heldSince() != 0 {
		t.Errorf("%d closed, %d held", closed, s.heldSince())
	}
}

// TestG81ConnectionsOfAFloodAreClosed after some more, but for those of a trusted proxy, which carry others' requests too.
func TestG81ConnectionsOfAFloodAreClosed(t *testing.T) {
	for name, test := range map[string]struct {
		trusted string
		closed  bool
	}{"client": {"198.51.100.1/32", true}, "trusted proxy": {"127.0.0.1/32", false}} {
		t.Run(name, func(t *testing.T) {
			setClock(t)
			s := startFloodScene(t, strings.Replace(floodSite, "127.0.0.1/32", test.trusted, 1))
			s.must(t, 200, stranger, "/api/x", s.good)
			if closed := s.flood(t, flooder, 49); closed != 0 {
				t.Errorf("%d connections are closed at once", closed)
			}
			if closed := s.flood(t, flooder, 5); test.closed != (closed == 5) || closed != s.closedSince() {
				t.Errorf("%d connections are closed, %d counted", closed, s.closedSince())
			}
			s.must(t, 200, flooder, "/api/x", s.good)
		})
	}
}

// TestG81WhatIsNoFailure: who brings no token, be it a browser that is sent to sign in, and who may not do this uses up no budget.
func TestG81WhatIsNoFailure(t *testing.T) {
	setClock(t)
	s := startFloodScene(t, floodSite)
	for range 12 {
		s.must(t, 200, flooder, "/api/x", s.good)
		s.must(t, 401, flooder, "/api/x", "")
		s.must(t, 403, flooder, "/scoped/x", s.good)
		s.must(t, 200, flooder, "/optional/x", "")
		s.must(t, 303, flooder, "/browser/x", "", "Accept", "text/html")
		s.must(t, 400, flooder, "/api/..;/x", "")
	}
	s.must(t, 401, flooder, "/api/x", "bad")
	if n := s.heldSince(); n != 0 {
		t.Errorf("%d refusals are held", n)
	}
	for range 12 { // these are: a header that is no credential, and one on a route that takes anonymous requests
		s.send(flooder, "/optional/x", "bad")
	}
	if s.heldSince() == 0 {
		t.Error("a bad token on an optional route is no failure")
	}
}

// TestG81MalformedCredentialsAreFailures too: they are the cheapest flood.
func TestG81MalformedCredentialsAreFailures(t *testing.T) {
	setClock(t)
	s := startFloodScene(t, floodSite)
	s.must(t, 200, flooder, "/api/x", s.good)
	for range 10 {
		s.must(t, 400, flooder, "/api/x", "two words")
	}
	if s.heldSince() != 0 {
		t.Error("held too early")
	}
	s.must(t, 400, flooder, "/api/x", "two words")
	if s.heldSince() != 1 {
		t.Error("malformed credentials are no failures")
	}
}

// TestG81TheOperatorIsToldOnce of an address that floods.
func TestG81TheOperatorIsToldOnce(t *testing.T) {
	setClock(t)
	s := startFloodScene(t, floodSite)
	s.must(t, 200, stranger, "/api/x", s.good)
	s.flood(t, flooder, 40)
	if n := strings.Count(s.logs(), "too many bad tokens from one address"); n != 1 {
		t.Errorf("told %d times", n)
	}
	if !strings.Contains(s.logs(), `"address":"`+flooder+`"`) {
		t.Error("nobody is told of which address")
	}
}

// TestG81SignaturesWaitInTheirLane: one is verified at a time for an address that floods. Known tokens wait for nothing, nor do
// others' new ones; nobody waits for ever.
func TestG81SignaturesWaitInTheirLane(t *testing.T) {
	setClock(t)
	s := startFloodScene(t, floodSite)
	forger := s.forger()
	s.must(t, 200, stranger, "/api/x", s.good)
	s.flood(t, flooder, 15)
	leave, waited, err := s.app().gates.Floodgate().Admit(t.Context(), s.sourceAt(flooder))
	if err != nil || waited {
		t.Fatalf("waited %v, %v", waited, err)
	}
	s.must(t, 200, flooder, "/api/x", s.good)
	s.must(t, 200, stranger, "/api/x", forger.good())
	if status, header, body := s.do(http.MethodGet, "/api/x", "", "X-Forwarded-For", flooder, "Authorization", "Bearer "+forger.good()); status != 503 ||
		header.Get("Retry-After") != "1" || member(t, body, "error") != "temporarily_unavailable" {
		t.Errorf("after the longest wait: %d %v %s", status, header, body)
	}
	verified := s.risen(lanesMetric)
	done := make(chan int, 1)
	var asking sync.WaitGroup
	t.Cleanup(asking.Wait)
	asking.Go(func() {
		status := http.StatusServiceUnavailable
		// It comes again, as it is told, should this machine stand still for the longest wait.
		for deadline := time.Now().Add(patience); status == http.StatusServiceUnavailable && time.Now().Before(deadline); {
			status, _ = s.send(flooder, "/api/x", forger.good())
		}
		done <- status
	})
	s.eventually("it waits in the lane", func() bool { return s.app().gates.Floodgate().Waiting() == 1 || len(done) > 0 })
	if len(done) > 0 {
		t.Fatalf("it did not wait: %d", <-done)
	}
	leave(true)
	select {
	case status := <-done:
		if status != 200 || s.risen(lanesMetric) != verified+1 {
			t.Errorf("a good token in the lane: %d", status)
		}
	case <-time.After(patience):
		t.Error("a good token waits in the lane for ever")
	}
}

// fillLane takes all places of the lane for addresses within their budget, until the test ends.
func (s *floodScene) fillLane(t *testing.T) {
	t.Helper()
	for range max(1, runtime.GOMAXPROCS(0)/2) {
		leave, waited, err := s.app().gates.Floodgate().Admit(t.Context(), s.sourceAt(stranger))
		if err != nil || waited {
			t.Fatalf("waited %v, %v", waited, err)
		}
		t.Cleanup(func() { leave(true) })
	}
}

func (s *floodScene) sourceAt(address string) floodgate.Source {
	return s.app().gates.Floodgate().Source(netip.MustParseAddr(address))
}

// TestG81HeldRefusalsDoNotHoldUpAShutdown: they are given as soon as the server begins to shut down, which waits for them and for
// others.
func TestG81HeldRefusalsDoNotHoldUpAShutdown(t *testing.T) {
	setClock(t)
	s := startFloodScene(t, floodSite)
	under := make(chan struct{})
	finish := make(chan struct{})
	s.upstream.answer = func(connection net.Conn, _ *recorded) {
		close(under)
		<-finish
		_, _ = io.WriteString(connection, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
	}
	slow := make(chan int, 1)
	go func() {
		status, _ := s.send(stranger, "/api/slow", s.good)
		slow <- status
	}()
	<-under
	old := s.app()
	reloaded := make(chan error, 1)
	go func() { reloaded <- s.tryReload(strings.Replace(floodSite, "respond 404", "respond 410", 1)) }()
	select {
	case <-old.gates.Released():
	case <-time.After(patience):
		t.Error("nothing is released while a request goes on")
	}
	close(finish)
	if status := <-slow; status != 200 {
		t.Errorf("the slow request: %d", status)
	}
	check(t, <-reloaded)
	if s.app().gates.Floodgate() != old.gates.Floodgate() {
		t.Error("the flood is forgotten with a reload")
	}
}

func TestG81TheFloodgateCanBeTurnedOff(t *testing.T) {
	setClock(t)
	s := startFloodScene(t, strings.Replace(floodSite, "gate 10/1s per ip", "gate off", 1))
	s.must(t, 200, stranger, "/api/x", s.good)
	if closed := s.flood(t, flooder, 100); closed != 0 || s.heldSince() != 0 || s.app().gates.Floodgate() != nil {
		t.Errorf("%d closed, %d held", closed, s.heldSince())
	}
}
