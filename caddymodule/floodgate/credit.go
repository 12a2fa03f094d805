package floodgate

import (
	"hash/maphash"
	"sync"
	"time"
)

// Connection is that of a source. The zero value is none, and has no credit.
type Connection uint64

// Connection returns what stands for the connection of a source whose other end has an address.
func (g *Gate) Connection(s Source, remote string) Connection {
	if g == nil || s == 0 {
		return 0
	}
	return Connection(max(1, maphash.Comparable(g.seed, s)^maphash.String(g.seed, remote)))
}

const (
	// creditPrice is how many good requests answer one failure at once that comes over the same connection: an answer that
	// is held back there keeps the good ones waiting behind it. So up to a third of what comes over it may fail.
	creditPrice = 2
	// mostCredit is as much as a connection can have.
	mostCredit = 64
	// maxConnections is how many the table holds, in 192 KiB.
	maxConnections = 1 << 13
	// idle is how long after its last good request a connection may have to give its place to another.
	idle = 10 * time.Second
)

// credits has what came over connections while there was a flood. A connection that finds its set full takes the place of one
// that is idle, or of the one with the least credit.
type credits struct {
	sets  [maxConnections / ways][ways]credit
	locks [stripes]sync.Mutex
}

type credit struct {
	connection Connection
	left       int
	earned     int64 // when it was last earned
}

// worth is what speaks for keeping it.
func (c *credit) worth(now int64) int {
	if now-c.earned > int64(idle) {
		return 0
	}
	return c.left
}

// earn adds what a good request is worth.
func (c *credits) earn(connection Connection, now int64) {
	set, lock := c.set(connection)
	defer lock.Unlock()
	at := &set[0]
	for i := range set {
		if set[i].connection == connection {
			at = &set[i]
			break
		}
		if set[i].worth(now) < at.worth(now) {
			at = &set[i]
		}
	}
	if at.connection != connection {
		*at = credit{connection: connection}
	}
	at.left, at.earned = min(at.left+1, mostCredit), now
}

// spend takes the price of a failure, and reports whether there was as much.
func (c *credits) spend(connection Connection) bool {
	set, lock := c.set(connection)
	defer lock.Unlock()
	for i := range set {
		if at := &set[i]; at.connection == connection && at.left >= creditPrice {
			at.left -= creditPrice
			return true
		}
	}
	return false
}

func (c *credits) set(connection Connection) (*[ways]credit, *sync.Mutex) {
	at := uint64(connection) % uint64(len(c.sets))
	lock := &c.locks[at%stripes]
	lock.Lock()
	return &c.sets[at], lock
}

// PassedOn says on which connection a good token came, while Passed asks for that.
func (g *Gate) PassedOn(c Connection) {
	if g == nil {
		return
	}
	switch now := g.clock(); {
	case now-g.overAt.Load() >= int64(alarmed):
		g.flooded.Store(false)
	case c != 0:
		g.credits.earn(c, now)
	}
}
