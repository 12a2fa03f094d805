package fetch

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/issuertest"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// gate is a Keys in a test.
type gate struct {
	*Keys
	clock    *tokentest.Clock
	provider *issuertest.Provider

	mu       sync.Mutex
	warnings []string
}

// patience is so much time for a request that a slow machine fails no test. Tests of time set their own.
const patience = time.Minute

func newGate(tb testing.TB, p *issuertest.Provider, edits ...func(*Source)) *gate {
	tb.Helper()
	g := &gate{clock: issuertest.NewClock(), provider: p}
	source := Source{Owner: "a trusted issuer", Issuer: p.URL}
	for _, edit := range edits {
		edit(&source)
	}
	var err error
	g.Keys, err = NewKeys(source, patient(PrivateNetwork), Options{Now: g.clock.Now, Warn: g.warn})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(g.server.client.CloseIdleConnections)
	return g
}

func atKeys(s *Source) { s.JWKSURI = s.Issuer + issuertest.KeysPath }

func (g *gate) warn(message string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.warnings = append(g.warnings, message+": "+err.Error())
}

func (g *gate) warned(part string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Contains(strings.Join(g.warnings, "\n"), part)
}

// find looks for a key as for a token that it has signed.
func (g *gate) find(key *issuertest.Signer) error {
	_, err := g.Key(context.Background(), key.Kid, oauth.Algorithm(key.Alg))
	return err
}

func (g *gate) accepts(tb testing.TB, key *issuertest.Signer) {
	tb.Helper()
	if err := g.find(key); err != nil {
		tb.Errorf("no key: %v", err)
	}
}

func (g *gate) refuses(tb testing.TB, key *issuertest.Signer, code oauth.ErrorCode, reason string) {
	tb.Helper()
	err := g.find(key)
	if err == nil {
		tb.Fatalf("found, and not refused for %s", reason)
	}
	if e := oauth.AsError(err); e.Code != code || e.Reason != reason {
		tb.Errorf("refused with %v, not for %s (%s)", err, code, reason)
	} else if code == oauth.TemporarilyUnavailable && (e.RetryAfter < time.Second || e.RetryAfter > maxRetry) {
		tb.Errorf("to come back in %v", e.RetryAfter)
	}
}

// fetchNow fetches as Run would, and waits for the end.
func (g *gate) fetchNow() { <-g.Refresh() }

// patient is a client for the machine itself.
func patient(reach Reach) *Client {
	return NewClient(Limits{Reach: reach, Redirects: Redirects, Timeout: patience})
}
