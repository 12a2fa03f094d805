package floodgate

import (
	"sync"
	"time"
)

const (
	// maxSources is how many sources the table holds, in sets of ways that share a place. It takes 1.5 MiB, never more. A source that finds its set full takes the place of the one that owes least: sources that
	// come once push out each other, and not one that floods.
	maxSources = 1 << 16
	ways       = 8
	stripes    = 64
	// ceiling is the most that a source can owe, in budgets: it is within its budget again after as many windows.
	ceiling = 8
	// reportPause is the least time between two reports of a source, and maxReports how many sources may be reported in that time.
	reportPause = time.Minute
	maxReports  = 60
)

// table has an entry for each source that failed recently.
type table struct {
	allowance int64
	sets      [][ways]entry
	locks     [stripes]sync.Mutex
}

// entry is the account of one source. Clear is when it owes nothing any more; its debt is the time until then.
type entry struct {
	source Source
	clear  int64
	told   int64 // time of the last report
}

// charge adds the price of a failure, and returns the source's debt.
func (t *table) charge(s Source, now, price int64) int64 {
	set, lock := t.set(s)
	defer lock.Unlock()
	e := find(set, s)
	if e == nil {
		e = cheapest(set)
		*e = entry{source: s, clear: now, told: never}
	}
	e.clear = min(max(e.clear, now)+price, now+ceiling*t.allowance)
	return e.clear - now
}

// debt returns what the source owes.
func (t *table) debt(s Source, now int64) int64 {
	set, lock := t.set(s)
	defer lock.Unlock()
	if e := find(set, s); e != nil {
		return max(0, e.clear-now)
	}
	return 0
}

// mayReport reports whether to report the source to the operator now.
func (t *table) mayReport(s Source, now int64) bool {
	set, lock := t.set(s)
	defer lock.Unlock()
	e := find(set, s)
	if e == nil || now-e.told < int64(reportPause) {
		return false
	}
	e.told = now
	return true
}

// set returns the source's set and its mutex, locked.
func (t *table) set(s Source) (*[ways]entry, *sync.Mutex) {
	at := uint64(s) % uint64(len(t.sets))
	lock := &t.locks[at%stripes]
	lock.Lock()
	return &t.sets[at], lock
}

func find(set *[ways]entry, s Source) *entry {
	for i := range set {
		if set[i].source == s {
			return &set[i]
		}
	}
	return nil
}

func cheapest(set *[ways]entry) *entry {
	least := &set[0]
	for i := range set {
		e := &set[i]
		if e.source == 0 {
			return e
		}
		if e.clear < least.clear {
			least = e
		}
	}
	return least
}

// account is the debt of all sources together.
type account struct {
	allowance int64

	mu     sync.Mutex
	clear  int64
	told   int // number of sources reported
	toldIn int64
}

// charge adds the price of a failure, and reports whether the budget is exceeded.
func (a *account) charge(now, price int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.clear = min(max(a.clear, now)+price, now+2*a.allowance)
	return a.clear-now > a.allowance
}

// mayReport reports whether one more source may be reported now.
func (a *account) mayReport(now int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if minute := now / int64(reportPause); minute != a.toldIn {
		a.told, a.toldIn = 0, minute
	}
	a.told++
	return a.told <= maxReports
}
