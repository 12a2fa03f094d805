package floodgate

import (
	"hash/maphash"
	"sync"
	"time"
)

// Connection identifies a connection of a source. The zero value has no credit.
type Connection uint64

// Connection returns the identifier of a source's connection from a remote address.
func (g *Gate) Connection(s Source, remote string) Connection {
	if g == nil || s == 0 {
		return 0
	}
	return Connection(max(1, maphash.Comparable(g.seed, s)^maphash.String(g.seed, remote)))
}

const (
	// creditPrice is how many valid requests over a connection pay for one failure that is answered at once: a delayed
	// answer would block the valid requests behind it. So up to a third of a connection's requests may fail.
	creditPrice = 2
	// mostCredit is the maximum credit of a connection.
	mostCredit = 64
	// maxConnections is the size of the table; it takes 192 KiB.
	maxConnections = 1 << 13
	// idle is how long after its last valid request a connection may be replaced.
	idle = 10 * time.Second
)

// credits records the valid requests of connections during a flood. In a full set, a new connection replaces an idle one,
// or the one with the least credit.
type credits struct {
	sets  [maxConnections / ways][ways]credit
	locks [stripes]sync.Mutex
}

type credit struct {
	connection Connection
	left       int
	earned     int64 // time of the last valid request
}

// worth is the entry's value when one must be replaced.
func (c *credit) worth(now int64) int {
	if now-c.earned > int64(idle) {
		return 0
	}
	return c.left
}

// earn adds the credit of one valid request.
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

// spend deducts the price of a failure, and reports whether there was enough credit.
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

// PassedOn records a valid token on a connection. Call it if Passed returns true.
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
