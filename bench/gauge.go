package main

import (
	"cmp"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
	"github.com/gatehouse-auth/gatehouse/bench/internal/report"
	"github.com/gatehouse-auth/gatehouse/bench/internal/stats"
)

// gaugeWindow is the length of one window of a gauge.
const gaugeWindow = 100 * time.Millisecond

// gauge observes the responses of one burst, window by window.
type gauge struct {
	start time.Time
	// bad reports whether the latency of request i is left out; nil: none is.
	bad func(i int) bool

	mu           sync.Mutex      // guards the fields below
	first, later stats.Histogram // of requests that began in the first window, and of the others
	windows      []int           // responses in each window
	wrong        int
	firstWrong   error

	answers *load.Answers
}

// gust observes a load that it sends until length has passed or it has sent the number most (0: no limit),
// whichever is sooner. A wrong response does not end it: their number is part of the result.
func (b *bench) gust(l load.Load, conns int, length time.Duration, most int, bad func(int) bool) (*gauge, error) {
	if most == 0 {
		most = math.MaxInt
	}
	g := &gauge{start: time.Now(), bad: bad}
	l = g.watch(l)
	g.answers = l.Burst(b.ctx, conns, length, most)
	if g.answers.Count() == 0 && b.ctx.Err() == nil {
		return nil, fmt.Errorf("nothing was answered: %s", g.answers)
	}
	return g, b.ctx.Err()
}

func (g *gauge) watch(l load.Load) load.Load {
	status, right := l.Status, l.Response
	l.Observe = g.observe
	l.Response = func(i int, r *load.Response) error {
		err := expectStatus(cmp.Or(status, r.Status), r)
		if err == nil && right != nil {
			err = right(i, r)
		}
		if err != nil {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.wrong, g.firstWrong = g.wrong+1, cmp.Or(g.firstWrong, err)
		}
		return err
	}
	return l
}

func expectStatus(want int, r *load.Response) error {
	if r.Status != want {
		return fmt.Errorf("status %d instead of %d: %.300s", r.Status, want, r.Body)
	}
	return nil
}

func (g *gauge) observe(i int, began time.Time, took time.Duration) {
	if g.bad != nil && g.bad(i) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if began.Sub(g.start) < gaugeWindow {
		g.first.Add(took)
	} else {
		g.later.Add(took)
	}
	window := int(began.Add(took).Sub(g.start) / gaugeWindow)
	for len(g.windows) <= window {
		g.windows = append(g.windows, 0)
	}
	g.windows[window]++
}

// rate returns the responses per second.
func (g *gauge) rate() float64 { return float64(g.answers.Count()) / g.answers.Elapsed.Seconds() }

// firstSecond returns the number of responses in the first second.
func (g *gauge) firstSecond() float64 {
	sum := 0
	for _, n := range g.windows[:min(len(g.windows), int(time.Second/gaugeWindow))] {
		sum += n
	}
	return float64(sum)
}

// all returns the latencies of the whole burst.
func (g *gauge) all() *stats.Histogram {
	sum := g.first
	sum.Merge(&g.later)
	return &sum
}

// until returns the time until three consecutive windows together reach rate, in whole windows. If none do, it
// returns the length of the burst.
func (g *gauge) until(rate float64) time.Duration {
	const moments = 3
	for i := 0; i+moments <= len(g.windows); i++ {
		sum := 0
		for _, n := range g.windows[i : i+moments] {
			sum += n
		}
		if float64(sum) >= rate*(moments*gaugeWindow).Seconds() {
			return time.Duration(i) * gaugeWindow
		}
	}
	return g.answers.Elapsed
}

// gauges are the gauges of one subject, one for each round.
type gauges []*gauge

// median returns the median of a number, and quantile that of a latency. quantile returns an empty cell if the
// histogram of the first round is empty.
func (all gauges) median(of func(*gauge) float64, decimals int) report.Cell {
	return report.Number(stats.MedianOf(all, of), decimals)
}

func (all gauges) quantile(q float64, of func(*gauge) *stats.Histogram) report.Cell {
	if of(all[0]).Count() == 0 {
		return report.Cell{}
	}
	return all.median(func(g *gauge) float64 { return milliseconds(of(g).Quantile(q)) }, 2)
}

// longest returns the longest latency of any round.
func (all gauges) longest() (longest time.Duration) {
	for _, g := range all {
		longest = max(longest, g.first.Longest(), g.later.Longest())
	}
	return longest
}

// refusedWrongly returns how many responses were wrong or missing. It adds a note with the first one of each round.
func (b *bench) refusedWrongly(name string, all gauges) (sum float64) {
	for _, g := range all {
		sum += float64(g.wrong + g.answers.Broken)
		if g.firstWrong != nil {
			b.report.Note("%s: %d wrong answers, such as %v.", name, g.wrong, g.firstWrong)
		}
		if g.answers.Broken > 0 {
			b.report.Note("%s: %d requests got no answer.", name, g.answers.Broken)
		}
	}
	return sum
}
