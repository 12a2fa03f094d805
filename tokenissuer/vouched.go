package tokenissuer

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"sync/atomic"
)

// VouchedTokens are the tokens of ours whose signature need not be verified, because this node has made it, or a sibling on
// the same store says that it has (see Siblings). They are known by the SHA-256 of the whole token, for which nothing else can
// pass. That a token is among them says nothing of whether it is good: everything but its signature is asked as ever. The
// zero value knows none, and takes no room before the first.
type VouchedTokens struct {
	ring   digestRing
	outbox outbox
	spared atomic.Int64
}

// NewVouchedTokens returns a set that is empty.
func NewVouchedTokens() *VouchedTokens {
	return &VouchedTokens{outbox: outbox{ready: make(chan struct{}, 1)}}
}

// Vouched tells whether the signature of the token of that digest need not be verified.
func (v *VouchedTokens) Vouched(digest [sha256.Size]byte) bool {
	known := v.ring.has(digest)
	if known {
		v.spared.Add(1)
	}
	return known
}

// signed takes note of a token that this node has just signed.
func (v *VouchedTokens) signed(digest [sha256.Size]byte) {
	v.ring.add(digest)
	v.outbox.put(digest)
}

// VouchBy makes the Verifier take the word of those who have signed a token. It is called before the Verifier is used.
func (v *Verifier) VouchBy(tokens *VouchedTokens) { v.vouched, v.signed = tokens, tokens.signed }

// tellSigned takes note of a token that this node has just signed. It stays known when the cache has no room for it.
func (v *Verifier) tellSigned(digest [sha256.Size]byte) {
	if v.signed != nil {
		v.signed(digest)
	}
}

// VouchedStatus is how VouchedTokens stand.
type VouchedStatus struct {
	// Held are how many tokens are vouched for, and Bytes what they take.
	Held, Bytes int
	// Spared is how many signatures were not verified.
	Spared int64
	// Dropped is how many tokens siblings were not told of, because the store was slow or away.
	Dropped int64
}

// Status tells how they stand.
func (v *VouchedTokens) Status() VouchedStatus {
	held, bytes := v.ring.size()
	return VouchedStatus{Held: held, Bytes: bytes, Spared: v.spared.Load(), Dropped: v.outbox.lost()}
}

// maxVouched is how many tokens are vouched for at a time, of all nodes together. With all that is needed to find them they
// take maxVouchedBytes.
const (
	maxVouched      = 1 << 17
	maxVouchedBytes = maxVouched * (sha256.Size + 4 + 4)
)

// digestRing holds the digests that came last: when it is full, the oldest leaves for each that comes. There is no pointer in
// what it holds, so that the garbage collector has nothing to look at.
type digestRing struct {
	mu      sync.RWMutex
	digests [][sha256.Size]byte // a ring
	held    int                 // how many of it are in use
	next    int                 // where the next one goes
	// newest has, for every chain of digests that begin with the same bits, the place of its newest, and older the place of
	// the one before each. Places count from 1; 0: there is none.
	newest, older []uint32
}

// add takes a digest in, unless it is there already: who repeats one pushes nothing out.
func (r *digestRing) add(digest [sha256.Size]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.digests == nil {
		r.digests = make([][sha256.Size]byte, maxVouched)
		r.newest, r.older = make([]uint32, maxVouched), make([]uint32, maxVouched)
	}
	if r.find(digest) {
		return
	}
	if r.held == len(r.digests) {
		r.unlink(r.next)
	} else {
		r.held++
	}
	chain := &r.newest[chainOf(digest)]
	r.digests[r.next], r.older[r.next] = digest, *chain
	r.next++
	*chain = uint32(r.next) //nolint:gosec // at most maxVouched
	r.next %= len(r.digests)
}

// has tells whether the digest is there.
func (r *digestRing) has(digest [sha256.Size]byte) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.held > 0 && r.find(digest)
}

func (r *digestRing) find(digest [sha256.Size]byte) bool {
	for place := r.newest[chainOf(digest)]; place != 0; place = r.older[place-1] {
		if r.digests[place-1] == digest {
			return true
		}
	}
	return false
}

// unlink takes what is at an index out of its chain.
func (r *digestRing) unlink(index int) {
	link := &r.newest[chainOf(r.digests[index])]
	for int(*link) != index+1 {
		link = &r.older[*link-1]
	}
	*link = r.older[index]
}

// chainOf is the chain of a digest. Nobody chooses digests: whoever issues tokens puts a random id into each.
func chainOf(digest [sha256.Size]byte) uint32 {
	return binary.BigEndian.Uint32(digest[:]) % maxVouched
}

// size is how many digests there are, and the bytes that they take.
func (r *digestRing) size() (held, bytes int) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.digests != nil {
		bytes = maxVouchedBytes
	}
	return r.held, bytes
}
