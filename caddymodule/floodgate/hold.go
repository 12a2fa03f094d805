package floodgate

import "time"

const (
	// maxHeld bounds the delayed answers. Each is a waiting request, with its connection's memory.
	maxHeld = 1024
	// maxHeldDear is the bound above which costly answers are not delayed.
	maxHeldDear = 64
)

// Held returns the number of delayed answers.
func (g *Gate) Held() int {
	if g == nil {
		return 0
	}
	return int(g.held.Load())
}

// Hold waits for the delay, or until one of the channels is closed because the client disconnects or the server stops. It
// returns false at once if too many answers are delayed already; then close the connection after the answer. Dear means
// that the delay occupies another client's connection or much memory.
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
