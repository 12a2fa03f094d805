package tokenissuer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/memstore"
)

// ring is a KeyRing of a node that has just started, with a clock that the test moves.
type ring struct {
	*KeyRing
	tb       testing.TB
	clock    *time.Time
	warnings []error
}

func newRing(tb testing.TB, store KeyStore, clock *time.Time) *ring {
	tb.Helper()
	n := &ring{tb: tb, clock: clock}
	n.KeyRing = &KeyRing{
		Store: store, Algorithm: EdDSA, Keys: new(KeySet), Rotation: 90 * day, Now: func() time.Time { return *clock },
		Warn: func(err error) { n.warnings = append(n.warnings, err) },
	}
	n.start()
	return n
}

// start loads the keys as an opening does.
func (n *ring) start() {
	n.tb.Helper()
	keys, err := LoadSigningKeys(n.tb.Context(), n.Store, n.Sealer, n.Algorithm, n.Now())
	n.must(err)
	n.must(n.Keys.Replace(keys, n.Algorithm))
}

func (n *ring) must(err error) {
	n.tb.Helper()
	if err != nil {
		n.tb.Fatal(err)
	}
}

func (n *ring) signing() string {
	n.tb.Helper()
	key, err := n.Keys.Signing(n.Now())
	n.must(err)
	return key.ID
}

func (n *ring) maintain() Upkeep {
	n.tb.Helper()
	done, err := n.Maintain(n.tb.Context())
	n.must(err)
	return done
}

func (n *ring) refresh() {
	n.tb.Helper()
	n.must(n.Refresh(n.tb.Context()))
}

// published lists the kids of the JWK Set.
func (n *ring) published() map[string]bool {
	n.tb.Helper()
	set, err := n.Keys.JWKS()
	n.must(err)
	keys, err := ParseJWKS(set)
	n.must(err)
	kids := make(map[string]bool)
	for _, key := range keys {
		kids[key.ID] = true
	}
	return kids
}

func (n *ring) states() map[string]KeyState {
	n.tb.Helper()
	stored, err := n.List(n.tb.Context())
	n.must(err)
	states := make(map[string]KeyState)
	for _, k := range stored {
		if states[k.ID] = n.StateOf(k); len(k.Private) > 0 {
			n.tb.Errorf("the list holds the private part of %s", k.ID)
		}
	}
	return states
}

// TestK1TenRotationsOnSchedule goes through two and a half years hour by hour, on two nodes. A key is published everywhere for a
// day before it signs anywhere; every token verifies everywhere for as long as the longest can live; keys that nobody
// needs are dropped.
func TestK1TenRotationsOnSchedule(t *testing.T) {
	const longest, years = MaxLifetime, 10*90*day + 20*day
	now, store := flowStart, memstore.New()
	nodes := []*ring{newRing(t, store, &now), newRing(t, store, &now)}
	seen := []map[string]time.Time{{}, {}} // since when a node publishes a kid
	versions := []int64{-1, -1}
	signed := map[string]time.Time{} // when a kid signed last
	var signers []string
	for hour := 0; now.Before(flowStart.Add(years)); hour++ {
		done := nodes[hour%2].maintain()
		for _, kid := range done.Dropped {
			if kept := now.Sub(signed[kid]); kept < longest {
				t.Fatalf("%s was dropped %s after it signed", kid, kept)
			}
			delete(signed, kid)
		}
		for i, n := range nodes {
			version, err := store.KeysVersion(t.Context())
			n.must(err)
			if version != versions[i] {
				versions[i] = version
				n.refresh()
				published := n.published()
				if len(published) > 3 {
					t.Fatalf("%d keys are published", len(published))
				}
				for kid := range published {
					if _, known := seen[i][kid]; !known {
						seen[i][kid] = now
					}
				}
			}
			kid := n.signing()
			if !slices.Contains(signers, kid) {
				signers = append(signers, kid)
			}
			signed[kid] = now
		}
		for i, n := range nodes {
			for kid := range signed {
				if _, err := n.Keys.Find(kid); err != nil {
					t.Fatalf("after %s node %d cannot verify %s: %v", now.Sub(flowStart), i, kid, err)
				}
				if first := seen[i][kid]; first.After(now.Add(-day)) && kid == signers[len(signers)-1] && len(signers) > 1 {
					t.Fatalf("%s signs, and node %d publishes it since %s", kid, i, now.Sub(first))
				}
			}
		}
		now = now.Add(time.Hour)
	}
	if len(signers) != 11 {
		t.Errorf("%d keys have signed, want 11", len(signers))
	}
}

