package caddymodule

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
)

// Reloads: which state survives them, and which effects clients see.

// trickle sends requests until the returned function is called, which returns the failures. Each request has its own connection, token and
// expected status. A connection that is cut before the answer begins is retried: at every reload, Caddy resets the connections in the queue
// of the listener that it closes. This happens at most once for each client and reload, because its next connection is to the new listener.
// More cuts than reloads are a failure.
func (g *gateway) trickle(requests map[string]int) (stop func(reloads int) []string) {
	done, failures := make(chan struct{}), []string(nil)
	cuts := make(map[string]int) // by request line
	var mu sync.Mutex
	var running sync.WaitGroup
	for request, want := range requests {
		running.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(5 * time.Millisecond):
				}
				status, err := attempt(g.addr, request)
				cut := 0
				for ; isCutByReload(err) && cut < 100; cut++ {
					status, err = attempt(g.addr, request)
				}
				mu.Lock()
				line, _, _ := strings.Cut(request, "\r\n")
				cuts[line] += cut
				if err != nil || status != want {
					failures = append(failures, fmt.Sprintf("%s: %d %v, want %d", line, status, err, want))
				}
				mu.Unlock()
			}
		})
	}
	return func(reloads int) []string {
		close(done)
		running.Wait()
		for line, n := range cuts {
			if n > reloads {
				failures = append(failures, fmt.Sprintf("%s: cut %d times in %d reloads", line, n, reloads))
			}
		}
		return failures
	}
}

// attempt sends a request on its own connection. If the connection was cut before the answer began, isCutByReload reports true for the
// error. If it was cut later, it reports false.
func attempt(address, request string) (status int, err error) {
	connection, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer func() { _ = connection.Close() }()
	_ = connection.SetDeadline(time.Now().Add(patience))
	_, sending := io.WriteString(connection, request) // a server may answer before it has read everything
	reader := bufio.NewReader(connection)
	if _, err := reader.Peek(1); err != nil {
		return 0, errors.Join(err, sending)
	}
	response, err := http.ReadResponse(reader, nil)
	if err == nil {
		defer func() { _ = response.Body.Close() }()
		if _, err = io.Copy(io.Discard, response.Body); err == nil {
			return response.StatusCode, nil
		}
	}
	return 0, fmt.Errorf("an answer that was cut: %v", err) // no %w: isCutByReload must not match it
}

// headTooLarge sends a request whose head exceeds Caddy's limit, and requires the error that says so.
func (g *gatehouse) headTooLarge(t *testing.T, request string) {
	t.Helper()
	status, err := attempt(g.addr, request)
	if err != nil || status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a head of %d bytes: %d, %v", len(request), status, err)
	}
}

// TestF18ReloadsUnderLoad: reloads under load → no request fails. TestF18Reloads looks for leaks.
func TestF18ReloadsUnderLoad(t *testing.T) {
	configuration := strings.Replace(site, "store memory", "store sqlite DIR/gatehouse.db", 1)
	g := startGate(t, configuration)
	token, revoked := g.server("public"), g.server("public")
	g.do("POST", "/oauth/revoke", "token="+revoked+"&client_id=conf&client_secret="+confSecret, "Content-Type", "application/x-www-form-urlencoded")
	key := g.storedKey().ID
	g.reload(configuration)
	_ = g.token()
	form := "grant_type=client_credentials&client_id=conf&client_secret=" + confSecret
	last := "Connection: close"
	stop := g.trickle(map[string]int{
		g.request("GET", "/any/x", bearer(token), last):   200,
		g.request("GET", "/any/y", bearer(revoked), last): 401,
		g.request("GET", "/api/x", bearer(token), last):   403,
		g.request("GET", "/any/z", last):                  401,
		g.requestWith(form, "POST", "/oauth/token", last, "Content-Type: application/x-www-form-urlencoded", "Content-Length: "+itoa(len(form))): 200,
	})
	const reloads = 10 // lifecycle_test.go has a hundred, with requests between them
	for i := range reloads {
		g.reload(strings.Replace(configuration, "respond 404", fmt.Sprintf("respond 404 # %d\n\t\theader X-Reload %d", i, i), 1))
	}
	for _, failure := range stop(reloads) {
		t.Error(failure)
	}
	if g.storedKey().ID != key {
		t.Error("another key signs")
	}
	g.upstream.seen()
	g.passed(t, g.request("GET", "/any/x", bearer(token)))
	g.refused(t, g.request("GET", "/any/x", bearer(revoked)), 401)
	g.passed(t, g.request("GET", "/any/x", bearer(g.watched(g.token()))))
	if _, header, _ := g.raw(g.request("GET", "/nowhere", "Connection: close")); header.Get("X-Reload") != itoa(reloads-1) {
		t.Errorf("the last configuration does not serve: %v", header)
	}
	g.eventually("one node is left", func() bool { return node.InUse() == 1 })
}

// TestF18ProtectAppearsWithAReload checks that requests on an existing connection get the gate and the header guard of the configuration
// that serves them.
func TestF18ProtectAppearsWithAReload(t *testing.T) {
	open := siteWith("", "\treverse_proxy UPSTREAM")
	g := startGate(t, open)
	client, cuts := &http.Client{Transport: &http.Transport{}}, 0
	ask := func() int {
		response, err := client.Get(g.url + "/x")
		if isCutByReload(err) && cuts == 0 { // one connection may be cut by the reload
			cuts++
			response, err = client.Get(g.url + "/x")
		}
		check(t, err)
		_ = response.Body.Close()
		return response.StatusCode
	}
	if status := ask(); status != 200 {
		t.Fatalf("open: %d", status)
	}
	g.upstream.one(t)
	g.reload(siteWith("", "\tprotect\n\treverse_proxy UPSTREAM"))
	g.refused(t, g.request("GET", "/x"), 401) // on a new connection, at once
	// The former configuration closes idle connections and may answer on them until then.
	g.eventually("the route is protected", func() bool { return ask() == 401 })
	g.upstream.seen()
	for range 10 {
		if status := ask(); status != 401 {
			t.Errorf("protected: %d", status)
		}
	}
	g.upstream.none(t)
}
