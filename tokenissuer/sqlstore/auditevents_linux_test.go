package sqlstore

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// BenchmarkAuditPage reads pages of a million events by each filter, and reports the processor time of a page:
//
//	go test ./tokenissuer/sqlstore -run '^$' -bench AuditPage -benchtime 200x -timeout 60m
func BenchmarkAuditPage(b *testing.B) {
	benchAudit(b, func(b *testing.B, s *Store) {
		for name, f := range auditFilters {
			for _, limit := range []int{100, 1000} {
				b.Run(fmt.Sprintf("%s/%d", strings.ReplaceAll(name, " ", "_"), limit), func(b *testing.B) {
					began := processorTime(b)
					for b.Loop() {
						before := store.AuditKey{At: auditStart.Add(rand.N(30 * 24 * time.Hour)), ID: 1}
						_, _, err := s.Audit.AuditEvents(b.Context(), f, before, limit)
						must(b, err)
					}
					b.ReportMetric(float64((processorTime(b)-began).Microseconds())/1000/float64(b.N), "cpu-ms/page")
				})
			}
		}
		b.Run("counts", func(b *testing.B) { // 33,000 events with the message in that day
			began := processorTime(b)
			for b.Loop() {
				_, err := s.Audit.CountAuditEvents(b.Context(), "event 0", auditStart.AddDate(0, 0, 28), time.Hour, 24, 1000)
				must(b, err)
			}
			b.ReportMetric(float64((processorTime(b)-began).Microseconds())/1000/float64(b.N), "cpu-ms/chart")
		})
		b.Run("beyond", func(b *testing.B) {
			for b.Loop() {
				_, err := s.Audit.AuditEventsBeyond(b.Context(), 999_000)
				must(b, err)
			}
		})
		b.Run("add32", func(b *testing.B) {
			began := processorTime(b)
			for b.Loop() {
				must(b, s.Audit.AddAuditEvents(b.Context(), newAuditEvents(32)...))
			}
			b.ReportMetric(float64((processorTime(b)-began).Microseconds())/1000/float64(b.N), "cpu-ms/batch")
		})
		b.Run("refreshes", func(b *testing.B) { // beside a thousand events a second
			living(b, s)
			quiet := refresh(s, 1)
			time.Sleep(5 * time.Second)
			before := quiet.percentile(b, 0.99)
			beside := refresh(s, int64(len(quiet.took)+1))
			second := time.NewTicker(32 * time.Millisecond)
			defer second.Stop()
			for b.Loop() {
				must(b, s.Audit.AddAuditEvents(b.Context(), newAuditEvents(32)...))
				<-second.C
			}
			b.ReportMetric(float64(before.Microseconds())/1000, "p99-quiet-ms")
			b.ReportMetric(float64(beside.percentile(b, 0.99).Microseconds())/1000, "p99-beside-ms")
		})
	})
}

// newAuditEvents returns events that are newer than those of fillAudit.
func newAuditEvents(n int) (batch []store.AuditEvent) {
	for range n {
		batch = append(batch, store.AuditEvent{
			Key: store.AuditKey{At: auditStart.AddDate(0, 2, 0).Add(rand.N(time.Minute)), ID: rand.Int64()}, Event: "event 1",
			UserID: fmt.Sprint("u-", rand.N(1000)), ClientID: "app-1", Reason: "reason 1", Host: "host-1.example", Data: `{"path":"` + strings.Repeat("x", 350) + `"}`,
		})
	}
	return batch
}

// benchAudit runs a benchmark on a million events in each database.
func benchAudit(b *testing.B, run func(b *testing.B, s *Store)) {
	for database, open := range map[string]func(b *testing.B) *Store{
		"SQLite":     func(b *testing.B) *Store { return openWith(b, diskPath(b), func(string) {}) },
		"PostgreSQL": func(b *testing.B) *Store { return openPostgres(b, pgtest.Start(b).Database(b)) },
	} {
		b.Run(database, func(b *testing.B) {
			s := open(b)
			fillAudit(b, s, 1_000_000)
			run(b, s)
		})
	}
}

// processorTime returns what this process has used, with the processes that it has started and their own: the servers of databases.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	const tick = 10 * time.Millisecond // USER_HZ
	type process struct {
		parent string
		used   time.Duration
	}
	all := map[string]process{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	must(b, err)
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:])) // from the third on
		user, _ := strconv.Atoi(fields[11])
		system, _ := strconv.Atoi(fields[12])
		all[filepath.Base(filepath.Dir(path))] = process{fields[1], time.Duration(user+system) * tick}
	}
	self, sum := strconv.Itoa(os.Getpid()), time.Duration(0)
	for id, p := range all {
		for ancestor := id; ancestor != "" && ancestor != "0"; ancestor = all[ancestor].parent {
			if ancestor == self {
				sum += p.used
			}
		}
	}
	return sum
}
