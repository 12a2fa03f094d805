package trust

import (
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/issuertest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// TestG89AKnownKeyIsServedUntilItIsStale covers cached verdicts too.
func TestG89AKnownKeyIsServedUntilItIsStale(t *testing.T) {
	key := issuertest.NewSigner("k")
	g := newGate(t, issuertest.NewProvider(t, key))
	g.fetchNow()
	g.provider.Answer(issuertest.KeysPath, issuertest.Broken)
	remembered := key.Token(g.provider.URL, nil)
	g.accepts(t, remembered)
	g.clock.Add(24 * time.Hour)
	g.fetchNow()
	g.accepts(t, remembered)
	g.accepts(t, key.Token(g.provider.URL, map[string]any{"jti": "2"}))
	if err := g.Ready(); err != nil {
		t.Errorf("not ready: %v", err)
	}
	g.clock.Add(time.Second)
	g.refuses(t, remembered, oauth.TemporarilyUnavailable, reasonStale)
	g.refuses(t, key.Token(g.provider.URL, map[string]any{"jti": "3"}), oauth.TemporarilyUnavailable, reasonStale)
	if g.Ready() == nil {
		t.Error("ready")
	}
	g.provider.Publish(key)
	g.fetchNow()
	g.accepts(t, remembered)
}

// TestG89AColdStartWithNothing: without any keys, a token that could be valid gets 503, and others do not.
func TestG89AColdStartWithNothing(t *testing.T) {
	key := issuertest.NewSigner("k")
	g := newGate(t, issuertest.NewProvider(t, key))
	g.provider.Answer(issuertest.KeysPath, issuertest.Broken)
	if g.Ready() == nil {
		t.Error("ready")
	}
	g.refuses(t, key.Token(g.provider.URL, nil), oauth.TemporarilyUnavailable, reasonNotLoaded)
	g.refuses(t, key.Token("https://another.example", nil), oauth.InvalidToken, "issuer_wrong")
	g.refuses(t, "opaque", oauth.InvalidToken, "token_malformed")
	g.refuses(t, "a.b.c", oauth.InvalidToken, "token_malformed")
	g.refuses(t, strings.Repeat("a", token.MaxTokenBytes+1), oauth.InvalidToken, "token_too_long")
	if !g.warned("status 500") {
		t.Errorf("warned of %q", g.warnings)
	}
}
