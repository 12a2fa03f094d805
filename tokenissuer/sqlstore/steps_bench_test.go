package sqlstore

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/storetest"
)

// durableStep is a step that a request waits for. For the n-th call of a benchmark, prepare creates what the step works on.
type durableStep struct {
	name    string
	prepare func(b *testing.B, s *Store, n int)
	take    func(b *testing.B, s *Store, n int) error
}

var durableSteps = []durableStep{
	{"rotate", addBenchFamilies, func(b *testing.B, s *Store, n int) error {
		return storetest.Used(s.Families.RotateRefreshToken(b.Context(), benchFamily(n), 1, store.Rotation{At: time.Now()}))
	}},
	{"redeem", addBenchFamilies, func(b *testing.B, s *Store, n int) error {
		return storetest.Used(s.Families.RedeemCode(b.Context(), benchFamily(n), store.Redemption{At: time.Now(), Generation: 1, ExpiresAt: time.Now().Add(time.Hour), MaxFailures: 5}))
	}},
	{"new family", nil, func(b *testing.B, s *Store, n int) error {
		return storetest.Done(s.Families.AddFamily(b.Context(), newBenchFamily(n, "")))
	}},
	{"new family of a request", nil, func(b *testing.B, s *Store, n int) error {
		return storetest.Done(s.Families.AddFamily(b.Context(), newBenchFamily(n, fmt.Sprint("request ", n))))
	}},
	{"revoke a token", nil, func(b *testing.B, s *Store, n int) error {
		return s.Revocations.Revoke(b.Context(), store.Revocation{Kind: store.RevokeToken, ID: benchFamily(n), ExpiresAt: time.Now().Add(time.Hour)})
	}},
	{"end a family", addBenchFamilies, func(b *testing.B, s *Store, n int) error {
		_, err := s.Families.EndFamilies(b.Context(), store.FamilyFilter{ID: benchFamily(n)}, store.Ending{At: time.Now(), Until: time.Now().Add(time.Hour)})
		return err
	}},
}

// benchFamily returns ids that are spread like those of real families.
func benchFamily(n int) string { return fmt.Sprintf("%08x-%d", uint32(n)*2654435761, n) }

func newBenchFamily(n int, request string) *store.TokenFamily {
	f := declaredFamily(benchFamily(n))
	f.Refresh.Generation = 1
	f.Code = store.CodeBinding{RequestID: request, RedirectURI: "https://app.example/", ExpiresAt: time.Now().Add(time.Minute)}
	return f
}

func addBenchFamilies(b *testing.B, s *Store, count int) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range 64 {
		group.Go(func() {
			for n := int(next.Add(1)) - 1; n < count; n = int(next.Add(1)) - 1 {
				if err := storetest.Done(s.Families.AddFamily(b.Context(), newBenchFamily(n, ""))); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

// BenchmarkDurableSteps measures each step, with callers that wait for their previous one, on both databases. /trip is the number of
// steps in the time of one sequential durable write of a row in the same run.
func BenchmarkDurableSteps(b *testing.B) {
	server := pgtest.Start(b) // on the disk, unlike the shared one
	for name, open := range map[string]func(*testing.B) *Store{
		"SQLite":     func(b *testing.B) *Store { return openAt(b, diskPath(b)) },
		"PostgreSQL": func(b *testing.B) *Store { return openPostgresWith(b, server.Database(b), 16) },
	} {
		b.Run(name, func(b *testing.B) {
			var alone float64
			b.Run("one row, alone", func(b *testing.B) {
				s := open(b)
				alone = benchmarkStep(b, s, 1, func(b *testing.B, s *Store, _ int) error { return s.Ping(b.Context()) })
			})
			for _, step := range durableSteps {
				for _, callers := range []int{16, 64} {
					b.Run(fmt.Sprintf("%s/%d callers", step.name, callers), func(b *testing.B) {
						s := open(b)
						if step.prepare != nil {
							step.prepare(b, s, b.N)
						}
						rate := benchmarkStep(b, s, callers, step.take)
						b.ReportMetric(rate, "steps/s")
						b.ReportMetric(rate/alone, "/alone")
					})
				}
			}
		})
	}
}

func benchmarkStep(b *testing.B, s *Store, callers int, take func(*testing.B, *Store, int) error) (rate float64) {
	var next atomic.Int64
	var group sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range callers {
		group.Go(func() {
			for n := int(next.Add(1)) - 1; n < b.N; n = int(next.Add(1)) - 1 {
				if err := take(b, s, n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	b.StopTimer()
	return float64(b.N) / b.Elapsed().Seconds()
}
