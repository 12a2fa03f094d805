package trust

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/fairqueue"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// deafConn is a connection that has died without a word, as behind a balancer that forgot it.
type deafConn struct {
	net.Conn
	deaf *atomic.Bool
}

func (c deafConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	for err == nil && c.deaf.Load() {
		n, err = c.Conn.Read(b)
	}
	return n, err
}

func (c deafConn) Write(b []byte) (int, error) {
	if c.deaf.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// TestG88AConnectionThatDiesSilently is left for a new one, in HTTP/2 too, where many questions share one.
func TestG88AConnectionThatDiesSilently(t *testing.T) {
	p := unstarted(newSigner("k"))
	p.EnableHTTP2 = true
	p.StartTLS()
	t.Cleanup(p.Close)
	c := newClient(true)
	c.timeout = 200 * time.Millisecond
	c.transport.HTTP2.SendPingTimeout, c.transport.HTTP2.PingTimeout = 100*time.Millisecond, 100*time.Millisecond
	c.transport.TLSClientConfig.RootCAs = x509.NewCertPool()
	c.transport.TLSClientConfig.RootCAs.AddCert(p.Certificate())
	t.Cleanup(c.transport.CloseIdleConnections)
	var mu sync.Mutex
	var dead []*atomic.Bool // of every connection: a slow machine dials more than one
	dial := c.transport.DialContext
	c.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		mu.Lock()
		defer mu.Unlock()
		deaf := new(atomic.Bool)
		dead = append(dead, deaf)
		return deafConn{conn, deaf}, err
	}
	ask := func() bool {
		_, _, err := c.get(t.Context(), p.URL+keysPath, "")
		return err == nil
	}
	tokentest.Eventually(t, "it answers", ask)
	mu.Lock()
	before := len(dead)
	for _, deaf := range dead {
		deaf.Store(true)
	}
	mu.Unlock()
	tokentest.Eventually(t, "it answers again", ask)
	mu.Lock()
	defer mu.Unlock()
	if len(dead) == before {
		t.Error("it answers by a connection that is dead")
	}
}

// TestG88AnIssuerThatIsFoundLate: where its keys are is found out once, although no time was left to fetch them.
func TestG88AnIssuerThatIsFoundLate(t *testing.T) {
	key := newSigner("k")
	p := newProvider(t, key)
	p.answer(keysPath, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	g := newGate(t, p)
	for timeout := time.Second; p.fetches() == 0; timeout *= 2 { // until there is time for the metadata
		if timeout > time.Minute {
			t.Fatal("the issuer is not found")
		}
		g.keys.client.timeout = timeout
		g.fetchNow()
	}
	before := p.count(oauthPath)
	p.publish(key)
	g.keys.client.timeout = time.Minute
	g.fetchNow()
	g.accepts(t, key.token(p.URL, nil))
	if n := p.count(oauthPath); n != before {
		t.Errorf("metadata was read %d times more", n-before)
	}
}

// TestG89AShortMaxStale: keys are fetched again before they are stale, however long the issuer lets us keep them.
func TestG89AShortMaxStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{status: http.StatusOK, keys: jwks(newSigner("k").jwk())}
		i, stop := s.running(t, func(s *Settings) { s.MaxStale = 10 * time.Second })
		defer stop()
		for range 60 {
			synctest.Wait()
			if err := i.Ready(); err != nil {
				t.Fatalf("%v, after %d fetches", err, s.fetches())
			}
			time.Sleep(time.Second)
		}
	})
}

// TestG90NobodyWaitsForLong: whoever had to wait for his turn waits less for the answer.
func TestG90NobodyWaitsForLong(t *testing.T) {
	a := newAsker(t)
	come := make(chan struct{})
	defer close(come)
	a.replies(func(http.ResponseWriter, *http.Request) { <-come })
	if wait := newIntrospector(new(Introspection), accesstoken.TrustedTokens{}, nil, nil).wait; wait != 5*time.Second {
		t.Errorf("one waits for %v", wait)
	}
	a.introspector.wait = 50 * time.Millisecond
	a.refuses(t, "opaque", oauth.TemporarilyUnavailable, "introspection_awaited")
}

// TestG90TheQueueIsBounded: when too many wait already, nobody joins them.
func TestG90TheQueueIsBounded(t *testing.T) {
	a := newAsker(t)
	a.introspector.slotTimeout, a.introspector.queue = time.Minute, fairqueue.New(1, 1)
	leave, err := a.introspector.queue.Enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan struct{})
	go func() {
		defer close(waiting)
		a.accepts(t, "first")
	}()
	tokentest.Eventually(t, "one waits", func() bool { return a.introspector.queue.Waiting() == 1 })
	a.refuses(t, "second", oauth.TemporarilyUnavailable, "introspection_busy")
	leave()
	<-waiting
	a.accepts(t, "second")
}
