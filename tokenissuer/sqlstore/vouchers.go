package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

// AddVoucher adds a voucher, and drops older ones of the same node. It need not be durable, and where the database can it
// does not wait for the disk: the counter that all nodes share is held for a moment only.
func (s *Store) AddVoucher(ctx context.Context, v tokenissuer.Voucher, dropBefore time.Time) error {
	err := s.step(ctx, "adding a voucher", func(ctx context.Context, tx session) error {
		if s.dialect.hasten != "" {
			if _, err := tx.ExecContext(ctx, s.dialect.hasten); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM vouchers WHERE node = $1 AND written_at < $2`, v.Node, dropBefore.UnixMicro())
		if err != nil {
			return err
		}
		// As in the feed of revocations, a reader that has seen a position has seen all before it.
		position, err := advance(ctx, tx, "vouchers")
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO vouchers (position, node, number, issuer, written_at, digests, mac)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`, position, v.Node, v.Number, v.Issuer, v.At.UnixMicro(), notNil(v.Digests), notNil(v.MAC))
		return err
	})
	if err == nil {
		s.dialect.notifyVouchers.tell()
	}
	return err
}

// notNil is for a column that takes an empty value and no NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// selectVouchers reads where the counter stands and what is new in one statement, so that nothing comes in between. There is
// one row without a voucher when nothing is new.
const selectVouchers = `SELECT c.position, v.position, v.node, v.number, v.issuer, v.written_at, v.digests, v.mac
	FROM counters c LEFT JOIN vouchers v
	ON v.position > CASE WHEN $1 > c.position THEN 0 ELSE $1 END AND v.node <> $2 AND length(v.digests) <= $3
	WHERE c.name = 'vouchers' ORDER BY v.position LIMIT $4`

// Vouchers lists what others have added after position.
func (s *Store) Vouchers(ctx context.Context, after int64, except string) ([]tokenissuer.Voucher, int64, error) {
	var counter, last int64
	var list []tokenissuer.Voucher
	_, err := askAll(ctx, s.text(selectVouchers), []any{after, except, tokenissuer.VoucherBytes, tokenissuer.VoucherPage},
		func(row scanner) (struct{}, error) {
			var position, number, at sql.Null[int64]
			var node, issuer sql.Null[string]
			var v tokenissuer.Voucher
			err := row.Scan(&counter, &position, &node, &number, &issuer, &at, &v.Digests, &v.MAC)
			if err == nil && position.Valid {
				last = position.V
				v.Node, v.Number, v.Issuer, v.At = node.V, number.V, issuer.V, timeOf(at)
				list = append(list, v)
			}
			return struct{}{}, err
		})
	if err != nil {
		return nil, 0, fmt.Errorf("reading vouchers: %w", err)
	}
	if len(list) < tokenissuer.VoucherPage {
		last = counter
	}
	return list, last, nil
}

// DropVouchers deletes those that were written before then.
func (s *Store) DropVouchers(ctx context.Context, writtenBefore time.Time) (more bool, err error) {
	return s.drop(ctx, "dropping vouchers", &s.dropping.vouchers, writtenBefore, s.dropWhere("vouchers", "written_at"))
}
