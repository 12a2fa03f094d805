package floodgate

import (
	"fmt"
	"testing"
	"time"
)

// passes has good tokens come over a connection, as the gate tells of them.
func (s *scene) passes(c Connection, times int) {
	for range times {
		if s.Passed() {
			s.PassedOn(c)
		}
	}
}

// failsOn counts failures that come over a connection, and how many of them are held back.
func (s *scene) failsOn(c Connection, times int) (held int) {
	for range times {
		if v := s.Fail(s.ada, c); v.Hold > 0 || v.Close {
			held++
		}
	}
	return held
}

func TestAConnectionWithGoodRequestsHasCredit(t *testing.T) {
	s := newScene()
	mixed, other := s.Connection(s.ada, "192.0.2.7:1000"), s.Connection(s.ada, "192.0.2.7:1001")
	s.passes(mixed, 1000)
	if s.fails(s.ada, 100); s.failsOn(mixed, 1) != 1 {
		t.Error("what passed before there was a flood counts")
	}
	for range 100 {
		s.passes(mixed, creditPrice)
		if s.failsOn(mixed, 1) != 0 {
			t.Fatal("one failure among good requests is held back")
		}
	}
	if s.failsOn(mixed, 1) != 1 || s.failsOn(other, 1) != 1 || s.failsOn(0, 1) != 1 {
		t.Error("there is credit where nothing good came")
	}
	s.passes(mixed, 10*mostCredit)
	s.passes(0, 10)
	if n := s.failsOn(mixed, 100); n != 100-mostCredit/creditPrice {
		t.Errorf("%d of 100 failures in a row are held back", n)
	}
	if stranger := s.Connection(s.source("192.0.2.8"), "192.0.2.7:1000"); stranger == mixed || s.Connection(0, "192.0.2.7:1000") != 0 {
		t.Error("two clients of one proxy have one credit")
	}
}

// TestCreditIsKeptOnlyInAFlood: when it is over, nobody is asked for connections any more.
func TestCreditIsKeptOnlyInAFlood(t *testing.T) {
	s := newScene()
	c := s.Connection(s.ada, "192.0.2.7:1000")
	if s.Passed() {
		t.Error("connections matter before there was a flood")
	}
	s.fails(s.ada, 100)
	if !s.Passed() {
		t.Error("connections do not matter in a flood")
	}
	s.wait(alarmed)
	s.passes(c, 1)
	if s.Passed() {
		t.Error("connections matter when the flood is over")
	}
	if s.fails(s.ada, 100); !s.Passed() {
		t.Error("connections do not matter in the next flood")
	}
}

// TestAMillionConnections push out each other, and not one that has much credit.
func TestAMillionConnections(t *testing.T) {
	s := newScene()
	s.fails(s.ada, 1000)
	mixed := s.Connection(s.ada, "192.0.2.7:1000")
	s.passes(mixed, mostCredit)
	i := 0
	remotes := make([]string, 1000)
	for i := range remotes {
		remotes[i] = fmt.Sprintf("198.51.100.1:%d", i)
	}
	if allocated := testing.AllocsPerRun(1_000_000, func() {
		s.PassedOn(s.Connection(Source(1+i), remotes[i%len(remotes)]))
		i++
	}); allocated != 0 {
		t.Errorf("a good request allocates %v times", allocated)
	}
	if s.failsOn(mixed, 1) != 0 {
		t.Error("a connection with much credit was forgotten")
	}
}

// TestIdleConnectionsGiveTheirPlace, however much credit they had.
func TestIdleConnectionsGiveTheirPlace(t *testing.T) {
	s := newScene()
	s.fails(s.ada, 1000)
	in := func(set, i int) Connection { return Connection(set + 1 + i*len(s.credits.sets)) }
	for i := range ways {
		s.passes(in(0, i), mostCredit)
	}
	s.wait(idle + time.Second)
	s.fails(s.ada, 1000)
	for i := range ways {
		s.passes(in(0, ways+i), creditPrice)
	}
	for i := range ways {
		if s.failsOn(in(0, ways+i), 1) != 0 {
			t.Errorf("connection %d has no place", i)
		}
	}
}

func TestANilGateKeepsNoCredit(t *testing.T) {
	var g *Gate
	c := g.Connection(1, "192.0.2.7:1000")
	if g.PassedOn(c); c != 0 || g.Passed() || g.Fail(1, 7) != (Verdict{}) {
		t.Error("a gate that is not there has credit")
	}
}

// BenchmarkPassedInAFlood is what a good request costs more while there is one.
func BenchmarkPassedInAFlood(b *testing.B) {
	g := New(usual, time.Now)
	g.overAt.Store(1 << 62)
	g.flooded.Store(true)
	b.ReportAllocs()
	for b.Loop() {
		if g.Passed() {
			g.PassedOn(g.Connection(1, "192.0.2.7:1000"))
		}
	}
}
