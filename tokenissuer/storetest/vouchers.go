package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

var voucherChecks = []check{
	{"VouchersGoOn", vouchersGoOn},
	{"VouchersLackNothing", vouchersLackNothing},
	{"VouchersComeInPages", vouchersComeInPages},
	{"VouchersOfAnotherStore", vouchersOfAnotherStore},
	{"VouchersLeave", vouchersLeave},
	{"VouchersMissNothingInARace", vouchersMissNothingInARace},
}

// voucher returns one in which every field has a value of its own.
func voucher(node string, number int64) tokenissuer.Voucher {
	d, mac := digest(fmt.Sprint(node, number)), digest(node+" MAC")
	return tokenissuer.Voucher{
		Node: node, Number: number, Issuer: "https://issuer.example", At: now.Add(time.Duration(number) * time.Millisecond),
		Digests: slices.Concat(d[:], d[:]), MAC: mac[:],
	}
}

// vouchersAfter returns what was added after position by others, and the next position.
func vouchersAfter(t *testing.T, s tokenissuer.VoucherStore, after int64, except string) ([]string, int64) {
	t.Helper()
	list, position, err := s.Vouchers(t.Context(), after, except)
	must(t, err)
	var names []string
	for _, v := range list {
		names = append(names, fmt.Sprint(v.Node, v.Number))
	}
	return names, position
}

func sameVouchers(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("the vouchers are %q, want %q", got, want)
	}
}

// vouchersGoOn: a reader gets what others have added since, in their order, and nothing of its own.
func vouchersGoOn(t *testing.T, s tokenissuer.Store) {
	got, position := vouchersAfter(t, s, 0, "a")
	sameVouchers(t, got)
	for _, v := range []tokenissuer.Voucher{voucher("b", 1), voucher("a", 1), voucher("c", 1), voucher("b", 2)} {
		must(t, s.AddVoucher(t.Context(), v, now))
	}
	got, position = vouchersAfter(t, s, position, "a")
	sameVouchers(t, got, "b1", "c1", "b2")
	got, position = vouchersAfter(t, s, position, "a")
	sameVouchers(t, got)
	must(t, s.AddVoucher(t.Context(), voucher("a", 2), now))
	got, position = vouchersAfter(t, s, position, "a")
	sameVouchers(t, got)
	must(t, s.AddVoucher(t.Context(), voucher("c", 2), now))
	got, _ = vouchersAfter(t, s, position, "a")
	sameVouchers(t, got, "c2")
	got, _ = vouchersAfter(t, s, 0, "nobody")
	sameVouchers(t, got, "b1", "a1", "c1", "b2", "a2", "c2")
}

// vouchersLackNothing: what is read is what was written, to the microsecond, because there is a MAC over it.
func vouchersLackNothing(t *testing.T, s tokenissuer.Store) {
	largest, empty := voucher("b’'", 1), voucher("b’'", 2)
	largest.Digests, empty.Digests = bytes.Repeat([]byte{0, 0xff, 'x', '\''}, tokenissuer.VoucherBytes/4), nil
	tooLarge := voucher("b’'", 3)
	tooLarge.Digests = append(slices.Clone(largest.Digests), make([]byte, 32)...)
	want := []tokenissuer.Voucher{largest, empty}
	for _, v := range []tokenissuer.Voucher{largest, empty, tooLarge} {
		must(t, s.AddVoucher(t.Context(), v, now))
	}
	got, _, err := s.Vouchers(t.Context(), 0, "a")
	must(t, err)
	if len(got) != len(want) {
		t.Fatalf("%d vouchers, want %d", len(got), len(want))
	}
	for i, v := range got {
		if w := want[i]; v.Node != w.Node || v.Number != w.Number || v.Issuer != w.Issuer || !v.At.Equal(w.At) ||
			!bytes.Equal(v.Digests, w.Digests) || !bytes.Equal(v.MAC, w.MAC) {
			t.Errorf("voucher %d came back changed", v.Number)
		}
	}
}

