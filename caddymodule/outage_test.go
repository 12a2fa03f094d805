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

// The files outage_*_test.go take the database away, in all the ways that databases go, from a whole Caddy that keeps its
// state in PostgreSQL.

// What docs/reliability.md promises, of a machine that is not busy (see machine.Fair): no request takes as long as hangs, and backWithin
// after the database is there again everything works. The requests that show it take their own time, as long as what makes them.
const (
	hangs      = 5 * time.Second
	backWithin = 2 * time.Second
)

// patientCodes are changes after which a code outlives all that a test does before it uses it, on a machine that is slow.
var patientCodes = []string{"password_grant\n", "password_grant\n\t\ttokens {\n\t\t\tcode 10m\n\t\t}\n"}

// remoteDoor is a Gatehouse, with people and an admin's token, whose database can be taken away.
type remoteDoor struct {
	*adminDoor
	server *pgtest.Server
	proxy  *faultproxy.Proxy
	dsn    string // past the proxy
	store  string // the line of the Caddyfile, by way of the proxy
}

// newRemote makes a database of the server, which is reached through a proxy.
func newRemote(t *testing.T, server *pgtest.Server) *remoteDoor {
	t.Helper()
	o := &remoteDoor{server: server, dsn: server.Database(t)}
	o.adminDoor = &adminDoor{userDoor: &userDoor{door: &door{gatehouse: &gatehouse{t: t}}}} // until there is one
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
	if err != nil {
		t.Fatal(err)
	}
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

// need is a request that cannot be answered without the database. It can be sent again until it has succeeded.
type need struct {
	name    string
	send    func() answer
	success int
	// again is the answer, too, if an earlier one was a 503: what nobody could say had happened then; 0: there is no other.
	again int

	put bool          // off, at least once
	own time.Duration // what it takes to make all needs and to meet them, at most, when nothing is wrong
}

// needs returns a request for each door that needs the database.
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

// about is the form that revokes a token or asks about it.
func (r request) about(token string) url.Values {
	return url.Values{"token": {token}, "client_id": {r.clientID}, "client_secret": {r.secret}}
}

// operator asks the admin API.
func (o *remoteDoor) operator(method, path, body string) answer {
	o.t.Helper()
	status, header, text := o.operate(method, path, body)
	return answer{status, header, text}
}

// unmet sends every request side by side, and wants each to be told to come again, in time. It returns the longest time
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

// met sends every request until it succeeds, and returns how long that took in all.
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

// guarding asks the gate with good tokens until it is told to stop, and then fails for each that was not let in.
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

// isCutByReload reports whether a request may have found its connection closed by a reload, with any Caddy: the kernel resets one that
// nobody has taken up when its listener is closed, and a server closes one that is idle when its configuration goes.
func isCutByReload(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF)
}

// askGate returns the status, or the error. As other clients do, this one tries again when a reload has cut it off: the connection
// after that one is to the new listener.
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

// stays reports whether all of the tokens are what they were.
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
		{"fast, and stopped for a while", func(s *pgtest.Server) { s.Stop("fast") }, 2 * time.Second},
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
