package caddymodule

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// Reloads: what outlives them, what must not, and what a client may notice.

// trickle sends requests on connections of their own, each with its token and its wanted status, until the returned
// function is called. That one gives the failures. A connection that is cut before the answer begins is tried again: at every
// reload Caddy, with any configuration, resets what stands in the queue of the listener that it closes. It does so once for each
// client, whose next connection is to the new listener: what is cut more often than there were reloads is a failure.
func (g *gateway) trickle(requests map[string]int) (stop func(reloads int) []string) {
	done, failures := make(chan struct{}), []string(nil)
	cuts := make(map[string]int) // by the first line of the request
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

// attempt sends a request on a connection of its own. The error is one of isCutByReload when the connection was cut before there was
// anything of an answer, and another one when it was cut later.
func attempt(address, request string) (status int, err error) {
	connection, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer func() { _ = connection.Close() }()
	_ = connection.SetDeadline(time.Now().Add(patience))
	_, sending := io.WriteString(connection, request) // a server may answer before it has read all of it
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
	return 0, fmt.Errorf("an answer that was cut: %v", err) //nolint:errorlint // it is none of isCutByReload
}

// headTooLarge sends a request whose head is more than Caddy takes, which must be told so.
func (g *gatehouse) headTooLarge(t *testing.T, request string) {
	t.Helper()
	status, err := attempt(g.addr, request)
	if err != nil || status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a head of %d bytes: %d, %v", len(request), status, err)
	}
}

// TestF18ReloadsUnderLoad: reloads under load with open streams → no request fails, no resource leaks.
func TestF18ReloadsUnderLoad(t *testing.T) {
	configuration := strings.Replace(site, "store memory", "store sqlite DIR/gatehouse.db", 1)
	g := startGate(t, configuration)
	token, revoked := g.server("public"), g.server("public")
	g.do("POST", "/oauth/revoke", "token="+revoked+"&client_id=conf&client_secret="+confSecret, "Content-Type", "application/x-www-form-urlencoded")
	key := g.storedKey().ID
	g.reload(configuration)
	_ = g.token()
	before := settled(runtime.NumGoroutine())
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
	if after := settled(before + 10); after > before+10 {
		stacks := make([]byte, 1<<20)
		t.Errorf("%d goroutines before, %d after\n%s", before, after, stacks[:runtime.Stack(stacks, true)])
	}
}

// Requests on a connection that was there before keep the identity guard and the gate of the configuration they meet.
func TestF18ProtectAppearsWithAReload(t *testing.T) {
	open := siteWith("", "\treverse_proxy UPSTREAM")
	g := startGate(t, open)
	client, cuts := &http.Client{Transport: &http.Transport{}}, 0
	ask := func() int {
		response, err := client.Get(g.url + "/x")
		if isCutByReload(err) && cuts == 0 { // a connection that the one reload cut
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
	g.refused(t, g.request("GET", "/x"), 401) // on a connection of its own, at once
	// The former configuration closes idle connections, and may answer on them until then.
	g.eventually("the route is protected", func() bool { return ask() == 401 })
	g.upstream.seen()
	for range 10 {
		if status := ask(); status != 401 {
			t.Errorf("protected: %d", status)
		}
	}
	g.upstream.none(t)
}
