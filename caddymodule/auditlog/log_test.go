package auditlog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var errAway = errors.New("the database is away")

// fakeStore is a store that can be away.
type fakeStore struct {
	store.AuditStore
	mu     sync.Mutex
	kept   map[store.AuditKey]store.AuditEvent
	list   []store.AuditEvent
	writes int
	// fault is what happens to a write; nil: it is kept.
	fault func(context.Context) (keeps bool, err error)
}

func (s *fakeStore) AddAuditEvents(ctx context.Context, events ...store.AuditEvent) error {
	s.mu.Lock()
	s.writes++
	fault, keeps, err := s.fault, true, error(nil)
	s.mu.Unlock()
	if len(events) > batchSize {
		err = fmt.Errorf("%d events at once", len(events))
	}
	if fault != nil {
		keeps, err = fault(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		if _, again := s.kept[e.Key]; keeps && !again {
			s.kept[e.Key] = e
			s.list = append(s.list, e)
		}
	}
	return err
}

func (s *fakeStore) fails(fault func(context.Context) (bool, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// events returns what is kept, in the order of the writes.
func (s *fakeStore) events() []store.AuditEvent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list[:len(s.list):len(s.list)]
}

// scene is a log, the logger that it belongs to, and what that has written. A month is kept, unless the test says otherwise.
type scene struct {
	*Log
	store  *fakeStore
	audit  *zap.Logger
	logged *observer.ObservedLogs
}

func newScene(t *testing.T, level zapcore.Level) *scene {
	core, logged := observer.New(level)
	logger := zap.New(core).Named("oauth")
	s := &scene{store: &fakeStore{kept: map[store.AuditKey]store.AuditEvent{}}, logged: logged}
	s.Log = New(Retention{Keep: 30 * 24 * time.Hour, MaxEvents: 1000}, time.Now, func() *zap.Logger { return logger })
	s.audit = logger.WithOptions(s.Kept()).Named("audit")
	t.Cleanup(s.Close)
	return s
}

// settle waits until the writer has nothing to do, or waits for the database.
func (s *scene) settle() {
	time.Sleep(time.Minute) // in the time of the bubble
	synctest.Wait()
}

// count returns the number of events with a result.
func count(result string) int {
	registry := prometheus.NewRegistry()
	registry.MustRegister(events)
	families, _ := registry.Gather()
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if m.GetLabel()[0].GetValue() == result {
				return int(m.GetCounter().GetValue())
			}
		}
	}
	return 0
}

// TestX10QueueFull: more audit events than the queue holds while the database is away → no line waits, the first of them are kept once it is
// back, the others are counted, and one audit line says how many.
func TestX10QueueFull(t *testing.T) {
	for what, text := range map[string]string{"in number": "", "in bytes": strings.Repeat("é", 500)} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, zapcore.InfoLevel)
				s.store.fails(func(ctx context.Context) (bool, error) { <-ctx.Done(); return false, ctx.Err() })
				s.Open(s.store)
				before := count(dropped)
				const lines = 2 * maxQueued
				start := time.Now()
				for n := range lines {
					s.audit.Info("refused", zap.Int("n", n), zap.Strings("texts", []string{text, text, text}))
				}
				if took := time.Since(start); took > 0 {
					t.Errorf("the lines waited for %v", took)
				}
				s.settle()
				s.mu.Lock()
				held, size := len(s.queue), s.bytes
				s.mu.Unlock()
				lost := count(dropped) - before
				if held+lost != lines || held > maxQueued || size > maxQueuedBytes || held < 1000 {
					t.Errorf("%d events of %d bytes are held and %d dropped, of %d", held, size, lost, lines)
				}
				s.store.fails(nil)
				s.settle()
				list := s.store.events()
				if len(list) != held+1 {
					t.Fatalf("%d events are kept, want %d and the report", len(list), held)
				}
				for n, e := range list[:held] {
					if !strings.Contains(e.Data, fmt.Sprintf(`"n":%d,`, n)) {
						t.Fatalf("event %d is %s", n, e.Data)
					}
				}
				if report := list[held]; report.Event != "events not kept" || !strings.Contains(report.Data, fmt.Sprintf(`"events":%d`, lost)) {
					t.Errorf("the last one is %s, want the report of %d", report.Data, lost)
				}
				if n := s.logged.FilterMessage("the store does not take the audit log: trying again").Len(); n != 1 {
					t.Errorf("the outage is told %d times", n)
				}
				s.audit.Info("later")
				s.settle()
				if n := s.logged.FilterMessage("events not kept").Len(); n != 1 {
					t.Errorf("what was dropped is told %d times", n)
				}
			})
		})
	}
}

