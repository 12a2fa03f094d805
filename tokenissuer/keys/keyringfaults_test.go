package keys_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/teststore"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestK4ARunningNodeKeepsItsLastGoodKeys: a key row damaged while a node runs → the node goes on with the keys that
// it has read, warns, and makes no others in their place.
func TestK4ARunningNodeKeepsItsLastGoodKeys(t *testing.T) {
	damaged := func(private []byte) func([]store.StoredKey) ([]store.StoredKey, error) {
		return func(keys []store.StoredKey) ([]store.StoredKey, error) {
			for i := range keys {
				keys[i].Private = private
			}
			return keys, nil
		}
	}
	for _, c := range []struct {
		name     string
		change   func([]store.StoredKey) ([]store.StoredKey, error)
		fails    bool
		warnings int
	}{
		{"empty", damaged(nil), false, 2},
		{"garbage", damaged([]byte(strings.Repeat("garbage", 20))), false, 2},
		{"truncated", func(keys []store.StoredKey) ([]store.StoredKey, error) {
			keys[0].Private = keys[0].Private[:20]
			return keys, nil
		}, false, 1},
		{"sealed with what nobody has", func(keys []store.StoredKey) ([]store.StoredKey, error) {
			keys[1].SealedWith = "0123456789abcdef"
			return keys, nil
		}, false, 1},
		{"a further key that is damaged", func(keys []store.StoredKey) ([]store.StoredKey, error) {
			return append(keys, store.StoredKey{ID: "x", Algorithm: oauth.EdDSA, Private: []byte("x"), CreatedAt: tokentest.Start.Add(time.Hour)}), nil
		}, false, 1},
		{"all gone", func([]store.StoredKey) ([]store.StoredKey, error) { return nil, nil }, true, 0},
		{"only another algorithm's left", func(keys []store.StoredKey) ([]store.StoredKey, error) {
			other, err := NewSigningKey(oauth.ES256, tokentest.Start)
			if err != nil {
				return nil, err
			}
			stored, err := other.Stored(nil)
			return []store.StoredKey{stored}, err
		}, true, 0},
		{"unreadable", func([]store.StoredKey) ([]store.StoredKey, error) { return nil, errors.New("disk on fire") }, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			now, store := tokentest.Start, NewFaultyStore(t)
			n := newRing(t, store, &now)
			_, err := n.Rotate(t.Context(), oauth.EdDSA, false)
			n.must(err)
			n.refresh()
			before, signing := n.published(), n.signing()
			added := store.Asked("adding first signing key")
			store.Read = c.change
			if err := n.Refresh(t.Context()); (err != nil) != c.fails || len(n.warnings) != c.warnings {
				t.Errorf("refreshing gives %v and the warnings %v", err, n.warnings)
			}
			if got := n.published(); !maps.Equal(got, before) || n.signing() != signing {
				t.Errorf("%s signs of %v, before %s of %v", n.signing(), got, signing, before)
			}
			if store.Asked("adding first signing key") != added {
				t.Error("a fresh key was added")
			}
			store.Read = nil
			if n.refresh(); !maps.Equal(n.published(), before) {
				t.Errorf("mended, the keys are %v", n.published())
			}
		})
	}
}

func sealerOver(tb testing.TB, newest string, older ...string) *Sealer {
	tb.Helper()
	var secrets []oauth.Secret
	for _, text := range older {
		secrets = append(secrets, oauth.NewSecret(text))
	}
	sealer, err := NewSealer(sealedIssuer, oauth.NewSecret(newest), secrets...)
	if err != nil {
		tb.Fatal(err)
	}
	return sealer
}

