package keys_test

import (
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/teststore"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// all are the algorithms of an OpenID provider whose algorithm is EdDSA. RSA keys are slow to make, so most tests use
// two.
var (
	all = []oauth.Algorithm{oauth.EdDSA, oauth.ES256, oauth.RS256}
	two = all[:2]
)

// restart restarts the node with other algorithms.
func (n *ring) restart(algorithms ...oauth.Algorithm) {
	n.tb.Helper()
	n.Algorithms = algorithms
	n.start()
}

// signers returns the key that signs with each algorithm.
func (n *ring) signers() map[oauth.Algorithm]string {
	n.tb.Helper()
	kids := make(map[oauth.Algorithm]string)
	for _, algorithm := range n.Algorithms {
		key, err := n.Keys.SigningWith(algorithm, n.Now())
		n.must(err)
		if key.Algorithm != algorithm {
			n.tb.Errorf("a key for %s signs with %s", key.Algorithm, algorithm)
		}
		if kids[algorithm] = key.ID; n.states()[key.ID] != StateSigning || !n.published()[key.ID] {
			n.tb.Errorf("%s: %s is %s, published %v", algorithm, key.ID, n.states()[key.ID], n.published())
		}
	}
	return kids
}

func (n *ring) wantAccessTokensBy(algorithm oauth.Algorithm) {
	n.tb.Helper()
	if key, err := n.Keys.Signing(n.Now()); err != nil || key.Algorithm != algorithm {
		n.tb.Errorf("access tokens are signed by %+v, %v; want %s", key, err, algorithm)
	}
}

// TestK26KeysOfSeveralAlgorithms: keys of several algorithms → one of each signs, each rotates and is dropped by its own age.
func TestK26KeysOfSeveralAlgorithms(t *testing.T) {
	t.Run("K26 in an empty store", func(t *testing.T) {
		now := tokentest.Start
		n := newRing(t, teststore.New(t).Keys, &now)
		n.Store = teststore.New(t).Keys
		n.restart(all...)
		if kids := n.signers(); len(kids) != 3 || len(n.published()) != 3 || kids[oauth.EdDSA] != n.signing() {
			t.Errorf("%v sign, published %v", kids, n.published())
		}
		n.wantAccessTokensBy(oauth.EdDSA)
	})
	t.Run("K26 turned on and off", func(t *testing.T) {
		now := tokentest.Start
		n := newRing(t, teststore.New(t).Keys, &now)
		first := n.signing()
		if _, err := n.Keys.SigningWith(oauth.RS256, now); err == nil {
			t.Error("RS256 is signed with")
		}
		now = now.Add(day)
		n.restart(all...)
		kids := n.signers() // at once, for clients that request them
		if kids[oauth.EdDSA] != first || len(n.published()) != 3 {
			t.Errorf("%v sign, published %v", kids, n.published())
		}
		n.restart(all...)
		if again := n.signers(); again[oauth.RS256] != kids[oauth.RS256] || again[oauth.ES256] != kids[oauth.ES256] {
			t.Errorf("after another start %v, before %v", again, kids)
		}
		n.restart(oauth.EdDSA)
		if _, err := n.Keys.SigningWith(oauth.RS256, now); err == nil || len(n.published()) != 3 {
			t.Errorf("turned off: %v, published %v", err, n.published())
		}
		n.wantAccessTokensBy(oauth.EdDSA)
	})
	t.Run("K26 each by its own schedule", func(t *testing.T) {
		now := tokentest.Start
		n := newRing(t, teststore.New(t).Keys, &now)
		now = now.Add(30 * day)
		n.restart(two...)
		before := n.signers()
		began := now.Add(Lead)
		for _, step := range []struct {
			at   time.Time
			want []oauth.Algorithm
		}{
			{tokentest.Start.Add(89 * day), []oauth.Algorithm{oauth.EdDSA}},
			{began.Add(89 * day), []oauth.Algorithm{oauth.ES256}},
		} {
			now = step.at.Add(-1)
			if done := n.maintain(); len(done.Published) > 0 {
				t.Errorf("published too early: %+v", done)
			}
			now = step.at
			var got []oauth.Algorithm
			for _, next := range n.maintain().Published {
				got = append(got, next.Algorithm)
				n.refresh()
				if n.signers()[next.Algorithm] != before[next.Algorithm] || !n.published()[next.ID] || n.states()[next.ID] != StatePublished {
					t.Errorf("the next key of %s is %s, published %v", next.Algorithm, n.states()[next.ID], n.published())
				}
			}
			if !slices.Equal(got, step.want) {
				t.Errorf("published keys of %v, want %v", got, step.want)
			}
			now = now.Add(day)
			for algorithm, kid := range n.signers() {
				if slices.Contains(step.want, algorithm) == (kid == before[algorithm]) {
					t.Errorf("%s is signed by %s, before by %s", algorithm, kid, before[algorithm])
				}
			}
			before = n.signers()
			n.wantAccessTokensBy(oauth.EdDSA)
		}
		now = began.Add(90*day + store.KeyRetention + 1)
		n.Rotation = 0
		if dropped := n.maintain().Dropped; len(dropped) != 2 {
			t.Errorf("dropped %v", dropped)
		}
		n.refresh()
		if len(n.signers()) != 2 || len(n.published()) != 2 {
			t.Errorf("left: %v", n.published())
		}
	})
	t.Run("K26 rotated by hand", func(t *testing.T) {
		now := tokentest.Start
		n := newRing(t, teststore.New(t).Keys, &now)
		n.restart(two...)
		before := n.signers()
		now = now.Add(1)
		next, err := n.Rotate(t.Context(), oauth.ES256, true)
		n.must(err)
		n.refresh()
		after := n.signers()
		if after[oauth.ES256] != next.ID || after[oauth.EdDSA] != before[oauth.EdDSA] {
			t.Errorf("%v, before %v", after, before)
		}
	})
}

// TestK27ARevokedKeyIsReplacedByOneOfItsAlgorithm: the signing key of one algorithm revoked → a new one of that algorithm signs at once.
func TestK27ARevokedKeyIsReplacedByOneOfItsAlgorithm(t *testing.T) {
	for _, algorithm := range two {
		t.Run("K27 "+string(algorithm), func(t *testing.T) {
			now, st := tokentest.Start, teststore.New(t)
			n := newRing(t, st.Keys, &now)
			n.restart(two...)
			other := newRing(t, st.Keys, &now)
			other.restart(two...)
			now = now.Add(day)
			before := n.signers()
			_, err := n.Revoke(t.Context(), before[algorithm])
			n.must(err)
			if len(n.states()) != len(two)+1 {
				t.Errorf("its replacement is not there in the same step: %v", n.states())
			}
			n.refresh()
			other.refresh()
			after := n.signers()
			for _, a := range two {
				if (after[a] == before[a]) == (a == algorithm) || other.signers()[a] != after[a] {
					t.Errorf("%s is signed by %s, before by %s; at the other node by %s", a, after[a], before[a], other.signers()[a])
				}
			}
			if n.published()[before[algorithm]] || len(n.published()) != 2 {
				t.Errorf("published %v", n.published())
			}
			n.wantAccessTokensBy(oauth.EdDSA)
		})
	}
	t.Run("K27 by a node that does not sign with it", func(t *testing.T) {
		now, st := tokentest.Start, teststore.New(t)
		single := newRing(t, st.Keys, &now)
		n := newRing(t, st.Keys, &now)
		n.restart(two...)
		before := n.signers()
		_, err := single.Revoke(t.Context(), before[oauth.ES256])
		n.must(err)
		single.refresh()
		if len(single.published()) != 1 {
			t.Errorf("published %v", single.published())
		}
		n.refresh()
		single.refresh()
		if after := n.signers(); after[oauth.ES256] == before[oauth.ES256] || len(n.published()) != 2 || len(single.published()) != 2 {
			t.Errorf("%v, before %v; published %v and %v", after, before, n.published(), single.published())
		}
	})
}

func TestK28SeveralNodesAndOneWithASingleAlgorithm(t *testing.T) {
	now, st := tokentest.Start, teststore.New(t)
	single := newRing(t, st.Keys, &now) // signs with EdDSA alone
	now = now.Add(day)
	const nodes = 4
	list := make([]*ring, nodes)
	for i := range list {
		list[i] = newRing(t, st.Keys, &now)
	}
	for _, err := range tokentest.Together(nodes, func(i int) error {
		keys, err := LoadSigningKeys(t.Context(), st.Keys, nil, now, all...)
		if err != nil {
			return err
		}
		list[i].Algorithms = all
		return list[i].Keys.Replace(keys, all...)
	}) {
		single.must(err)
	}
	single.refresh()
	kids := list[0].signers()
	for i, n := range append(list, single) {
		n.refresh()
		if len(n.published()) != 3 || n.signing() != kids[oauth.EdDSA] {
			t.Errorf("node %d publishes %v and signs with %s", i, n.published(), n.signing())
		}
	}
	for i, n := range list {
		if got := n.signers(); got[oauth.RS256] != kids[oauth.RS256] || got[oauth.ES256] != kids[oauth.ES256] {
			t.Errorf("node %d signs with %v, want %v", i, got, kids)
		}
	}
	// The node with a single algorithm publishes its own key only, and drops none of the others.
	now = now.Add(1000 * day)
	if done := single.maintain(); len(done.Published) != 1 || done.Published[0].Algorithm != oauth.EdDSA || len(done.Dropped) > 0 {
		t.Errorf("the node with a single algorithm: %+v", done)
	}
}

// TestK29TheIssuersAlgorithmChanges: `algorithm` changed to one already published → signs at once; to a new one → the old signs until
// caches have it.
func TestK29TheIssuersAlgorithmChanges(t *testing.T) {
	now := tokentest.Start
	n := newRing(t, teststore.New(t).Keys, &now)
	n.restart(all...)
	kids := n.signers()
	now = now.Add(day)
	// To an algorithm whose key every cache can have, and back.
	n.restart(oauth.RS256, oauth.ES256, oauth.EdDSA)
	n.wantAccessTokensBy(oauth.RS256)
	if again := n.signers(); len(n.published()) != 3 || again[oauth.EdDSA] != kids[oauth.EdDSA] || n.signing() != kids[oauth.RS256] {
		t.Errorf("%v, before %v; published %v", again, kids, n.published())
	}
	n.restart(oauth.ES256)
	n.wantAccessTokensBy(oauth.ES256)
	if n.signing() != kids[oauth.ES256] || len(n.published()) != 3 {
		t.Errorf("%s signs, published %v", n.signing(), n.published())
	}

	// Enabled together with another algorithm: until caches have its keys, the old key signs, and not another new
	// one.
	n = newRing(t, teststore.New(t).Keys, &now)
	first := n.signing()
	now = now.Add(day)
	n.restart(oauth.RS256, oauth.ES256, oauth.EdDSA)
	if n.signing() != first || len(n.signers()) != 3 {
		t.Errorf("%s signs access tokens, want %s", n.signing(), first)
	}
	now = now.Add(Lead)
	n.wantAccessTokensBy(oauth.RS256)
}

// TestK30KeysOfSeveralAlgorithmsAreSealed: several algorithms under `encrypt_with`, one planted → each sealed, the planted one refused.
func TestK30KeysOfSeveralAlgorithmsAreSealed(t *testing.T) {
	s := newKeyShelf(t, sealerOf(t, firstKEK))
	s.mustOpen()
	now := tokentest.Start
	n := s.ring(&now)
	n.restart(two...)
	for _, row := range s.rows() {
		if row.SealedWith != s.seal.ID {
			t.Errorf("%s is not sealed under the key-encryption key", row.Algorithm)
		}
	}
	// A planted key of another algorithm neither signs nor prevents the real one from being made.
	key, err := NewSigningKey(oauth.ES256, now.Add(1))
	n.must(err)
	row, err := key.Stored(nil)
	n.must(err)
	s.put(row)
	now = now.Add(day)
	n.refresh()
	if kid := n.signers()[oauth.ES256]; kid == key.ID || n.published()[key.ID] || len(n.warnings) == 0 {
		t.Errorf("a planted key signs: %s, published %v, warnings %v", kid, n.published(), n.warnings)
	}
}

// TestK31WithoutOpenIDNoFurtherKeyIsMade: no `openid` → no key of another algorithm is made.
func TestK31WithoutOpenIDNoFurtherKeyIsMade(t *testing.T) {
	now, st := tokentest.Start, NewFaultyStore(t)
	n := newRing(t, st, &now)
	n.start()
	n.maintain()
	n.refresh()
	if asked := st.Asked("adding first signing key") + st.Asked("adding signing key"); asked != 1 || len(n.published()) != 1 {
		t.Errorf("%d keys were made, published %v", asked, n.published())
	}
}
