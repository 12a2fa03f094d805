package caddymodule

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/faultproxy"
	"github.com/gatehouse-auth/gatehouse/internal/machine"
	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
)

// The files outage_*_test.go make the database fail in every way that databases do, for a whole Caddy that keeps its
// state in PostgreSQL.

// These are the promises of docs/reliability.md for a machine that is not busy (see machine.Fair). No request takes
// as long as hangs, and everything works within backWithin after the database is available again. The time that the
// test's own requests take is extra.
const (
	hangs      = 5 * time.Second
	backWithin = 2 * time.Second
)

// patientCodes are changes with which a code outlives everything that a test does before it uses it, on a slow
// machine.
var patientCodes = []string{"password_grant\n", "password_grant\n\t\ttokens {\n\t\t\tcode 10m\n\t\t}\n"}

// remoteDoor is a Gatehouse with people, an admin's token, and a database that can be made unavailable.
type remoteDoor struct {
	*adminDoor
	server *pgtest.Server
	proxy  *faultproxy.Proxy
	dsn    string // without the proxy
	store  string // the line of the Caddyfile, through the proxy
}

// newRemote creates a database of the server that is reached through a proxy.
func newRemote(t *testing.T, server *pgtest.Server) *remoteDoor {
	t.Helper()
	o := &remoteDoor{server: server, dsn: server.Database(t)}
	o.adminDoor = &adminDoor{userDoor: &userDoor{door: &door{gatehouse: &gatehouse{t: t}}}} // until a Gatehouse runs
	o.proxy = faultproxy.Start(t, server.Addr())
	o.store = "store postgres " + pgtest.Via(o.dsn, o.proxy.Addr())
	return o
}

// openRemote serves people, changed by the pairs of old and new text, from such a database.
func openRemote(t *testing.T, server *pgtest.Server, changes ...string) *remoteDoor {
	t.Helper()
	o := newRemote(t, server)
	o.adminDoor = openAdmin(t, append([]string{"store memory", o.store}, changes...)...)
	o.remember("password of the database", passwordIn(t, o.dsn))
	return o
}

func passwordIn(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	check(t, err)
	password, _ := u.User.Password()
	return password
}

func (o *remoteDoor) in(t *testing.T) *remoteDoor {
	other := *o
	other.adminDoor = o.adminDoor.in(t)
	return &other
}

func (o *remoteDoor) sub(name string, test func(*remoteDoor)) {
	o.t.Run(name, func(t *testing.T) { test(o.in(t)) })
}

// need is a request that cannot be answered without the database. It can be repeated until it has succeeded.
type need struct {
	name    string
	send    func() answer
	success int
	// again is also an expected status if an earlier request got a 503 and may have taken effect; 0: there is none.
	again int

	put bool          // at least one request got a 503
	own time.Duration // the most time that creating and meeting all needs takes without faults
}

// needs returns a request for each endpoint that needs the database.
func (o *remoteDoor) needs() []*need {
	o.t.Helper()
	began := time.Now()
	r := requestOf("conf")
	code, first, second := o.code(r, ada), o.userTokens(r, ada), o.userTokens(r, ada)
	visitor := o.browser()
	action, fields := formIn(o.t, visitor.open(r.path()))
	fields.Set("email", ada)
	fields.Set("password", peoplePassword)
	form := func(path string, values url.Values) func() answer {
		return func() answer { return o.ask(o.t, path, values.Encode()) }
	}
	needs := []*need{
		{"code", form("/oauth/token", r.exchange(code)), 200, 400, false, 0},
		{"refresh", form("/oauth/token", r.refresh(first.RefreshToken)), 200, 0, false, 0},
		{"password", form("/oauth/token", r.asPassword(ada, peoplePassword)), 200, 0, false, 0},
		{"sign-in form", func() answer { return answer(visitor.send(action, fields)) }, 303, 0, false, 0},
		{"admin operation", func() answer { return o.mint(o.admin, mintRequest{id: "u-grace"}) }, 201, 0, false, 0},
		{"revoke", form("/oauth/revoke", r.about(second.AccessToken)), 200, 0, false, 0},
		{"introspect", form("/oauth/introspect", r.about(first.AccessToken)), 200, 0, false, 0},
		{"account page", func() answer { return answer(o.browserOf(ada).open("/oauth/account")) }, 200, 0, false, 0},
		{"admin API, reading", func() answer { return o.operator(http.MethodGet, "/oauth/users", "") }, 200, 0, false, 0},
		{"admin API, writing", func() answer { return o.operator(http.MethodPost, "/oauth/revocations", `{"jti":"x"}`) }, 204, 0, false, 0},
	}
	for _, n := range needs {
		n.own = time.Since(began)
	}
	return needs
}

// about returns the form that revokes or introspects a token.
func (r request) about(token string) url.Values {
	return url.Values{"token": {token}, "client_id": {r.clientID}, "client_secret": {r.secret}}
}

