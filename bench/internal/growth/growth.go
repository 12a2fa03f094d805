// Package growth measures which operations slow down as a store fills. It fills stores of growing sizes, starts a
// gateway on each, and measures the start, the memory and every operation.
package growth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gatehouse-auth/gatehouse/bench/internal/proc"
	"github.com/gatehouse-auth/gatehouse/bench/internal/seed"
)

// Options configures a run.
type Options struct {
	// Caddy is the gateway's program. The stores are below its directory; "": below the directory for temporary
	// files.
	Caddy proc.Program
	// Sizes are the numbers of families, in ascending order.
	Sizes []int
	// Real is how many real families each store has. It is also the highest number of operations of a kind.
	Real int
	// Rounds is how many times each operation is measured. The best round counts, because other load on the machine
	// only adds.
	Rounds int
	// DSN returns the DSN of an empty PostgreSQL database; nil: the stores are SQLite files.
	DSN func() (string, error)
}

const (
	clientID     = "bench"
	clientSecret = "2f8c0d3e9a7b4c61850f1d2e3c4b5a69788796a5b4c3d2e1"
)

// revocationsOf returns how many revocations a store of that size has. From a million families on, it is the hundred
// thousand of the goal.
func revocationsOf(families int) int { return min(families/10, 100_000) }

// Point holds the measurements with one number of families.
type Point struct {
	Families    int           `json:"families"`
	Revocations int           `json:"revocations"`
	Filling     time.Duration `json:"filling_ns"`
	Start       time.Duration `json:"start_ns"` // from exec to ready, with the file in the machine's cache
	// Fresh is the memory after the start, Used after all operations, and Kept three seconds after the last one, in
	// bytes.
	Fresh int64 `json:"rss_fresh"`
	Used  int64 `json:"rss_used"`
	Kept  int64 `json:"rss_kept"`
	// Operations are in the order of the variable operations.
	Operations []Latency `json:"operations"`
	// Busy repeats some of them while housekeeping drops a backlog.
	Busy []Latency `json:"housekeeping"`
	// Backlog is how many families had expired by then.
	Backlog int `json:"backlog"`
}

// Latency holds the duration of an operation and the gateway's processor time for it.
type Latency struct {
	Name string        `json:"name"`
	CPU  time.Duration `json:"cpu_ns"`
	P50  time.Duration `json:"p50_ns"`
	P99  time.Duration `json:"p99_ns"`
}

// Run measures every size and writes its progress.
func Run(ctx context.Context, o Options, progress io.Writer) ([]Point, error) {
	var points []Point
	for _, families := range o.Sizes {
		p, err := o.measure(ctx, families, progress)
		if err != nil {
			return points, fmt.Errorf("%d families: %w", families, err)
		}
		points = append(points, p)
	}
	return points, nil
}

// measure fills a store and measures a gateway on it twice: idle, and while it drops a backlog.
func (o Options) measure(ctx context.Context, families int, progress io.Writer) (p Point, err error) {
	dir, err := os.MkdirTemp(o.Caddy.Dir, "growth-")
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	g, err := o.newGateway(dir)
	if err != nil {
		return p, err
	}
	p.Families, p.Revocations = families, revocationsOf(families)
	began := time.Now()
	real, err := seed.Fill(ctx, seed.Plan{
		Database: g.database, Issuer: "http://" + g.issuer, ClientID: clientID, ClientSecret: clientSecret,
		Families: families, Revocations: p.Revocations, Real: o.Real,
	})
	if err != nil {
		return p, fmt.Errorf("filling the store: %w", err)
	}
	p.Filling = time.Since(began)
	_, _ = fmt.Fprintf(progress, "%d families: the store was filled in %.1f s\n", families, p.Filling.Seconds())
	use := &user{gateway: g, options: o, real: real}
	if err := o.atRest(ctx, g, use, &p); err != nil {
		return p, err
	}
	p.Backlog = min(families/2, maxBacklog)
	if err := seed.Backlog(ctx, g.database, p.Backlog); err != nil {
		return p, fmt.Errorf("making a backlog: %w", err)
	}
	return p, o.duringHousekeeping(ctx, g, use, &p)
}

// maxBacklog keeps housekeeping busy for as long as the measurement takes.
const maxBacklog = 250_000

func (o Options) atRest(ctx context.Context, g *gateway, use *user, p *Point) error {
	// The first start brings the file into the machine's cache. The second is like a restart by an operator.
	for range 2 {
		var err error
		if p.Start, err = g.start(ctx); err != nil {
			return err
		}
		p.Fresh, err = g.Resident()
		g.Stop()
		if err != nil {
			return err
		}
	}
	if _, err := g.start(ctx); err != nil {
		return err
	}
	defer g.Stop()
	var err error
	if p.Operations, err = use.everything(ctx); err != nil {
		return err
	}
	if p.Used, err = g.Resident(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(3 * time.Second):
	}
	p.Kept, err = g.Resident()
	return err
}

// duringHousekeeping measures from the start on, because housekeeping begins with the start.
func (o Options) duringHousekeeping(ctx context.Context, g *gateway, use *user, p *Point) (err error) {
	if _, err = g.start(ctx); err != nil {
		return err
	}
	defer g.Stop()
	p.Busy, err = use.hot(ctx)
	return err
}

func (o Options) newGateway(dir string) (*gateway, error) {
	g := &gateway{program: o.Caddy, database: seed.Database{Path: filepath.Join(dir, "state", "gatehouse.db")}}
	g.program.Dir = dir
	if o.DSN != nil {
		dsn, err := o.DSN()
		if err != nil {
			return nil, err
		}
		g.database = seed.Database{DSN: dsn}
	}
	return g, g.configure()
}