// TestK1Schedule: the lead is a tenth of the rotation, and never less than ten minutes nor more than a day.
func TestK1Schedule(t *testing.T) {
	for _, c := range []struct {
		name                   string
		rotation, publish, lag time.Duration
	}{
		{"default", 90 * day, 89 * day, day},
		{"shortest", LeastRotation, 50 * time.Minute, 10 * time.Minute},
		{"one day", day, day * 9 / 10, day / 10},
		{"after a long standstill", 90 * day, 400 * day, day},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := flowStart
			n := newRing(t, memstore.New(), &now)
			n.Rotation = c.rotation
			first := n.signing()
			if c.name != "after a long standstill" {
				now = flowStart.Add(c.publish - time.Second)
				if done := n.maintain(); done.Published != nil {
					t.Fatalf("a key was published early, after %s", now.Sub(flowStart))
				}
			}
			now = flowStart.Add(c.publish)
			done := n.maintain()
			if done.Published == nil || done.Published.ActiveFrom != now.Add(c.lag) || len(done.Published.Private) > 0 {
				t.Fatalf("published %+v", done.Published)
			}
			if again := n.maintain(); again.Published != nil {
				t.Fatal("a second key was published")
			}
			n.refresh()
			now = now.Add(c.lag - time.Second)
			if n.signing() != first || n.states()[done.Published.ID] != KeyPublished {
				t.Errorf("%s signs early: %v", n.signing(), n.states())
			}
			now = now.Add(time.Second)
			if n.signing() != done.Published.ID || n.states()[first] != KeySuperseded || n.states()[done.Published.ID] != KeySigning {
				t.Errorf("%s signs: %v", n.signing(), n.states())
			}
		})
	}
	now := flowStart
	off := newRing(t, memstore.New(), &now)
	off.Rotation = 0
	if now = flowStart.Add(1000 * day); off.maintain().Published != nil {
		t.Error("a key was published, and rotation is off")
	}
}

// TestK1RotatedByHand: published, and in use ten minutes later; or at once.
func TestK1RotatedByHand(t *testing.T) {
	now := flowStart
	n := newRing(t, memstore.New(), &now)
	first := n.signing()
	now = now.Add(time.Second)
	next, err := n.Rotate(t.Context(), false)
	n.must(err)
	n.refresh()
	if !n.published()[next.ID] || n.signing() != first {
		t.Errorf("published %v, %s signs", n.published(), n.signing())
	}
	urgent, err := n.Rotate(t.Context(), true)
	n.must(err)
	n.refresh()
	if n.signing() != urgent.ID {
		t.Errorf("%s signs, want %s", n.signing(), urgent.ID)
	}
	if now = now.Add(KeyLead); n.signing() != next.ID {
		t.Errorf("%s signs, want %s", n.signing(), next.ID)
	}
	// A clock that was set back finds the keys of that time, and before all of them the first.
	if now = flowStart.Add(time.Minute); n.signing() != urgent.ID {
		t.Errorf("a minute after the start %s signs, want %s", n.signing(), urgent.ID)
	}
	if now = flowStart.Add(-day); n.signing() != first {
		t.Errorf("before the start %s signs, want %s", n.signing(), first)
	}
}

// TestK1AnotherAlgorithmIsPublishedFirst: the keys of the one before sign until everybody can know the new one.
func TestK1AnotherAlgorithmIsPublishedFirst(t *testing.T) {
	now, store := flowStart, memstore.New()
	n := newRing(t, store, &now)
	first := n.signing()
	now = now.Add(day)
	n.Algorithm = ES256
	n.start()
	if n.signing() != first || len(n.published()) != 2 {
		t.Errorf("%s signs, published %v", n.signing(), n.published())
	}
	now = now.Add(KeyLead)
	if key, err := n.Keys.Signing(now); err != nil || key.Algorithm != ES256 {
		t.Errorf("%v signs, %v", key, err)
	}
	// Some node may still be configured for the other one: its last key stays.
	now = now.Add(1000 * day)
	n.Rotation = 0
	if done := n.maintain(); len(done.Dropped) > 0 {
		t.Errorf("dropped %v", done.Dropped)
	}
}

