package keys_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/teststore"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// day is the unit of the lifetimes of keys.
const day = store.Day

// ring is a Ring of a node that has just started, with a clock that the test moves.
type ring struct {
	*Ring
	tb       testing.TB
	clock    *time.Time
	warnings []error
}

func newRing(tb testing.TB, store store.KeyStore, clock *time.Time) *ring {
	tb.Helper()
	n := &ring{tb: tb, clock: clock}
	n.Ring = &Ring{
		Store: store, Algorithms: []oauth.Algorithm{oauth.EdDSA}, Keys: new(Set), Rotation: 90 * day, Now: func() time.Time { return *clock },
		Warn: func(err error) { n.warnings = append(n.warnings, err) },
	}
	n.start()
	return n
}

// start loads the keys as a node does when it opens.
func (n *ring) start() {
	n.tb.Helper()
	keys, err := LoadSigningKeys(n.tb.Context(), n.Store, n.Sealer, n.Now(), n.Algorithms...)
	n.must(err)
	n.must(n.Keys.Replace(keys, n.Algorithms...))
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
	keys, err := ParseJWKS(set, oauth.OwnAlgorithms)
	n.must(err)
	kids := make(map[string]bool)
	for _, key := range keys {
		kids[key.ID] = true
	}
	return kids
}

func (n *ring) states() map[string]State {
	n.tb.Helper()
	stored, err := n.List(n.tb.Context())
	n.must(err)
	states := make(map[string]State)
	for _, k := range stored {
		if states[k.ID] = k.State; len(k.Private) > 0 {
			n.tb.Errorf("the list holds the private part of %s", k.ID)
		}
	}
	return states
}

// TestK1TenRotationsOnSchedule runs two and a half years hour by hour, on two nodes. A key is published everywhere
// for a day before it signs anywhere. Every token verifies everywhere for the longest lifetime that a token can have.
// Keys that are no longer needed are dropped.
func TestK1TenRotationsOnSchedule(t *testing.T) {
	const longest, years = store.MaxLifetime, 10*90*day + 20*day
	now, store := tokentest.Start, teststore.New(t)
	nodes := []*ring{newRing(t, store.Keys, &now), newRing(t, store.Keys, &now)}
	seen := []map[string]time.Time{{}, {}} // when a node first published a kid
	versions := []int64{-1, -1}
	signed := map[string]time.Time{} // when a kid signed last
	var signers []string
	for step := 0; now.Before(tokentest.Start.Add(years)); step++ {
		done := nodes[step%2].maintain()
		for _, kid := range done.Dropped {
			if kept := now.Sub(signed[kid]); kept < longest {
				t.Fatalf("%s was dropped %s after it signed", kid, kept)
			}
			delete(signed, kid)
		}
		for i, n := range nodes {
			version, err := store.Keys.KeysVersion(t.Context())
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
				if _, err := n.Keys.Find(kid, ""); err != nil {
					t.Fatalf("after %s node %d cannot verify %s: %v", now.Sub(tokentest.Start), i, kid, err)
				}
				if first := seen[i][kid]; first.After(now.Add(-day)) && kid == signers[len(signers)-1] && len(signers) > 1 {
					t.Fatalf("%s signs, and node %d publishes it since %s", kid, i, now.Sub(first))
				}
			}
		}
		now = now.Add(3 * time.Hour)
	}
	if len(signers) != 11 {
		t.Errorf("%d keys have signed, want 11", len(signers))
	}
}

// TestK1Schedule: the lead is a tenth of the rotation, but at least ten minutes and at most a day.
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
			now := tokentest.Start
			n := newRing(t, teststore.New(t).Keys, &now)
			n.Rotation = c.rotation
			first := n.signing()
			if c.name != "after a long standstill" {
				now = tokentest.Start.Add(c.publish - time.Second)
				if done := n.maintain(); done.Published != nil {
					t.Fatalf("a key was published early, after %s", now.Sub(tokentest.Start))
				}
			}
			now = tokentest.Start.Add(c.publish)
			done := n.maintain()
			if len(done.Published) != 1 || done.Published[0].ActiveFrom != now.Add(c.lag) || len(done.Published[0].Private) > 0 {
				t.Fatalf("published %+v", done.Published)
			}
			if again := n.maintain(); again.Published != nil {
				t.Fatal("a second key was published")
			}
			n.refresh()
			now = now.Add(c.lag - time.Second)
			if n.signing() != first || n.states()[done.Published[0].ID] != StatePublished {
				t.Errorf("%s signs early: %v", n.signing(), n.states())
			}
			now = now.Add(time.Second)
			if n.signing() != done.Published[0].ID || n.states()[first] != StateSuperseded || n.states()[done.Published[0].ID] != StateSigning {
				t.Errorf("%s signs: %v", n.signing(), n.states())
			}
		})
	}
	now := tokentest.Start
	off := newRing(t, teststore.New(t).Keys, &now)
	off.Rotation = 0
	if now = tokentest.Start.Add(1000 * day); off.maintain().Published != nil {
		t.Error("a key was published, and rotation is off")
	}
}

