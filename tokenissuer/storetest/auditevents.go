package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// auditEvent returns the event with a number, in which every field has a value. Larger numbers are newer; several have the same time.
func auditEvent(n int) store.AuditEvent {
	return store.AuditEvent{
		Key:   store.AuditKey{At: now.Add(time.Duration(n/3) * time.Second), ID: int64(n%3)*1000 + int64(n) + 1},
		Event: fmt.Sprint("event ", n%2), UserID: fmt.Sprint("é", n%5), ClientID: "app '", Reason: "a_reason", Host: "a.example:8443",
		Data: fmt.Sprintf(`{"msg":"event %d","n":%d,"é":"\u0000"}`, n%2, n),
	}
}

func addAuditEvents(t *testing.T, s store.AuditStore, events ...store.AuditEvent) {
	t.Helper()
	must(t, s.AddAuditEvents(t.Context(), events...))
}

// auditPages reads all pages. It ends the test when there are more pages than that, or when one is larger than it may be.
func auditPages(t *testing.T, s store.AuditStore, f store.AuditFilter, limit, pages int) (all []store.AuditEvent) {
	t.Helper()
	for before := (store.AuditKey{}); ; pages-- {
		events, next, err := s.AuditEvents(t.Context(), f, before, limit)
		must(t, err)
		if len(events) > limit || pages == 0 {
			t.Fatalf("a page of at most %d has %d events, with %d pages left", limit, len(events), pages)
		}
		all = append(all, events...)
		if next.IsZero() {
			return all
		}
		before = next
	}
}

func auditCalls(s store.Store) []call {
	return []call{
		{"AddAuditEvents", func(ctx context.Context) error { return s.Audit.AddAuditEvents(ctx, auditEvent(1)) }},
		{"AuditEvents", func(ctx context.Context) error {
			_, _, err := s.Audit.AuditEvents(ctx, store.AuditFilter{}, store.AuditKey{}, 10)
			return err
		}},
		{"CountAuditEvents", func(ctx context.Context) error {
			return errOf(s.Audit.CountAuditEvents(ctx, "event 0", now, time.Hour, 24, 1000))
		}},
		{"AuditEventsBeyond", func(ctx context.Context) error { return errOf(s.Audit.AuditEventsBeyond(ctx, 10)) }},
	}
}

