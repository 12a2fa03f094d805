package clientmetadata

import (
	"sync"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/fairqueue"
)

// How many fetches begin in one minute: of one host, for one source of requests, of one host for one source, and in all.
const (
	mostForOne     = 30
	mostOfOneToOne = 15
	mostInAll      = 600
)

// counted returns what a fetch counts towards. What strangers ask of a host keeps nobody from a client that is known: its document is asked
// for once in five minutes at most, and otherwise as often as its host fails.
func counted(q *question) []fairqueue.Share {
	if q.known {
		return []fairqueue.Share{{Name: "known " + q.host, Most: mostForOne}}
	}
	return []fairqueue.Share{
		{Name: "all", Most: mostInAll},
		{Name: "source " + q.source, Most: mostForOne}, {Name: "host " + q.host, Most: mostForOne}, {Name: "host " + q.host + " source " + q.source, Most: mostOfOneToOne},
	}
}

// allowance counts fetches. Whoever asks for URLs that nobody has asked for would otherwise have us ask any host as often as they like.
type allowance struct {
	mu    sync.Mutex
	until time.Time
	by    map[string]int
}

// take counts a fetch, and reports whether each of the shares has one left. Retry is when there may be one again.
func (a *allowance) take(now time.Time, shares ...fairqueue.Share) (retry time.Duration, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if left := a.until.Sub(now); left <= 0 || left > time.Minute {
		a.until, a.by = now.Add(time.Minute), make(map[string]int)
	}
	retry = a.until.Sub(now)
	for _, share := range shares {
		if a.by[share.Name] >= share.Most {
			return retry, false
		}
	}
	for _, share := range shares {
		a.by[share.Name]++
	}
	return retry, true
}
