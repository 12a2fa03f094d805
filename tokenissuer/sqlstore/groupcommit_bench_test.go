package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/storetest"
)

// oneByOne is the runner that groupCommit is compared with: a transaction for each step.
type oneByOne struct{ *groupCommit }

func (o oneByOne) Run(ctx context.Context, j job) error {
	tx, err := o.database.Write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := j.do(ctx, inTransaction(&transaction{Tx: tx})); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// BenchmarkDurableRotation measures rotations of refresh tokens by callers that each wait for their previous one, relative to the disk's
// speed in the same run. /fsync is the number of rotations in the time of one sequential write and sync of 4 KiB, and /alone is relative
// to one caller with a transaction for each step.
func BenchmarkDurableRotation(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "data")
	s := openAt(b, filepath.Join(dir, "gatehouse.db"))
	grouped, _ := s.db.steps.(*groupCommit)
	generations := manyFamilies(b, s)
	var synced, alone float64 // per second
	b.Run("fsync", func(b *testing.B) { synced = benchmarkSync(b, dir) })
	for _, c := range []struct {
		name   string
		runner runner
	}{{"one by one", oneByOne{grouped}}, {"grouped", grouped}} {
		for _, callers := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/%d callers", c.name, callers), func(b *testing.B) {
				s.db.steps = c.runner
				rate := benchmarkRotation(b, s, generations, callers)
				if callers == 1 && c.runner != runner(grouped) {
					alone = rate
				}
				b.ReportMetric(rate, "rotations/s")
				b.ReportMetric(rate/synced, "/fsync")
				b.ReportMetric(rate/alone, "/alone")
			})
		}
	}
}

func benchmarkSync(b *testing.B, dir string) (rate float64) {
	file, err := os.Create(filepath.Join(dir, "sync"))
	must(b, err)
	page := make([]byte, 4096)
	b.ResetTimer()
	for b.Loop() {
		if _, err := file.Write(page); err != nil {
			b.Fatal(err)
		}
		must(b, file.Sync())
	}
	rate = float64(b.N) / b.Elapsed().Seconds()
	must(b, errors.Join(file.Close(), os.Remove(file.Name())))
	b.ReportMetric(rate, "fsyncs/s")
	return rate
}

// manyFamilies stores families, enough that rotations seldom share a page, and returns the generation of each.
func manyFamilies(b *testing.B, s *Store) []int64 {
	generations := make([]int64, 64*320)
	var group sync.WaitGroup
	for first := range 64 {
		group.Go(func() {
			for i := first; i < len(generations); i += 64 {
				f := declaredFamily(fmt.Sprint("family ", i))
				f.Refresh.Generation = 0
				if err := storetest.Done(s.Families.AddFamily(b.Context(), f)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	group.Wait()
	return generations
}

// benchmarkRotation returns the number of rotations per second. Each caller has its own families, and takes them in turn, each time on
// another page.
func benchmarkRotation(b *testing.B, s *Store, generations []int64, callers int) (rate float64) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var group sync.WaitGroup
	b.ResetTimer()
	for first := range callers {
		group.Go(func() {
			for i := first; left.Add(-1) >= 0; i = (i + callers*97) % len(generations) {
				if err := storetest.Used(s.Families.RotateRefreshToken(b.Context(), fmt.Sprint("family ", i), generations[i], store.Rotation{At: time.Now()})); err != nil {
					b.Error(err)
					return
				}
				generations[i]++
			}
		})
	}
	group.Wait()
	return float64(b.N) / b.Elapsed().Seconds()
}
