package load

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Answers holds the responses of a storm.
type Answers struct {
	// ByStatus counts the responses by status.
	ByStatus map[int]int
	// Broken counts requests without a response: the connection was closed or could not be made.
	Broken  int
	Dials   int
	Elapsed time.Duration
}

// Count returns the number of responses.
func (a *Answers) Count() int {
	sum := 0
	for _, n := range a.ByStatus {
		sum += n
	}
	return sum
}

// String formats the counts, such as "3 × 400, 12 × 503, 1 × broken".
func (a *Answers) String() string {
	var parts []string
	for status, n := range a.ByStatus {
		parts = append(parts, fmt.Sprintf("%d × %d", n, status))
	}
	slices.Sort(parts)
	if a.Broken > 0 {
		parts = append(parts, fmt.Sprintf("%d × broken", a.Broken))
	}
	return strings.Join(parts, ", ")
}

// redial is the pause after a connection could not be made.
const redial = time.Millisecond

// Storm sends requests until the context ends. Like an attacker, it accepts every response and dials again when a
// connection is closed. It ignores Status and Pace.
func (l *Load) Storm(ctx context.Context, conns int) *Answers {
	return l.gust(ctx, ctx, conns, math.MaxInt)
}

// Burst opens all connections at once and sends requests until length has passed or it has sent the number most,
// whichever is sooner. It accepts every response and waits for late ones.
func (l *Load) Burst(ctx context.Context, conns int, length time.Duration, most int) *Answers {
	until, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	return l.gust(ctx, until, conns, most)
}

// gust starts requests until the context until ends, and interrupts those in progress when ctx ends.
func (l *Load) gust(ctx, until context.Context, conns, most int) *Answers {
	sum := &Answers{ByStatus: make(map[int]int)}
	var next atomic.Int64
	var mu sync.Mutex
	var working sync.WaitGroup
	start := time.Now()
	for range conns {
		working.Go(func() {
			c := &client{addr: l.Addr}
			// A connection that the server does not answer must not delay the end.
			defer context.AfterFunc(ctx, c.interrupt)()
			defer c.close()
			own := l.storm(ctx, until, c, &next, most)
			mu.Lock()
			defer mu.Unlock()
			sum.add(own)
		})
	}
	working.Wait()
	sum.Elapsed = time.Since(start)
	return sum
}

// storm sends the requests of one connection.
func (l *Load) storm(ctx, until context.Context, c *client, next *atomic.Int64, most int) *Answers {
	own := &Answers{ByStatus: make(map[int]int)}
	for until.Err() == nil {
		i := int(next.Add(1)) - 1
		if i >= most {
			break
		}
		c.request = l.Request(i, c.request[:0])
		began := time.Now()
		response, err := c.do(c.request, began)
		switch {
		case err == nil:
			own.ByStatus[response.Status]++
			if l.Observe != nil {
				l.Observe(i, began, time.Since(began))
			}
			if l.Response != nil {
				_ = l.Response(i, response)
			}
		case ctx.Err() == nil:
			own.Broken++
			c.close()
			time.Sleep(redial)
		}
	}
	own.Dials = c.dials
	return own
}

func (a *Answers) add(other *Answers) {
	for status, n := range other.ByStatus {
		a.ByStatus[status] += n
	}
	a.Broken += other.Broken
	a.Dials += other.Dials
}
