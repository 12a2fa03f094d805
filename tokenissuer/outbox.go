package tokenissuer

import (
	"crypto/sha256"
	"slices"
	"sync"
)

// outbox collects the digests of tokens that this node has signed, until they are written to the store. Nobody who signs
// waits for that: what does not fit is left out.
type outbox struct {
	mu      sync.Mutex
	open    bool // somebody would read it
	digests [][sha256.Size]byte
	dropped int64
	ready   chan struct{} // has room for one
}

// maxWaiting is how many digests wait to be written, while the store is slow.
const maxWaiting = 1 << 14

func (o *outbox) put(digest [sha256.Size]byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case !o.open:
		return
	case len(o.digests) == maxWaiting:
		o.dropped++
		return
	}
	o.digests = append(o.digests, digest)
	if len(o.digests) == 1 {
		o.announce()
	}
}

// announce says that something waits. The caller holds the lock.
func (o *outbox) announce() {
	select {
	case o.ready <- struct{}{}:
	default: // it was said before
	}
}

// take takes out the oldest, at most n, as one text.
func (o *outbox) take(n int) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	n = min(n, len(o.digests))
	text := make([]byte, 0, n*sha256.Size)
	for _, digest := range o.digests[:n] {
		text = append(text, digest[:]...)
	}
	o.digests = slices.Delete(o.digests, 0, n)
	if len(o.digests) > 0 {
		o.announce()
	}
	return text
}

// drop counts digests that could not be written.
func (o *outbox) drop(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropped += int64(n)
}

// setOpen says whether somebody reads what is collected.
func (o *outbox) setOpen(open bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open = open
	if !open {
		o.digests = nil
	}
}

func (o *outbox) lost() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.dropped
}
