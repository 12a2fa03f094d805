package caddymodule

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/gatehouse-auth/gatehouse/internal/machine"
	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// beside opens the database without the proxy, as another client does.
func (o *remoteDoor) beside() *sql.DB {
	o.t.Helper()
	db, err := sql.Open("pgx", o.dsn)
	check(o.t, err)
	o.t.Cleanup(func() { _ = db.Close() })
	return db
}

// exec runs a statement outside the node.
func (o *remoteDoor) exec(db *sql.DB, statement string, args ...any) {
	o.t.Helper()
	if _, err := db.ExecContext(o.t.Context(), statement, args...); err != nil {
		o.t.Fatalf("%s: %v", statement, err)
	}
}

// otherNode opens the database as another node does, without the proxy.
func (o *remoteDoor) otherNode() *sqlstore.Store {
	o.t.Helper()
	s, err := sqlstore.OpenPostgres(o.t.Context(), oauth.NewSecret(o.dsn), sqlstore.LeastPostgresPool, sqlstore.Options{})
	check(o.t, err)
	o.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			o.t.Error(err)
		}
	})
	return s
}

// revokedElsewhere revokes a token at another node.
func (o *remoteDoor) revokedElsewhere(other *sqlstore.Store, token string) {
	o.t.Helper()
	id, _ := claims(o.t, token)["jti"].(string)
	r := store.Revocation{Kind: store.RevokeToken, ID: id, ExpiresAt: time.Now().Add(time.Hour)}
	check(o.t, other.Revocations.Revoke(o.t.Context(), r))
}

// untilRefused sends the token to the gate until it is refused, and returns how long that took.
func (o *remoteDoor) untilRefused(token string) time.Duration {
	o.t.Helper()
	began := time.Now()
	o.eventually("the gate has heard of the revocation", func() bool { return !o.alive(token) })
	took := time.Since(began)
	a := o.send(o.t, http.MethodGet, "/api/x", "", "Authorization", "Bearer "+token)
	if a.status != http.StatusUnauthorized || !strings.Contains(a.header.Get("Www-Authenticate"), "was revoked") {
		o.t.Errorf("the gate: %d %s", a.status, a.header.Get("Www-Authenticate"))
	}
	return took
}

// crowd uses a refresh token size times concurrently. Each request must succeed, or get an error with Retry-After in
// time.
func (o *remoteDoor) crowd(token string, size int) (succeeded, put int, longest time.Duration) {
	o.t.Helper()
	form := requestOf("conf").refresh(token).Encode()
	var mu sync.Mutex
	var senders sync.WaitGroup
	for range size {
		senders.Go(func() {
			began := time.Now()
			a := o.ask(o.t, "/oauth/token", form)
			took := time.Since(began)
			mu.Lock()
			defer mu.Unlock()
			longest = max(longest, took)
			switch {
			case a.status == http.StatusOK:
				succeeded++
				o.tokensIn(a)
			case a.status == http.StatusServiceUnavailable && a.header.Get("Retry-After") != "":
				put++
			default:
				o.t.Errorf("%d, Retry-After %q: %s", a.status, a.header.Get("Retry-After"), a.body)
			}
		})
	}
	senders.Wait()
	if machine.Fair(longest) > hangs {
		o.t.Errorf("somebody waited for %s", longest)
	}
	return succeeded, put, longest
}

// TestF13Crowded: the database is slow or full → requests that need it end in time with 503, gate and revocations go on.
func TestF13Crowded(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(o *remoteDoor) (end func())
		// refuses means that no request can succeed.
		refuses bool
		// deaf means that the database is so slow that a revocation need not arrive meanwhile.
		deaf bool
	}{
		{"the pool is exhausted", func(o *remoteDoor) func() {
			tx, err := o.beside().BeginTx(context.Background(), nil)
			if err == nil {
				_, err = tx.ExecContext(o.t.Context(), `LOCK TABLE families IN ACCESS EXCLUSIVE MODE`)
			}
			check(o.t, err)
			return func() { _ = tx.Rollback() }
		}, true, false},
		{"500 ms each way", func(o *remoteDoor) func() {
			o.proxy.Latency(500 * time.Millisecond)
			return o.proxy.Restore
		}, false, true},
		{"250 ms each way and 5 % of loss", func(o *remoteDoor) func() {
			o.proxy.Latency(250 * time.Millisecond)
			o.proxy.Loss(0.05)
			return o.proxy.Restore
		}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := openRemote(t, pgtest.Shared(t), patientCodes...)
			r := requestOf("conf")
			first, doomed := o.userTokens(r, ada), o.userTokens(r, ada).AccessToken
			needs, other := o.needs(), o.otherNode()
			end := c.make(o)
			stop := o.guarding(first.AccessToken)
			var revoking sync.WaitGroup
			revoking.Go(func() {
				o.revokedElsewhere(other, doomed)
				if c.deaf {
					return
				}
				t.Logf("the gate had heard of a revocation after %s", o.untilRefused(doomed))
			})
			succeeded, put, longest := o.crowd(first.RefreshToken, 30)
			revoking.Wait()
			t.Logf("%d had tokens, %d were told to come again, after %s at most", succeeded, put, longest)
			if c.refuses && succeeded > 0 {
				t.Errorf("%d had tokens", succeeded)
			}
			end()
			t.Logf("all worked %s after the end", o.met(needs))
			o.untilRefused(doomed)
			stop()
		})
	}
}

