package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/faultproxy"
	"github.com/gatehouse-auth/gatehouse/internal/machine"
	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore/postgres"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/storetest"
)

// TestF12AnswerOfTheCommitLost: the answer of a commit is lost → the client is told to come again and finds the step done or not, never
// twice. A step of one statement commits with it, and the lost answer is then the one to the statement with the id among its values.
func TestF12AnswerOfTheCommitLost(t *testing.T) {
	s, proxy := openThrough(t)
	for _, c := range []struct {
		name   string
		commit []byte
		step   func() error
		again  error // of the same step, repeated
		done   func() (bool, error)
	}{
		{"AddFamily", []byte("f-1"), func() error { return storetest.Done(s.Families.AddFamily(t.Context(), declaredFamily("f-1"))) }, nil, func() (bool, error) {
			f, err := s.Families.Family(t.Context(), "f-1")
			return f != nil, err
		}},
		{"Revoke", []byte("gone"), func() error { return s.Revocations.Revoke(t.Context(), revocation("gone")) }, nil, func() (bool, error) {
			list, _, err := s.Revocations.Revocations(t.Context(), store.FeedPosition{})
			return len(list) == 1, err
		}},
		{"AddClient", []byte("commit\x00"), func() error {
			return s.Clients.AddClient(t.Context(), &store.Client{ID: "late", Name: "Late", Type: store.ConfidentialClient})
		}, store.ErrTaken, func() (bool, error) {
			c, err := s.Clients.Client(t.Context(), "late")
			return c != nil, err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			lost := proxy.CutAfterRequest(c.commit)
			if err := c.step(); err == nil {
				t.Fatal("no error")
			}
			<-lost
			if done, err := c.done(); err != nil || !done {
				t.Errorf("it happened: %t, %v", done, err)
			}
			if err := c.step(); c.again != nil && !errors.Is(err, c.again) {
				t.Errorf("again: %v, want %v", err, c.again)
			}
		})
	}
}

// TestSilentConnectionsAreReplaced: when a host or a firewall dies, no connection reports it. The first query that uses them is answered
// nevertheless.
func TestSilentConnectionsAreReplaced(t *testing.T) {
	server := pgtest.Shared(t)
	proxy := faultproxy.Start(t, server.Addr())
	s := openPostgresWith(t, pgtest.Via(sharedDatabase(t), proxy.Addr()), 24)
	addClient(t, s, "acme")
	inTime(t, "answers", func() error {
		s.db.read.queue.timeout = time.Minute
		onEach(t, s.db.read.db, func() error { // prepares a statement there
			_, err := s.Clients.Client(t.Context(), "acme")
			return err
		})
		proxy.HalfDead()
		// Connections that were used just now are not pinged.
		idle := time.NewTimer(postgres.IdleAfter)
		<-idle.C
		s.db.read.queue.timeout = postgres.RequestTimeout
		_, first := s.Clients.Client(t.Context(), "acme")
		_, second := s.Clients.Client(t.Context(), "acme")
		return errors.Join(first, second)
	})
	proxy.HalfDead()
	closing := time.Now()
	must(t, s.Close())
	if took := time.Since(closing); machine.Fair(took) > 2*time.Second { // and not five seconds for each connection with a statement
		t.Errorf("closing took %s", took)
	}
}

// TestAFirstHostThatIsSilent: a dead first host leaves a request the time to reach the live one.
func TestAFirstHostThatIsSilent(t *testing.T) {
	server := pgtest.Shared(t)
	dead := faultproxy.Start(t, server.Addr())
	dsn := sharedDatabase(t)
	both := pgtest.Via(dsn, dead.Addr()+","+server.Addr())
	s := openHasty(t, both)
	s.db.read.queue.timeout = time.Minute
	addClient(t, s, "acme")
	dead.Blackhole()
	s.db.read.queue.timeout = postgres.RequestTimeout
	inTime(t, "reaches the second", func() error {
		forsake(s.db.write)
		_, err := s.Clients.Client(t.Context(), "acme")
		return err
	})
}

// TestRequestHasOnePatience: a request that makes several queries to a silent database does not wait several times as long.
func TestRequestHasOnePatience(t *testing.T) {
	s, proxy := openThrough(t)
	addClient(t, s, "acme")
	s.db.read.queue.timeout = postgres.RequestTimeout
	proxy.Blackhole()
	ctx, began := WithTimeout(t.Context()), time.Now()
	var err error
	for range 60 {
		_, err = s.Clients.Client(ctx, "acme")
		if err == nil {
			t.Fatal("answered by silence")
		}
	}
	if took := time.Since(began); !errors.Is(err, errImpatient) || machine.Fair(took) > postgres.RequestTimeout+time.Second { // one timeout for all later queries
		t.Errorf("after %s: %v", took, err)
	}
	proxy.Restore()
	inTime(t, "the next request", func() error {
		_, err := s.Clients.Client(WithTimeout(t.Context()), "acme")
		return err
	})
}

