//go:build linux && failpoint

package rig

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/failpoint"
	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
)

const (
	// workers is the number of clients of a run.
	workers = 8
	// nodes is how many nodes share one PostgreSQL.
	nodes = 3
	// A node is killed after a random time in this range from when it serves.
	shortestLife, longestLife = 20 * time.Millisecond, 500 * time.Millisecond
	// killsPerOutage is how many nodes are killed between two kills of PostgreSQL.
	killsPerOutage = 25
)

// ofPostgres is the slack of nodes that share a database, as docs/reliability.md promises it: gates receive a revocation within five
// seconds. A statement that a dead node has sent may run as long as PostgreSQL lets it, which the store sets (serverTimeout). On a busy
// machine both take longer. At the end, when there is time, nothing is stale.
var ofPostgres = slack{late: 5 * time.Second, stale: 5 * time.Second}

// run is one run of the rig: nodes that are killed, and clients that keep books.
type run struct {
	t      *testing.T
	books  *books
	nodes  []*Node
	server *pgtest.Server // nil: SQLite

	kills atomic.Int64
	want  int64
	// between is called when a node is dead, before it starts again; nil: nothing is called.
	between func(*Node)

	mu        sync.Mutex
	ready     []time.Duration
	atPoint   map[string]int // how many died at a failpoint
	outages   int
	recovered []time.Duration
}

// TestCrashF2: nodes and their database are killed at random while clients go on → nothing acknowledged is lost and nothing happens
// twice. CRASH_KILLS is the number of nodes to kill, STORE restricts the test to one database, and CRASH_SEED repeats the choices of a
// run.
func TestCrashF2(t *testing.T) {
	t.Parallel() // nodes that are started and killed leave the machine idle for much of the time
	kills, seed := int64(80), rand.Uint64()
	if text := os.Getenv("CRASH_KILLS"); text != "" {
		kills = number(t, "CRASH_KILLS", text)
	}
	if text := os.Getenv("CRASH_SEED"); text != "" {
		seed = uint64(number(t, "CRASH_SEED", text))
	}
	seed &= 1<<62 - 1
	t.Logf("CRASH_SEED=%d CRASH_KILLS=%d", seed, kills)
	starts := map[string]func(*testing.T) *run{"sqlite": onSQLite, "postgres": onPostgres}
	stores := []string{"sqlite", "postgres"}
	if only := os.Getenv("STORE"); only != "" {
		if starts[only] == nil {
			t.Fatalf("STORE is %q: use sqlite or postgres", only)
		}
		stores = []string{only}
	}
	for _, store := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			r := starts[store](t)
			r.want = kills / int64(len(stores))
			wrong := r.crash(seed)
			reportFirst(t, "wrong", wrong)
			if n := r.kills.Load(); n < r.want {
				t.Errorf("only %d of %d kills", n, r.want)
			}
		})
	}
}

