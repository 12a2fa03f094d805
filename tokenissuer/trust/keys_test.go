package trust

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/issuertest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestG87EveryIssuerHasItsOwnKeys tests all pairs of key and iss. A key of one issuer does not verify another's
// tokens, even under the same kid.
func TestG87EveryIssuerHasItsOwnKeys(t *testing.T) {
	a, b, twin := issuertest.NewSigner("a"), issuertest.NewSigner("b"), issuertest.NewSigner("a")
	pa, pb, pc := issuertest.NewProvider(t, a), issuertest.NewProvider(t, b), issuertest.NewProvider(t, twin)
	gates := []*gate{newGate(t, pa), newGate(t, pb), newGate(t, pc)}
	for i, key := range []*issuertest.Signer{a, b, twin} {
		for j, g := range gates {
			for k, issuer := range []string{pa.URL, pb.URL, pc.URL} {
				token, err := g.judgeNow(key.Token(issuer, nil))
				if good := i == j && j == k; good != (err == nil) {
					t.Errorf("key %d, gate %d, iss %d: %v, %v", i, j, k, token, err)
				}
				if err != nil && oauth.AsError(err).Code != oauth.InvalidToken {
					t.Errorf("key %d, gate %d, iss %d: %v", i, j, k, err)
				}
			}
		}
	}
	// A provider that publishes another's keys cannot sign for it.
	pb.Publish(a, b)
	g := newGate(t, pb)
	g.refuses(t, a.Token(pa.URL, nil), oauth.InvalidToken, "issuer_wrong")
	g.fetchNow()
	g.refuses(t, a.Token(pa.URL, nil), oauth.InvalidToken, "issuer_wrong")
}

// TestAWithdrawnKeyEndsItsTokens, including those that were verified before.
func TestAWithdrawnKeyEndsItsTokens(t *testing.T) {
	old, fresh := issuertest.NewSigner("old"), issuertest.NewSigner("fresh")
	p := issuertest.NewProvider(t, old)
	g := newGate(t, p)
	token := old.Token(p.URL, nil)
	g.accepts(t, token)
	p.Publish(fresh)
	g.fetchNow()
	g.refuses(t, token, oauth.InvalidToken, reasonUnknown)
	g.accepts(t, fresh.Token(p.URL, nil))
	// A token verified with one key is not valid because another key now has its kid.
	p.Publish(issuertest.NewSigner("old"))
	g.fetchNow()
	g.refuses(t, token, oauth.InvalidToken, "key_replaced")
}

// TestRotationWhileTokensAreJudged: an issuer that signs with a new key before it is fetched loses no token, and the
// old tokens stay valid as long as their key is published.
func TestRotationWhileTokensAreJudged(t *testing.T) {
	first := issuertest.NewSigner("0")
	p := issuertest.NewProvider(t, first)
	g := newGate(t, p)
	var current atomic.Pointer[issuertest.Signer]
	current.Store(first)
	ctx, stop := context.WithCancel(t.Context())
	var judges sync.WaitGroup
	for range 4 {
		judges.Go(func() {
			for ctx.Err() == nil {
				if _, err := g.judgeNow(current.Load().Token(p.URL, nil)); err != nil {
					t.Errorf("refused: %v", err)
					return
				}
			}
		})
	}
	keys := []*issuertest.Signer{first}
	for i := range 10 {
		next := issuertest.NewSigner(string(rune('1' + i)))
		keys = append(keys, next)
		p.Publish(keys...)
		g.clock.Add(time.Second) // an issuer that has rotated its keys may do so again
		current.Store(next)
		g.accepts(t, next.Token(p.URL, nil))
	}
	stop()
	judges.Wait()
	g.accepts(t, first.Token(p.URL, nil))
}
