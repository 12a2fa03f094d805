package trust

import (
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/issuertest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestG80AFloodOfUnknownKeys: 10,000 unknown kids → at most two fetches for each issuer, no memory for each. With an
// entry for every kid, a flood could fill the cache.
func TestG80AFloodOfUnknownKeys(t *testing.T) {
	key := issuertest.NewSigner("k")
	p := issuertest.NewProvider(t, key)
	g := newGate(t, p)
	g.fetchNow()
	flood := make([]string, 10_000)
	forged := strings.Split(issuertest.NewSigner("").Token(p.URL, nil), ".") // its signature is never verified
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
	if n := p.Fetches(); n > 2 {
		t.Errorf("%d fetches", n)
	}
	g.accepts(t, key.Token(p.URL, nil))
	runtime.KeepAlive(flood)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkAnUnknownKey measures a token of a flood.
func BenchmarkAnUnknownKey(b *testing.B) {
	p := issuertest.NewProvider(b, issuertest.NewSigner("k"))
	g := newGate(b, p)
	token := issuertest.NewSigner("forged").Token(p.URL, nil)
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

// BenchmarkAKnownToken measures a token that was verified before.
func BenchmarkAKnownToken(b *testing.B) {
	key := issuertest.NewSigner("k")
	p := issuertest.NewProvider(b, key)
	g := newGate(b, p)
	token, audiences := key.Token(p.URL, nil), []string{issuertest.Audience}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Verify(b.Context(), token, audiences); err != nil {
			b.Fatal(err)
		}
	}
}
