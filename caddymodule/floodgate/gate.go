package floodgate

import (
	"hash/maphash"
	"net/netip"
	"runtime"
	"sync/atomic"
	"time"
)

// Limit is the budget of one source: so many failures at once, which come back evenly within the window.
type Limit struct {
	Failures int
	Window   time.Duration
}

const (
	// recently is how long ago something passed that is to be protected, and alarmed how long after a failure beyond a
	// budget the lanes are in use.
	recently = 500 * time.Millisecond
	alarmed  = time.Second
	// globalShare is the budget of all sources together, in those of one. Only failures within their own source's budget
	// count there: it is for floods that come from everywhere. With it used up, a source has handful failures left.
	globalShare = 10
	handful     = 5
)

// Gate is the state of all of it. It is shared by all requests. Nil lets everything through.
type Gate struct {
	now   func() time.Time
	begun time.Time
	seed  maphash.Seed
	timer func(time.Duration) (expired <-chan time.Time, stop func() bool)

	price   int64 // what a failure costs of a budget, in nanoseconds until it has come back
	sources table
	all     account

	// passed is set by whatever passes and taken by failures, so that the warm path of good requests reads a word that hardly
	// ever changes, and looks at no clock.
	passed   atomic.Bool
	passedAt atomic.Int64
	overAt   atomic.Int64
	// flooded is overAt without a clock: it is set with it, and taken back by what passes when that is long ago.
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
	g.all.allowance = allowance // where a failure costs a share of the price
	g.passedAt.Store(never)
	g.overAt.Store(never)
	return g
}

// never is a time that is long ago for everybody.
const never = -1 << 62

func newTimer(d time.Duration) (<-chan time.Time, func() bool) {
	t := time.NewTimer(d)
	return t.C, t.Stop
}

// clock is how long the gate is there, in nanoseconds.
func (g *Gate) clock() int64 { return int64(g.now().Sub(g.begun)) }

// Source is where a request comes from. The zero value is nobody, whose failures are not counted.
type Source uint64

// Source returns the source that an address stands for: an IPv6 address stands for its /64, which is what one host has.
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

// Passed says that somebody came through who is to be protected. Flooded: it should also be said over which connection; see
// PassedOn.
func (g *Gate) Passed() (flooded bool) {
	if g == nil {
		return false
	}
	if !g.passed.Load() {
		g.passed.Store(true)
	}
	return g.flooded.Load()
}

// isValued reports whether something has passed recently.
func (g *Gate) isValued(now int64) bool {
	if g.passed.Load() && g.passed.Swap(false) {
		g.passedAt.Store(now)
		return true
	}
	return now-g.passedAt.Load() < int64(recently)
}

// pressed reports whether there is both a flood and somebody to protect from it.
func (g *Gate) pressed(now int64) bool {
	return now-g.overAt.Load() < int64(alarmed) && g.isValued(now)
}

// Verdict is what becomes of the answer to a failure. The zero value: it is given at once.
type Verdict struct {
	// Hold is how long the answer is held back.
	Hold time.Duration
	// Close: the connection is closed with the answer.
	Close bool
	// Tell: somebody should be told of this source. It is set once a minute for a source.
	Tell bool
}

const (
	leastHold = 100 * time.Millisecond
	mostHold  = time.Second
	// growth and closing are how many budgets beyond its own a source has used when its answers are held the longest, and
	// when its connections are closed.
	growth  = 2
	closing = 4
)

// Fail counts a failure that came over a connection, and says what becomes of its answer.
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
		Tell: excess > 0 && g.sources.tell(s, now) && g.all.tell(now),
	}
}

// jitter keeps answers that were held back at once from being given at once: a quarter of the time is by chance.
func (g *Gate) jitter(d time.Duration, s Source, now int64) time.Duration {
	chance := maphash.Comparable(g.seed, [2]uint64{uint64(s), uint64(now)}) //nolint:gosec // a time is as good as any number
	return d - time.Duration(chance%uint64(d/4))                            //nolint:gosec // at least 100 ms
}

// isOver reports whether a source has used up its budget.
func (g *Gate) isOver(s Source, now int64) bool {
	return s != 0 && g.sources.debt(s, now) > g.sources.allowance
}