// TestX11EventsWhileTheDatabaseIsAway: audit events while the database is away, or says nothing of what it has stored → each is kept once when
// it is back, in order.
func TestX11EventsWhileTheDatabaseIsAway(t *testing.T) {
	for what, fault := range map[string]func(context.Context) (bool, error){
		"away":      func(context.Context) (bool, error) { return false, errAway },
		"unknown":   func(context.Context) (bool, error) { return true, errAway },
		"is silent": func(ctx context.Context) (bool, error) { <-ctx.Done(); return false, ctx.Err() },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, zapcore.InfoLevel)
				s.audit.Info("before the store is open")
				s.settle()
				s.Open(s.store)
				s.settle()
				want := 1
				for round := range 3 {
					s.store.fails(fault)
					for n := range 150 {
						s.audit.Info("away", zap.Int("n", 1000*round+n))
						time.Sleep(7 * time.Millisecond)
					}
					s.settle()
					s.store.fails(nil)
					want += 150
					s.settle()
					if n := len(s.store.events()); n != want {
						t.Fatalf("%d events are kept, want %d", n, want)
					}
				}
				last := store.AuditKey{}
				for _, e := range s.store.events() {
					if e.Key.At.Before(last.At) {
						t.Errorf("%s comes behind a later one", e.Data)
					}
					last = e.Key
				}
			})
		})
	}
}

// TestX12TheEndOfANode: a node ends with audit events in the queue → they are kept; with a database that does not answer → the end waits for
// seconds, and the log says how many were lost.
func TestX12TheEndOfANode(t *testing.T) {
	for what, away := range map[string]bool{"the database is there": false, "away": true} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, zapcore.InfoLevel)
				s.Open(s.store)
				if away {
					s.store.fails(func(ctx context.Context) (bool, error) { <-ctx.Done(); return false, ctx.Err() })
				}
				before := count(dropped)
				for range 300 {
					s.audit.Info("at the end")
				}
				time.Sleep(gatherTime + time.Millisecond) // the first write has begun
				start := time.Now()
				s.Close()
				s.audit.Info("too late")
				took, kept := time.Since(start), len(s.store.events())
				told := s.logged.FilterMessage("events of the audit log are not in the store: it did not take them before the end").All()
				if away {
					if kept != 0 || took > closeTimeout || len(told) != 1 || told[0].ContextMap()["events"] != int64(300) || count(dropped)-before != 301 {
						t.Errorf("%d are kept after %v, %d counted, told: %v", kept, took, count(dropped)-before, told)
					}
				} else if kept != 300 || took > time.Second || len(told) != 0 || count(dropped)-before != 1 {
					t.Errorf("%d are kept after %v, %d counted, told: %v", kept, took, count(dropped)-before, told)
				}
				s.Close() // does nothing
			})
		})
	}
}

// TestX13WhatIsKept: lines of the audit log at info and above → kept, whatever the configuration logs of them; at debug, of another logger, or
// without `audit` → not kept.
func TestX13WhatIsKept(t *testing.T) {
	for _, level := range []zapcore.Level{zapcore.DebugLevel, zapcore.FatalLevel} {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, level)
			s.Open(s.store)
			s.audit.Debug("request passed the gate")
			s.audit.Info("signed in", zap.String("subject", "u-ada"), zap.String("host", "a.example"))
			s.audit.With(zap.String("client_id", "app")).Warn("suspected")
			s.audit.Error("refused", zap.String("reason", "store_unavailable"), zap.NamedError("cause", errAway))
			s.Logger().Info("another line")
			s.Logger().Named("audit").Named("of another").Info("another line")
			s.Use(Retention{})
			s.audit.Error("without audit")
			s.Use(Retention{Keep: time.Hour})
			s.settle()
			var got []string
			for _, e := range s.store.events() {
				got = append(got, strings.Join([]string{e.Event, e.UserID, e.ClientID, e.Reason, e.Host, e.Data}, "|"))
			}
			want := []string{
				`signed in|u-ada|||a.example|{"host":"a.example","level":"info","msg":"signed in","subject":"u-ada"}`,
				`suspected||app|||{"client_id":"app","level":"warn","msg":"suspected"}`,
				`refused|||store_unavailable||{"cause":"the database is away","level":"error","msg":"refused","reason":"store_unavailable"}`,
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("kept is\n%s, want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			logged := s.logged.FilterMessage("signed in").Len()
			if usual := level == zapcore.DebugLevel; usual != (logged == 1) {
				t.Errorf("the log of the configuration has the line %d times", logged)
			}
		})
	}
}

