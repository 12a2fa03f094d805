package memstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

// voucher is one with its place in the order in which they came.
type voucher struct {
	tokenissuer.Voucher
	position int64
}

// AddVoucher adds a voucher, and drops older ones of the same node.
func (s *Store) AddVoucher(ctx context.Context, v tokenissuer.Voucher, dropBefore time.Time) error {
	if err := s.lock(ctx); err != nil {
		return fmt.Errorf("adding voucher: %w", err)
	}
	defer s.mu.Unlock()
	s.vouchers = slices.DeleteFunc(s.vouchers, func(old voucher) bool { return old.Node == v.Node && old.At.Before(dropBefore) })
	s.voucherPosition++
	s.vouchers = append(s.vouchers, voucher{v, s.voucherPosition})
	return nil
}

// Vouchers lists what others have added after position.
func (s *Store) Vouchers(ctx context.Context, after int64, except string) (list []tokenissuer.Voucher, position int64, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, 0, fmt.Errorf("reading vouchers: %w", err)
	}
	if after > s.voucherPosition {
		after = 0
	}
	for _, v := range s.vouchers {
		if v.position <= after || v.Node == except || len(v.Digests) > tokenissuer.VoucherBytes {
			continue
		}
		list = append(list, v.Voucher)
		if len(list) == tokenissuer.VoucherPage {
			return list, v.position, nil
		}
	}
	return list, s.voucherPosition, nil
}

// DropVouchers deletes those that were written before then.
func (s *Store) DropVouchers(ctx context.Context, writtenBefore time.Time) (more bool, err error) {
	if err := s.lock(ctx); err != nil {
		return false, fmt.Errorf("dropping vouchers: %w", err)
	}
	defer s.mu.Unlock()
	dropped := 0
	s.vouchers = slices.DeleteFunc(s.vouchers, func(old voucher) bool {
		drop := old.At.Before(writtenBefore) && dropped < maxDropped
		if drop {
			dropped++
		}
		return drop
	})
	return dropped == maxDropped, nil
}
