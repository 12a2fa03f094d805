package node

import (
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestF26OneHousekeeper: several nodes on one store → one of them drops what has expired. When that node is gone,
// another takes over as soon as the lease has expired. Every node expires the entries in its own memory.
func TestF26OneHousekeeper(t *testing.T) {
	c := setClock(t)
	settings := onDisk(t)
	leads := func(n *Node, want bool) {
		t.Helper()
		n.keepHouse(t)
		if s := n.Status(); s.Housekeeper != want || (s.Rows != nil) != want {
			t.Errorf("leads: %v with %v rows, want %v", s.Housekeeper, s.Rows, want)
		}
	}
	first := kept(t, settings)
	leads(first, true)
	second := opened(t, settings)
	old := store.Revocation{Kind: store.RevokeToken, ID: "old", ExpiresAt: Clock().Add(-clockMargin - time.Hour)}
	if err := first.store.Revocations.Revoke(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	for _, n := range []*Node{first, second} {
		if err := n.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	leads(second, false)
	if n := second.Revocations.Len(); n != 0 {
		t.Errorf("the other node keeps %d expired revocations in memory", n)
	}
	stored := func(want int) {
		t.Helper()
		list, _, err := first.store.Revocations.Revocations(t.Context(), store.FeedPosition{})
		if err != nil || len(list) != want {
			t.Errorf("%d revocations are stored, want %d (%v)", len(list), want, err)
		}
	}
	stored(1)
	leads(first, true)
	stored(0)
	c.advance(leaseLength - time.Second)
	leads(second, false)
	leads(first, true)
	if err := first.Destruct(); err != nil {
		t.Fatal(err)
	}
	c.advance(leaseLength - time.Second)
	leads(second, false)
	c.advance(2 * time.Second)
	leads(second, true)
}

// TestF26SizesAreCountedNowAndThen: counting a large table takes a while, so it is not done in every round.
func TestF26SizesAreCountedNowAndThen(t *testing.T) {
	c := setClock(t)
	n := kept(t, inMemory)
	clients := func(want int64) {
		t.Helper()
		n.keepHouse(t)
		if rows := n.Status().Rows; rows["clients"] != want {
			t.Errorf("there are %v, want %d clients", rows, want)
		}
	}
	clients(0)
	if err := n.store.Clients.AddClient(t.Context(), &store.Client{ID: "app", Type: store.PublicClient}); err != nil {
		t.Fatal(err)
	}
	clients(0)
	c.advance(sizesInterval - time.Second)
	clients(0)
	c.advance(2 * time.Second)
	clients(1)
}
