package floodgate

import "time"

const (
	// maxHeld answers are held back at once. Each is a request that waits, with the memory that its connection takes anyway.
	maxHeld = 1024
	// maxHeldDear is how many may be held when one more comes that takes more than that.
	maxHeldDear = 64
)

// Held is how many answers are held back now.
func (g *Gate) Held() int {
	if g == nil {
		return 0
	}
	return int(g.held.Load())
}

// Hold waits for as long as an answer is to be held back, but not beyond the end of one of the channels: the client has left,
// or the server is about to. False: so many are held already that this one is not. It should be given at once, and the
// connection closed with it. Dear: while it is held, somebody else's connection or much memory is.
func (g *Gate) Hold(d time.Duration, dear bool, gone, released <-chan struct{}) bool {
	most := int64(maxHeld)
	if dear {
		most = maxHeldDear
	}
	if g.held.Add(1) > most {
		g.held.Add(-1)
		return false
	}
	defer g.held.Add(-1)
	expired, stop := g.timer(d)
	defer stop()
	select {
	case <-expired:
	case <-gone:
	case <-released:
	}
	return true
}
