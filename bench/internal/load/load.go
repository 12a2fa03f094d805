// Package load sends HTTP requests over keep-alive connections, each of which waits for its answer before it sends the next
// one, and measures how long the answers take. It does the least that a client must, so that what it takes of the machine is
// small beside what a server takes.
package load

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-auth/gatehouse/bench/internal/stats"
)

// Load is requests that are all sent to one address.
type Load struct {
	// Addr is where they go, host:port.
	Addr string
	// Status is what every one of them must be answered with; 0: Response says what is right.
	Status int
	// Request returns the i-th request's bytes. It may write them into scratch, which belongs to one connection; called
	// for every i at most once, and by several connections at once.
	Request func(i int, scratch []byte) []byte
	// Response sees each response; nil: nobody looks. It is called by several connections at once.
	Response func(i int, r *Response) error
	// Observe is told when each request that got an answer was sent and how long the answer took; nil: nobody asks. It is
	// called by several connections at once.
	Observe func(i int, began time.Time, took time.Duration)
	// Pace is the time between the starts of two requests of the whole load, as of a service that is in use and not at its
	// limit; 0: as fast as the answers come. A request that starts late because all connections wait counts from when it was due.
	Pace time.Duration
}

// Result is what a run has measured.
type Result struct {
	Requests int
	Elapsed  time.Duration
	Latency  stats.Histogram
	// Dials is the number of connections that it took.
	Dials int
}

// Rate is requests per second.
func (r *Result) Rate() float64 { return float64(r.Requests) / r.Elapsed.Seconds() }

// Send sends count requests. It fails at the first answer that is not as expected: a benchmark of errors measures nothing.
func (l *Load) Send(ctx context.Context, conns, count int) (*Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	workers := make([]worker, conns)
	defer func() {
		for i := range workers {
			workers[i].client.close()
		}
	}()
	for i := range workers {
		w := &workers[i]
		w.load, w.client.addr = l, l.Addr
		if err := w.client.dial(); err != nil {
			return nil, err
		}
	}
	var next atomic.Int64
	var working sync.WaitGroup
	start := time.Now()
	for i := range workers {
		w := &workers[i]
		working.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= count {
					return
				}
				if err := w.send(i, start); err != nil {
					cancel(fmt.Errorf("request %d to %s: %w", i, l.Addr, err))
				}
			}
		})
	}
	working.Wait()
	result := &Result{Requests: count, Elapsed: time.Since(start)}
	for i := range workers {
		result.Latency.Merge(&workers[i].latency)
		result.Dials += workers[i].client.dials
	}
	return result, context.Cause(ctx)
}

// worker is a connection at work.
type worker struct {
	load    *Load
	client  client
	latency stats.Histogram
}

func (w *worker) send(i int, start time.Time) error {
	w.client.request = w.load.Request(i, w.client.request[:0])
	began := time.Now()
	if w.load.Pace > 0 {
		due := start.Add(time.Duration(i) * w.load.Pace)
		if wait := due.Sub(began); wait > 0 {
			time.Sleep(wait)
			began = time.Now()
		} else {
			began = due
		}
	}
	response, err := w.client.do(w.client.request, began)
	if err != nil {
		return err
	}
	took := time.Since(began)
	w.latency.Add(took)
	if w.load.Observe != nil {
		w.load.Observe(i, began, took)
	}
	return w.load.expect(i, response)
}

// expect says what is wrong with the answer to the i-th request.
func (l *Load) expect(i int, r *Response) error {
	switch {
	case l.Status != 0 && r.Status != l.Status:
		return fmt.Errorf("status %d instead of %d: %.300s", r.Status, l.Status, r.Body)
	case l.Response != nil:
		return l.Response(i, r)
	}
	return nil
}

// Constant is the same request for every i.
func Constant(request []byte) func(int, []byte) []byte {
	return func(_ int, scratch []byte) []byte { return append(scratch, request...) }
}

// InTurn is the requests one after the other, again and again.
func InTurn(requests [][]byte) func(int, []byte) []byte {
	return func(i int, scratch []byte) []byte { return append(scratch, requests[i%len(requests)]...) }
}
