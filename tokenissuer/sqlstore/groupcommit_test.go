package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore/writequeue"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// group is a store's writer with a table for marks. Marks below 100 are accepted. The mark 666 rolls the whole transaction back, as a
// full disk does.
type group struct {
	*groupCommit
	store    *Store
	warnings []string
}

func newGroup(t *testing.T) *group {
	t.Helper()
	g := &group{}
	s, err := OpenSQLite(t.Context(), newPath(t), Options{Warn: func(m string) { g.warnings = append(g.warnings, m) }})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	for _, statement := range []string{
		`CREATE TABLE marks (n BIGINT NOT NULL CHECK (n < 100 OR n = 666))`,
		`CREATE TRIGGER lost BEFORE INSERT ON marks WHEN NEW.n = 666 BEGIN SELECT RAISE(ROLLBACK, 'lost'); END`,
	} {
		_, err := s.db.write.ExecContext(t.Context(), statement)
		must(t, err)
	}
	g.store = s
	g.groupCommit = s.db.steps.(*groupCommit)
	return g
}

// mark returns work that inserts a mark and returns err.
func mark(n int, err error) work {
	return func(ctx context.Context, tx session) error {
		_, failed := tx.ExecContext(ctx, `INSERT INTO marks (n) VALUES ($1)`, n)
		return errors.Join(failed, err)
	}
}

// marks returns the marks that were committed, in order.
func (g *group) marks(t *testing.T) []int {
	t.Helper()
	list, err := askAll(t.Context(), g.store.db.text(`SELECT n FROM marks ORDER BY rowid`), nil, func(row scanner) (n int, err error) {
		err = row.Scan(&n)
		return n, err
	})
	must(t, err)
	return list
}

// sameMarks fails the test unless exactly those marks were committed, in that order.
func (g *group) sameMarks(t *testing.T, want ...int) {
	t.Helper()
	if got := g.marks(t); !slices.Equal(got, want) {
		t.Errorf("the marks %v were committed, want %v", got, want)
	}
}

// start passes the job to the writer and returns a channel for its result.
func (g *group) start(ctx context.Context, j job) <-chan error {
	result := make(chan error, 1)
	go func() { result <- g.Run(ctx, j) }()
	return result
}

// hold makes the writer begin a step that inserts the mark 0 and lasts until release is called.
func (g *group) hold(ctx context.Context) (result <-chan error, release func()) {
	begun, gate := make(chan struct{}), make(chan struct{})
	result = g.start(ctx, job{do: func(ctx context.Context, tx session) error {
		close(begun)
		<-gate
		return mark(0, nil)(ctx, tx)
	}})
	<-begun
	return result, func() { close(gate) }
}

// lineUp queues the jobs, in order, behind a step that is held.
func (g *group) lineUp(ctx context.Context, jobs ...job) []<-chan error {
	results := make([]<-chan error, len(jobs))
	for i, j := range jobs {
		before := g.Waiting()
		results[i] = g.start(ctx, j)
		g.await(before + 1)
	}
	return results
}

// await returns when that many jobs wait.
func (g *group) await(waiting int) {
	for g.Waiting() != waiting {
		runtime.Gosched()
	}
}

// TestGroupCommitNeighbours puts steps with every result into one transaction. A failed step leaves no trace, and a successful one is
// there, in the order of the callers.
func TestGroupCommitNeighbours(t *testing.T) {
	g := newGroup(t)
	refused := errors.New("refused")
	held, release := g.hold(t.Context())
	panicking := func(ctx context.Context, tx session) error {
		must(t, mark(4, nil)(ctx, tx))
		panic("at the disco")
	}
	results := g.lineUp(t.Context(),
		job{do: mark(1, nil)},
		job{do: mark(2, refused)},
		job{do: mark(100, nil), single: true},
		job{do: mark(3, nil), single: true},
		job{do: panicking},
		job{do: func(context.Context, session) error { return store.ErrNotFound }, single: true},
		job{do: mark(100, nil)},
		job{do: mark(5, nil)},
	)
	release()
	must(t, <-held)
	for i, want := range []error{nil, refused, nil, nil, errPanicked, store.ErrNotFound, nil, nil} {
		err := <-results[i]
		if constraint := i == 2 || i == 6; constraint && (err == nil || !strings.Contains(err.Error(), "CHECK")) || !constraint && !errors.Is(err, want) {
			t.Errorf("step %d returned %v, want %v", i, err, want)
		}
	}
	g.sameMarks(t, 0, 1, 3, 5)
	if len(g.warnings) != 1 || !strings.Contains(g.warnings[0], "at the disco") {
		t.Errorf("the warnings are %q", g.warnings)
	}
}

// TestGroupCommitFailedCommit breaks a commit. Every step has failed, also the one that found another step's mark.
func TestGroupCommitFailedCommit(t *testing.T) {
	g := newGroup(t)
	held, release := g.hold(t.Context())
	orphan := func(ctx context.Context, tx session) error {
		_, err := tx.ExecContext(ctx, `PRAGMA defer_foreign_keys = on`)
		must(t, err)
		return addSecrets(ctx, tx, "nobody", make([]store.ClientSecret, 1))
	}
	results := g.lineUp(t.Context(), job{do: mark(1, nil)}, job{do: orphan}, job{do: mark(2, store.ErrNotFound)}, job{do: mark(3, nil), single: true})
	release()
	for i, result := range append(results, held) {
		if err := <-result; err == nil || errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), "committing") {
			t.Errorf("step %d returned %v", i, err)
		}
	}
	g.sameMarks(t)
	must(t, g.Run(t.Context(), job{do: mark(4, nil)}))
	g.sameMarks(t, 4)
}

