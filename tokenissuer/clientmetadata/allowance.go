package clientmetadata

import (
	"sync"
	"time"
)

// How many fetches begin in one minute: of one host, for one source of requests, and in all.
const (
	mostForOne = 30
	mostInAll  = 600
)

// allowance counts fetches. Whoever asks for URLs that nobody has asked for would otherwise have us ask any host as often as they like.
type allowance struct {
	mu    sync.Mutex
	until time.Time
	all   int
	by    map[string]int
}

// take counts a fetch, and reports whether there may be one for each of the names. Retry is when there may be one again.
func (a *allowance) take(now time.Time, names ...string) (retry time.Duration, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if left := a.until.Sub(now); left <= 0 || left > time.Minute {
		a.until, a.all, a.by = now.Add(time.Minute), 0, make(map[string]int)
	}
	retry = a.until.Sub(now)
	if a.all >= mostInAll {
		return retry, false
	}
	for _, name := range names {
		if a.by[name] >= mostForOne {
			return retry, false
		}
	}
	a.all++
	for _, name := range names {
		a.by[name]++
	}
	return retry, true
}
