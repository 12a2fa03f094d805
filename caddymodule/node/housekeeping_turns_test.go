package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// pile is a kind of record with that many batches to drop. It can also fail.
type pile struct {
	batches, dropped int
	fails            error
}

// piles is a store with a pile of each kind.
type piles struct {
	store.Housekeeper
	of map[store.Expiring]*pile
	// dropped, if not nil, is called after each batch.
	dropped func()
}

func (s piles) Drop(_ context.Context, kind store.Expiring, _ time.Time) (more bool, err error) {
	p := s.of[kind]
	if p.fails != nil {
		return false, p.fails
	}
	p.dropped++
	if s.dropped != nil {
		s.dropped()
	}
	return p.dropped < p.batches, nil
}

// dropAll drops a store's piles as a round does.
func (s piles) dropAll(ctx context.Context) error {
	return (&housekeeper{store: s}).dropInTurn(ctx, []expired{{kind: store.ExpiringAttempts}, {kind: store.ExpiringRevocations}, {kind: store.ExpiringFamilies}})
}

// TestHousekeepingStarvesNoKind: while records of one kind arrive faster than a round can drop them, the other kinds
// have their turns in the same round. The same holds when one kind fails, and the failure is reported.
func TestHousekeepingStarvesNoKind(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name string
		of   []*pile
		want []int // batches
		err  error
	}{
		{"each to its end", []*pile{{batches: 1}, {batches: 3}, {batches: 2}}, []int{1, 3, 2}, nil},
		{"one fails", []*pile{{batches: 2}, {fails: broken}, {batches: 4}}, []int{2, 0, 4}, broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := piles{of: map[store.Expiring]*pile{
				store.ExpiringAttempts: c.of[0], store.ExpiringRevocations: c.of[1], store.ExpiringFamilies: c.of[2],
			}}
			if err := all.dropAll(t.Context()); !errors.Is(err, c.err) {
				t.Errorf("the round returned %v, want %v", err, c.err)
			}
			for i, p := range c.of {
				if p.dropped != c.want[i] {
					t.Errorf("%d batches of kind %d were dropped, want %d", p.dropped, i, c.want[i])
				}
			}
		})
	}
	t.Run("a flood", func(t *testing.T) {
		const turns = 5
		ctx, end := context.WithCancel(t.Context()) // the round
		defer end()
		flood, second, last := &pile{batches: 1 << 30}, &pile{batches: 1 << 30}, &pile{batches: 3}
		all := piles{
			of: map[store.Expiring]*pile{store.ExpiringAttempts: flood, store.ExpiringRevocations: second, store.ExpiringFamilies: last},
			dropped: func() {
				if second.dropped == turns {
					end()
				}
			},
		}
		if err := all.dropAll(ctx); err != nil {
			t.Errorf("a round that is over returned %v", err)
		}
		if flood.dropped != turns || last.dropped != last.batches {
			t.Errorf("beside %d batches of another kind %d were dropped of the flood, and %d of %d of the last kind", turns, flood.dropped, last.dropped, last.batches)
		}
	})
}
