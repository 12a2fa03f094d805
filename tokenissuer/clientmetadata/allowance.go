package clientmetadata

import (
	"sync"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/fairqueue"
)

// The numbers of fetches in one minute: of one host or for one source of requests, of one host for one source, and in all.
const (
	mostForOne     = 30
	mostOfOneToOne = 15
	mostInAll      = 600
)

// counted returns the shares that a fetch counts towards. Requests for unknown clients do not use up the fetches of known ones, whose documents
// are fetched once in five minutes at most unless their host fails.
func counted(q *question) []fairqueue.Share {
	if q.known {
		return []fairqueue.Share{{Name: "known " + q.host, Most: mostForOne}}
	}
	return []fairqueue.Share{
		{Name: "all", Most: mostInAll},
		{Name: "source " + q.source, Most: mostForOne}, {Name: "host " + q.host, Most: mostForOne}, {Name: "host " + q.host + " source " + q.source, Most: mostOfOneToOne},
	}
}

// allowance counts fetches. Without it, requests for new URLs could make us send any number of requests to any host.
type allowance struct {
	mu    sync.Mutex
	until time.Time
	by    map[string]int
}

// take counts a fetch, and reports whether each of the shares has one left. Retry is the time until there may be one.
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
