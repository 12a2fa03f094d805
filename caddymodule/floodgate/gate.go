package floodgate

import (
	"hash/maphash"
	"net/netip"
	"runtime"
	"sync/atomic"
	"time"
)

// Limit is the budget of one source: the number of failures, refilled evenly within the window.
type Limit struct {
	Failures int
	Window   time.Duration
}

const (
	// recently is how long a valid request keeps protection active; alarmed is how long the lanes are in use after a
	// failure beyond a budget.
	recently = 500 * time.Millisecond
	alarmed  = time.Second
	// globalShare is the budget of all sources together, as a multiple of one source's. It counts only failures within a
	// source's own budget: it is for floods from everywhere. Once it is used up, each source may still fail handful
	// times.
	globalShare = 10
	handful     = 5
)

// Gate limits floods of failures. It is safe for concurrent use. A nil Gate limits nothing.
type Gate struct {
	now   func() time.Time
	begun time.Time
	seed  maphash.Seed
	timer func(time.Duration) (expired <-chan time.Time, stop func() bool)

	price   int64 // what a failure costs, in nanoseconds until it is refilled
	sources table
	all     account

	// passed is set by valid requests and cleared by failures, so that valid requests read a word that rarely changes,
	// and no clock.
	passed   atomic.Bool
	passedAt atomic.Int64
	overAt   atomic.Int64
	// flooded mirrors overAt, for reading without a clock. Passed clears it when overAt is long ago.
	flooded atomic.Bool
	credits credits

	held       atomic.Int64
	fast, slow lane
}

// New returns a Gate.
func New(limit Limit, now func() time.Time) *Gate {
	g := &Gate{
		now: now, begun: now(), seed: maphash.MakeSeed(), timer: newTimer,
		price: max(1, int64(limit.Window)/int64(limit.Failures)),
		fast:  newLane(max(1, runtime.GOMAXPROCS(0)/2)), slow: newLane(1),
	}
	allowance := g.price * int64(limit.Failures)
	g.sources.sets, g.sources.allowance = make([][ways]entry, maxSources/ways), allowance
	g.all.allowance = allowance // in units of a share of the price
	g.passedAt.Store(never)
	g.overAt.Store(never)
	return g
}

// never is a time before all others.
const never = -1 << 62

func newTimer(d time.Duration) (<-chan time.Time, func() bool) {
	t := time.NewTimer(d)
	return t.C, t.Stop
}

// clock returns the gate's age in nanoseconds.
func (g *Gate) clock() int64 { return int64(g.now().Sub(g.begun)) }

// Source identifies the origin of a request. Failures of the zero value are not counted.
type Source uint64

// Source returns the source of an address. An IPv6 address counts as its /64, which one host usually has.
func (g *Gate) Source(address netip.Addr) Source {
	if g == nil || !address.IsValid() {
		return 0
	}
	address = address.Unmap()
	bytes := address.As16()
	whole := bytes[:]
	if !address.Is4() {
		whole = bytes[:8]
	}
	return Source(max(1, maphash.Bytes(g.seed, whole)))
}

// Passed records a valid request. If it returns true, call PassedOn with the connection.
func (g *Gate) Passed() (flooded bool) {
	if g == nil {
		return false
	}
	if !g.passed.Load() {
		g.passed.Store(true)
	}
	return g.flooded.Load()
}

// isValued reports whether a valid request passed recently.
func (g *Gate) isValued(now int64) bool {
	if g.passed.Load() && g.passed.Swap(false) {
		g.passedAt.Store(now)
		return true
	}
	return now-g.passedAt.Load() < int64(recently)
}

// pressed reports whether there are both a flood and valid requests.
func (g *Gate) pressed(now int64) bool {
	return now-g.overAt.Load() < int64(alarmed) && g.isValued(now)
}

// Verdict says how to answer a failure. The zero value: at once.
type Verdict struct {
	// Hold is how long to delay the answer.
	Hold time.Duration
	// Close: close the connection after the answer.
	Close bool
	// Report: report this source to the operator. It is set once a minute for a source.
	Report bool
}

const (
	leastHold = 100 * time.Millisecond
	mostHold  = time.Second
	// Excess over its budget, in budgets, at which a source's answers are delayed the longest, and at which its
	// connections are closed.
	growth  = 2
	closing = 4
)

// Fail counts a failure over a connection, and returns how to answer it.
func (g *Gate) Fail(s Source, c Connection) Verdict {
	if g == nil || s == 0 {
		return Verdict{}
	}
	now := g.clock()
	debt := g.sources.charge(s, now, g.price)
	allowance := g.sources.allowance
	excess := debt - allowance
	if excess <= 0 && (!g.all.charge(now, max(1, g.price/globalShare)) || debt <= handful*g.price) {
		return Verdict{}
	}
	g.overAt.Store(now)
	if !g.flooded.Load() {
		g.flooded.Store(true)
	}
	if !g.isValued(now) || c != 0 && g.credits.spend(c) {
		return Verdict{}
	}
	excess = max(0, excess)
	grown := min(excess, growth*allowance)
	hold := leastHold + time.Duration(float64(mostHold-leastHold)*float64(grown)/float64(growth*allowance))
	return Verdict{
		Hold: g.jitter(hold, s, now), Close: excess >= closing*allowance,
		Report: excess > 0 && g.sources.mayReport(s, now) && g.all.mayReport(now),
	}
}

// jitter varies a delay by a quarter at random, so that delayed answers are not all sent at once.
func (g *Gate) jitter(d time.Duration, s Source, now int64) time.Duration {
	chance := maphash.Comparable(g.seed, [2]uint64{uint64(s), uint64(now)}) //nolint:gosec // a time is as good as any number
	return d - time.Duration(chance%uint64(d/4))                            //nolint:gosec // at least 100 ms
}

// isOver reports whether a source has exhausted its budget.
func (g *Gate) isOver(s Source, now int64) bool {
	return s != 0 && g.sources.debt(s, now) > g.sources.allowance
}
