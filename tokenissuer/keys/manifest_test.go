package keys_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// all returns every row, including the manifest.
func (s *keyShelf) all() []store.StoredKey {
	s.tb.Helper()
	rows, err := s.SigningKeys(s.tb.Context())
	if err != nil {
		s.tb.Fatal(err)
	}
	return rows
}

// TestV9ARowThatWasKept: the row of a revoked key is put back. No ring loads it, no change of the keys lists it
// again, and a new key-encryption key does not seal it.
func TestV9ARowThatWasKept(t *testing.T) {
	both := sealerOver(t, secondKEK, firstKEK)
	for name, c := range map[string]struct {
		// change writes to the store as an attacker would.
		change func(s *keyShelf, kept []store.StoredKey)
		// isOld reports whether the whole set is refused.
		isOld bool
	}{
		"the row": {func(s *keyShelf, kept []store.StoredKey) { s.put(signingOf(withoutManifest(slices.Clone(kept)))) }, false},
		"the row, without a manifest": {func(s *keyShelf, kept []store.StoredKey) {
			s.put(signingOf(withoutManifest(slices.Clone(kept))))
			_ = s.ChangeKeys(s.tb.Context(), store.DropKey("manifest"))
		}, true},
		"the row, with a manifest of nothing": {func(s *keyShelf, kept []store.StoredKey) {
			manifest := kept[slices.IndexFunc(kept, func(k store.StoredKey) bool { return k.ID == "manifest" })]
			manifest.Private = manifest.Private[:12]
			s.put(signingOf(withoutManifest(slices.Clone(kept))), manifest)
		}, true},
		"the row as a manifest": {func(s *keyShelf, kept []store.StoredKey) {
			manifest := signingOf(withoutManifest(slices.Clone(kept)))
			manifest.ID, manifest.Algorithm = "manifest", "manifest"
			s.put(signingOf(withoutManifest(slices.Clone(kept))), manifest)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newKeyShelf(t, sealerOf(t, firstKEK))
			ids, _ := s.mustOpen()
			now := tokentest.Start
			n := s.ring(&now)
			kept := s.all()
			if _, err := n.Revoke(t.Context(), ids[0]); err != nil {
				t.Fatal(err)
			}
			n.refresh()
			c.change(s, kept)
			if err := n.Refresh(t.Context()); errors.Is(err, ErrOldSet) != c.isOld || n.published()[ids[0]] {
				t.Errorf("a node that runs: %v, %v", err, n.published())
			}
			if n.states()[ids[0]] != StateRefused {
				t.Errorf("it is listed as %s", n.states()[ids[0]])
			}
			for _, sealer := range []*Sealer{s.seal, both} { // in this order: the second seals everything again
				s.seal = sealer
				found, again, _, err := s.open(true)
				if errors.Is(err, ErrOldSet) != c.isOld || slices.Contains(again, ids[0]) || !c.isOld && len(found.Refused) != 1 {
					t.Errorf("a start under %s: %v, %v, refused %v", sealer.ID, err, again, found.Refused)
				}
			}
			n.Sealer = both
			if _, err := n.Rotate(t.Context(), oauth.EdDSA, true); (err == nil) == c.isOld {
				t.Errorf("a rotation: %v", err)
			}
			if _, again, _, err := s.open(true); slices.Contains(again, ids[0]) || errors.Is(err, ErrOldSet) != c.isOld {
				t.Errorf("after a rotation: %v, %v", again, err)
			}
		})
	}
}
