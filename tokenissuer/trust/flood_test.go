package trust

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestG80AFloodOfUnknownKeys of ten thousand tokens, each with a kid of its own, costs the issuer one fetch and us nothing that
// stays. A cache with an entry for every kid would be the flood's to fill.
func TestG80AFloodOfUnknownKeys(t *testing.T) {
	key := newSigner("k")
	p := newProvider(t, key)
	g := newGate(t, p)
	g.fetchNow()
	flood := make([]string, 10_000)
	forged := strings.Split(newSigner("").token(p.URL, nil), ".") // nobody gets as far as its signature
	for i := range flood {
		header := fmt.Sprintf(`{"alg":"EdDSA","typ":"at+jwt","kid":"forged-%d"}`, i)
		flood[i] = base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + forged[1] + "." + forged[2]
	}
	before := heap()
	var crowd sync.WaitGroup
	for part := range 8 {
		crowd.Go(func() {
			for i := part; i < len(flood); i += 8 {
				_, err := g.judgeNow(flood[i])
				if e := oauth.AsError(err); e.Code != oauth.InvalidToken || e.Reason != reasonUnknown {
					t.Errorf("token %d: %v", i, err)
					return
				}
			}
		})
	}
	crowd.Wait()
	if grown := int64(heap()) - int64(before); grown > 4<<20 {
		t.Errorf("%d bytes stay", grown)
	}
	if n := p.fetches(); n > 2 {
		t.Errorf("%d fetches", n)
	}
	g.accepts(t, key.token(p.URL, nil))
	runtime.KeepAlive(flood)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestG80TheCoolDown: tokens make us fetch once in 30 s, whether that was of any use or not, and a clock that is set back
// does not make it longer.
func TestG80TheCoolDown(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{"provider up": nil, "provider down": broken} {
		t.Run(name, func(t *testing.T) {
			key := newSigner("k")
			p := newProvider(t, key)
			g := newGate(t, p, atKeys)
			g.fetchNow()
			if answer != nil {
				p.answer(keysPath, answer)
			}
			ask := func(kid string, want int) {
				t.Helper()
				for range 3 {
					if _, err := g.judgeNow(newSigner(kid).token(p.URL, nil)); err == nil {
						t.Error("accepted")
					}
				}
				if n := p.fetches(); n != want {
					t.Errorf("%s: %d fetches, not %d", kid, n, want)
				}
			}
			ask("at once", 2)
			g.clock.Add(coolDown - time.Millisecond)
			ask("in the cool-down", 2)
			_, fetched := g.keys.demand() // as by one of many who found out together that the last fetch was of no use
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
	key := newSigner("k")
	p := newProvider(t, key)
	asked, answer := make(chan struct{}, 10), make(chan struct{})
	p.answer(keysPath, func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-answer
		_, _ = w.Write([]byte(jwks(key.jwk())))
	})
	g := newGate(t, p, atKeys)
	g.keys.client.timeout, g.keyTimeout = time.Minute, time.Minute
	hasty, hangUp := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := g.Verify(hasty, key.token(p.URL, nil), []string{ourAudience})
		first <- err
	}()
	<-asked
	var crowd sync.WaitGroup
	for i := range 50 {
		crowd.Go(func() { g.accepts(t, key.token(p.URL, map[string]any{"jti": strconv.Itoa(i)})) })
	}
	hangUp()
	if err := <-first; oauth.AsError(err).Reason != "keys_awaited" || !errors.Is(err, context.Canceled) { // else it would raise an alarm
		t.Errorf("who hung up got %v", err)
	}
	close(answer)
	crowd.Wait()
	if n := p.fetches(); n != 1 {
		t.Errorf("%d fetches", n)
	}
}

// TestNobodyWaitsForLong: a token whose key does not come is given up, though the fetch goes on.
func TestNobodyWaitsForLong(t *testing.T) {
	key := newSigner("k")
	p := newProvider(t, key)
	answer := make(chan struct{})
	p.answer(keysPath, func(w http.ResponseWriter, r *http.Request) {
		<-answer
		_, _ = w.Write([]byte(jwks(key.jwk())))
	})
	g := newGate(t, p, atKeys)
	g.keys.client.timeout, g.keyTimeout = time.Minute, 10*time.Millisecond
	g.refuses(t, key.token(p.URL, nil), oauth.TemporarilyUnavailable, "keys_awaited")
	close(answer)
	tokentest.Eventually(t, "the answer is taken in", func() bool { return g.Ready() == nil })
	g.accepts(t, key.token(p.URL, nil))
}

// BenchmarkAnUnknownKey is what a token of a flood costs.
func BenchmarkAnUnknownKey(b *testing.B) {
	p := newProvider(b, newSigner("k"))
	g := newGate(b, p)
	token := newSigner("forged").token(p.URL, nil)
	if _, err := g.judgeNow(token); err == nil {
		b.Fatal("accepted")
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.judgeNow(token); err == nil {
			b.Fatal(errors.New("accepted"))
		}
	}
}

// BenchmarkAKnownToken is what a token costs that was judged before.
func BenchmarkAKnownToken(b *testing.B) {
	key := newSigner("k")
	p := newProvider(b, key)
	g := newGate(b, p)
	token, audiences := key.token(p.URL, nil), []string{ourAudience}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Verify(b.Context(), token, audiences); err != nil {
			b.Fatal(err)
		}
	}
}
