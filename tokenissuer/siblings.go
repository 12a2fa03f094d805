package tokenissuer

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// VoucherBytes is how long the digests of a Voucher are at most.
	VoucherBytes = 4096 * sha256.Size
	// greetInterval is how often a node writes a voucher though it has nothing to say, so that its siblings know of it.
	greetInterval = 10 * time.Second
	// voucherLife is how long a voucher is left in the store. A sibling that reads as rarely has to verify signatures.
	voucherLife = 30 * time.Second
	// maxVoucherAge is how old a voucher may be that is listened to, and how long a sibling is remembered. It leaves room
	// for clocks that differ.
	maxVoucherAge = 2 * time.Minute
)

// Voucher is a node's word that it has signed tokens, for its siblings on the same store.
type Voucher struct {
	// Node names a node in one of its lives, and Number its vouchers, from 1 on and each higher than the one before.
	Node   string
	Number int64
	// Issuer is the issuer of the tokens: two may share a store.
	Issuer string
	// At is when it was written, in microseconds, by the clock that all nodes share.
	At time.Time
	// Digests are the SHA-256 of the whole tokens, one after the other; empty: the node is there and has signed none.
	Digests []byte
	// MAC is over all of these: who can write to the store alone cannot vouch.
	MAC []byte
}

// VoucherStore passes vouchers on. What it loses costs signatures to verify and nothing else, so that it need not be durable.
type VoucherStore interface {
	// AddVoucher adds a voucher, and drops those of the same node that were written before then.
	AddVoucher(ctx context.Context, v Voucher, dropBefore time.Time) error
	// Vouchers lists those that were added after position by other nodes than that one, in the order in which they came, and
	// the position to ask from next time. Position 0 asks for everything, and so does a position that the store never gave. When
	// VoucherPage are returned, there may be more already. Those with more than VoucherBytes of digests are left out.
	Vouchers(ctx context.Context, after int64, except string) (vouchers []Voucher, position int64, err error)
	// DropVouchers deletes those that were written before then, a bounded number at a time. More tells that there may be
	// more.
	DropVouchers(ctx context.Context, writtenBefore time.Time) (more bool, err error)
}

// VoucherPage is how many vouchers a store returns at most.
const VoucherPage = 32

// Siblings passes on between the nodes on one store which tokens each has signed, so that none verifies the signature of
// another's. Nobody who issues or shows a token waits for it. Tell and Hear may run beside each other, each once at a time.
type Siblings struct {
	Store  VoucherStore
	Master *MasterKey
	Issuer string
	// Node is this node's name in this life.
	Node   string
	Tokens *VouchedTokens
	// Now is the same on every node.
	Now func() time.Time
	// Warn is told once of a voucher that is not taken; nil: nobody is.
	Warn func(error)

	number   int64     // of the last voucher of this node; Tell's
	told     time.Time // when it was written; Tell's
	position int64     // Hear's
	read     time.Time // when Hear was told so; Hear's
	behind   bool      // there is more that was written while nobody read here; Hear's
	seen     map[string]sibling
	warned   bool // Hear's

	heard, refused atomic.Int64
}

// sibling is what is known of another node.
type sibling struct {
	number int64 // of its last voucher
	at     time.Time
}

// Ready is readable when this node has signed tokens of which it has not told.
func (s *Siblings) Ready() <-chan struct{} { return s.Tokens.outbox.ready }

// Tell writes what this node has signed since the last time, and greets now and then when that is nothing. What could not be
// written is left out, and never tried again.
func (s *Siblings) Tell(ctx context.Context) error {
	for {
		digests := s.Tokens.outbox.take(VoucherBytes / sha256.Size)
		if len(digests) == 0 && s.Now().Sub(s.told).Abs() < greetInterval {
			return nil
		}
		if err := s.write(ctx, digests); err != nil {
			s.Tokens.outbox.drop(len(digests) / sha256.Size)
			return fmt.Errorf("telling other nodes of signed tokens: %w", err)
		}
	}
}

func (s *Siblings) write(ctx context.Context, digests []byte) error {
	now := s.Now().Truncate(time.Microsecond)
	s.number++
	v := Voucher{Node: s.Node, Number: s.number, Issuer: s.Issuer, At: now, Digests: digests}
	v.MAC = s.Master.vouch(&v)
	if err := s.Store.AddVoucher(ctx, v, now.Add(-voucherLife)); err != nil {
		return err
	}
	s.told = now
	return nil
}