// TestF16NodeCutOff: a node that can no longer reach the database → it serves from memory until max_staleness and then answers 503.
func TestF16NodeCutOff(t *testing.T) {
	clock := runningClock(t)
	o := openRemote(t, pgtest.Shared(t), patientCodes[0], patientCodes[1]+"\t\trevocation {\n\t\t\tmax_staleness 4m\n\t\t}\n")
	good := o.userTokens(requestOf("conf"), ada).AccessToken
	needs := o.needs()
	stop := o.guarding(good)
	o.proxy.Blackhole()
	t.Logf("a 503 took %s at most", o.unmet(needs))
	if a := o.ask(t, "/oauth/token", ccGrant+"&"+asConf); a.status != http.StatusOK {
		t.Errorf("a declared client's own token: %d %s", a.status, a.body)
	}
	clock.advance(2 * time.Minute) // some of its four minutes have passed in this test
	if !o.alive(good) {
		t.Error("refused before max_staleness")
	}
	stop()
	clock.advance(4 * time.Minute)
	status, header, body := o.get("/api/x", good)
	if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
		t.Errorf("after max_staleness: %d, Retry-After %q: %s", status, header.Get("Retry-After"), body)
	}
	o.unmet(needs)
	o.proxy.Restore()
	began := time.Now()
	o.eventually("the gate knows again", func() bool { return o.alive(good) })
	t.Logf("the gate knew again after %s", time.Since(began))
	o.met(needs)
}

// TestI7NothingIsLeft: outages that have ended → no connection and no goroutine is left behind.
func TestI7NothingIsLeft(t *testing.T) {
	const pool = 16 // the default
	o := openRemote(t, pgtest.Shared(t))
	db := o.beside()
	o.met(o.needs())
	crowd := func() { o.crowd(o.userTokens(requestOf("conf"), ada).RefreshToken, 20) }
	crowd()
	o.client.CloseIdleConnections()
	before, _ := o.settled()
	needs := o.needs()
	o.proxy.Cut()
	o.unmet(needs)
	o.proxy.Restore()
	o.met(needs)
	needs = o.needs()
	o.proxy.HalfDead()
	o.met(needs)
	o.proxy.Restore()
	crowd()
	o.client.CloseIdleConnections()
	// The server learns of closed silent connections when the proxy lets it.
	o.eventually(fmt.Sprintf("there are no more connections than a pool of %d has", pool), func() bool {
		var n int
		check(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'gatehouse' AND datname = current_database()`).Scan(&n))
		return n <= pool
	})
	// The proxy has up to six for each connection, and the pool need not be as full as before.
	slack := 6*pool + 10
	o.eventually(fmt.Sprintf("there are %d goroutines as before", before), func() bool {
		after, _ := o.settled()
		return after <= before+slack
	})
	o.proxy.Cut()
	t.Cleanup(o.proxy.Restore)
}

// TestF16ADeclaredClientAsksNoDatabase: while the database is silent, a declared client asks for its own token → it is answered before a
// client that has to be looked up gets its 503.
func TestF16ADeclaredClientAsksNoDatabase(t *testing.T) {
	o := openRemote(t, pgtest.Shared(t))
	o.proxy.Blackhole()
	for _, round := range []string{"first", "after the database was found silent"} {
		unknown := make(chan int, 1)
		go func() {
			unknown <- o.ask(t, "/oauth/token", ccGrant+"&client_id=nobody&client_secret="+url.QueryEscape(confSecret)).status
		}()
		if a := o.ask(t, "/oauth/token", ccGrant+"&"+asConf); a.status != http.StatusOK {
			t.Errorf("%s: %d %s", round, a.status, a.body)
		}
		select {
		case status := <-unknown:
			t.Errorf("%s: the client that is unknown was answered first, with %d", round, status)
		default:
			if status := <-unknown; status != http.StatusServiceUnavailable {
				t.Errorf("%s: the client that is unknown: %d", round, status)
			}
		}
	}
	o.proxy.Restore()
}
