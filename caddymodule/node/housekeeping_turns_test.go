package node

import (
	"context"
	"errors"
	"testing"
	"time"
)

// pile is a kind of record with that many batches to drop. It can also fail.
type pile struct {
	batches, dropped int
	fails            error
}

func (p *pile) drop(context.Context, time.Time) (more bool, err error) {
	if p.fails != nil {
		return false, p.fails
	}
	p.dropped++
	return p.dropped < p.batches, nil
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
			var kinds []expired
			for _, p := range c.of {
				kinds = append(kinds, expired{drop: p.drop})
			}
			if err := dropInTurn(t.Context(), kinds); !errors.Is(err, c.err) {
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
		ending := func(ctx context.Context, before time.Time) (bool, error) {
			more, err := second.drop(ctx, before)
			if second.dropped == turns {
				end()
			}
			return more, err
		}
		if err := dropInTurn(ctx, []expired{{drop: flood.drop}, {drop: ending}, {drop: last.drop}}); err != nil {
			t.Errorf("a round that is over returned %v", err)
		}
		if flood.dropped != turns || last.dropped != last.batches {
			t.Errorf("beside %d batches of another kind %d were dropped of the flood, and %d of %d of the last kind", turns, flood.dropped, last.dropped, last.batches)
		}
	})
}
