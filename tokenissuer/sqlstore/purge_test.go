package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/machine"
	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/storetest"
)

// eachDatabase runs a test on a store of each kind.
func eachDatabase(t *testing.T, test func(t *testing.T, s *Store)) {
	t.Run("SQLite", func(t *testing.T) { test(t, openAt(t, newPath(t))) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, openPostgres(t, sharedDatabase(t))) })
}

// litter is a table with rows that housekeeping deletes, and how.
type litter struct {
	table string
	fill  string // adds $1 rows that ended at $2
	kind  store.Expiring
}

const upTo = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < CAST($1 AS BIGINT)) `

var allLitter = []litter{
	{"revocations", upTo + `INSERT INTO revocations (kind, id, expires_at, position)
		SELECT 'jti', 'old ' || CAST(i AS TEXT), CAST($2 AS BIGINT), 1 FROM n`, store.ExpiringRevocations},
	{"families", upTo + `INSERT INTO families (` + familyColumns + `) SELECT 'old ' || CAST(i AS TEXT), ` +
		strings.Replace(strings.TrimPrefix(familyColumns, "id, "), "expires_at, revoked_at", "CAST($2 AS BIGINT), revoked_at", 1) +
		` FROM n, families WHERE id = 'living'`, store.ExpiringFamilies},
	{"decided_requests", upTo + `INSERT INTO decided_requests (id, expires_at)
		SELECT 'old ' || CAST(i AS TEXT), CAST($2 AS BIGINT) FROM n`, store.ExpiringFamilies},
	{"attempts", upTo + `INSERT INTO attempts (bucket, failures, ends_at)
		SELECT 'old ' || CAST(i AS TEXT), 1, CAST($2 AS BIGINT) FROM n`, store.ExpiringAttempts},
	{"audit_events", upTo + `INSERT INTO audit_events (at, id, event, user_id, host, data)
		SELECT CAST($2 AS BIGINT), i, 'old ' || CAST(i AS TEXT), 'u-' || CAST(i % 100 AS TEXT), 'h', '{}' FROM n`, store.ExpiringAuditEvents},
}

// living adds a family that is refreshed while others are deleted.
func living(t testing.TB, s *Store) {
	t.Helper()
	must(t, storetest.Done(s.Families.AddFamily(t.Context(), &store.TokenFamily{
		ID: "living", User: store.FamilyUser{ID: "ada", Declared: true, Version: "1"}, Grant: store.Grant{ClientID: "app", Origin: oauth.AuthorizationCode},
		Refresh: store.RefreshState{Generation: 1, RotatedAt: time.Now()}, Validity: store.Validity{CreatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)},
	})))
}

// scatter adds expired rows to a table.
func (l litter) scatter(t testing.TB, s *Store, rows int, ended time.Time) {
	t.Helper()
	must(t, s.db.step(t.Context(), "filling", func(ctx context.Context, tx session) error {
		_, err := tx.ExecContext(ctx, l.fill, rows, ended.UnixMicro())
		return err
	}))
}

// refresher refreshes the living family until it is stopped, and records how long each refresh took.
type refresher struct {
	stop   context.CancelFunc
	took   []time.Duration
	ended  sync.WaitGroup
	failed error
}

func refresh(s *Store, generation int64) *refresher {
	ctx, stop := context.WithCancel(context.Background())
	r := &refresher{stop: stop}
	r.ended.Go(func() {
		for ; ctx.Err() == nil; generation++ {
			begun := time.Now()
			if err := storetest.Used(s.Families.RotateRefreshToken(context.Background(), "living", generation, store.Rotation{At: begun})); err != nil {
				r.failed = err
				return
			}
			r.took = append(r.took, time.Since(begun))
		}
	})
	return r
}

// percentile stops the refreshing and returns the time within which that share of the refreshes finished.
func (r *refresher) percentile(t testing.TB, share float64) time.Duration {
	t.Helper()
	r.stop()
	r.ended.Wait()
	if r.failed != nil || len(r.took) == 0 {
		t.Fatalf("%d refreshes, then %v", len(r.took), r.failed)
	}
	slices.Sort(r.took)
	return r.took[int(share*float64(len(r.took)-1))]
}

// TestF26PurgeInBatches: expired records are deleted some hundred rows at a time, and concurrent refreshes continue. A purge in one
// statement would block the one writer of SQLite, or bloat one transaction of PostgreSQL, for its whole duration.
func TestF26PurgeInBatches(t *testing.T) {
	const rows = 4 * maxDropped // each
	// Row F26 allows a fraction of what refreshes otherwise take, some milliseconds, which a few refreshes cannot show. No refresh that
	// waits for a batch takes a second. A purge in one statement would hold SQLite's writer for its whole duration.
	const bound = time.Second
	eachDatabase(t, func(t *testing.T, s *Store) {
		living(t, s)
		now := time.Now()
		for _, l := range allLitter {
			l.scatter(t, s, rows, now.Add(-time.Hour))
		}
		beside := refresh(s, 1)
		for _, l := range allLitter {
			left := l.count(t, s)
			for more := true; more; {
				begun := time.Now()
				var err error
				more, err = s.Housekeeping.Drop(t.Context(), l.kind, now)
				must(t, err)
				if took := time.Since(begun); machine.Fair(took) > bound {
					t.Errorf("one call on %s took %v", l.table, took)
				}
				before := left
				if left = l.count(t, s); before-left > maxDropped {
					t.Fatalf("one call dropped %d of %s", before-left, l.table)
				}
			}
			if left := l.count(t, s); left != 0 {
				t.Errorf("%d rows of %s are left", left, l.table)
			}
		}
		if worst := beside.percentile(t, 1); machine.Fair(worst) > bound {
			t.Errorf("a refresh beside the purge took %v", worst)
		}
		if _, err := s.Families.Family(t.Context(), "living"); err != nil {
			t.Errorf("the family that lives: %v", err)
		}
	})
}

// TestRequestsLeaveBesideFamilies: each call deletes decided requests, even if there are enough expired families for every call.
func TestRequestsLeaveBesideFamilies(t *testing.T) {
	const rows = 4 * leastDropped
	eachDatabase(t, func(t *testing.T, s *Store) {
		living(t, s)
		now := time.Now()
		families, requests := allLitter[1], allLitter[2]
		families.scatter(t, s, rows, now.Add(-time.Hour))
		requests.scatter(t, s, rows, now.Add(-time.Hour))
		more, err := s.Housekeeping.Drop(t.Context(), store.ExpiringFamilies, now)
		must(t, err)
		if f, r := families.count(t, s), requests.count(t, s); !more || f >= rows || r >= rows {
			t.Errorf("one call leaves %d families and %d requests of %d each, and tells of more: %v", f, r, rows, more)
		}
		_, err = s.db.write.ExecContext(t.Context(), `DELETE FROM families WHERE id LIKE 'old %'`)
		must(t, err)
		if more, err = s.Housekeeping.Drop(t.Context(), store.ExpiringFamilies, now); err != nil || !more {
			t.Errorf("with requests alone it tells of more: %v (%v)", more, err)
		}
	})
}

// count counts the expired rows of a table.
func (l litter) count(t testing.TB, s *Store) (n int) {
	t.Helper()
	key := cmp.Or(map[string]string{"attempts": "bucket", "audit_events": "event"}[l.table], "id")
	must(t, askOne(t.Context(), s.db.background(fmt.Sprintf(`SELECT COUNT(*) FROM %s WHERE %s LIKE 'old %%'`, l.table, key)), nil, &n))
	return n
}

// BenchmarkF26Purge deletes a million rows, in the rhythm of the housekeeping, concurrently with refreshes:
//
//	go test ./tokenissuer/sqlstore -run '^$' -bench F26 -benchtime 4000x -timeout 60m
//
// where each round is a batch. It reports the 99th percentile of a refresh before the purge and during it.
func BenchmarkF26Purge(b *testing.B) {
	for _, database := range []struct {
		name string
		open func(b *testing.B) *Store
	}{
		{"SQLite", func(b *testing.B) *Store { return openAt(b, diskPath(b)) }},
		{"PostgreSQL", func(b *testing.B) *Store { return openPostgres(b, pgtest.Start(b).Database(b)) }},
	} {
		for _, l := range allLitter[:2] {
			b.Run(database.name+"/"+l.table, func(b *testing.B) {
				s := database.open(b)
				living(b, s)
				now := time.Now()
				l.scatter(b, s, b.N*maxDropped, now.Add(-time.Hour))
				quiet := refresh(s, 1)
				time.Sleep(2 * time.Second)
				before := quiet.percentile(b, 0.99)
				b.ResetTimer()
				beside := refresh(s, int64(len(quiet.took)+1))
				for more := true; more; {
					var err error
					more, err = s.Housekeeping.Drop(b.Context(), l.kind, now)
					must(b, err)
					time.Sleep(20 * time.Millisecond)
				}
				b.StopTimer()
				b.ReportMetric(float64(before.Microseconds())/1000, "p99-quiet-ms")
				b.ReportMetric(float64(beside.percentile(b, 0.99).Microseconds())/1000, "p99-purging-ms")
			})
		}
	}
}
