package caddymodule

import (
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// openAlone is an engine on a new SQLite file, for nobody but the test. Its first round of housekeeping is over: one that is
// under way drops by clocks as they were when it began.
func openAlone(t *testing.T) *engine {
	t.Helper()
	e := newEngine(engineSettings{
		store: storeSQLite, path: t.TempDir() + "/data/oauth.db", issuer: "https://a.example", algorithm: oauth.ES256, staleness: time.Minute,
	}, nil)
	if err := e.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Destruct() })
	e.awaitRound(t)
	return e
}

// awaitRound waits until the first round of housekeeping is over, which an engine begins by itself.
func (e *engine) awaitRound(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if _, stored := e.lease.report(); stored != nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the housekeeper has never counted")
		}
	}
}

// storeAhead lets the store's clock be ahead of the node's by so much.
func (e *engine) storeAhead(by time.Duration) {
	now := clock()
	e.time.set(now, now.Add(by), now)
}

// TestF17WhatHasExpiredGoesByBothClocks: revocations carry the time of either clock, so none leaves the node's memory or the
// store before both say that it has expired.
func TestF17WhatHasExpiredGoesByBothClocks(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"store behind": -3 * 24 * time.Hour, "store ahead": 3 * 24 * time.Hour, "together": 0} {
		t.Run(name, func(t *testing.T) {
			setClock(t)
			e := openAlone(t)
			e.storeAhead(ahead)
			last := clock().Add(min(ahead, 0) - clockMargin)
			err := e.store.Revoke(t.Context(),
				store.Revocation{Kind: store.RevokeFamily, ID: "lives", ExpiresAt: last.Add(time.Hour)},
				store.Revocation{Kind: store.RevokeFamily, ID: "over", ExpiresAt: last.Add(-time.Hour)})
			if err != nil {
				t.Fatal(err)
			}
			if err := e.refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			e.expire(t.Context())
			if !e.revocations.Revoked(&accesstoken.AccessToken{FamilyID: "lives"}) || e.revocations.Len() != 1 {
				t.Errorf("%d revocations are left in memory", e.revocations.Len())
			}
			if left, _, err := e.store.Revocations(t.Context(), 0); err != nil || len(left) != 1 || left[0].ID != "lives" {
				t.Errorf("in the store are left %v (%v)", left, err)
			}
		})
	}
}

// TestF17AStoreClockAheadDropsNoKey: a store's clock that jumps ahead by weeks takes no key away whose tokens live by the
// node's.
func TestF17AStoreClockAheadDropsNoKey(t *testing.T) {
	const weeks = store.MaxLifetime + 5*24*time.Hour
	c := setClock(t)
	e := openAlone(t)
	if _, err := e.keyRing().Rotate(t.Context(), true); err != nil {
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
		e.storeAhead(step.store)
		if err := e.keepKeys(t.Context()); err != nil {
			t.Fatal(err)
		}
		if keys, err := e.keyRing().List(t.Context()); err != nil || len(keys) != step.keys {
			t.Errorf("%s: %d keys are left, want %d (%v)", step.name, len(keys), step.keys, err)
		}
	}
}
