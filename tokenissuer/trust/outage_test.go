package trust

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// outage is an issuer whose keys were seen, and kept, before its provider went away.
func outage(t *testing.T, edits ...func(*Settings)) (g *gate, key *signer, kept *memory) {
	t.Helper()
	key, kept = newSigner("k"), newMemory()
	p := newProvider(t, key)
	g = newGate(t, p, edits...)
	g.UseSnapshots(kept)
	g.fetchNow()
	tokentest.Eventually(t, "the keys are kept", func() bool { return kept.saved() == 1 })
	p.answer(keysPath, broken)
	return g, key, kept
}

// after is a process that starts later, with the same settings and storage.
func (g *gate) after(t *testing.T, kept Snapshots, wait time.Duration) *gate {
	t.Helper()
	next := newGate(t, g.provider, func(s *Settings) { *s = g.settings })
	next.clock.Add(g.clock.Now().Sub(testStart) + wait)
	next.UseSnapshots(kept)
	return next
}

// TestG89AKnownKeyIsServedUntilItIsStale, the verdicts too that are remembered.
func TestG89AKnownKeyIsServedUntilItIsStale(t *testing.T) {
	g, key, _ := outage(t)
	remembered := key.token(g.provider.URL, nil)
	g.accepts(t, remembered)
	g.clock.Add(defaultMaxStale)
	g.fetchNow()
	g.accepts(t, remembered)
	g.accepts(t, key.token(g.provider.URL, map[string]any{"jti": "2"}))
	if err := g.Ready(); err != nil {
		t.Errorf("not ready: %v", err)
	}
	g.clock.Add(time.Second)
	g.refuses(t, remembered, oauth.TemporarilyUnavailable, reasonStale)
	g.refuses(t, key.token(g.provider.URL, map[string]any{"jti": "3"}), oauth.TemporarilyUnavailable, reasonStale)
	if g.Ready() == nil {
		t.Error("ready")
	}
	g.provider.publish(key)
	g.fetchNow()
	g.accepts(t, remembered)
}

// TestG89AKeyThatNobodySaw is no reason to throw a token away: the provider may have made it while we could not ask.
func TestG89AKeyThatNobodySaw(t *testing.T) {
	g, key, _ := outage(t)
	next := newSigner("next")
	g.refuses(t, next.token(g.provider.URL, nil), oauth.TemporarilyUnavailable, reasonStale)
	g.refuses(t, next.token(g.provider.URL, nil), oauth.TemporarilyUnavailable, reasonStale) // in the cool-down
	g.provider.publish(key)
	g.fetchNow()
	g.refuses(t, next.token(g.provider.URL, nil), oauth.InvalidToken, reasonUnknown)
}

// TestG89AColdStartWithASnapshot serves the keys that were kept, and stands by their date.
func TestG89AColdStartWithASnapshot(t *testing.T) {
	g, key, kept := outage(t)
	token := key.token(g.provider.URL, nil)
	for _, wait := range []time.Duration{0, time.Hour, defaultMaxStale} {
		next := g.after(t, kept, wait)
		next.accepts(t, token)
		next.refuses(t, newSigner("next").token(g.provider.URL, nil), oauth.TemporarilyUnavailable, reasonStale)
	}
	g.after(t, kept, defaultMaxStale+time.Second).refuses(t, token, oauth.TemporarilyUnavailable, reasonStale)
	ctx, stop := context.WithCancel(t.Context())
	next := g.after(t, kept, 0)
	ended := make(chan struct{})
	go func() { defer close(ended); next.Run(ctx) }()
	tokentest.Eventually(t, "ready without a request", func() bool { return next.Ready() == nil })
	stop()
	<-ended
}

