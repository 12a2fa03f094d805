package floodgate

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// usual is twenty failures at once and ten a second.
var usual = Limit{Failures: 20, Window: 2 * time.Second}

// scene is a Gate under a clock that stands still until it is turned.
type scene struct {
	*Gate
	mu  sync.Mutex
	at  time.Time
	ada Source
}

func newScene() *scene {
	s := &scene{at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	s.Gate = New(usual, func() time.Time {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.at
	})
	s.ada = s.source("192.0.2.7")
	return s
}

func (s *scene) source(address string) Source { return s.Source(netip.MustParseAddr(address)) }

func (s *scene) wait(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = s.at.Add(d)
}

// fails counts so many failures, beside somebody who passes, and returns the last verdict.
func (s *scene) fails(source Source, times int) (v Verdict) {
	for range times {
		s.Passed()
		v = s.Fail(source, 0)
	}
	return v
}

func (s *scene) atOnce(t *testing.T, what string, v Verdict) {
	t.Helper()
	if v != (Verdict{}) {
		t.Errorf("%s: %+v", what, v)
	}
}

func held(t *testing.T, what string, v Verdict, least, most time.Duration) {
	t.Helper()
	if v.Hold < least || v.Hold > most {
		t.Errorf("%s: held for %v, not between %v and %v", what, v.Hold, least, most)
	}
}

func TestWithinTheBudgetNothingIsDelayed(t *testing.T) {
	s := newScene()
	s.atOnce(t, "the last failure of the budget", s.fails(s.ada, 20))
	held(t, "the one beyond it", s.fails(s.ada, 1), 75*time.Millisecond, 125*time.Millisecond)
	s.wait(300 * time.Millisecond)
	s.atOnce(t, "as many as have come back since", s.fails(s.ada, 2))
	s.wait(time.Hour)
	s.atOnce(t, "a budget that nobody has used for long", s.fails(s.ada, 20))
}

func TestHoldsGrowAndThenTheConnectionIsClosed(t *testing.T) {
	s := newScene()
	v := s.fails(s.ada, 21)
	held(t, "the first", v, 75*time.Millisecond, 125*time.Millisecond)
	v = s.fails(s.ada, 20)
	held(t, "a budget later", v, 400*time.Millisecond, 575*time.Millisecond)
	if v.Close {
		t.Error("a connection is closed as soon as that")
	}
	v = s.fails(s.ada, 58)
	held(t, "the longest", v, 750*time.Millisecond, time.Second)
	if v.Close {
		t.Error("a connection is closed before its time")
	}
	if v = s.fails(s.ada, 1); !v.Close {
		t.Error("connections are never closed")
	}
	s.fails(s.ada, 100_000)
	s.wait((ceiling-1)*usual.Window + time.Second)
	s.atOnce(t, "a source that had no end of failures, some seconds later", s.fails(s.ada, 1))
}

func TestHoldsAreSpread(t *testing.T) {
	s := newScene()
	s.fails(s.ada, 1000)
	seen := map[time.Duration]bool{}
	for range 50 {
		s.wait(time.Nanosecond)
		seen[s.fails(s.ada, 1).Hold] = true
	}
	if len(seen) < 40 {
		t.Errorf("of 50 holds only %d differ", len(seen))
	}
}

// TestNothingIsHeldWithoutSomebodyToProtect: a flood that hurts nobody is answered as fast as can be, and its signatures wait for
// nothing.
func TestNothingIsHeldWithoutSomebodyToProtect(t *testing.T) {
	s := newScene()
	for range 1000 {
		s.atOnce(t, "a flood alone", s.Fail(s.ada, 0))
	}
	for range 100 { // none of which leaves
		if _, waited, err := s.Admit(t.Context(), s.ada); err != nil || waited {
			t.Fatalf("waited %v, %v", waited, err)
		}
	}
	s.Passed()
	held(t, "once somebody has passed", s.Fail(s.ada, 0), 750*time.Millisecond, time.Second)
	s.wait(recently - 1)
	held(t, "not long after", s.Fail(s.ada, 0), 750*time.Millisecond, time.Second)
	s.wait(1)
	s.atOnce(t, "when that is long ago", s.Fail(s.ada, 0))
}

func TestSources(t *testing.T) {
	s := newScene()
	s.fails(s.ada, 100)
	s.fails(s.source("2001:db8:1:2::1"), 100)
	for address, over := range map[string]bool{
		"192.0.2.7": true, "::ffff:192.0.2.7": true, "192.0.2.8": false,
		"2001:db8:1:2:ffff::9": true, "2001:db8:1:3::1": false,
	} {
		if v := s.fails(s.source(address), 1); over != (v.Hold > 0) {
			t.Errorf("%s: %+v", address, v)
		}
	}
	if s.Source(netip.Addr{}) != 0 {
		t.Error("no address is a source")
	}
	s.atOnce(t, "nobody", s.fails(0, 1000))
}

// TestG81AMillionSources do not make the table larger, and do not let the one be forgotten that floods from among them.
func TestG81AMillionSources(t *testing.T) {
	s := newScene()
	s.fails(s.ada, 1000)
	address := func(i int) netip.Addr {
		return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)})
	}
	i := 0
	if allocated := testing.AllocsPerRun(1_000_000, func() {
		s.Fail(s.Source(address(i)), 0)
		i++
	}); allocated != 0 {
		t.Errorf("a failure allocates %v times", allocated)
	}
	if size := len(s.sources.sets) * ways; size != maxSources {
		t.Errorf("the table has %d places", size)
	}
	if v := s.fails(s.ada, 1); !v.Close {
		t.Errorf("the one that floods was forgotten: %+v", v)
	}
}

