package sqlstore

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// auditFilters are the filters of a table of fillAudit, each alone and several together, with values that are common and rare.
var auditFilters = map[string]store.AuditFilter{
	"none": {}, "time": {Since: auditStart.Add(time.Minute), Until: auditStart.Add(time.Hour)}, "user": {UserID: "u-8"}, "client": {ClientID: "app-3"},
	"common event": {Event: "event 0"}, "rare event": {Event: "rare"}, "common reason": {Reason: "reason 0"}, "host": {Host: "host-1.example"},
	"user and event": {UserID: "u-8", Event: "event 0"}, "host and reason": {Host: "host-0.example", Reason: "reason 0"},
	"two that never meet": {Host: "host-0.example", Reason: "reason 1"}, "unknown": {UserID: "nobody"}, "unknown host, common event": {Host: "none", Event: "event 0"},
}

var auditStart = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

func fillAudit(t testing.TB, s *Store, rows int) {
	t.Helper()
	tablesOf(s).AuditEvents(t, rows, auditStart, [3]string{"event 0", "event 1", "event 2"})
}

// TestX30PagesReadAnIndex: a page of 20,000 audit events by each filter, the first and one in the middle → one range of one index, no scan of the table
// and no sort; so are counts by the hour.
func TestX30PagesReadAnIndex(t *testing.T) {
	eachDatabase(t, func(t *testing.T, s *Store) {
		fillAudit(t, s, 20_000)
		for name, f := range auditFilters {
			for _, before := range []store.AuditKey{{}, {At: auditStart.Add(15 * 24 * time.Hour), ID: 1}} {
				text, args := pageOfEvents(f, before, 100)
				plan := planOf(t, s, text, args...)
				wants, never := []string{"SEARCH audit_events USING INDEX"}, []string{"SCAN", "TEMP B-TREE"}
				if s.db.dialect.concurrent() {
					// Of a value that few rows have, PostgreSQL may read all by its index and sort them.
					wants, never = []string{"Index Scan Backward", "Bitmap Index Scan"}, []string{"Seq Scan"}
				}
				found := false
				for _, want := range wants {
					found = found || strings.Contains(plan, want)
				}
				for _, word := range never {
					found = found && !strings.Contains(plan, word)
				}
				if !found {
					t.Errorf("%s:\n%s", name, plan)
				}
			}
		}
		counting := planOf(t, s, selectCounts, "event 0", auditStart.UnixMicro(), time.Hour.Microseconds(), 24, 1000)
		if !strings.Contains(counting, "audit_events_by_event") || strings.Contains(counting, "SCAN audit_events") || strings.Contains(counting, "Seq Scan") {
			t.Errorf("counting:\n%s", counting)
		}
		if plan := planOf(t, s, selectBeyond, 1000); strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "TEMP B-TREE") {
			t.Error(plan)
		}
	})
}

// TestX31WritesBesidePurge: audit events added while older ones are dropped and pages are read → every new one is kept, every old one is
// gone, and no other step fails.
func TestX31WritesBesidePurge(t *testing.T) {
	eachDatabase(t, func(t *testing.T, s *Store) {
		const old, fresh = 2000, 1000
		living(t, s)
		fillAudit(t, s, old)
		now := auditStart.AddDate(0, 2, 0)
		var done atomic.Int32
		beside := refresh(s, 1)
		failed := make(chan error, 2)
		go func() {
			defer done.Add(1)
			var err error
			for n := 0; n < fresh && err == nil; n += 20 {
				var batch []store.AuditEvent
				for i := range 20 {
					batch = append(batch, store.AuditEvent{Key: store.AuditKey{At: now, ID: int64(n + i + 1)}, Event: "fresh", Data: "{}"})
				}
				err = s.Audit.AddAuditEvents(t.Context(), batch...)
			}
			failed <- err
		}()
		go func() {
			var err error
			for more := true; (more || done.Load() == 0) && err == nil; {
				more, err = s.Housekeeping.Drop(t.Context(), store.ExpiringAuditEvents, now.Add(-time.Hour))
				if err == nil {
					_, _, err = s.Audit.AuditEvents(t.Context(), store.AuditFilter{}, store.AuditKey{}, 1000)
				}
			}
			failed <- err
		}()
		must(t, <-failed)
		must(t, <-failed)
		beside.percentile(t, 1)
		var left, kept int
		must(t, askOne(t.Context(), s.db.background(`SELECT COUNT(*), COUNT(CASE WHEN event = 'fresh' THEN 1 END) FROM audit_events`), nil, &left, &kept))
		if left != fresh || kept != fresh {
			t.Errorf("%d events are left, %d of them new", left, kept)
		}
	})
}
