package sqlstore

import (
	"context"
	"time"
)

// ActivateKey sets active_from of a key that has none. ErrNotFound when there is no key of that id.
func (s *Store) ActivateKey(ctx context.Context, id string, from time.Time) error {
	return s.changeKeys(ctx, "activating key", func(ctx context.Context, tx session) error {
		return mustHit(tx.ExecContext(ctx, `UPDATE signing_keys SET active_from = COALESCE(active_from, $1) WHERE id = $2`, micros(from), id))
	})
}