// TestX16PeopleOfOtherIssuers: a line about a token of a trusted issuer, of any length, whose subject is the id of a user of ours → kept with
// its trust and its subject, and not as an event of the user.
func TestX16PeopleOfOtherIssuers(t *testing.T) {
	for _, members := range []int{0, 20, 1000} { // whole, with short texts, and without most members
		fields := []zap.Field{zap.String("issuer", "https://corp.example"), zap.String("trust", "corp"), zap.String("subject", "u-ada")}
		for n := range members {
			fields = append(fields, zap.String(fmt.Sprint("member", n), strings.Repeat("x", maxText)))
		}
		e := eventOf(zapcore.Entry{Message: "request refused at the gate"}, fields)
		var line map[string]any
		if err := json.Unmarshal([]byte(e.Data), &line); err != nil || e.UserID != "" || line["trust"] != "corp" || line["subject"] != "u-ada" || len(e.Data) > maxLine {
			t.Errorf("%d members: %v, of user %q: %.300s", members, err, e.UserID, e.Data)
		}
	}
}

// hostile is a field whose text panics.
type hostile struct{}

func (*hostile) String() string { panic("no text") }

// TestX14TextsOfStrangers: an audit line with texts of 64 KiB, bytes that are no text, NUL, long lists, or a value that has no text → an event
// of at most 8 KiB that is valid JSON, with what it is about.
func TestX14TextsOfStrangers(t *testing.T) {
	huge := strings.Repeat("é", 32<<10)
	many := make([]string, 10_000)
	for i := range many {
		many[i] = huge
	}
	for what, fields := range map[string][]zap.Field{
		"long":            {zap.String("path", huge), zap.String("reason", huge[1:])},
		"many long":       {zap.String("a", huge), zap.String("b", huge), zap.String("c", huge), zap.String("d", huge), zap.String("e", huge), zap.String("f", huge), zap.String("g", huge), zap.String("h", huge), zap.String("i", huge)},
		"not text":        {zap.String("path", "a\xff\xfe\x00\x1b[31m"), zap.String("host", "\x00\xff")},
		"a list":          {zap.Strings("list", many)},
		"lists in a list": {zap.Any("list", [][]string{many[:9], many[:9]}), zap.Any("map", map[string]any{huge: huge})},
		"an error":        {zap.NamedError("cause", errors.New(huge)), zap.Error(nil)},
		"no text":         {zap.Stringer("it", (*hostile)(nil)), zap.Stringer("it2", &hostile{})},
		"other types":     {zap.Time("at", time.Now()), zap.Duration("d", time.Second), zap.Float64("f", 1.5), zap.Bool("b", true), zap.Uint64("u", 1<<63), zap.Binary("bin", []byte(huge))},
	} {
		e := eventOf(zapcore.Entry{Level: zapcore.WarnLevel, Message: "refused"}, append(fields, zap.String("subject", "u-ada")))
		var line map[string]any
		if err := json.Unmarshal([]byte(e.Data), &line); err != nil || len(e.Data) > maxLine || !utf8.ValidString(e.Data) || strings.Contains(e.Data, "\x00") {
			t.Errorf("%s: %d bytes, %v: %.200q", what, len(e.Data), err, e.Data)
		}
		if line["msg"] != "refused" || line["subject"] != "u-ada" || e.UserID != "u-ada" || len(e.Reason) > maxText || len(e.Host) > maxText {
			t.Errorf("%s: the event is %+.200v", what, e)
		}
	}
}

// TestX15AThousandRefusalsASecond: 1000 refusals a second for ten seconds → all are kept within seconds, in writes that 32 share, and no line
// waits for one.
func TestX15AThousandRefusalsASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, zapcore.FatalLevel)
		s.store.fails(func(context.Context) (bool, error) { time.Sleep(2 * time.Millisecond); return true, nil })
		s.Open(s.store)
		start := time.Now()
		for n := range 10_000 {
			s.audit.Info("request refused at the gate", zap.Int("n", n))
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("it took %v", took)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(s.store.events()); n != 10_000 || s.store.writes > 10_000/25 {
			t.Errorf("%d are kept in %d writes", n, s.store.writes)
		}
	})
}

// BenchmarkAdd is what an audit line costs the request that writes it, besides the log of the configuration.
func BenchmarkAdd(b *testing.B) {
	logger := zap.NewNop()
	l := New(Retention{Keep: time.Hour, MaxEvents: 1000}, time.Now, func() *zap.Logger { return logger })
	audit := zap.New(zapcore.NewNopCore(), l.Kept()).Named("oauth").Named("audit")
	b.ReportAllocs()
	for b.Loop() {
		audit.Info("request refused at the gate", zap.String("address", "192.0.2.1"), zap.String("method", "GET"), zap.String("host", "app.example.com"),
			zap.String("path", "/orders/1"), zap.Int("status", 401), zap.String("error", "unauthorized"), zap.String("reason", "token_missing"))
		if l.waiting() > 1000 {
			l.queue, l.bytes = nil, 0
		}
	}
}
