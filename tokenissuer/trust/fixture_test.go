package trust

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/issuertest"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// gate is an Issuer in a test.
type gate struct {
	*Issuer
	clock    *tokentest.Clock
	provider *issuertest.Provider

	mu       sync.Mutex
	warnings []string
}

func newGate(tb testing.TB, p *issuertest.Provider, edits ...func(*Settings)) *gate {
	tb.Helper()
	g := &gate{clock: issuertest.NewClock(), provider: p}
	settings := Settings{Issuer: p.URL, AllowPrivateNetwork: true}
	for _, edit := range edits {
		edit(&settings)
	}
	var err error
	g.Issuer, err = New(settings, fetch.Options{Now: g.clock.Now, Warn: g.warn})
	if err != nil {
		tb.Fatal(err)
	}
	if g.introspector != nil {
		g.introspector.wait = time.Minute
	}
	return g
}

func atKeys(s *Settings) { s.JWKSURI = s.Issuer + issuertest.KeysPath }

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

func (g *gate) judgeNow(tok string) (*token.AccessToken, error) {
	return g.judgeFrom("", tok)
}

// judgeFrom verifies a token from a source.
func (g *gate) judgeFrom(source, tok string) (*token.AccessToken, error) {
	return g.VerifyAdmitted(context.Background(), tok, []string{issuertest.Audience}, source, nil)
}

func (g *gate) accepts(tb testing.TB, token string) {
	tb.Helper()
	if t, err := g.judgeNow(token); err != nil || t == nil {
		tb.Errorf("refused: %v", err)
	}
}

func (g *gate) refuses(tb testing.TB, token string, code oauth.ErrorCode, reason string) {
	tb.Helper()
	t, err := g.judgeNow(token)
	if err == nil || t != nil {
		tb.Fatalf("accepted, not refused for %s", reason)
	}
	if e := oauth.AsError(err); e.Code != code || e.Reason != reason {
		tb.Errorf("refused with %v, not for %s (%s)", err, code, reason)
	} else if code == oauth.TemporarilyUnavailable && (e.RetryAfter < time.Second || e.RetryAfter > time.Minute) {
		tb.Errorf("to come back in %v", e.RetryAfter)
	}
}

// fetchNow fetches as Run does and waits until it is done.
func (g *gate) fetchNow() { <-g.keys.Refresh() }

// Reasons of package fetch.
const (
	reasonUnknown   = "key_unknown"
	reasonNotLoaded = "keys_not_loaded"
	reasonStale     = "keys_stale"
)
