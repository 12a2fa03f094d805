package trust

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
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
func (s *scripted) running(t *testing.T, edits ...func(*Settings)) (i *Issuer, stop func()) {
	t.Helper()
	settings := Settings{Issuer: "https://idp.example", JWKSURI: "https://idp.example/keys"}
	for _, edit := range edits {
		edit(&settings)
	}
	i, err := New(settings, Options{})
	if err != nil {
		t.Fatal(err)
	}
	i.keys.client.http.Transport = s
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); i.Run(ctx) }()
	return i, func() { cancel(); <-ended }
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
				s := &scripted{status: http.StatusOK, keys: jwks(newSigner("k").jwk()), header: http.Header{"Cache-Control": test.control}}
				i, stop := s.running(t)
				synctest.Wait()
				if err := i.Ready(); err != nil || s.fetches() != 1 {
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
		s := &scripted{status: http.StatusBadGateway, keys: jwks(newSigner("k").jwk())}
		i, stop := s.running(t)
		defer stop()
		time.Sleep(10 * time.Minute)
		waits := []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute, time.Minute}
		for n, wait := range waits {
			wantGap(t, s.gaps()[n], wait)
		}
		if i.Ready() == nil {
			t.Error("ready without keys")
		}
		s.answers(http.StatusOK)
		time.Sleep(time.Minute)
		if err := i.Ready(); err != nil {
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
		s := &scripted{status: http.StatusOK, keys: jwks(newSigner("k").jwk())}
		i, stop := s.running(t)
		defer stop()
		synctest.Wait()
		s.answers(http.StatusBadGateway)
		_, fetched := i.keys.demand()
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