// meeting is a KeyStore whose readers wait for each other, as often as there are rounds.
type meeting struct {
	KeyStore
	mu      sync.Mutex
	missing int
	all     chan struct{}
}

func (s *meeting) SigningKeys(ctx context.Context) ([]StoredKey, error) {
	keys, err := s.KeyStore.SigningKeys(ctx)
	s.mu.Lock()
	if s.missing--; s.missing == 0 {
		close(s.all)
	}
	s.mu.Unlock()
	<-s.all
	return keys, err
}

// TestK2TwoNodesRotateAtOnce: each publishes a key. All nodes agree on the one that signs, every one verifies, and the next
// rotation is the last one's. Nobody holds a lock, so that there is none to lose.
func TestK2TwoNodesRotateAtOnce(t *testing.T) {
	const n = 4
	now, store := flowStart, memstore.New()
	nodes := make([]*ring, n)
	for i := range nodes {
		nodes[i] = newRing(t, store, &now)
	}
	first := nodes[0].signing()
	now = flowStart.Add(89 * day)
	meet := &meeting{KeyStore: store, missing: n, all: make(chan struct{})}
	published := make([]string, n)
	for _, err := range together(n, func(i int) error {
		nodes[i].Store = meet
		done, err := nodes[i].Maintain(t.Context())
		if err == nil {
			published[i] = done.Published.ID
		}
		nodes[i].Store = store
		return err
	}) {
		nodes[0].must(err)
	}
	if distinct := slices.Compact(slices.Sorted(slices.Values(published))); len(distinct) != n {
		t.Fatalf("published %v", distinct)
	}
	for i, node := range nodes {
		if done := node.maintain(); done.Published != nil {
			t.Errorf("node %d published another one", i)
		}
		node.refresh()
		if node.signing() != first {
			t.Errorf("node %d signs with %s", i, node.signing())
		}
	}
	now = now.Add(day)
	winner := slices.Max(published)
	for i, node := range nodes {
		if node.signing() != winner {
			t.Errorf("node %d signs with %s, want %s", i, node.signing(), winner)
		}
		for _, kid := range append(published, first) {
			if _, err := node.Keys.Find(kid); err != nil {
				t.Errorf("node %d does not verify %s", i, kid)
			}
		}
	}
	// The losers have never signed, and leave with the first.
	now = now.Add(MaxLifetime + day + time.Second)
	dropped := nodes[0].maintain().Dropped
	want := slices.DeleteFunc(append(published, first), func(kid string) bool { return kid == winner })
	if slices.Sort(dropped); !slices.Equal(dropped, slices.Sorted(slices.Values(want))) {
		t.Errorf("dropped %v, want %v", dropped, want)
	}
}

// oddKeys is a KeyStore whose rows a test changes as a damaged disk or a careless hand would.
type oddKeys struct {
	KeyStore
	change func([]StoredKey) ([]StoredKey, error)
	added  int
}

func (s *oddKeys) SigningKeys(ctx context.Context) ([]StoredKey, error) {
	keys, err := s.KeyStore.SigningKeys(ctx)
	if err == nil && s.change != nil {
		keys, err = s.change(keys)
	}
	return keys, err
}

func (s *oddKeys) AddFirstSigningKey(ctx context.Context, key StoredKey) error {
	s.added++
	return s.KeyStore.AddFirstSigningKey(ctx, key)
}

