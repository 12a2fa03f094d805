// Package load sends HTTP requests over keep-alive connections and measures their latencies. Each connection waits
// for a response before it sends the next request. A connection does the least that a client must, which keeps its
// processor time small compared with the server's.
package load

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-auth/gatehouse/bench/internal/stats"
)

// Load describes requests to one address.
type Load struct {
	// Addr is the address, host:port.
	Addr string
	// Status is the expected status of every response; 0: Response decides.
	Status int
	// Request returns the bytes of the i-th request. It may write them into scratch, which belongs to one connection.
	// It is called at most once for every i, by several connections concurrently.
	Request func(i int, scratch []byte) []byte
	// Response checks each response; nil: no check. Several connections call it concurrently.
	Response func(i int, r *Response) error
	// Observe receives the start and the latency of each request that got a response; nil: no observer. Several
	// connections call it concurrently.
	Observe func(i int, began time.Time, took time.Duration)
	// Pace is the time between the starts of two requests of the whole load, like that of a service below its limit;
	// 0: each connection sends the next request when it has its response. The latency of a request that starts late
	// because all connections are waiting counts from when it was due.
	Pace time.Duration
}

// Result holds the measurements of a run.
type Result struct {
	Requests int
	Elapsed  time.Duration
	Latency  stats.Histogram
	// Dials is the number of connections dialled.
	Dials int
}

// Rate returns the requests per second.
func (r *Result) Rate() float64 { return float64(r.Requests) / r.Elapsed.Seconds() }

// Send sends count requests. It fails at the first unexpected response: a benchmark of errors measures nothing.
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

// worker sends requests over one connection.
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

// expect returns an error if the response to the i-th request is not as expected.
func (l *Load) expect(i int, r *Response) error {
	switch {
	case l.Status != 0 && r.Status != l.Status:
		return fmt.Errorf("status %d instead of %d: %.300s", r.Status, l.Status, r.Body)
	case l.Response != nil:
		return l.Response(i, r)
	}
	return nil
}

// Constant returns the same request for every i.
func Constant(request []byte) func(int, []byte) []byte {
	return func(_ int, scratch []byte) []byte { return append(scratch, request...) }
}

// InTurn returns the requests in turn, cyclically.
func InTurn(requests [][]byte) func(int, []byte) []byte {
	return func(i int, scratch []byte) []byte { return append(scratch, requests[i%len(requests)]...) }
}