func number(t *testing.T, name, text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

func newRun(t *testing.T, s slack) *run {
	return &run{t: t, books: &books{began: time.Now(), slack: s}, atPoint: make(map[string]int)}
}

func onSQLite(t *testing.T) *run {
	r := newRun(t, slack{})
	r.nodes = []*Node{New(t, Setup{})}
	return r
}

func onPostgres(t *testing.T) *run {
	r := newRun(t, ofPostgres)
	r.server = pgtest.Start(t)
	c := &Cluster{t: t, DSN: r.server.Database(t), Balancer: NewBalancer(t)}
	for range nodes {
		c.Add(Setup{}, c.DSN)
	}
	r.nodes = c.Nodes
	return r
}

// emergency returns a context that bounds a run generously. Its workers repeat requests as long as they choose to.
func (r *run) emergency() (context.Context, context.CancelFunc) {
	return context.WithTimeout(AtOnce(r.t.Context()), 5*time.Minute+time.Duration(r.want)*5*time.Second)
}

// crash is the whole run: 1 all workers work while nodes die, 2 all nodes restart, 3 every family is used once more, 4 the books are
// checked. It returns the errors in them.
func (r *run) crash(seed uint64) []string {
	ctx, cancel := r.emergency()
	defer cancel()
	began := time.Now()
	people := r.hire(seed)
	stop := make(chan struct{})
	var working, killing sync.WaitGroup
	for i := range r.nodes {
		random := rand.New(rand.NewPCG(seed, uint64(100+i)))
		killing.Go(func() { r.supervise(ctx, r.nodes[i], random) })
	}
	if r.server != nil {
		killing.Go(func() { r.killDatabase(ctx) })
	}
	for _, w := range people {
		working.Go(func() { w.run(ctx, stop) })
	}
	killing.Wait()
	for _, n := range r.nodes {
		n.Restart()
	}
	close(stop)
	working.Wait()
	r.auditAll(ctx, people)
	if err := ctx.Err(); err != nil {
		r.t.Errorf("the run took too long: %v", err)
	}
	r.report(time.Since(began))
	return r.wrong()
}

// hire creates the workers, each with its own person and browser.
func (r *run) hire(seed uint64) []*worker {
	people := make([]*worker, workers)
	for i := range people {
		people[i] = &worker{
			books: r.books, issuer: r.nodes[0].Issuer, browser: NewBrowser(Ada),
			random: rand.New(rand.NewPCG(seed, uint64(1000+i))),
		}
	}
	return people
}

// auditAll uses every family once more, each worker its part.
func (r *run) auditAll(ctx context.Context, people []*worker) {
	share := (len(r.books.families) + len(people) - 1) / len(people)
	var working sync.WaitGroup
	for i, families := range slices.Collect(slices.Chunk(r.books.families, max(1, share))) {
		working.Go(func() { people[i].audit(ctx, families) })
	}
	for _, w := range people {
		working.Go(func() { w.auditVisits(ctx) })
	}
	working.Wait()
}

// supervise starts a node and kills it, again and again.
func (r *run) supervise(ctx context.Context, n *Node, random *rand.Rand) {
	for r.kills.Load() < r.want && ctx.Err() == nil && !r.books.isHopeless() {
		if err := r.live(ctx, n, random); err != nil {
			r.t.Errorf("%v; its log ends with:\n%s", err, n.lastWords())
			return
		}
		r.kills.Add(1)
		if r.between != nil {
			r.between(n)
		}
	}
}

// live is one run of a node until its death: half of the time at a named failpoint, otherwise at a random moment, one time in ten before
// the node serves.
func (r *run) live(ctx context.Context, n *Node, random *rand.Rand) error {
	var environment []string
	point := ""
	if random.IntN(2) == 0 {
		point = failpoints[random.IntN(len(failpoints))]
		environment = []string{fmt.Sprintf("%s=kill %d %s", failpoint.Variable, 1+random.IntN(8), point)}
	}
	early, life := random.IntN(10) == 0, shortestLife+time.Duration(random.Int64N(int64(longestLife-shortestLife)))
	if early {
		life /= 5 // starting takes about a tenth of a second
	}
	if err := n.Launch(environment...); err != nil {
		return err
	}
	if !early {
		switch took, err := n.AwaitServing(ctx); {
		case err == nil:
			r.note(func() { r.ready = append(r.ready, took) })
		case !errors.Is(err, errEnded) || point == "":
			return err
		}
	}
	select {
	case <-n.Gone():
		if point == "" {
			return errEnded
		}
		r.note(func() { r.atPoint[point]++ })
	case <-time.After(life):
		n.Kill()
	}
	return nil
}

func (r *run) note(write func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	write()
}

// killDatabase kills PostgreSQL now and then, and restarts it at once.
func (r *run) killDatabase(ctx context.Context) {
	for next := int64(killsPerOutage); r.kills.Load() < r.want && ctx.Err() == nil; {
		if r.kills.Load() >= next {
			next += killsPerOutage
			began := time.Now()
			r.server.Kill()
			r.server.Resume()
			r.note(func() {
				r.outages++
				r.recovered = append(r.recovered, time.Since(began))
			})
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// failpoints are the points at which a node is killed, in addition to random moments.
var failpoints = points([]string{"before", "after step", "after commit"}, []string{
	"adding family", "redeeming code", "rotating refresh token", "ending families", "storing consent", "storing declarations",
}, []string{"before response", "mid-response"}, []string{
	"POST /oauth/token", "POST /oauth/revoke", "POST /oauth/login", "POST /oauth/consent", "GET /oauth/authorize",
	"POST /api/v1/organisations/me/users/" + Grace + "/access_tokens",
})

// points combines the moments of steps with the steps, and those of answers with the requests.
func points(moments, steps, parts, requests []string) []string {
	var all []string
	for _, moment := range moments {
		for _, step := range steps {
			all = append(all, moment+": "+step)
		}
	}
	for _, part := range parts {
		for _, request := range requests {
			all = append(all, part+": "+request)
		}
	}
	return all
}

// report logs statistics of the run.
func (r *run) report(took time.Duration) {
	c := &r.books.counts
	atPoint := 0
	for _, n := range r.atPoint {
		atPoint += n
	}
	r.t.Logf("%d kills (%d at %d of %d failpoints) and %d deaths of the database in %v; %d families",
		r.kills.Load(), atPoint, len(r.atPoint), len(failpoints), r.outages, took.Round(time.Millisecond), len(r.books.families))
	r.t.Logf("%d items: %d codes, %d refreshes, %d created tokens, %d tokens of the client's own; %d revocations, %d uses, %d answers lost",
		c.items(), c.codes.Load(), c.refreshes.Load(), c.created.Load(), c.own.Load(), c.revocations.Load(), c.uses.Load(), c.lost.Load())
	r.t.Logf("%d browsers signed in at hosts, %d signed out", c.visits.Load(), c.signOuts.Load())
	r.t.Logf("serving after exec: %s; database back: %s", quantiles(r.ready), quantiles(r.recovered))
}

// quantiles formats the median, the 99th percentile and the maximum.
func quantiles(times []time.Duration) string {
	if len(times) == 0 {
		return "never"
	}
	slices.Sort(times)
	at := func(q float64) time.Duration { return times[int(q*float64(len(times)-1))].Round(time.Millisecond) }
	return fmt.Sprintf("p50 %v, p99 %v, max %v", at(0.5), at(0.99), at(1))
}

// wrong returns what the workers found, and the histories that the model does not allow.
func (r *run) wrong() []string {
	wrong := r.books.wrong
	for _, f := range r.books.families {
		if err := f.check(); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	return wrong
}
