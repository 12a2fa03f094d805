package fetch

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/issuertest"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// outage is an issuer whose keys were seen, and kept, before its provider went away.
func outage(t *testing.T, edits ...func(*Source)) (g *gate, key *issuertest.Signer, kept *memory) {
	t.Helper()
	key, kept = issuertest.NewSigner("k"), newMemory()
	p := issuertest.NewProvider(t, key)
	g = newGate(t, p, edits...)
	g.UseSnapshots(kept)
	g.fetchNow()
	tokentest.Eventually(t, "the keys are kept", func() bool { return kept.saved() == 1 })
	p.Answer(issuertest.KeysPath, issuertest.Broken)
	return g, key, kept
}

// after is a process that starts later, with the same settings and storage.
func (g *gate) after(t *testing.T, kept Snapshots, wait time.Duration) *gate {
	t.Helper()
	next := newGate(t, g.provider, func(s *Source) { *s = g.server.source })
	next.clock.Add(g.clock.Now().Sub(issuertest.Start) + wait)
	next.UseSnapshots(kept)
	return next
}

// TestG89AKeyThatNobodySaw is no reason to throw a token away: the provider may have made it while we could not ask.
func TestG89AKeyThatNobodySaw(t *testing.T) {
	g, key, _ := outage(t)
	next := issuertest.NewSigner("next")
	g.refuses(t, next, oauth.TemporarilyUnavailable, reasonStale)
	g.refuses(t, next, oauth.TemporarilyUnavailable, reasonStale) // in the cool-down
	g.provider.Publish(key)
	g.fetchNow()
	g.refuses(t, next, oauth.InvalidToken, reasonUnknown)
}

// TestG89AColdStartWithASnapshot serves the keys that were kept, and stands by their date.
func TestG89AColdStartWithASnapshot(t *testing.T) {
	g, key, kept := outage(t)
	token := key
	for _, wait := range []time.Duration{0, time.Hour, defaultMaxStale} {
		next := g.after(t, kept, wait)
		next.accepts(t, token)
		next.refuses(t, issuertest.NewSigner("next"), oauth.TemporarilyUnavailable, reasonStale)
	}
	g.after(t, kept, defaultMaxStale+time.Second).refuses(t, token, oauth.TemporarilyUnavailable, reasonStale)
	ctx, stop := context.WithCancel(t.Context())
	next := g.after(t, kept, 0)
	ended := make(chan struct{})
	go func() { defer close(ended); next.Run(ctx) }()
	tokentest.Eventually(t, "ready without a request", func() bool { return next.Usable() == nil })
	stop()
	<-ended
}

// TestG89AProviderThatFlaps, with all the ways to be down: whatever it does, a known key is served, and a failure is over
// with the next good answer.
func TestG89AProviderThatFlaps(t *testing.T) {
	key := issuertest.NewSigner("k")
	p := issuertest.NewProvider(t, key)
	g := newGate(t, p)
	g.accepts(t, key)
	generation := g.Generation()
	hangUp := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for _, answer := range []http.HandlerFunc{issuertest.Broken, issuertest.Text(issuertest.JWKS(key.JWK())), hangUp, issuertest.Text("{}"), issuertest.Text(issuertest.JWKS(key.JWK())), http.NotFound, issuertest.Text(issuertest.JWKS(key.JWK()))} {
		p.Answer(issuertest.KeysPath, answer)
		g.fetchNow()
		g.accepts(t, key)
	}
	g.refuses(t, issuertest.NewSigner("x"), oauth.InvalidToken, reasonUnknown)
	if g.Generation() != generation {
		t.Error("the keys changed")
	}
}