// operator sends a request to the admin API.
func (o *remoteDoor) operator(method, path, body string) answer {
	o.t.Helper()
	status, header, text := o.operate(method, path, body)
	return answer{status, header, text}
}

// unmet sends all requests concurrently. Each must get an error with Retry-After in time. It returns the longest time
// that one waited.
func (o *remoteDoor) unmet(needs []*need) time.Duration {
	o.t.Helper()
	var mu sync.Mutex
	var waits []time.Duration
	var sent sync.WaitGroup
	for _, n := range needs {
		sent.Go(func() {
			began := time.Now()
			a := n.send()
			took := time.Since(began)
			n.put = true
			if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
				o.t.Errorf("%s: %d, Retry-After %q, want 503 with one: %s", n.name, a.status, a.header.Get("Retry-After"), a.body)
			}
			if machine.Fair(took) > hangs {
				o.t.Errorf("%s: hung for %s", n.name, took)
			}
			mu.Lock()
			defer mu.Unlock()
			waits = append(waits, took)
		})
	}
	sent.Wait()
	slices.Sort(waits)
	return waits[len(waits)-1]
}

// met sends every request until it succeeds, and returns the total time.
func (o *remoteDoor) met(needs []*need) time.Duration {
	o.t.Helper()
	began := time.Now()
	for _, n := range needs {
		for {
			a := n.send()
			if a.status == n.success || n.put && a.status == n.again {
				break
			}
			n.put = true
			if a.status != http.StatusServiceUnavailable || machine.Fair(time.Since(began)) > backWithin+n.own {
				o.t.Fatalf("%s: %d after %s, want %d: %s", n.name, a.status, time.Since(began), n.success, a.body)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	return time.Since(began)
}

// guarding sends good tokens to the gate until stop is called. stop fails the test for each one that was refused.
func (o *remoteDoor) guarding(good ...string) (stop func()) {
	o.t.Helper()
	client := &http.Client{Timeout: patience, Transport: new(http.Transport)}
	ended := make(chan struct{})
	var asking sync.WaitGroup
	var asked int
	refused := make(map[string]int)
	asking.Go(func() {
		defer client.CloseIdleConnections()
		for {
			for _, token := range good {
				asked++
				if outcome := askGate(client, o.url, token); outcome != "200" {
					refused[outcome]++
				}
			}
			select {
			case <-ended:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	return func() {
		o.t.Helper()
		close(ended)
		asking.Wait()
		o.upstream.seen()
		if len(refused) > 0 || asked == 0 {
			o.t.Errorf("of %d requests at the gate these were not let in: %v", asked, refused)
		}
		o.t.Logf("the gate let in %d requests meanwhile", asked)
	}
}

// isCutByReload reports whether err may come from a connection that a reload has closed, which happens with any
// Caddy. The kernel resets a connection that was not accepted before its listener was closed, and a server closes
// idle ones when its configuration is replaced.
func isCutByReload(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF)
}

// askGate returns the status, or the error. Like other clients, it retries when a reload has closed its connection.
// The next connection reaches the new listener.
func askGate(client *http.Client, url, token string) string {
	request, err := http.NewRequest(http.MethodGet, url+"/api/x", nil)
	if err != nil {
		return err.Error()
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(request)
	if isCutByReload(err) {
		response, err = client.Do(request)
	}
	if err != nil {
		return err.Error()
	}
	_ = response.Body.Close()
	return fmt.Sprint(response.StatusCode)
}

// stays reports whether the good tokens are still accepted and the ended one is refused.
func (o *remoteDoor) stays(good []string, ended string) {
	o.t.Helper()
	for _, token := range good {
		if !o.alive(token) {
			o.t.Error("a token was lost")
		}
	}
	o.gone(ended)
}

// TestF10ServerRestarts: the database server restarts, however it goes down → the gate goes on, the rest is 503 until it is back.
func TestF10ServerRestarts(t *testing.T) {
	server := pgtest.Start(t)
	for _, c := range []struct {
		name string
		down func(*pgtest.Server)
		away time.Duration
	}{
		{"killed, with crash recovery", (*pgtest.Server).Kill, 0},
		{"fast, and stopped for a while", (*pgtest.Server).Stop, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := openRemote(t, server)
			r := requestOf("conf")
			good, revoked := []string{o.userTokens(r, ada).AccessToken, o.admin}, o.userTokens(r, ada)
			o.ask(t, "/oauth/revoke", r.about(revoked.RefreshToken).Encode())
			o.gone(revoked.AccessToken)
			needs := o.needs()
			stop := o.guarding(good...)
			c.down(o.server)
			var longest time.Duration
			for began := time.Now(); ; {
				longest = max(longest, o.unmet(needs))
				if time.Since(began) >= c.away {
					break
				}
			}
			o.server.Resume()
			t.Logf("a 503 took %s at most, and all worked %s after the return", longest, o.met(needs))
			stop()
			o.stays(good, revoked.AccessToken)
			if strings.Contains(o.logs(), "panic") {
				t.Error("something panicked")
			}
		})
	}
}
