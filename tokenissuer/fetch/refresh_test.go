package fetch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/issuertest"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// scripted is a provider without a network, for time that a test makes pass.
type scripted struct {
	mu     sync.Mutex
	header http.Header
	status int
	keys   string
	asked  []time.Time
	delay  time.Duration
}

// RoundTrip answers.
func (s *scripted) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.asked = append(s.asked, time.Now())
	status, delay := s.status, s.delay
	s.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: status, Header: s.header, Body: io.NopCloser(strings.NewReader(s.keys)), Request: r}, nil
}

// running starts an issuer in a bubble, and returns what ends it.
func (s *scripted) running(t *testing.T, edits ...func(*Source)) (k *Keys, stop func()) {
	t.Helper()
	source := Source{Issuer: "https://idp.example", JWKSURI: "https://idp.example/keys"}
	for _, edit := range edits {
		edit(&source)
	}
	k, err := NewKeys(source, NewClient(Limits{}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	k.server.client.http.Transport = s
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); k.Run(ctx) }()
	return k, func() { cancel(); <-ended }
}

// answers changes the status.
func (s *scripted) answers(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

// fetches is how often it was asked.
func (s *scripted) fetches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

// gaps are the times between the fetches.
func (s *scripted) gaps() (gaps []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := 1; n < len(s.asked); n++ {
		gaps = append(gaps, s.asked[n].Sub(s.asked[n-1]))
	}
	return gaps
}

// wantGap: up to a fifth before its time.
func wantGap(t *testing.T, gap, life time.Duration) {
	t.Helper()
	if gap <= life*4/5-time.Millisecond || gap > life {
		t.Errorf("%v later, not nearly %v", gap, life)
	}
}

// TestKeysAreFetchedAheadOfTime: at once, and then before the provider's time for them is over, within our bounds.
func TestKeysAreFetchedAheadOfTime(t *testing.T) {
	for name, test := range map[string]struct {
		control []string
		life    time.Duration
	}{
		"silent": {nil, 5 * time.Minute}, "max-age": {[]string{"public, max-age=600"}, 10 * time.Minute}, "quoted": {[]string{`MAX-AGE="600"`}, 10 * time.Minute},
		"two headers": {[]string{"public", "max-age=600"}, 10 * time.Minute}, "short": {[]string{"max-age=1"}, time.Minute}, "zero": {[]string{"max-age=0"}, time.Minute},
		"long": {[]string{"max-age=31536000"}, 15 * time.Minute}, "too long for a number": {[]string{"max-age=99999999999999999999"}, time.Minute},
		"negative": {[]string{"max-age=-1"}, time.Minute}, "no number": {[]string{"max-age"}, time.Minute}, "not to be stored": {[]string{"no-store"}, time.Minute}, "no-cache beats": {[]string{"max-age=600, no-cache"}, time.Minute},
		"another directive": {[]string{"s-maxage=600, stale-while-revalidate=10"}, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{status: http.StatusOK, keys: issuertest.JWKS(issuertest.NewSigner("k").JWK()), header: http.Header{"Cache-Control": test.control}}
				i, stop := s.running(t)
				synctest.Wait()
				if err := i.Usable(); err != nil || s.fetches() != 1 {
					t.Errorf("not at once: %v", err)
				}
				time.Sleep(4 * test.life)
				stop()
				if len(s.gaps()) < 4 {
					t.Errorf("%d fetches", s.fetches())
				}
				for _, gap := range s.gaps() {
					wantGap(t, gap, test.life)
				}
			})
		})
	}
}

// TestAFailureIsTriedAgainSoon, then less often, and after it all is as before.
func TestAFailureIsTriedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{status: http.StatusBadGateway, keys: issuertest.JWKS(issuertest.NewSigner("k").JWK())}
		i, stop := s.running(t)
		defer stop()
		time.Sleep(10 * time.Minute)
		waits := []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute, time.Minute}
		for n, wait := range waits {
			wantGap(t, s.gaps()[n], wait)
		}
		if i.Usable() == nil {
			t.Error("ready without keys")
		}
		s.answers(http.StatusOK)
		time.Sleep(time.Minute)
		if err := i.Usable(); err != nil {
			t.Error(err)
		}
		before := s.fetches()
		s.answers(http.StatusBadGateway)
		time.Sleep(6 * time.Minute)
		wantGap(t, s.gaps()[before], 5*time.Second)
	})
}

// TestAFetchThatATokenCausedCounts: when it fails, the next is not minutes away.
func TestAFetchThatATokenCausedCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{status: http.StatusOK, keys: issuertest.JWKS(issuertest.NewSigner("k").JWK())}
		i, stop := s.running(t)
		defer stop()
		synctest.Wait()
		s.answers(http.StatusBadGateway)
		_, fetched := i.demand(false)
		<-fetched
		time.Sleep(6 * time.Second)
		if s.fetches() != 3 {
			t.Fatalf("%d fetches", s.fetches())
		}
		wantGap(t, s.gaps()[1], 5*time.Second)
	})
}