// TestF15ListenerThatIsLost: a listener learns that it may have missed something as soon as there is a connection again, even if the old
// one died silently.
func TestF15ListenerThatIsLost(t *testing.T) {
	defer func(before, timeout time.Duration) { silence, notifyTimeout = before, timeout }(silence, notifyTimeout)
	silence, notifyTimeout = 100*time.Millisecond, 500*time.Millisecond
	for _, c := range []struct {
		name string
		lose func(*faultproxy.Proxy)
	}{
		{"reset", func(p *faultproxy.Proxy) { p.Cut(); p.Restore() }},
		{"silent", (*faultproxy.Proxy).HalfDead},
		{"silent, and once more before it listens", func(p *faultproxy.Proxy) {
			p.SwallowReplies([]byte("LISTEN gatehouse"))
			p.HalfDead()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := pgtest.Shared(t)
			proxy, dsn := faultproxy.Start(t, server.Addr()), sharedDatabase(t)
			s, other := openPostgres(t, pgtest.Via(dsn, proxy.Addr())), openPostgres(t, dsn)
			ctx, cancel := context.WithCancel(t.Context())
			heard, ended := make(chan struct{}, 1000), make(chan struct{})
			go func() {
				defer close(ended)
				s.Watch(ctx, func() { heard <- struct{}{} })
			}()
			await := func(what string) {
				t.Helper()
				select {
				case <-heard:
				case <-time.After(time.Minute):
					t.Fatalf("%s: nothing heard", what)
				}
			}
			await("listening began")
			c.lose(proxy)
			await("listening began again")
			inTime(t, "a notification", func() error { // a notification may be lost
				must(t, other.Revocations.Revoke(t.Context(), revocation("acme")))
				select {
				case <-heard:
					return nil
				case <-time.After(10 * time.Second):
					return errors.New("nothing heard")
				}
			})
			cancel()
			<-ended
		})
	}
}

// TestF11Failover: the database fails over to a server that the connection string names → writes go on there. After the primary has died
// and the standby was promoted, the store connects to it and has everything that was acknowledged. It never writes to a read-only server.
func TestF11Failover(t *testing.T) {
	primary := pgtest.Start(t)
	standby := primary.Standby(t)
	dsn := primary.Database(t)
	s := openHasty(t, pgtest.Via(dsn, primary.Addr()+","+standby.Addr()))
	s.db.read.queue.timeout = time.Minute
	addClient(t, s, "acme")
	s.db.read.queue.timeout = postgres.RequestTimeout
	var err error
	tokentest.Eventually(t, "the standby has the database", func() bool {
		_, err = OpenPostgres(t.Context(), oauth.NewSecret(pgtest.Via(dsn, standby.Addr())), 8, Options{})
		return err == nil || !strings.Contains(err.Error(), "does not exist") // it replays what the primary has acknowledged
	})
	if err == nil || !postgres.IsUnreachable(err) {
		t.Errorf("opening a server that takes no writes: %v", err)
	}
	var mu sync.Mutex
	acknowledged := make(map[string]int64)
	stopped := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stopped:
					return
				default:
				}
				id := fmt.Sprintf("family-%d-%d", w, i)
				if storetest.Done(s.Families.AddFamily(t.Context(), declaredFamily(id))) != nil {
					continue
				}
				generation := int64(1)
				if storetest.Used(s.Families.RotateRefreshToken(t.Context(), id, 1, store.Rotation{At: time.Now()})) == nil {
					generation = 2
				}
				mu.Lock()
				acknowledged[id] = generation
				mu.Unlock()
			}
		})
	}
	count := func() int { mu.Lock(); defer mu.Unlock(); return len(acknowledged) }
	tokentest.Eventually(t, "families are added", func() bool { return count() > 50 })
	primary.Kill()
	standby.Promote()
	promoted, before := time.Now(), count()
	tokentest.Eventually(t, "the writer is found", func() bool { return count() > before })
	took := time.Since(promoted)
	t.Logf("writing %s after the promotion, which waited for the old primary's end", took)
	if machine.Fair(took) > 2*time.Second { // row F11
		t.Errorf("the writer is found %s after the promotion", took)
	}
	tokentest.Eventually(t, "families are added", func() bool { return count() > before+50 })
	close(stopped)
	writers.Wait()
	s.db.read.queue.timeout = time.Minute
	for id, generation := range acknowledged {
		f, err := s.Families.Family(t.Context(), id)
		if err != nil || f.Refresh.Generation < generation {
			t.Errorf("%s, acknowledged with generation %d: %+v, %v", id, generation, f, err)
		}
	}
	t.Logf("%d acknowledged families, %d of them before", len(acknowledged), before)
}

// TestF11AWriterThatBecomesAReader: a server that takes no writes any more, and keeps its connections → one write is refused, and the next
// connects anew.
func TestF11AWriterThatBecomesAReader(t *testing.T) {
	s := openHasty(t, pgtest.Shared(t).Database(t))
	addClient(t, s, "before")
	var open []*sql.Conn
	for range s.db.write.Stats().MaxOpenConnections {
		conn, err := s.db.write.Conn(t.Context())
		must(t, err)
		_, err = conn.ExecContext(t.Context(), `SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY`)
		must(t, err)
		open = append(open, conn)
	}
	for _, conn := range open {
		must(t, conn.Close()) // back to the pool
	}
	add := func(id string) error { return storetest.Done(s.Families.AddFamily(t.Context(), declaredFamily(id))) }
	if err := add("refused"); postgres.Code(err) != "25006" {
		t.Errorf("by a reader: %v", err)
	}
	must(t, add("after"))
}

// TestF10NobodyWaitsLongerThanPromised measures waiting times strictly, because other tests tolerate a busy machine.
func TestF10NobodyWaitsLongerThanPromised(t *testing.T) {
	if postgres.RequestTimeout > 2*time.Second || nodesNotifyTimeout > 2*time.Second || nodesLockTimeout > 2*time.Second {
		t.Errorf("a request waits for %v, a listener for %v, a writer for %v", postgres.RequestTimeout, nodesNotifyTimeout, nodesLockTimeout)
	}
}