// Hear reads what other nodes have written since the last time, and tells whether there may be more. From then on this
// node knows whether somebody listens to it: alone it collects nothing.
func (s *Siblings) Hear(ctx context.Context) (more bool, err error) {
	vouchers, position, err := s.Store.Vouchers(ctx, s.position, s.Node)
	if err != nil {
		return false, fmt.Errorf("hearing of tokens that other nodes have signed: %w", err)
	}
	now := s.Now()
	// Who begins, or was away, meets vouchers that are old by now, and after a store was put back those that it has heard.
	s.behind = s.behind || now.Sub(s.read).Abs() > voucherLife || position < s.position
	s.position, s.read = position, now
	if s.seen == nil {
		s.seen = make(map[string]sibling)
	}
	for i := range vouchers {
		v := &vouchers[i]
		if v.Issuer != s.Issuer || v.Node == s.Node {
			continue
		}
		err := s.take(v, now)
		if err == nil || s.behind && isLate(v, err, now) {
			continue
		}
		s.refuse(v, err)
	}
	for node, last := range s.seen {
		if now.Sub(last.at).Abs() > maxVoucherAge { // whatever it wrote is too old by now
			delete(s.seen, node)
		}
	}
	s.Tokens.outbox.setOpen(len(s.seen) > 0)
	more = len(vouchers) >= VoucherPage
	s.behind = s.behind && more
	return more, nil
}

// isLate tells whether a voucher is a sibling's, and not taken for no other reason than that this node should have heard it
// earlier, or has.
func isLate(v *Voucher, reason error, now time.Time) bool {
	return errors.Is(reason, errVoucherRepeated) || errors.Is(reason, errVoucherOld) && v.At.Before(now)
}

// take takes over what a sibling says, if it is the sibling who says so, now, and for the first time.
func (s *Siblings) take(v *Voucher, now time.Time) error {
	if len(v.Digests)%sha256.Size != 0 || !hmac.Equal(v.MAC, s.Master.vouch(v)) {
		return errVoucherForged
	}
	if now.Sub(v.At).Abs() > maxVoucherAge {
		return errVoucherOld
	}
	if v.Number <= s.seen[v.Node].number {
		return errVoucherRepeated
	}
	s.seen[v.Node] = sibling{v.Number, v.At}
	for digest := range slices.Chunk(v.Digests, sha256.Size) {
		s.Tokens.ring.add([sha256.Size]byte(digest)) // one at a time: requests wait for none
	}
	s.heard.Add(int64(len(v.Digests) / sha256.Size))
	return nil
}

// refuse counts a voucher that is not taken.
func (s *Siblings) refuse(v *Voucher, reason error) {
	s.refused.Add(1)
	if s.Warn != nil && !s.warned {
		s.warned = true
		s.Warn(fmt.Errorf("voucher %d of node %.64q: %w", v.Number, v.Node, reason))
	}
}

// Why a voucher is not taken.
var (
	errVoucherForged   = errors.New("it was written by somebody who does not know the master key, or was changed")
	errVoucherOld      = errors.New("it is too old, or from the future")
	errVoucherRepeated = errors.New("it, or a later one, was heard before")
)

// SiblingStatus is how much Siblings have heard.
type SiblingStatus struct {
	// Heard is how many tokens others have signed, Refused how many vouchers were not taken.
	Heard, Refused int64
}

// Status tells how much was heard.
func (s *Siblings) Status() SiblingStatus {
	return SiblingStatus{Heard: s.heard.Load(), Refused: s.refused.Load()}
}

// vouch makes the MAC of a voucher. No two vouchers give the same bytes: what has no fixed length stands behind its length,
// and the digests at the end.
func (k *MasterKey) vouch(v *Voucher) []byte {
	mac := hmac.New(sha256.New, k.vouchers)
	var head []byte
	for _, text := range []string{v.Issuer, v.Node} {
		head = append(binary.BigEndian.AppendUint64(head, uint64(len(text))), text...)
	}
	head = binary.BigEndian.AppendUint64(head, uint64(v.Number)) //nolint:gosec // its bits
	head = binary.BigEndian.AppendUint64(head, uint64(v.At.UnixMicro()))
	mac.Write(head)
	mac.Write(v.Digests)
	return mac.Sum(nil)
}
