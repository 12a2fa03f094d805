package sqlstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	// powerCutsName is the environment variable with the number of power losses in TestF3PowerLoss.
	powerCutsName = "GATEHOUSE_TEST_POWER_CUTS"
	powerCuts     = 150
	powerSeed     = 20261121

	// sector is the unit that a disk writes completely or not at all.
	sector = 512
)

// platter is the content of a disk, and the writes that are still pending.
type platter struct {
	// names has, for each name, the files that it may lead to after a power loss, newest last; nil is none. All names are certain once
	// the directory is synced, which SQLite does with the first sync of a file that it created.
	names map[string][]*platterFile
}

type platterFile struct {
	content []byte
	pending []operation // since the last sync
	unnamed bool        // never synced
}

// apply applies an operation.
func (p *platter) apply(o operation) {
	files := p.names[o.name]
	switch o.kind {
	case found:
		p.names[o.name] = []*platterFile{{content: o.data}}
	case created:
		p.names[o.name] = append(files, &platterFile{unnamed: true})
	case deleted:
		p.names[o.name] = append(files, nil)
		if o.names {
			p.syncNames()
		}
	case written, truncated:
		newest := files[len(files)-1]
		newest.pending = append(newest.pending, o)
	case synced:
		newest := files[len(files)-1]
		for _, pending := range newest.pending {
			newest.content = pending.on(newest.content)
		}
		newest.pending = nil
		if newest.unnamed {
			newest.unnamed = false
			p.syncNames()
		}
	}
}

func (p *platter) syncNames() {
	for name, files := range p.names {
		p.names[name] = files[len(files)-1:]
	}
}

// cut returns the content after a power loss: everything that was synced, and an arbitrary part of the rest, in any order and torn
// between sectors.
func (p *platter) cut(random *rand.Rand) map[string][]byte {
	left := make(map[string][]byte)
	survives := []float64{0, 0.1, 0.5, 0.9, 1}[random.IntN(5)]
	for name, files := range p.names {
		file := files[random.IntN(len(files))]
		if file == nil {
			continue
		}
		content := bytes.Clone(file.content)
		for _, o := range file.pending {
			content = tear(o, content, survives, random)
		}
		left[name] = content
	}
	return left
}

// tear applies an operation partly: each sector with that probability.
func tear(o operation, content []byte, survives float64, random *rand.Rand) []byte {
	if o.kind == truncated {
		if random.Float64() < survives {
			content = o.on(content)
		}
		return content
	}
	for from := int64(0); from < int64(len(o.data)); {
		to := min(from+sector-(o.offset+from)%sector, int64(len(o.data)))
		if random.Float64() < survives {
			content = operation{kind: written, offset: o.offset + from, data: o.data[from:to]}.on(content)
		}
		from = to
	}
	return content
}

// TestF3PowerLoss: the power is cut at random points of a store's life → it opens, with everything that was acknowledged. The database is
// sound and has no incomplete step.
func TestF3PowerLoss(t *testing.T) {
	t.Parallel()
	cuts := powerCuts
	if text := os.Getenv(powerCutsName); text != "" {
		var err error
		cuts, err = strconv.Atoi(text)
		must(t, err)
	}
	t.Logf("%d cuts with seed %d", cuts, powerSeed)
	random := rand.New(rand.NewPCG(powerSeed, 0))
	done := busyLife(t)

	at := cutPoints(done, cuts, random)
	disk, known := platter{names: make(map[string][]*platterFile)}, newBooks()
	dir, next := memoryDir(t), 0
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	var group sync.WaitGroup
	for _, position := range at {
		for ; next < position; next++ {
			if e, ok := done[next].note.(entry); ok {
				known.enter(e)
				continue
			}
			disk.apply(done[next])
		}
		left, expected := disk.cut(random), known.copy()
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			if err := restart(t.Context(), dir, left, expected); err != nil {
				t.Errorf("a cut after operation %d of %d: %v", position, len(done), err)
			}
		})
	}
	group.Wait()
}

// cutPoints returns random points between operations, in order. Every other one is next to a rare operation, because most operations only
// append to the log.
func cutPoints(done []operation, cuts int, random *rand.Rand) []int {
	var rare []int
	for i, o := range done {
		if o.kind != noted && (o.kind != written || !strings.HasSuffix(o.name, "-wal")) {
			rare = append(rare, i)
		}
	}
	points := make([]int, cuts)
	for i := range points {
		points[i] = random.IntN(len(done) + 1)
		if i%2 == 0 {
			points[i] = rare[random.IntN(len(rare))] + random.IntN(2)
		}
	}
	slices.Sort(points)
	return points
}

// busyLife runs many families in a store that is opened twice, and returns all operations on its disk.
func busyLife(t *testing.T) []operation {
	path := newPath(t)
	d := watchDisk(t, filepath.Dir(path))
	for life := range 2 {
		s, err := OpenSQLite(t.Context(), path, Options{})
		must(t, err)
		w := scribe{store: s, note: d.remark}
		var group sync.WaitGroup
		for caller := range 4 {
			group.Go(func() {
				for n := range 12 {
					err := w.live(t.Context(), fmt.Sprint("family ", life, caller, n), 1+n%6, n%3 == 0)
					if err == nil && caller == 0 && n%4 == 3 {
						err = w.seal(t.Context(), fmt.Sprint("key ", life, n))
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		must(t, s.Close())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	kinds := make(map[string]int)
	for _, o := range d.done {
		kinds[fmt.Sprint(o.kind, " ", o.name)]++
	}
	t.Logf("%d operations: %v", len(d.done), kinds)
	for _, kind := range []string{"written gatehouse.db", "synced gatehouse.db", "synced gatehouse.db-wal", "truncated gatehouse.db-wal", "noted "} {
		if kinds[kind] == 0 {
			t.Fatalf("nothing was %s: the test sees nothing", kind)
		}
	}
	return d.done
}

func (b books) copy() books {
	other := newBooks()
	for id, stage := range b.begun {
		other.begun[id] = stage
	}
	for id, stage := range b.acknowledged {
		other.acknowledged[id] = stage
	}
	return other
}

// restart opens the content after a power loss, in its own directory below dir, and compares it with the books.
func restart(ctx context.Context, dir string, left map[string][]byte, expected books) (err error) {
	dir, err = os.MkdirTemp(dir, "restart")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for name, content := range left {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	path := filepath.Join(dir, "gatehouse.db")
	s, err := OpenSQLite(ctx, path, Options{})
	if err != nil {
		return err
	}
	if err := errors.Join(expected.audit(ctx, s), s.Close()); err != nil {
		return err
	}
	return inspect(ctx, path)
}
