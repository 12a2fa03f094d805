package sqlstore

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// planOf returns the database's plan for a statement.
func planOf(t *testing.T, s *Store, text string, args ...any) string {
	t.Helper()
	explain, columns := "EXPLAIN QUERY PLAN ", 4
	if s.db.dialect.concurrent() {
		explain, columns = "EXPLAIN ", 1
	}
	rows, err := s.db.write.QueryContext(t.Context(), explain+text, args...)
	must(t, err)
	defer func() { _ = rows.Close() }()
	lines, err := scanAll(rows, func(row scanner) (line string, err error) {
		var ignored any
		into := []any{&ignored, &ignored, &ignored, &line}
		return line, row.Scan(into[4-columns:]...)
	})
	must(t, err)
	return strings.Join(lines, "\n")
}

// TestABatchReadsNoMoreThanItDrops: PostgreSQL once read all expired rows for every batch, and a backlog of a quarter of a million
// families caused a thousand times as many reads.
func TestABatchReadsNoMoreThanItDrops(t *testing.T) {
	eachDatabase(t, func(t *testing.T, s *Store) {
		living(t, s)
		rows := 100 // SQLite plans without looking at the tables
		if s.db.dialect.concurrent() {
			rows = 20_000
		}
		for _, l := range allLitter {
			l.scatter(t, s, rows, time.Now().Add(-time.Hour))
		}
		if s.db.dialect.concurrent() {
			_, err := s.db.write.ExecContext(t.Context(), `ANALYZE`)
			must(t, err)
		}
		for _, table := range []struct{ name, end string }{
			{"families", "expires_at"}, {"decided_requests", "expires_at"}, {"attempts", "ends_at"}, {"audit_events", "at"},
			{"revocations", "COALESCE(expires_at, 0)"},
		} {
			plan := planOf(t, s, fmt.Sprintf(s.db.dialect.dropSome, table.name, table.end), time.Now().UnixMicro(), maxDropped)
			want, never := "INTEGER PRIMARY KEY (rowid=?)", "SCAN"
			if s.db.dialect.concurrent() {
				want, never = "Tid Scan on "+table.name, "Seq Scan"
			}
			if !strings.Contains(plan, want) || strings.Contains(plan, never) {
				t.Errorf("%s:\n%s", table.name, plan)
			}
		}
	})
}

// TestTheSchemesAreNotReadFromEveryUser: the query runs in every minute in which a user signs in.
func TestTheSchemesAreNotReadFromEveryUser(t *testing.T) {
	s := openAt(t, newPath(t))
	if plan := planOf(t, s, selectSchemes); strings.Contains(plan, "SCAN users") {
		t.Error(plan)
	}
}

func TestABatchIsAsLargeAsTheTimeForItAllows(t *testing.T) {
	var p dropPace
	if p.next() != leastDropped {
		t.Errorf("the first batch has %d rows", p.next())
	}
	for range 20 {
		p.took(dropTime/10, true)
	}
	if p.next() != maxDropped {
		t.Errorf("%d rows where a batch takes no time", p.next())
	}
	p.took(10*dropTime, false)
	if p.next() != maxDropped {
		t.Error("a batch that was not full says nothing")
	}
	p.took(10*dropTime, true)
	if p.next() != maxDropped/2 {
		t.Errorf("%d rows after one slow batch", p.next())
	}
	for range 20 {
		p.took(10*dropTime, true)
	}
	if p.next() != leastDropped {
		t.Errorf("%d rows where the disk is slow", p.next())
	}
	p.took(0, true) // a clock that stands still
	if p.next() > 2*leastDropped {
		t.Errorf("%d rows at once", p.next())
	}
}