// vouchersComeInPages: a reader that is far behind gets a page at a time, and nothing twice.
func vouchersComeInPages(t *testing.T, s tokenissuer.Store) {
	const all = 2*tokenissuer.VoucherPage + 3
	for i := range all {
		must(t, s.AddVoucher(t.Context(), voucher("b", int64(i)), now))
	}
	position := int64(0)
	for from, pages := 0, []int{tokenissuer.VoucherPage, tokenissuer.VoucherPage, 3, 0}; len(pages) > 0; pages = pages[1:] {
		var got []string
		got, position = vouchersAfter(t, s, position, "a")
		if len(got) != pages[0] || len(got) > 0 && got[0] != fmt.Sprint("b", from) {
			t.Fatalf("a page of %d from %d is %q", pages[0], from, got)
		}
		from += len(got)
	}
}

// vouchersOfAnotherStore: a position that the store has not reached gets everything, and the store's own position.
func vouchersOfAnotherStore(t *testing.T, s tokenissuer.Store) {
	must(t, s.AddVoucher(t.Context(), voucher("b", 1), now))
	got, position := vouchersAfter(t, s, 1<<40, "a")
	sameVouchers(t, got, "b1")
	must(t, s.AddVoucher(t.Context(), voucher("b", 2), now))
	got, _ = vouchersAfter(t, s, position, "a")
	sameVouchers(t, got, "b2")
}

// vouchersLeave: a node's own with its next one, those of nodes that are gone when they are dropped.
func vouchersLeave(t *testing.T, s tokenissuer.Store) {
	old := voucher("a", 1)
	old.At = now.Add(-time.Minute)
	other := voucher("b", 1)
	other.At = now.Add(-time.Minute)
	for _, v := range []tokenissuer.Voucher{old, other, voucher("a", 2)} {
		must(t, s.AddVoucher(t.Context(), v, now.Add(-time.Hour)))
	}
	must(t, s.AddVoucher(t.Context(), voucher("a", 3), now.Add(-time.Minute)))
	got, _ := vouchersAfter(t, s, 0, "")
	sameVouchers(t, got, "a1", "b1", "a2", "a3")
	must(t, s.AddVoucher(t.Context(), voucher("a", 4), now.Add(-time.Minute+time.Microsecond)))
	got, _ = vouchersAfter(t, s, 0, "")
	sameVouchers(t, got, "b1", "a2", "a3", "a4")
	more, err := s.DropVouchers(t.Context(), now.Add(-time.Minute))
	if must(t, err); more {
		t.Error("of none there may be more")
	}
	_, err = s.DropVouchers(t.Context(), now.Add(-time.Second))
	must(t, err)
	got, position := vouchersAfter(t, s, 0, "")
	sameVouchers(t, got, "a2", "a3", "a4")
	_, err = s.DropVouchers(t.Context(), now.Add(time.Hour))
	must(t, err)
	must(t, s.AddVoucher(t.Context(), voucher("b", 2), now))
	got, _ = vouchersAfter(t, s, position, "") // the positions go on
	sameVouchers(t, got, "b2")
}

// vouchersMissNothingInARace: while many nodes write, a reader that goes on from its position gets every one, once.
func vouchersMissNothingInARace(t *testing.T, s tokenissuer.Store) {
	const writers, each = 8, 20
	seen, done := make(map[string]int), make(chan struct{})
	errs := race(2, func(i int) error {
		if i == 0 {
			defer close(done)
			return errors.Join(race(writers, func(w int) error {
				for n := range each {
					if err := s.AddVoucher(t.Context(), voucher(fmt.Sprint("node ", w, " "), int64(n)), now); err != nil {
						return err
					}
				}
				return nil
			})...)
		}
		position := int64(0)
		for last := false; ; {
			list, next, err := s.Vouchers(t.Context(), position, "a")
			if err != nil {
				return err
			}
			for _, v := range list {
				seen[fmt.Sprint(v.Node, v.Number)]++
			}
			position = next
			if last && len(list) == 0 {
				return nil
			}
			select {
			case <-done:
				last = true
			default:
			}
		}
	})
	must(t, errors.Join(errs...))
	for name, times := range seen {
		if times != 1 {
			t.Errorf("%s came %d times", name, times)
		}
	}
	if len(seen) != writers*each {
		t.Errorf("%d of %d vouchers came", len(seen), writers*each)
	}
}