// TestK4ARunningNodeKeepsItsLastGoodKeys whatever becomes of the stored ones, and never mints others in their place.
func TestK4ARunningNodeKeepsItsLastGoodKeys(t *testing.T) {
	damaged := func(private []byte) func([]StoredKey) ([]StoredKey, error) {
		return func(keys []StoredKey) ([]StoredKey, error) {
			for i := range keys {
				keys[i].Private = private
			}
			return keys, nil
		}
	}
	for _, c := range []struct {
		name     string
		change   func([]StoredKey) ([]StoredKey, error)
		fails    bool
		warnings int
	}{
		{"empty", damaged(nil), false, 2},
		{"garbage", damaged([]byte(strings.Repeat("garbage", 20))), false, 2},
		{"truncated", func(keys []StoredKey) ([]StoredKey, error) {
			keys[0].Private = keys[0].Private[:20]
			return keys, nil
		}, false, 1},
		{"sealed with what nobody has", func(keys []StoredKey) ([]StoredKey, error) {
			keys[1].SealedWith = "0123456789abcdef"
			return keys, nil
		}, false, 1},
		{"a further key that is damaged", func(keys []StoredKey) ([]StoredKey, error) {
			return append(keys, StoredKey{ID: "x", Algorithm: EdDSA, Private: []byte("x"), CreatedAt: flowStart.Add(time.Hour)}), nil
		}, false, 1},
		{"all gone", func([]StoredKey) ([]StoredKey, error) { return nil, nil }, true, 0},
		{"only another algorithm's left", func(keys []StoredKey) ([]StoredKey, error) {
			other, err := NewSigningKey(ES256, flowStart)
			if err != nil {
				return nil, err
			}
			stored, err := other.Stored(nil)
			return []StoredKey{stored}, err
		}, true, 0},
		{"unreadable", func([]StoredKey) ([]StoredKey, error) { return nil, errors.New("disk on fire") }, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			now, store := flowStart, &oddKeys{KeyStore: memstore.New()}
			n := newRing(t, store, &now)
			_, err := n.Rotate(t.Context(), false)
			n.must(err)
			n.refresh()
			before, signing := n.published(), n.signing()
			store.change, store.added = c.change, 0
			if err := n.Refresh(t.Context()); (err != nil) != c.fails || len(n.warnings) != c.warnings {
				t.Errorf("refreshing gives %v and the warnings %v", err, n.warnings)
			}
			if got := n.published(); !maps.Equal(got, before) || n.signing() != signing {
				t.Errorf("%s signs of %v, before %s of %v", n.signing(), got, signing, before)
			}
			if store.added > 0 {
				t.Error("a fresh key was added")
			}
			store.change = nil
			if n.refresh(); !maps.Equal(n.published(), before) {
				t.Errorf("mended, the keys are %v", n.published())
			}
		})
	}
}

func sealerOver(tb testing.TB, newest string, older ...string) *KeySealer {
	tb.Helper()
	var secrets []Secret
	for _, text := range older {
		secrets = append(secrets, NewSecret(text))
	}
	sealer, err := NewKeySealer(NewSecret(newest), secrets...)
	if err != nil {
		tb.Fatal(err)
	}
	return sealer
}

