package node

import (
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// storeAhead sets the store's clock ahead of the node's.
func (n *Node) storeAhead(by time.Duration) {
	now := Clock()
	n.clock.set(now, now.Add(by), now)
}

// TestF17WhatHasExpiredGoesByBothClocks: revocations carry the time of either clock, so none leaves the node's memory
// or the store before both clocks say that it has expired.
func TestF17WhatHasExpiredGoesByBothClocks(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"store behind": -3 * 24 * time.Hour, "store ahead": 3 * 24 * time.Hour, "together": 0} {
		t.Run(name, func(t *testing.T) {
			setClock(t)
			n := kept(t, onDisk(t))
			n.storeAhead(ahead)
			last := Clock().Add(min(ahead, 0) - clockMargin)
			err := n.store.Revocations.Revoke(t.Context(),
				store.Revocation{Kind: store.RevokeFamily, ID: "lives", ExpiresAt: last.Add(time.Hour)},
				store.Revocation{Kind: store.RevokeFamily, ID: "over", ExpiresAt: last.Add(-time.Hour)})
			if err != nil {
				t.Fatal(err)
			}
			if err := n.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			n.keepHouse(t)
			if !n.Revocations.Revoked(&token.AccessToken{SignIn: token.SignIn{FamilyID: "lives"}}) || n.Revocations.Len() != 1 {
				t.Errorf("%d revocations are left in memory", n.Revocations.Len())
			}
			if left, _, err := n.store.Revocations.Revocations(t.Context(), store.FeedPosition{}); err != nil || len(left) != 1 || left[0].ID != "lives" {
				t.Errorf("in the store are left %v (%v)", left, err)
			}
		})
	}
}

// TestF17AStoreClockAheadDropsNoKey: a store's clock that jumps ahead by weeks drops no key whose tokens are still
// valid by the node's clock.
func TestF17AStoreClockAheadDropsNoKey(t *testing.T) {
	const weeks = store.MaxLifetime + 5*24*time.Hour
	c := setClock(t)
	n := kept(t, onDisk(t))
	if _, err := n.KeyRing().Rotate(t.Context(), n.settings.Algorithm, true); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name        string
		here, store time.Duration
		keys        int
	}{
		{"the store's clock is ahead", 0, weeks, 2},
		{"the node's clock is ahead", weeks, -weeks, 2},
		{"both clocks have gone on", weeks, 0, 1},
	} {
		c.offset.Store(int64(step.here))
		n.storeAhead(step.store)
		if err := n.keepKeys(t.Context()); err != nil {
			t.Fatal(err)
		}
		if keys, err := n.KeyRing().List(t.Context()); err != nil || len(keys) != step.keys {
			t.Errorf("%s: %d keys are left, want %d (%v)", step.name, len(keys), step.keys, err)
		}
	}
}

// TestHousekeepingDropsFamilies: a family stays as long as an access token of it may be valid, and a day more for
// clocks that jump. Then it is dropped, however many there are.
func TestHousekeepingDropsFamilies(t *testing.T) {
	const many = 2500 // more than a batch
	setClock(t)
	now := Clock()
	n := opened(t, inMemory)
	st := n.store
	expired := now.Add(-store.MaxLifetime - clockMargin)
	add := func(id string, expires time.Time) {
		f := &store.TokenFamily{ID: id, User: store.FamilyUser{ID: "u-ada", Declared: true}, Grant: store.Grant{ClientID: "conf"}, Validity: store.Validity{CreatedAt: expires, ExpiresAt: expires}}
		if outcome, err := st.Families.AddFamily(t.Context(), f); outcome != store.Done {
			t.Fatal(outcome, err)
		}
	}
	gone := make([]string, many)
	for i := range gone {
		gone[i] = oauth.NewID()
		add(gone[i], expired.Add(-time.Second))
	}
	add("kept", expired.Add(time.Second))
	n.keepHouse(t)
	if _, err := st.Families.Family(t.Context(), "kept"); err != nil {
		t.Errorf("a family of which a token may live: %v", err)
	}
	for _, id := range gone {
		if _, err := st.Families.Family(t.Context(), id); err == nil {
			t.Fatal("a family is left over")
		}
	}
}