// TestFailuresFromEverywhere: with the budget of all sources together used up, a source has a handful left. Whoever is over
// their own does not use up that of all.
func TestFailuresFromEverywhere(t *testing.T) {
	s := newScene()
	stranger := func(i int) Source { return s.source(fmt.Sprintf("198.51.%d.%d", i/256, i%256)) }
	s.fails(s.ada, 10_000)
	s.atOnce(t, "somebody else beside one that floods", s.fails(stranger(0), 15))
	for i := range 60 {
		s.fails(stranger(1+i), handful)
	}
	v := s.fails(stranger(100), handful)
	s.atOnce(t, "a handful", v)
	v = s.fails(stranger(100), 1)
	held(t, "more than a handful", v, 75*time.Millisecond, 100*time.Millisecond)
	if v.Close || v.Report {
		t.Errorf("%+v", v)
	}
	s.wait(2*usual.Window + time.Second)
	s.atOnce(t, "when it is over", s.fails(stranger(101), 15))
}

func TestToldOnceAMinute(t *testing.T) {
	s := newScene()
	told := func(source Source, times int) (n int) {
		for range times {
			if s.fails(source, 1).Report {
				n++
			}
		}
		return n
	}
	if n := told(s.ada, 500); n != 1 {
		t.Errorf("told %d times", n)
	}
	s.wait(time.Minute)
	if n := told(s.ada, 500); n != 1 {
		t.Errorf("a minute later told %d times", n)
	}
	all := 0
	for i := range 3 * maxReports {
		all += told(s.source(fmt.Sprintf("198.51.100.%d", i)), 30)
	}
	if all > maxReports {
		t.Errorf("told of %d sources in a minute", all)
	}
}

func TestANilGateLetsEverythingThrough(t *testing.T) {
	var g *Gate
	g.Passed()
	if v := g.Fail(g.Source(netip.MustParseAddr("192.0.2.7")), 0); v != (Verdict{}) {
		t.Errorf("%+v", v)
	}
	if leave, waited, err := g.Admit(t.Context(), 1); err != nil || waited {
		t.Errorf("waited %v, %v", waited, err)
	} else {
		leave(true)
	}
	if g.Held() != 0 {
		t.Error("something is held")
	}
}

func BenchmarkPassed(b *testing.B) {
	g := New(usual, time.Now)
	b.ReportAllocs()
	for b.Loop() {
		g.Passed()
	}
}

func BenchmarkFail(b *testing.B) {
	g := New(usual, time.Now)
	address := netip.MustParseAddr("192.0.2.7")
	b.ReportAllocs()
	for b.Loop() {
		g.Fail(g.Source(address), 0)
	}
}
