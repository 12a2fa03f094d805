package auditlog

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// The queue holds at most maxQueued events of maxQueuedBytes bytes: of 1000 refusals a second, those of some seconds without the database.
const (
	maxQueued      = 8192
	maxQueuedBytes = 8 << 20
	// eventBytes is what an event takes besides its texts.
	eventBytes = 256
)

const (
	// gatherTime is how long a few events wait for others, to share a write.
	gatherTime = 100 * time.Millisecond
	// batchSize is the number of events in one write, for which SQLite's other writers wait: a few milliseconds. batchPause between two
	// writes lets them go first.
	batchSize  = 32
	batchPause = 5 * time.Millisecond
	// writeTimeout bounds one write, and retryPause is the time between two attempts.
	writeTimeout = 5 * time.Second
	retryPause   = time.Second
)

// closeTimeout bounds how long Close writes what waits.
const closeTimeout = 2 * time.Second

// Results of an event: the labels of events.
const (
	kept    = "kept"
	dropped = "dropped"
)

var events = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "gatehouse_audit_events_total",
	Help: "Events of the audit log for the store, by the result: kept, or dropped (too many waited for the database).",
}, []string{"result"})

// Metrics returns the metrics of the process.
func Metrics() []prometheus.Collector { return []prometheus.Collector{events} }

// Retention says which events are kept. The zero value keeps none.
type Retention struct {
	// Keep is how long an event is kept, and MaxEvents how many are: the oldest go first.
	Keep      time.Duration
	MaxEvents int
}

// LeftOverKeep is how long events are kept that were written under a configuration with an audit log, once there is none.
const LeftOverKeep = 30 * 24 * time.Hour

// Log is the audit log of a node: a queue of events, and a goroutine that writes them to the store. A request never waits for either: an
// event that finds the queue full is dropped, and counted.
type Log struct {
	now       func() time.Time
	logger    func() *zap.Logger // of the `oauth` app
	retention atomic.Pointer[Retention]

	mu     sync.Mutex
	queue  []store.AuditEvent // the first are being written
	bytes  int
	lost   struct{ all, told int64 } // events that were dropped, and how many of them were reported
	closed bool

	wake    chan struct{}   // has a value when there may be work
	written chan struct{}   // closed once the writer has ended; nil: there is none
	ctx     context.Context // ends with Close
	stop    context.CancelFunc
}

// New returns a log with an empty queue. Now is the time of events: one clock for all nodes.
func New(retention Retention, now func() time.Time, logger func() *zap.Logger) *Log {
	l := &Log{now: now, logger: logger, wake: make(chan struct{}, 1)}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.Use(retention)
	return l
}

// Use sets the retention.
func (l *Log) Use(r Retention) { l.retention.Store(&r) }

// Retention returns the retention.
func (l *Log) Retention() Retention { return *l.retention.Load() }

func (l *Log) isOn() bool { return l.Retention().Keep > 0 }

// Logger returns the logger of the `oauth` app, whose audit lines are kept.
func (l *Log) Logger() *zap.Logger { return l.logger().WithOptions(l.Kept()) }

// add queues an event, with a new key.
func (l *Log) add(e store.AuditEvent) {
	e.Key = store.AuditKey{At: l.now().UTC().Truncate(time.Microsecond), ID: newID()}
	l.mu.Lock()
	defer l.mu.Unlock()
	if size := sizeOf(e); !l.closed && len(l.queue) < maxQueued && l.bytes+size <= maxQueuedBytes {
		l.queue, l.bytes = append(l.queue, e), l.bytes+size
		l.rouse()
		return
	}
	l.lost.all++
	events.WithLabelValues(dropped).Inc()
}

func sizeOf(e store.AuditEvent) int {
	return eventBytes + len(e.Event) + len(e.UserID) + len(e.ClientID) + len(e.Reason) + len(e.Host) + len(e.Data)
}

func newID() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:])                             // never fails
	return int64(binary.BigEndian.Uint64(b[:])>>1) | 1 // positive
}

// rouse wakes the writer.
func (l *Log) rouse() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Open starts the writer, with the store of the node. It is called once at most.
func (l *Log) Open(s store.AuditStore) {
	written := make(chan struct{})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written = written
	go func() {
		defer close(written)
		l.run(s)
	}()
}

// Close writes the events that wait, for closeTimeout at most, and ends the writer. Later events are dropped. The store must be open until
// Close returns.
func (l *Log) Close() {
	l.mu.Lock()
	written, again := l.written, l.closed
	l.closed = true
	l.mu.Unlock()
	if again {
		return
	}
	l.stop()
	if written != nil {
		<-written
	}
	l.mu.Lock()
	left := len(l.queue)
	l.queue, l.bytes = nil, 0
	l.mu.Unlock()
	if left > 0 {
		events.WithLabelValues(dropped).Add(float64(left))
		l.logger().Error("events of the audit log are not in the store: it did not take them before the end", zap.Int("events", left))
	}
}

// run writes events until the log is closed, and then what is left.
func (l *Log) run(s store.AuditStore) {
	failing := false
	for {
		select {
		case <-l.ctx.Done():
			l.flush(s)
			return
		case <-l.wake:
		}
		l.pause(gatherTime)
		for l.waiting() > 0 {
			err := l.write(l.ctx, s)
			if err != nil && !failing && l.ctx.Err() == nil {
				l.logger().Warn("the store does not take the audit log: trying again", zap.Error(err))
			}
			failing = err != nil
			pause := gatherTime
			switch {
			case failing:
				pause = retryPause
			case l.waiting() >= batchSize:
				pause = batchPause
			}
			if !l.pause(pause) {
				break
			}
		}
		l.report()
	}
}

// flush writes what waits when the log is closed.
func (l *Log) flush(s store.AuditStore) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for l.waiting() > 0 && ctx.Err() == nil {
		if err := l.write(ctx, s); err != nil {
			return
		}
	}
}

// pause waits, and reports whether the log is still open.
func (l *Log) pause(d time.Duration) bool {
	select {
	case <-l.ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Dropped returns the number of events that were dropped.
func (l *Log) Dropped() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost.all
}

func (l *Log) waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue)
}

// write writes a batch. After an error, which may mean that it was written, it stays in the queue: adding it again changes nothing.
func (l *Log) write(ctx context.Context, s store.AuditStore) error {
	l.mu.Lock()
	batch := l.queue[:min(len(l.queue), batchSize)] // others only append to the queue
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := s.AddAuditEvents(ctx, batch...); err != nil {
		return err
	}
	events.WithLabelValues(kept).Add(float64(len(batch)))
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range batch {
		l.bytes -= sizeOf(batch[i])
	}
	clear(batch)
	if l.queue = l.queue[len(batch):]; len(l.queue) == 0 {
		l.queue = nil
	}
	return nil
}

// report writes an audit line about events that were dropped, once the queue is empty again.
func (l *Log) report() {
	l.mu.Lock()
	lost := l.lost.all - l.lost.told
	if len(l.queue) > 0 || l.closed {
		lost = 0
	} else {
		l.lost.told = l.lost.all
	}
	l.mu.Unlock()
	if lost > 0 {
		l.Logger().Named("audit").Warn("events not kept", zap.Int64("events", lost))
	}
}
