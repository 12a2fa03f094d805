package memstore

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return New() })
}

// TestExpiredRevocationsLeave proves that memory does not grow for ever, and that a revocation stays for as long as
// it can hit, and for a reader of the feed even if it has expired by this clock already. Time in the bubble is made up.
func TestExpiredRevocationsLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		revoke := func(id string, expires time.Time) {
			t.Helper()
			if err := s.Revoke(t.Context(), store.Revocation{Kind: store.RevokeToken, ID: id, ExpiresAt: expires}); err != nil {
				t.Fatal(err)
			}
		}
		listed := func(want int) {
			t.Helper()
			if list, _, err := s.Revocations(t.Context(), store.FeedPosition{}); err != nil || len(list) != want {
				t.Fatalf("%d revocations are listed, want %d (%v)", len(list), want, err)
			}
		}
		revoke("dead", time.Now().Add(-time.Hour))
		revoke("live", time.Now().Add(time.Hour))
		revoke("endless", time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
		listed(3)
		time.Sleep(minRetention + 1)
		listed(2)
		time.Sleep(time.Hour)
		listed(1)
		revoke("another", time.Now().Add(time.Hour))
		if n := s.revocations.ItemCount(); n != 2 {
			t.Errorf("%d revocations are held after a purge, want 2", n)
		}
		time.Sleep(10 * 365 * 24 * time.Hour)
		listed(1)
	})
}

func BenchmarkClient(b *testing.B) {
	s := New()
	c := &store.Client{ID: "app", Secrets: make([]store.ClientSecret, 1)}
	if err := s.AddClient(b.Context(), c); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := s.Client(b.Context(), "app"); err != nil {
			b.Fatal(err)
		}
	}
}
