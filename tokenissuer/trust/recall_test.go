package trust

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/issuertest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// recalls fails unless the token is known and valid, or refused for the reason.
func (g *gate) recalls(t *testing.T, what, token string, audience, reason string) {
	t.Helper()
	found, known, err := g.Recall(token, []string{audience})
	switch {
	case !known:
		t.Errorf("%s: nothing is known", what)
	case reason == "" && (err != nil || found == nil):
		t.Errorf("%s: %v", what, err)
	case reason != "" && (found != nil || oauth.AsError(err).Reason != reason):
		t.Errorf("%s: %v, not %s", what, err, reason)
	}
}

func (g *gate) knowsNothing(t *testing.T, what, token string) {
	t.Helper()
	if found, known, err := g.Recall(token, []string{issuertest.Audience}); found != nil || known || err != nil {
		t.Errorf("%s: known %v, %v", what, known, err)
	}
}

// TestARecalledTokenIsJudgedAnew: only the validity of its signature is cached.
func TestARecalledTokenIsJudgedAnew(t *testing.T) {
	key, other := issuertest.NewSigner("k"), issuertest.NewSigner("other")
	p := issuertest.NewProvider(t, key)
	g := newGate(t, p)
	g.fetchNow()
	token := key.Token(p.URL, map[string]any{"exp": g.clock.Now().Add(time.Hour).Unix()})
	g.knowsNothing(t, "before anybody has shown it", token)
	g.accepts(t, token)
	g.recalls(t, "a good token", token, issuertest.Audience, "")
	g.recalls(t, "on another route", token, "https://other.example", "audience_wrong")
	g.knowsNothing(t, "a changed one", token+"A")
	if allocated := testing.AllocsPerRun(100, func() { _, _, _ = g.Recall(token, []string{issuertest.Audience}) }); allocated > 0 {
		t.Errorf("recalling allocates %v times", allocated)
	}
	p.Publish(other)
	g.fetchNow()
	g.knowsNothing(t, "one whose key was withdrawn", token) // a fetch might bring it back
	if _, err := g.judgeNow(token); oauth.AsError(err).Reason != reasonUnknown {
		t.Errorf("a withdrawn key: %v", err)
	}
	p.Publish(key)
	g.fetchNow()
	g.clock.Add(2 * time.Hour)
	g.recalls(t, "an expired one", token, issuertest.Audience, "token_expired")
}

// TestG90AnAnswerIsRecalled: a response is recalled while it is cached, also that of an inactive token.
func TestG90AnAnswerIsRecalled(t *testing.T) {
	a := newAsker(t)
	a.knowsNothing(t, "before the question", "opaque")
	a.accepts(t, "opaque")
	a.recalls(t, "an active token", "opaque", issuertest.Audience, "")
	a.recalls(t, "on another route", "opaque", "https://other.example", "audience_wrong")
	a.clock.Add(time.Hour)
	a.knowsNothing(t, "an answer of long ago", "opaque")
}

// TestG80NothingIsAdmittedWhileAKeyIsFetched: no admission is held while a key is fetched, or requested for a token
// that fails an earlier check.
func TestG80NothingIsAdmittedWhileAKeyIsFetched(t *testing.T) {
	key, late := issuertest.NewSigner("k"), issuertest.NewSigner("late")
	p := issuertest.NewProvider(t, key)
	g := newGate(t, p, atKeys)
	g.fetchNow()
	var admitted, left atomic.Int64
	admit := func() (func(), error) {
		admitted.Add(1)
		return func() { left.Add(1) }, nil
	}
	judge := func(tok string, admit token.Admission) error {
		_, err := g.VerifyAdmitted(context.Background(), tok, []string{issuertest.Audience}, "", admit)
		return err
	}
	asked, answer := make(chan struct{}), make(chan struct{})
	published := issuertest.JWKS(key.JWK(), late.JWK())
	p.Answer(issuertest.KeysPath, func(w http.ResponseWriter, r *http.Request) {
		close(asked)
		<-answer
		issuertest.Text(published)(w, r)
	})
	tok := late.Token(p.URL, nil)
	done := make(chan error, 1)
	go func() { done <- judge(tok, admit) }()
	<-asked
	if n := admitted.Load(); n != 0 {
		t.Errorf("%d are admitted while the key is fetched", n)
	}
	close(answer)
	if err := <-done; err != nil || admitted.Load() != 1 || left.Load() != 1 {
		t.Errorf("%v; admitted %d, left %d", err, admitted.Load(), left.Load())
	}
	if err := judge(tok, admit); err != nil || admitted.Load() != 1 {
		t.Errorf("a known token: %v; admitted %d", err, admitted.Load())
	}
	if err := judge(key.Token(p.URL, map[string]any{"exp": g.clock.Now().Add(-time.Hour).Unix()}), admit); err == nil || admitted.Load() != 1 {
		t.Errorf("an expired token: %v; admitted %d", err, admitted.Load())
	}
	forged := issuertest.NewSigner("k").Token(p.URL, nil)
	if err := judge(forged, admit); oauth.AsError(err).Code != oauth.InvalidToken || left.Load() != 2 {
		t.Errorf("a forged token: %v; left %d", err, left.Load())
	}
	full := oauth.Unavailable("full", errors.New("full"))
	if err := judge(key.Token(p.URL, nil), func() (func(), error) { return nil, full }); !errors.Is(err, full) {
		t.Errorf("with all turns taken: %v", err)
	}
}