// TestNothingRunsAfterTheEnd: a bubble does not end while anything in it is left. What is under way has its own time.
func TestNothingRunsAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{status: http.StatusOK, delay: time.Hour}
		_, stop := s.running(t)
		time.Sleep(time.Second)
		began := time.Now()
		stop()
		if time.Since(began) != 0 {
			t.Error("the end waited for the fetch")
		}
		time.Sleep(time.Hour)
		if s.fetches() != 1 {
			t.Errorf("%d fetches", s.fetches())
		}
	})
}

// TestG89AShortMaxStale: keys are fetched again before they are stale, however long the issuer lets us keep them.
func TestG89AShortMaxStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{status: http.StatusOK, keys: issuertest.JWKS(issuertest.NewSigner("k").JWK())}
		i, stop := s.running(t, func(s *Source) { s.MaxStale = 10 * time.Second })
		defer stop()
		for range 60 {
			synctest.Wait()
			if err := i.Usable(); err != nil {
				t.Fatalf("%v, after %d fetches", err, s.fetches())
			}
			time.Sleep(time.Second)
		}
	})
}

// TestG88TheTimeIsForAllOfAFetch: metadata and keys that are each in time, and together are not.
func TestG88TheTimeIsForAllOfAFetch(t *testing.T) {
	for delay, inTime := range map[time.Duration]bool{2 * time.Second: true, 3 * time.Second: false} {
		synctest.Test(t, func(t *testing.T) {
			both := `{"issuer":"https://idp.example","jwks_uri":"https://idp.example/keys",` + issuertest.JWKS(issuertest.NewSigner("k").JWK())[1:]
			s := &scripted{status: http.StatusOK, keys: both, delay: delay}
			i, stop := s.running(t, func(s *Source) { s.JWKSURI = "" })
			defer stop()
			time.Sleep(6 * time.Second)
			if err := i.Usable(); (err == nil) != inTime {
				t.Errorf("%v each: %v", delay, err)
			}
		})
	}
}

// TestG80TheCoolDown: tokens make us fetch once in 30 s, whether that was of any use or not, and a clock that is set back
// does not make it longer.
func TestG80TheCoolDown(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{"provider up": nil, "provider down": issuertest.Broken} {
		t.Run(name, func(t *testing.T) {
			key := issuertest.NewSigner("k")
			p := issuertest.NewProvider(t, key)
			g := newGate(t, p, atKeys)
			g.fetchNow()
			if answer != nil {
				p.Answer(issuertest.KeysPath, answer)
			}
			ask := func(kid string, want int) {
				t.Helper()
				for range 3 {
					if g.find(issuertest.NewSigner(kid)) == nil {
						t.Error("accepted")
					}
				}
				if n := p.Fetches(); n != want {
					t.Errorf("%s: %d fetches, not %d", kid, n, want)
				}
			}
			ask("at once", 2)
			g.clock.Add(coolDown - time.Millisecond)
			ask("in the cool-down", 2)
			_, fetched := g.demand(false) // as by one of many who found out together that the last fetch was of no use
			<-fetched
			ask("still in the cool-down", 2)
			g.clock.Add(time.Millisecond)
			ask("after it", 3)
			g.clock.Add(-time.Hour)
			ask("with the clock set back", 4)
		})
	}
}

// TestG80OneFetchForAll who miss a key: they wait for the same answer, and a client that hangs up takes it from nobody.
func TestG80OneFetchForAll(t *testing.T) {
	key := issuertest.NewSigner("k")
	p := issuertest.NewProvider(t, key)
	asked, answer := make(chan struct{}, 10), make(chan struct{})
	p.Answer(issuertest.KeysPath, func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-answer
		_, _ = w.Write([]byte(issuertest.JWKS(key.JWK())))
	})
	g := newGate(t, p, atKeys)
	hasty, hangUp := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := g.Key(hasty, key.Kid, oauth.EdDSA)
		first <- err
	}()
	<-asked
	var crowd sync.WaitGroup
	for range 50 {
		crowd.Go(func() { g.accepts(t, key) })
	}
	hangUp()
	if err := <-first; oauth.AsError(err).Reason != "keys_awaited" || !errors.Is(err, context.Canceled) { // else it would raise an alarm
		t.Errorf("who hung up got %v", err)
	}
	close(answer)
	crowd.Wait()
	if n := p.Fetches(); n != 1 {
		t.Errorf("%d fetches", n)
	}
}

// TestNobodyWaitsForLong: a token whose key does not come is given up, though the fetch goes on.
func TestNobodyWaitsForLong(t *testing.T) {
	key := issuertest.NewSigner("k")
	p := issuertest.NewProvider(t, key)
	answer := make(chan struct{})
	p.Answer(issuertest.KeysPath, func(w http.ResponseWriter, r *http.Request) {
		<-answer
		_, _ = w.Write([]byte(issuertest.JWKS(key.JWK())))
	})
	g := newGate(t, p, atKeys)
	hasty, giveUp := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer giveUp()
	if _, err := g.Key(hasty, key.Kid, oauth.EdDSA); oauth.AsError(err).Reason != "keys_awaited" || oauth.AsError(err).RetryAfter < time.Second {
		t.Errorf("%v", err)
	}
	close(answer)
	tokentest.Eventually(t, "the answer is taken in", func() bool { return g.Usable() == nil })
	g.accepts(t, key)
}