// TestK1RotatedByHand: the key is published at once and signs ten minutes later, or signs at once.
func TestK1RotatedByHand(t *testing.T) {
	now := tokentest.Start
	n := newRing(t, teststore.New(t).Keys, &now)
	first := n.signing()
	now = now.Add(time.Second)
	next, err := n.Rotate(t.Context(), oauth.EdDSA, false)
	n.must(err)
	n.refresh()
	if !n.published()[next.ID] || n.signing() != first {
		t.Errorf("published %v, %s signs", n.published(), n.signing())
	}
	urgent, err := n.Rotate(t.Context(), oauth.EdDSA, true)
	n.must(err)
	n.refresh()
	if n.signing() != urgent.ID {
		t.Errorf("%s signs, want %s", n.signing(), urgent.ID)
	}
	if now = now.Add(Lead); n.signing() != next.ID {
		t.Errorf("%s signs, want %s", n.signing(), next.ID)
	}
	// After the clock is set back, the key of that time signs; before all of them, the first does.
	if now = tokentest.Start.Add(time.Minute); n.signing() != urgent.ID {
		t.Errorf("a minute after the start %s signs, want %s", n.signing(), urgent.ID)
	}
	if now = tokentest.Start.Add(-day); n.signing() != first {
		t.Errorf("before the start %s signs, want %s", n.signing(), first)
	}
}

// TestK1AnotherAlgorithmIsPublishedFirst: the keys of the previous algorithm sign until every cache can have the new
// one.
func TestK1AnotherAlgorithmIsPublishedFirst(t *testing.T) {
	now, store := tokentest.Start, teststore.New(t)
	n := newRing(t, store.Keys, &now)
	first := n.signing()
	now = now.Add(day)
	n.Algorithms = []oauth.Algorithm{oauth.ES256}
	n.start()
	if n.signing() != first || len(n.published()) != 2 {
		t.Errorf("%s signs, published %v", n.signing(), n.published())
	}
	now = now.Add(Lead)
	if key, err := n.Keys.Signing(now); err != nil || key.Algorithm != oauth.ES256 {
		t.Errorf("%v signs, %v", key, err)
	}
	// Some node may still be configured for the other algorithm, so its last key stays.
	now = now.Add(1000 * day)
	n.Rotation = 0
	if done := n.maintain(); len(done.Dropped) > 0 {
		t.Errorf("dropped %v", done.Dropped)
	}
}

// TestK2TwoNodesRotateAtOnce: two nodes rotate at once → both keys published, one signs. All nodes agree on the key
// that signs, and every node verifies. The next rotation follows the last key. No node holds a lock that could be
// lost.
func TestK2TwoNodesRotateAtOnce(t *testing.T) {
	const n = 4
	now, st := tokentest.Start, teststore.New(t)
	nodes := make([]*ring, n)
	for i := range nodes {
		nodes[i] = newRing(t, st.Keys, &now)
	}
	first := nodes[0].signing()
	now = tokentest.Start.Add(89 * day)
	var readers atomic.Int64
	all := make(chan struct{})
	meet := &FaultyStore{KeyStore: st.Keys, Read: func(keys []store.StoredKey) ([]store.StoredKey, error) { // waits until every node has read
		if readers.Add(1) == n {
			close(all)
		}
		<-all
		return keys, nil
	}}
	published := make([]string, n)
	for _, err := range tokentest.Together(n, func(i int) error {
		nodes[i].Store = meet
		done, err := nodes[i].Maintain(t.Context())
		if err == nil {
			published[i] = done.Published[0].ID
		}
		nodes[i].Store = st.Keys
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
			if _, err := node.Keys.Find(kid, ""); err != nil {
				t.Errorf("node %d does not verify %s", i, kid)
			}
		}
	}
	// The losing keys have never signed, and are dropped with the first.
	now = now.Add(store.MaxLifetime + day + time.Second)
	dropped := nodes[0].maintain().Dropped
	want := slices.DeleteFunc(append(published, first), func(kid string) bool { return kid == winner })
	if slices.Sort(dropped); !slices.Equal(dropped, slices.Sorted(slices.Values(want))) {
		t.Errorf("dropped %v, want %v", dropped, want)
	}
}

// TestSigningCostsNothing: Signing runs for every token.
func TestSigningCostsNothing(t *testing.T) {
	now := tokentest.Start
	n := newRing(t, teststore.New(t).Keys, &now)
	for range 5 {
		_, err := n.Rotate(t.Context(), oauth.EdDSA, false)
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