var auditChecks = []check{
	// Audit events, some added twice → each read back once with all fields, newest first, on pages of any size; the page after the last has none.
	{name: "X1AuditEventsReadBack", test: func(t *testing.T, s store.Store) {
		var want []store.AuditEvent
		for n := range 10 {
			want = append(want, auditEvent(n))
		}
		addAuditEvents(t, s.Audit, want[3:7]...)
		changed := want[5]
		changed.Data = "{}"
		addAuditEvents(t, s.Audit, changed) // which is there
		addAuditEvents(t, s.Audit, want...)
		addAuditEvents(t, s.Audit)
		slices.Reverse(want)
		for limit := 1; limit <= 11; limit++ {
			same(t, auditPages(t, s.Audit, store.AuditFilter{}, limit, 11), want)
		}
		bare := store.AuditEvent{Key: store.AuditKey{At: now.Add(time.Hour), ID: 7}, Event: "bare", Data: "{}"}
		addAuditEvents(t, s.Audit, bare)
		same(t, auditPages(t, s.Audit, store.AuditFilter{Since: bare.Key.At}, 1, 1), []store.AuditEvent{bare})
	}},
	// Filters of audit events, each and together, also with the letters of SQL and LIKE → the events that are equal in all of them, and no others.
	{name: "X2FiltersOfAuditEvents", test: func(t *testing.T, s store.Store) {
		for n := range 30 {
			addAuditEvents(t, s.Audit, auditEvent(n))
		}
		odd := store.AuditEvent{
			Key: store.AuditKey{At: now.Add(-time.Hour), ID: 1}, Event: `%' OR 1=1 --`, UserID: "%", ClientID: "_____", Reason: `\%"`, Host: "?1 $1", Data: "{}",
		}
		addAuditEvents(t, s.Audit, odd)
		for _, f := range []store.AuditFilter{
			{}, {Event: "event 1"}, {UserID: "é3"}, {ClientID: "app '"}, {Reason: "a_reason"}, {Host: "a.example:8443"}, {Host: "A.example:8443"},
			{Event: "event 0", UserID: "é2"}, {Event: "event 1", Host: "a.example:8443", Reason: "a_reason", ClientID: "app '", UserID: "é4"},
			{Since: now.Add(2 * time.Second)}, {Until: now.Add(2 * time.Second)}, {Since: now.Add(time.Second), Until: now.Add(3 * time.Second), UserID: "é0"},
			{Since: now, Until: now}, {Event: "event _"}, {Event: "%"}, {UserID: "é%"}, {ClientID: "' OR '1'='1"}, {Reason: "a%reason"}, {Reason: "areason"},
			{Event: odd.Event}, {UserID: odd.UserID}, {ClientID: odd.ClientID}, {Reason: odd.Reason}, {Host: odd.Host}, {UserID: "%", Host: "%"},
		} {
			want := []store.AuditEvent(nil)
			for n := 29; n >= 0; n-- {
				if e := auditEvent(n); matches(f, e) {
					want = append(want, e)
				}
			}
			if matches(f, odd) {
				want = append(want, odd)
			}
			for _, limit := range []int{1, 4, 100} {
				got := auditPages(t, s.Audit, f, limit, len(want)+1)
				if !slices.Equal(got, want) {
					t.Errorf("%+v in pages of %d: %d events, want %d", f, limit, len(got), len(want))
				}
			}
		}
	}},
	// An audit event with bytes that are no text, or NUL, or 64 KiB long → kept with U+FFFD in their place, and found by the same bytes.
	{name: "X3StrangeTextsInAuditEvents", test: func(t *testing.T, s store.Store) {
		n := 0
		for what, text := range strangeIDs {
			n++
			e := auditEvent(n)
			e.UserID, e.Host, e.Event, e.Data = text, text, text+what, `{"msg":"`+text+`"}`
			addAuditEvents(t, s.Audit, e)
			got := auditPages(t, s.Audit, store.AuditFilter{UserID: text, Event: e.Event}, 10, 1)
			if len(got) != 1 || got[0].Key != e.Key || !strings.Contains(got[0].UserID, "\uFFFD") || !strings.Contains(got[0].Data, "\uFFFD") {
				t.Errorf("%s: %+v", what, got)
			}
		}
		long := auditEvent(n + 1)
		long.Data = `{"msg":"` + strings.Repeat("é", 32<<10) + `"}`
		addAuditEvents(t, s.Audit, long)
		same(t, auditPages(t, s.Audit, store.AuditFilter{}, 1, n+1)[:1], []store.AuditEvent{long})
	}},
	// Audit events read page by page beside two nodes that add more → each that was there once, newest first, and none twice.
	{name: "X4PagesOfAuditEventsBesideWrites", beside: func(t *testing.T, a, b store.Store) {
		const before, added = 200, 300
		var there []store.AuditEvent
		for n := range before {
			there = append(there, auditEvent(n))
		}
		addAuditEvents(t, a.Audit, there...)
		var done atomic.Int32
		all(t, 3, func(i int) error {
			if i == 2 {
				for last := false; !last; {
					last = done.Load() == 2 // and once after both writers have ended
					seen := map[store.AuditKey]int{}
					got := auditPages(t, b.Audit, store.AuditFilter{}, 7, before+2*added)
					for at, e := range got {
						seen[e.Key]++
						if at > 0 && !behind(e.Key, got[at-1].Key) {
							return fmt.Errorf("%+v stands behind %+v", e.Key, got[at-1].Key)
						}
					}
					for _, e := range there {
						if seen[e.Key] != 1 {
							return fmt.Errorf("%+v is there %d times", e.Key, seen[e.Key])
						}
					}
					if last && len(seen) != before+added {
						return fmt.Errorf("there are %d, want %d", len(seen), before+added)
					}
				}
				return nil
			}
			defer done.Add(1)
			for n := range added / 2 {
				e := auditEvent(2*n + i) // some between those that are there
				e.Key.ID += 5000
				if err := []store.Store{a, b}[i].Audit.AddAuditEvents(t.Context(), e); err != nil {
					return err
				}
			}
			return nil
		})
	}},
	// Audit events counted by spans of time → those of each span with the message, at most so many of each, and of no other.
	{name: "X8AuditEventsAreCounted", test: func(t *testing.T, s store.Store) {
		for n := range 30 { // three a second, every other one with the message
			addAuditEvents(t, s.Audit, auditEvent(n))
		}
		for name, test := range map[string]struct {
			event   string
			from    time.Time
			span    time.Duration
			n, most int
			want    []int
		}{
			"all":              {"event 0", now.Add(-2 * time.Second), 2 * time.Second, 8, 100, []int{0, 3, 3, 3, 3, 3, 0, 0}},
			"of the odd":       {"event 1", now, time.Second, 3, 100, []int{1, 2, 1}},
			"at most":          {"event 0", now, 4 * time.Second, 3, 4, []int{4, 4, 3}},
			"another event":    {"event", now, time.Hour, 2, 100, []int{0, 0}},
			"letters of LIKE":  {"event %", now, time.Hour, 1, 100, []int{0}},
			"bytes of no text": {"\xff\x00", now, time.Hour, 1, 100, []int{0}},
		} {
			got, err := s.Audit.CountAuditEvents(t.Context(), test.event, test.from, test.span, test.n, test.most)
			must(t, err)
			if !slices.Equal(got, test.want) {
				t.Errorf("%s: %v, want %v", name, got, test.want)
			}
		}
	}},
	// Audit events before a time → dropped in batches, the others stay; how many are kept → known by the time of the newest that is too many.
	{name: "X5AuditEventsAreDropped", test: func(t *testing.T, s store.Store) {
		const events = 600
		var list []store.AuditEvent
		for n := range events {
			e := auditEvent(0)
			e.Key.At, e.Key.ID = now.Add(time.Duration(n)*time.Second), int64(n+1)
			list = append(list, e)
		}
		addAuditEvents(t, s.Audit, list...)
		for n, want := range map[int]time.Time{0: list[events-1].Key.At, 1: list[events-2].Key.At, events - 1: list[0].Key.At, events: {}, events + 9: {}} {
			if got := ok(s.Audit.AuditEventsBeyond(t.Context(), n))(t); !sameTime(got, want) {
				t.Errorf("beyond %d it is %v, want %v", n, got, want)
			}
		}
		for calls := 1; ok(s.Housekeeping.Drop(t.Context(), store.ExpiringAuditEvents, list[events-10].Key.At))(t); calls++ {
			if calls > events {
				t.Fatalf("after %d calls there may still be more", calls)
			}
		}
		left := slices.Clone(list[events-10:])
		slices.Reverse(left)
		same(t, auditPages(t, s.Audit, store.AuditFilter{}, 100, 1), left)
	}},
	// Two values of audit events that are common and never occur together → each page looks at a bounded number, and the end is reached.
	{name: "X6CommonValuesThatNeverMeet", test: func(t *testing.T, s store.Store) {
		const events = 4000
		for from := 0; from < events; from += 1000 {
			var list []store.AuditEvent
			for n := from; n < from+1000; n++ {
				e := auditEvent(n)
				e.Key.At, e.Key.ID, e.Reason, e.Host = now.Add(time.Duration(n)), 1, "", ""
				if n%2 == 0 {
					e.Reason = "r"
				} else {
					e.Host = "h"
				}
				e.Key.ID += int64(n)
				list = append(list, e)
			}
			addAuditEvents(t, s.Audit, list...)
		}
		meeting := auditEvent(0)
		meeting.Key.At, meeting.Reason, meeting.Host = now.Add(-time.Second), "r", "h"
		addAuditEvents(t, s.Audit, meeting)
		same(t, auditPages(t, s.Audit, store.AuditFilter{Reason: "r", Host: "h"}, 10, 2), []store.AuditEvent{meeting})
		_, next, err := s.Audit.AuditEvents(t.Context(), store.AuditFilter{Reason: "r", Host: "h"}, store.AuditKey{}, 10)
		if must(t, err); next.IsZero() {
			t.Error("the first page has looked at all of them")
		}
	}},
}

// matches reports whether an event is one that the filter selects.
func matches(f store.AuditFilter, e store.AuditEvent) bool {
	for _, field := range [][2]string{{f.Event, e.Event}, {f.UserID, e.UserID}, {f.ClientID, e.ClientID}, {f.Reason, e.Reason}, {f.Host, e.Host}} {
		if field[0] != "" && field[0] != field[1] {
			return false
		}
	}
	return !e.Key.At.Before(f.Since) && (f.Until.IsZero() || e.Key.At.Before(f.Until))
}

// behind reports whether the event with key k stands behind that with key other.
func behind(k, other store.AuditKey) bool {
	return k.At.Before(other.At) || k.At.Equal(other.At) && k.ID < other.ID
}