// TestK6TheKeyEncryptionKeyChanges: the next start seals with the newest key-encryption key what an older one had
// sealed. Then the older one is useless.
func TestK6TheKeyEncryptionKeyChanges(t *testing.T) {
	now, store := tokentest.Start, teststore.New(t)
	first, both, second := sealerOf(t, firstKEK), sealerOver(t, secondKEK, firstKEK), sealerOf(t, secondKEK)
	if ids := both.IDs(); !slices.Equal(ids, []string{second.ID, first.ID}) {
		t.Fatalf("ids %v", ids)
	}
	open := func(sealer *Sealer) (*ring, *MasterKey, error) {
		if _, err := Seal(t.Context(), store.Keys, sealer, false); err != nil {
			return nil, nil, err
		}
		keys, err := LoadSigningKeys(t.Context(), store.Keys, sealer, now, oauth.EdDSA)
		if err != nil {
			return nil, nil, err
		}
		n := &ring{tb: t, clock: &now, Ring: &Ring{Store: store.Keys, Sealer: sealer, Algorithms: []oauth.Algorithm{oauth.EdDSA}, Keys: new(Set), Now: func() time.Time { return now }}}
		n.Warn = func(err error) { n.warnings = append(n.warnings, err) }
		n.must(n.Keys.Replace(keys, oauth.EdDSA))
		master, err := LoadMasterKey(t.Context(), store.Keys, sealer, now)
		return n, master, err
	}
	sealedWith := func() []string {
		t.Helper()
		stored, err := store.Keys.SigningKeys(t.Context())
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
	for _, wrong := range []*Sealer{first, nil, sealerOver(t, firstKEK, strings.Repeat("ab", 32))} {
		_, _, err := open(wrong)
		if err == nil || !strings.Contains(err.Error(), old.signing()) || !strings.Contains(err.Error(), second.ID) {
			t.Errorf("opened with another: %v", err)
		}
	}
	if _, _, err := open(second); err != nil {
		t.Errorf("with the new one alone: %v", err)
	}
	// A node without the new key-encryption key continues with its keys, and warns that it would not start again.
	if old.refresh(); len(old.warnings) != 1 || old.signing() != changed.signing() {
		t.Errorf("the old node signs with %s and warns %v", old.signing(), old.warnings)
	}
	// It cannot read the manifest, so it can change no key.
	if _, err := old.Rotate(t.Context(), oauth.EdDSA, false); !errors.Is(err, ErrRefused) {
		t.Errorf("the old node adds a key: %v", err)
	}
	if got := sealedWith(); !slices.Equal(got, []string{second.ID}) {
		t.Errorf("after that sealed with %v", got)
	}
	changed.maintain() // the nodes share one store here, which has the manifest of the last reader
	added, err := changed.Rotate(t.Context(), oauth.EdDSA, false)
	old.must(err)
	if n, _, err := open(second); err != nil || !n.published()[added.ID] {
		t.Errorf("the key that was added: %v", err)
	}
}

// TestK6ManySealAtOnce: nodes change the key-encryption key at once, in either direction. A node that has both can
// open every key afterwards.
func TestK6ManySealAtOnce(t *testing.T) {
	store := teststore.New(t)
	first, err := LoadSigningKeys(t.Context(), store.Keys, sealerOf(t, firstKEK), tokentest.Start, oauth.EdDSA)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 20 {
		for i, err := range tokentest.Together(8, func(i int) error {
			newest, older := firstKEK, secondKEK
			if (i+round)%2 == 0 {
				newest, older = older, newest
			}
			sealer := sealerOver(t, newest, older)
			if _, err := Seal(t.Context(), store.Keys, sealer, false); err != nil {
				return err
			}
			_, err := LoadSigningKeys(t.Context(), store.Keys, sealer, tokentest.Start, oauth.EdDSA)
			return err
		}) {
			if err != nil {
				t.Fatalf("round %d, node %d: %v", round, i, err)
			}
		}
	}
	keys, err := LoadSigningKeys(t.Context(), store.Keys, sealerOver(t, firstKEK, secondKEK), tokentest.Start, oauth.EdDSA)
	if err != nil || len(keys) != 1 || keys[0].ID != first[0].ID {
		t.Errorf("%v, %v", keys, err)
	}
}

// TestK9ARevokedKey: a revoked key → it verifies and signs nothing on any node, and its private part is gone for good.
func TestK9ARevokedKey(t *testing.T) {
	now, st := tokentest.Start, teststore.New(t)
	n, other := newRing(t, st.Keys, &now), newRing(t, st.Keys, &now)
	_, err := LoadMasterKey(t.Context(), st.Keys, nil, now)
	n.must(err)
	first := n.signing()
	now = now.Add(time.Second)
	second, err := n.Rotate(t.Context(), oauth.EdDSA, true)
	n.must(err)
	pending, err := n.Rotate(t.Context(), oauth.EdDSA, false)
	n.must(err)
	n.refresh()
	other.refresh()
	for _, c := range []struct {
		name, kid string
		replaced  bool
	}{
		{"yet to sign", pending.ID, false}, {"signing", second.ID, true}, {"superseded", first, false}, {"revoked already", first, false},
	} {
		now = now.Add(time.Second)
		before, signing := len(n.states()), n.signing()
		revocation, err := n.Revoke(t.Context(), c.kid)
		n.must(err)
		if revocation.Kind != store.RevokeKey || revocation.ID != c.kid || revocation.ExpiresAt.Before(now.Add(store.MaxLifetime)) || !revocation.IssuedUntil.IsZero() {
			t.Errorf("%s: the revocation is %+v", c.name, revocation)
		}
		for i, node := range []*ring{n, other} {
			node.refresh()
			if _, err := node.Keys.Find(c.kid, ""); err == nil || node.published()[c.kid] || node.signing() == c.kid {
				t.Errorf("%s: node %d still uses it", c.name, i)
			}
			if node.states()[c.kid] != StateRevoked || (node.signing() != signing) != c.replaced {
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
	stored, err := st.Keys.SigningKeys(t.Context())
	n.must(err)
	master := ""
	for _, s := range stored {
		if !s.RevokedAt.IsZero() != (len(s.Private) == 0) {
			t.Errorf("%s, revoked at %v, has %d bytes", s.ID, s.RevokedAt, len(s.Private))
		}
		if s.Algorithm != oauth.EdDSA {
			master = s.ID
		}
	}
	for _, unknown := range []string{"nobody", "", master} {
		if _, err := n.Revoke(t.Context(), unknown); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("revoking %q: %v", unknown, err)
		}
	}
	if _, err := LoadMasterKey(t.Context(), st.Keys, nil, now); err != nil || master == "" {
		t.Errorf("the master key %q: %v", master, err)
	}
	// A restarted node knows the same revoked keys as a running one. Their marks are dropped when no token of theirs
	// can be left.
	if again := newRing(t, st.Keys, &now); again.signing() != n.signing() || len(again.published()) != 1 {
		t.Errorf("a new node signs with %s of %v", again.signing(), again.published())
	}
	if done := n.maintain(); len(done.Dropped) > 0 {
		t.Errorf("dropped %v", done.Dropped)
	}
	now = now.Add(store.MaxLifetime + day + time.Second)
	n.Rotation = 0
	if done := n.maintain(); len(done.Dropped) != 3 || len(n.states()) != 1 {
		t.Errorf("dropped %v, left %v", done.Dropped, n.states())
	}
}

// TestF17AClockAheadDropsNoKey: the shared clock jumps ahead by weeks while the tokens of a key are still valid by
// this node's clock. The key is dropped when both clocks say so.
func TestF17AClockAheadDropsNoKey(t *testing.T) {
	now, st := tokentest.Start, teststore.New(t)
	n := newRing(t, st.Keys, &now)
	_, err := n.Rotate(t.Context(), oauth.EdDSA, true)
	n.must(err)
	n.Rotation = 0
	ahead := store.MaxLifetime + 2*day
	n.Earliest = func() time.Time { return now.Add(-ahead) }
	now = now.Add(ahead)
	if done := n.maintain(); len(done.Dropped) > 0 {
		t.Errorf("dropped %v", done.Dropped)
	}
	now = now.Add(ahead)
	if done := n.maintain(); len(done.Dropped) != 1 {
		t.Errorf("dropped %v when both clocks say so", done.Dropped)
	}
}

// TestK9TheLastKeyOfANodesAlgorithm: a node that signs with another algorithm may revoke it. The first node makes
// itself a new one.
func TestK9TheLastKeyOfANodesAlgorithm(t *testing.T) {
	now, store := tokentest.Start, teststore.New(t)
	n := newRing(t, store.Keys, &now)
	first := n.signing()
	other := &Ring{Store: store.Keys, Algorithms: []oauth.Algorithm{oauth.ES256}, Keys: new(Set), Now: n.Now}
	_, err := other.Revoke(t.Context(), first)
	n.must(err)
	n.refresh()
	if kid := n.signing(); kid == first || !n.published()[kid] || n.published()[first] {
		t.Errorf("%s signs of %v", kid, n.published())
	}
}

// TestKeyStepsThatFail: a step that returns an error has changed nothing and can be tried again.
func TestKeyStepsThatFail(t *testing.T) {
	for _, step := range []string{"SigningKeys", "adding signing key", "revoking signing key", "dropping signing key", "replacing signing keys"} {
		now, st := tokentest.Start, NewFaultyStore(t)
		n := newRing(t, st, &now)
		now = now.Add(time.Second)
		second, err := n.Rotate(t.Context(), oauth.EdDSA, true)
		n.must(err)
		n.Rotation = 0
		n.Sealer = sealerOf(t, secondKEK)
		_, err = Seal(t.Context(), st, n.Sealer, false)
		n.must(err)
		n.Sealer = sealerOver(t, firstKEK, secondKEK)
		now = now.Add(2*store.MaxLifetime + day)
		st.Fail(step)
		_, kept := n.Maintain(t.Context())
		_, rotated := n.Rotate(t.Context(), oauth.EdDSA, true)
		_, revoked := n.Revoke(t.Context(), second.ID)
		for name, got := range map[string]struct {
			err   error
			wants bool
		}{
			"rotate": {rotated, step == "adding signing key"}, "revoke": {revoked, step == "SigningKeys" || step == "adding signing key" || step == "revoking signing key"},
			"maintain": {kept, step == "SigningKeys" || step == "replacing signing keys" || step == "dropping signing key"},
		} {
			var e *oauth.Error
			if (got.err != nil) != got.wants || got.wants && (!errors.As(got.err, &e) || e.Code != oauth.TemporarilyUnavailable) {
				t.Errorf("%s fails: %s gives %v", step, name, got.err)
			}
		}
		st.Fail("")
		if got := n.states()[second.ID] == StateRevoked; got != (revoked == nil) {
			t.Errorf("%s fails: the key is revoked: %t, and the answer was %v", step, got, revoked)
		}
	}
}