// TestASnapshotIsBelievedNoMoreThanAnAnswer.
func TestASnapshotIsBelievedNoMoreThanAnAnswer(t *testing.T) {
	g, key, kept := outage(t)
	good := string(kept.kept())
	token := key
	at := issuertest.Start.Format(time.RFC3339)
	if !strings.Contains(good, at) {
		t.Fatalf("kept: %s", good)
	}
	for name, data := range map[string]string{
		"empty": "", "garbage": "\x00", "half": good[:len(good)/2], "something after": good + "{}", "another shape": `[` + good + `]`,
		"another issuer":  strings.Replace(good, `"issuer":"`+g.provider.URL, `"issuer":"https://another.example`, 1),
		"another place":   strings.Replace(good, `"jwks_uri":"`+g.provider.URL, `"jwks_uri":"https://another.example`, 1),
		"the future":      strings.Replace(good, at, issuertest.Start.Add(time.Hour).Format(time.RFC3339), 1),
		"no date":         strings.Replace(good, `"fetched_at":"`+at+`"`, `"fetched_at":null`, 1),
		"a symmetric key": strings.Replace(good, `[{`, `[{"kty":"oct","k":"AA"},{`, 1),
		"no keys":         strings.Replace(good, key.JWK(), "", 1),
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
	kept.replace([]byte(strings.Replace(good, at, issuertest.Start.Add(clockSkew).Format(time.RFC3339), 1)))
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
	key := issuertest.NewSigner("k")
	p := issuertest.NewProvider(t, key)
	g := newGate(t, p)
	free := make(chan struct{})
	defer close(free)
	g.UseSnapshots(&memory{before: func(context.Context) { <-free }})
	g.accepts(t, key) // would not come back
	g.fetchNow()
	g.accepts(t, key)
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
	g.provider.Answer(issuertest.KeysPath, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	next := g.after(t, kept, 0)
	next.accepts(t, key) // would not come back
	close(hang)
}

// TestSnapshotsKeepTheirDate: they are written again when the keys change, after a failure, and every hour, for a start
// without the provider counts from their date.
func TestSnapshotsKeepTheirDate(t *testing.T) {
	key := issuertest.NewSigner("k")
	p := issuertest.NewProvider(t, key)
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
		tokentest.Eventually(t, name, func() bool { return kept.saved() >= writes && !g.snapshots.Load().busy() })
		if n := kept.saved(); n != writes {
			t.Errorf("%s: %d writes, not %d", name, n, writes)
		}
	}
	step("first", 0, true)
	step("soon", 59*time.Minute, false)
	step("an hour", time.Minute, true)
	p.Publish(key, issuertest.NewSigner("next"))
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

// TestForeignCodeThatPanics does not end the process.
func TestForeignCodeThatPanics(t *testing.T) {
	key := issuertest.NewSigner("k")
	p := issuertest.NewProvider(t, key)
	g := newGate(t, p)
	g.UseSnapshots(&memory{before: func(context.Context) { panic("storage") }})
	g.accepts(t, key)
	tokentest.Eventually(t, "both are told", func() bool { return g.warned("cannot be used: panic") && g.warned("cannot be kept") })
	err := Guard(func() error { panic(strings.Repeat("x", 1<<20)) })
	if err == nil || len(err.Error()) > 2*maxErrorText {
		t.Errorf("%.2000v", err)
	}
}

// memory keeps snapshots as a test wants.
type memory struct {
	mu     sync.Mutex
	data   map[string][]byte
	saves  int
	fail   error
	before func(ctx context.Context) // runs before everything
}

func newMemory() *memory { return &memory{data: make(map[string][]byte)} }

func (m *memory) Load(ctx context.Context, name string) ([]byte, error) {
	if m.before != nil {
		m.before(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if data, ok := m.data[name]; ok || m.fail != nil {
		return data, m.fail
	}
	return nil, fs.ErrNotExist
}

func (m *memory) Save(ctx context.Context, name string, data []byte) error {
	if m.before != nil {
		m.before(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.saves++
	if m.fail == nil {
		m.data[name] = bytes.Clone(data)
	}
	return m.fail
}

func (m *memory) saved() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.saves
}

// kept returns the only snapshot.
func (m *memory) kept() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, data := range m.data {
		return data
	}
	return nil
}

func (m *memory) replace(data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.data {
		m.data[name] = data
	}
}

func (m *memory) setFail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

var errStorage = errors.New("the storage is away")