// TestGroupCommitLostTransaction makes the database roll a transaction back in the middle, in a step with a savepoint and in one without.
// The steps before it have failed with it. Those after it run in a new transaction, and not as single statements.
func TestGroupCommitLostTransaction(t *testing.T) {
	for _, single := range []bool{false, true} {
		t.Run(fmt.Sprintf("single is %v", single), func(t *testing.T) {
			g := newGroup(t)
			held, release := g.hold(t.Context())
			results := g.lineUp(t.Context(), job{do: mark(1, nil)}, job{do: mark(666, nil), single: single}, job{do: mark(2, nil)}, job{do: mark(3, nil), single: true})
			release()
			for i, result := range []<-chan error{held, results[0], results[1]} {
				if err := <-result; !errors.Is(err, errLost) {
					t.Errorf("step %d returned %v", i, err)
				}
			}
			must(t, errors.Join(<-results[2], <-results[3]))
			g.sameMarks(t, 2, 3)
		})
	}
}

// TestGroupCommitPanickingStatement: without a savepoint a single step cannot be rolled back.
func TestGroupCommitPanickingStatement(t *testing.T) {
	g := newGroup(t)
	held, release := g.hold(t.Context())
	results := g.lineUp(t.Context(), job{single: true, do: func(ctx context.Context, tx session) error {
		must(t, mark(1, nil)(ctx, tx))
		panic("after the statement")
	}}, job{do: mark(2, nil)})
	release()
	if first, second := <-held, <-results[0]; !errors.Is(first, errPanicked) || !errors.Is(second, errPanicked) {
		t.Errorf("the steps returned %v and %v", first, second)
	}
	must(t, <-results[1])
	g.sameMarks(t, 2)
}

// TestGroupCommitFailedBegin closes the handle while the writer waits for its connection. Every queued step fails at once.
func TestGroupCommitFailedBegin(t *testing.T) {
	g := newGroup(t)
	conn, err := g.database.Write.Conn(t.Context())
	must(t, err)
	results := []<-chan error{g.start(t.Context(), job{do: mark(1, nil)})}
	for g.database.Write.Stats().WaitCount == 0 { // until the writer waits for the connection
		runtime.Gosched()
	}
	results = append(results, g.lineUp(t.Context(), job{do: mark(2, nil)}, job{do: mark(3, nil)})...)
	must(t, g.database.Write.Close())
	must(t, conn.Close())
	first := <-results[0]
	if first == nil || !strings.Contains(first.Error(), "beginning") {
		t.Errorf("the first step returned %v", first)
	}
	for _, result := range results[1:] {
		if err := <-result; !errors.Is(err, first) { // and not the error of a further attempt
			t.Errorf("a step behind the first returned %v", err)
		}
	}
	g.sameMarks(t)
}

// TestGroupCommitContextEnds distinguishes the two ways in which a caller can give up.
func TestGroupCommitContextEnds(t *testing.T) {
	g := newGroup(t)
	ctx, cancel := context.WithCancel(t.Context())
	begun, release := g.hold(ctx)
	queued := g.lineUp(ctx, job{do: mark(1, nil)})[0]
	behind := g.lineUp(t.Context(), job{do: mark(2, nil)})[0]
	cancel()
	if err := <-begun; !errors.Is(err, writequeue.ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("the caller of a step that had begun got %v", err)
	}
	if err := <-queued; !errors.Is(err, context.Canceled) || errors.Is(err, writequeue.ErrUnknown) {
		t.Errorf("the caller of a step that had not begun got %v", err)
	}
	if err := g.Run(ctx, job{do: mark(3, nil)}); !errors.Is(err, context.Canceled) || errors.Is(err, writequeue.ErrUnknown) {
		t.Errorf("a caller that came too late got %v", err)
	}
	release()
	must(t, <-behind)
	g.sameMarks(t, 0, 2) // an interrupted statement would have failed the other step
}

// TestGroupCommitCrowd runs callers of every kind concurrently. Each acknowledged mark is there once, and no refused one is.
func TestGroupCommitCrowd(t *testing.T) {
	g := newGroup(t)
	const callers, each = 48, 20
	refused := errors.New("refused")
	var acknowledged, unknown [100]int
	var crowd sync.WaitGroup
	for n := range callers {
		crowd.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 1))
			for range each {
				ctx, cancel := context.WithCancel(t.Context())
				j := job{do: mark(n, nil), single: random.IntN(2) == 0}
				if random.IntN(3) == 0 {
					j = job{do: mark(n, refused)}
				}
				if random.IntN(4) == 0 {
					go cancel()
				}
				switch err := g.Run(ctx, j); {
				case err == nil:
					acknowledged[n]++
				case errors.Is(err, writequeue.ErrUnknown):
					unknown[n]++
				case !errors.Is(err, refused) && !errors.Is(err, context.Canceled):
					t.Error(err)
				}
				cancel()
			}
		})
	}
	crowd.Wait()
	must(t, g.Run(t.Context(), job{do: mark(99, nil)})) // everything that has begun is committed before this
	var found [100]int
	for _, n := range g.marks(t) {
		found[n]++
	}
	for n := range callers {
		if found[n] < acknowledged[n] || found[n] > acknowledged[n]+unknown[n] {
			t.Errorf("caller %d has %d marks, with %d acknowledged and %d unknown", n, found[n], acknowledged[n], unknown[n])
		}
	}
}