// TestG89AColdStartWithNothing says 503, and that of no token that could be good.
func TestG89AColdStartWithNothing(t *testing.T) {
	g, key, _ := outage(t)
	for name, kept := range map[string]Snapshots{"an empty storage": newMemory(), "none": nil, "one that fails": &memory{fail: errStorage}} {
		t.Run(name, func(t *testing.T) {
			next := g.after(t, kept, 0)
			if next.Ready() == nil {
				t.Error("ready")
			}
			next.refuses(t, key.token(g.provider.URL, nil), oauth.TemporarilyUnavailable, reasonNotLoaded)
			next.refuses(t, key.token("https://another.example", nil), oauth.InvalidToken, "issuer_wrong")
			next.refuses(t, "opaque", oauth.InvalidToken, "token_malformed")
			next.refuses(t, "a.b.c", oauth.InvalidToken, "token_malformed")
			next.refuses(t, strings.Repeat("a", accesstoken.MaxTokenBytes+1), oauth.InvalidToken, "token_too_long")
			if next.warned(errStorage.Error()) != (name == "one that fails") || !next.warned("status 500") {
				t.Errorf("warned of %q", next.warnings)
			}
		})
	}
}

// TestG89AProviderThatFlaps, with all the ways to be down: whatever it does, a known key is served, and a failure is over
// with the next good answer.
func TestG89AProviderThatFlaps(t *testing.T) {
	key := newSigner("k")
	p := newProvider(t, key)
	g := newGate(t, p)
	g.accepts(t, key.token(p.URL, nil))
	generation := g.Generation()
	hangUp := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for i, answer := range []http.HandlerFunc{broken, text(jwks(key.jwk())), hangUp, text("{}"), text(jwks(key.jwk())), http.NotFound, text(jwks(key.jwk()))} {
		p.answer(keysPath, answer)
		g.fetchNow()
		g.accepts(t, key.token(p.URL, map[string]any{"jti": strconv.Itoa(i)}))
	}
	g.refuses(t, newSigner("x").token(p.URL, nil), oauth.InvalidToken, reasonUnknown)
	if g.Generation() != generation {
		t.Error("the keys changed")
	}
}

// TestASnapshotIsBelievedNoMoreThanAnAnswer.
func TestASnapshotIsBelievedNoMoreThanAnAnswer(t *testing.T) {
	g, key, kept := outage(t)
	good := string(kept.kept())
	token := key.token(g.provider.URL, nil)
	at := testStart.Format(time.RFC3339)
	if !strings.Contains(good, at) {
		t.Fatalf("kept: %s", good)
	}
	for name, data := range map[string]string{
		"empty": "", "garbage": "\x00", "half": good[:len(good)/2], "something after": good + "{}", "another shape": `[` + good + `]`,
		"another issuer":  strings.Replace(good, `"issuer":"`+g.provider.URL, `"issuer":"https://another.example`, 1),
		"another place":   strings.Replace(good, `"jwks_uri":"`+g.provider.URL, `"jwks_uri":"https://another.example`, 1),
		"the future":      strings.Replace(good, at, testStart.Add(time.Hour).Format(time.RFC3339), 1),
		"no date":         strings.Replace(good, `"fetched_at":"`+at+`"`, `"fetched_at":null`, 1),
		"a symmetric key": strings.Replace(good, `[{`, `[{"kty":"oct","k":"AA"},{`, 1),
		"no keys":         strings.Replace(good, key.jwk(), "", 1),
		"much too long":   good + strings.Repeat(" ", maxSnapshot),
	} {
		t.Run(name, func(t *testing.T) {
			if data == good {
				t.Fatal("nothing was changed")
			}
			kept.replace([]byte(data))
			next := g.after(t, kept, 0)
			reason := reasonNotLoaded
			if name == "no date" {
				reason = reasonStale // it is as old as can be
			}
			next.refuses(t, token, oauth.TemporarilyUnavailable, reason)
			if name != "no date" && !next.warned("kept keys") {
				t.Errorf("warned of %q", next.warnings)
			}
		})
	}
	kept.replace([]byte(strings.Replace(good, at, testStart.Add(clockSkew).Format(time.RFC3339), 1)))
	g.after(t, kept, 0).accepts(t, token)
	kept.replace([]byte(good))
	g.after(t, kept, 0).accepts(t, token)
	// Another place for the keys is another set; what was kept for one is not taken for the other.
	moved := newGate(t, g.provider, atKeys)
	moved.UseSnapshots(kept)
	moved.refuses(t, token, oauth.TemporarilyUnavailable, reasonNotLoaded)
}