// TestK6TheKeyEncryptionKeyChanges: what was sealed under an older one is sealed under the newest by the next start, and
// then the older is of no use any more.
func TestK6TheKeyEncryptionKeyChanges(t *testing.T) {
	now, store := flowStart, memstore.New()
	first, both, second := sealerOf(t, firstKEK), sealerOver(t, secondKEK, firstKEK), sealerOf(t, secondKEK)
	if ids := both.IDs(); !slices.Equal(ids, []string{second.ID, first.ID}) {
		t.Fatalf("ids %v", ids)
	}
	open := func(sealer *KeySealer) (*ring, *MasterKey, error) {
		keys, err := LoadSigningKeys(t.Context(), store, sealer, EdDSA, now)
		if err != nil {
			return nil, nil, err
		}
		n := &ring{tb: t, clock: &now, KeyRing: &KeyRing{Store: store, Sealer: sealer, Algorithm: EdDSA, Keys: new(KeySet), Now: func() time.Time { return now }}}
		n.Warn = func(err error) { n.warnings = append(n.warnings, err) }
		n.must(n.Keys.Replace(keys, EdDSA))
		master, err := LoadMasterKey(t.Context(), store, sealer, now)
		return n, master, err
	}
	sealedWith := func() []string {
		t.Helper()
		stored, err := store.SigningKeys(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, s := range stored {
			ids = append(ids, s.SealedWith)
		}
		slices.Sort(ids)
		return slices.Compact(ids)
	}
	old, oldMaster, err := open(first)
	if err != nil || !slices.Equal(sealedWith(), []string{first.ID}) {
		t.Fatalf("%v, sealed with %v", err, sealedWith())
	}
	changed, master, err := open(both)
	if err != nil || changed.signing() != old.signing() || !sameMaster(t, master, oldMaster) {
		t.Fatalf("with the new one before the old: %v", err)
	}
	if got := sealedWith(); !slices.Equal(got, []string{second.ID}) {
		t.Errorf("sealed with %v, want %s", got, second.ID)
	}
	for _, wrong := range []*KeySealer{first, nil, sealerOver(t, firstKEK, strings.Repeat("ab", 32))} {
		_, _, err := open(wrong)
		if err == nil || !strings.Contains(err.Error(), old.signing()) || !strings.Contains(err.Error(), second.ID) {
			t.Errorf("opened with another: %v", err)
		}
	}
	if _, _, err := open(second); err != nil {
		t.Errorf("with the new one alone: %v", err)
	}
	// A node that was not told goes on with what it has, and says that it would not start again.
	if old.refresh(); len(old.warnings) != 1 || old.signing() != changed.signing() {
		t.Errorf("the old node signs with %s and warns %v", old.signing(), old.warnings)
	}
	// What a node that seals with the old one adds meanwhile is sealed again by the housekeeping of one that knows both.
	added, err := old.Rotate(t.Context(), false)
	old.must(err)
	if got := sealedWith(); len(got) != 2 {
		t.Fatalf("sealed with %v", got)
	}
	changed.maintain()
	if got := sealedWith(); !slices.Equal(got, []string{second.ID}) {
		t.Errorf("after the housekeeping sealed with %v", got)
	}
	if n, _, err := open(second); err != nil || !n.published()[added.ID] {
		t.Errorf("the key that was added: %v", err)
	}
}

// TestK6ManySealAtOnce: nodes that change the key-encryption key at once, in either direction, leave every key such that
// a node that knows both can open it.
func TestK6ManySealAtOnce(t *testing.T) {
	store := memstore.New()
	first, err := LoadSigningKeys(t.Context(), store, sealerOf(t, firstKEK), EdDSA, flowStart)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 20 {
		for i, err := range together(8, func(i int) error {
			newest, older := firstKEK, secondKEK
			if (i+round)%2 == 0 {
				newest, older = older, newest
			}
			_, err := LoadSigningKeys(t.Context(), store, sealerOver(t, newest, older), EdDSA, flowStart)
			return err
		}) {
			if err != nil {
				t.Fatalf("round %d, node %d: %v", round, i, err)
			}
		}
	}
	keys, err := LoadSigningKeys(t.Context(), store, sealerOver(t, firstKEK, secondKEK), EdDSA, flowStart)
	if err != nil || len(keys) != 1 || keys[0].ID != first[0].ID {
		t.Errorf("%v, %v", keys, err)
	}
}

// TestK9ARevokedKey verifies and signs nothing any more, on any node; its private part is gone for good.
func TestK9ARevokedKey(t *testing.T) {
	now, store := flowStart, memstore.New()
	n, other := newRing(t, store, &now), newRing(t, store, &now)
	_, err := LoadMasterKey(t.Context(), store, nil, now)
	n.must(err)
	first := n.signing()
	second, err := n.Rotate(t.Context(), true)
	n.must(err)
	pending, err := n.Rotate(t.Context(), false)
	n.must(err)
	n.refresh()
	other.refresh()
	for _, c := range []struct {
		name, kid string
		replaced  bool
	}{
		{"superseded", first, false}, {"yet to sign", pending.ID, false}, {"signing", second.ID, true}, {"revoked already", first, false},
	} {
		before, signing := len(n.states()), n.signing()
		revocation, err := n.Revoke(t.Context(), c.kid)
		n.must(err)
		if revocation.Kind != RevokeKey || revocation.ID != c.kid || revocation.ExpiresAt.Before(now.Add(MaxLifetime)) || !revocation.IssuedUntil.IsZero() {
			t.Errorf("%s: the revocation is %+v", c.name, revocation)
		}
		for i, node := range []*ring{n, other} {
			node.refresh()
			if _, err := node.Keys.Find(c.kid); err == nil || node.published()[c.kid] || node.signing() == c.kid {
				t.Errorf("%s: node %d still uses it", c.name, i)
			}
			if node.states()[c.kid] != KeyRevoked || (node.signing() != signing) != c.replaced {
				t.Errorf("%s: node %d has %v and signs with %s, before with %s", c.name, i, node.states(), node.signing(), signing)
			}
		}
		if added := len(n.states()) - before; (added == 1) != c.replaced || added > 1 {
			t.Errorf("%s: %d keys were added", c.name, added)
		}
	}
	if n.signing() != other.signing() {
		t.Error("the nodes do not agree")
	}
	stored, err := store.SigningKeys(t.Context())
	n.must(err)
	master := ""
	for _, s := range stored {
		if !s.RevokedAt.IsZero() != (len(s.Private) == 0) {
			t.Errorf("%s, revoked at %v, has %d bytes", s.ID, s.RevokedAt, len(s.Private))
		}
		if s.Algorithm != EdDSA {
			master = s.ID
		}
	}
	for _, unknown := range []string{"nobody", "", master} {
		if _, err := n.Revoke(t.Context(), unknown); !errors.Is(err, ErrNotFound) {
			t.Errorf("revoking %q: %v", unknown, err)
		}
	}
	if _, err := LoadMasterKey(t.Context(), store, nil, now); err != nil || master == "" {
		t.Errorf("the master key %q: %v", master, err)
	}
	// A restart knows no more of them than a running node, and their marks leave when no token can be left.
	if again := newRing(t, store, &now); again.signing() != n.signing() || len(again.published()) != 1 {
		t.Errorf("a new node signs with %s of %v", again.signing(), again.published())
	}
	if done := n.maintain(); len(done.Dropped) > 0 {
		t.Errorf("dropped %v", done.Dropped)
	}
	now = now.Add(MaxLifetime + day + time.Second)
	n.Rotation = 0
	if done := n.maintain(); len(done.Dropped) != 3 || len(n.states()) != 1 {
		t.Errorf("dropped %v, left %v", done.Dropped, n.states())
	}
}

// TestK9TheLastKeyOfANodesAlgorithm may be revoked by a node that signs with another one. The first makes itself a new one.
func TestK9TheLastKeyOfANodesAlgorithm(t *testing.T) {
	now, store := flowStart, memstore.New()
	n := newRing(t, store, &now)
	first := n.signing()
	other := &KeyRing{Store: store, Algorithm: ES256, Keys: new(KeySet), Now: n.Now}
	_, err := other.Revoke(t.Context(), first)
	n.must(err)
	n.refresh()
	if kid := n.signing(); kid == first || !n.published()[kid] || n.published()[first] {
		t.Errorf("%s signs of %v", kid, n.published())
	}
}

// TestKeyStepsThatFail: who is told that nothing happened can try again.
func TestKeyStepsThatFail(t *testing.T) {
	for _, step := range []string{"SigningKeys", "AddSigningKey", "RevokeSigningKey", "DropSigningKey", "SealSigningKey"} {
		now, store := flowStart, &faultyStore{Store: memstore.New()}
		n := newRing(t, store, &now)
		now = now.Add(time.Second)
		second, err := n.Rotate(t.Context(), true)
		n.must(err)
		n.Rotation = 0
		n.Sealer = sealerOf(t, firstKEK)
		now = now.Add(2*MaxLifetime + day)
		store.fail(step, false)
		_, kept := n.Maintain(t.Context())
		_, rotated := n.Rotate(t.Context(), true)
		_, revoked := n.Revoke(t.Context(), second.ID)
		for name, got := range map[string]struct {
			err   error
			wants bool
		}{
			"rotate": {rotated, step == "AddSigningKey"}, "revoke": {revoked, step == "SigningKeys" || step == "AddSigningKey" || step == "RevokeSigningKey"},
			"maintain": {kept, step == "SigningKeys" || step == "SealSigningKey" || step == "DropSigningKey"},
		} {
			var e *Error
			if (got.err != nil) != got.wants || got.wants && (!errors.As(got.err, &e) || e.Code != TemporarilyUnavailable) {
				t.Errorf("%s fails: %s gives %v", step, name, got.err)
			}
		}
		store.fail("", false)
		if got := n.states()[second.ID] == KeyRevoked; got != (revoked == nil) {
			t.Errorf("%s fails: the key is revoked: %t, and the answer was %v", step, got, revoked)
		}
	}
}

// TestSigningCostsNothing: it is asked for every token.
func TestSigningCostsNothing(t *testing.T) {
	now := flowStart
	n := newRing(t, memstore.New(), &now)
	for range 5 {
		_, err := n.Rotate(t.Context(), false)
		n.must(err)
	}
	n.refresh()
	if allocations := testing.AllocsPerRun(100, func() {
		if _, err := n.Keys.Signing(now); err != nil {
			panic(fmt.Sprint("no key signs: ", err))
		}
	}); allocations > 0 {
		t.Errorf("%v allocations", allocations)
	}
}