// TestAStorageThatHangsDelaysNobody: neither a start with the provider up, nor a token whose key is known.
func TestAStorageThatHangsDelaysNobody(t *testing.T) {
	key := newSigner("k")
	p := newProvider(t, key)
	g := newGate(t, p)
	free := make(chan struct{})
	defer close(free)
	g.UseSnapshots(&memory{before: func(context.Context) { <-free }})
	g.accepts(t, key.token(p.URL, nil)) // would not come back
	g.fetchNow()
	g.accepts(t, key.token(p.URL, map[string]any{"jti": "2"}))
	// A storage that comes with a reload is used, though the one before it still hangs.
	kept := newMemory()
	g.UseSnapshots(kept)
	g.fetchNow()
	tokentest.Eventually(t, "the keys are kept", func() bool { return kept.saved() == 1 })
}

// TestASnapshotComesBeforeAnAnswer of a provider that hangs: the token does not wait for both.
func TestASnapshotComesBeforeAnAnswer(t *testing.T) {
	g, key, kept := outage(t)
	hang := make(chan struct{})
	g.provider.answer(keysPath, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	next := g.after(t, kept, 0)
	next.keys.client.timeout = time.Minute
	next.keyTimeout = time.Minute
	next.accepts(t, key.token(g.provider.URL, nil)) // would not come back
	close(hang)
}

// TestSnapshotsKeepTheirDate: they are written again when the keys change, after a failure, and every hour, for a start
// without the provider counts from their date.
func TestSnapshotsKeepTheirDate(t *testing.T) {
	key := newSigner("k")
	p := newProvider(t, key)
	g := newGate(t, p)
	kept := newMemory()
	g.UseSnapshots(kept)
	writes := 0
	step := func(name string, wait time.Duration, written bool) {
		t.Helper()
		g.clock.Add(wait)
		g.fetchNow()
		if written {
			writes++
		}
		tokentest.Eventually(t, name, func() bool { return kept.saved() >= writes && !g.keys.snapshotCache.Load().busy() })
		if n := kept.saved(); n != writes {
			t.Errorf("%s: %d writes, not %d", name, n, writes)
		}
	}
	step("first", 0, true)
	step("soon", 59*time.Minute, false)
	step("an hour", time.Minute, true)
	p.publish(key, newSigner("next"))
	step("a new key", time.Minute, true)
	kept.setFail(errStorage)
	step("a failing storage", time.Hour, true)
	kept.setFail(nil)
	step("after the failure", time.Minute, true)
	step("soon again", time.Minute, false)
	if !g.warned(errStorage.Error()) || !strings.Contains(string(kept.kept()), g.clock.Now().Add(-time.Minute).Format(time.RFC3339)) {
		t.Errorf("warned of %q; kept %s", g.warnings, kept.kept())
	}
}

func (s *snapshotCache) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keeping
}

// TestForeignCodeThatPanics ends nobody's process.
func TestForeignCodeThatPanics(t *testing.T) {
	key := newSigner("k")
	p := newProvider(t, key)
	g := newGate(t, p)
	g.UseSnapshots(&memory{before: func(context.Context) { panic("storage") }})
	g.accepts(t, key.token(p.URL, nil))
	tokentest.Eventually(t, "both are told", func() bool { return g.warned("cannot be used: panic") && g.warned("cannot be kept") })
	err := guarded(func() error { panic(strings.Repeat("x", 1<<20)) })
	if err == nil || len(err.Error()) > 2*maxErrorText {
		t.Errorf("%.2000v", err)
	}
}
