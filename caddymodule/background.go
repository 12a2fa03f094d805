package caddymodule

import (
	"context"
	"sync"

	"github.com/gatehouse-auth/gatehouse/caddymodule/pool"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
)

// published is what somebody else publishes and we keep fresh.
type published interface {
	UseSnapshots(fetch.Snapshots)
	// Run returns when ctx has ended.
	Run(ctx context.Context)
}

// running is a published value in a pool, with the goroutine that keeps it fresh from the first start of a configuration that uses it.
type running[T published] struct {
	value T
	once  sync.Once
	life  context.Context
	stop  context.CancelFunc
	runs  sync.WaitGroup
}

func newRunning[T published](value T) *running[T] {
	r := &running[T]{value: value}
	r.life, r.stop = context.WithCancel(context.Background()) //nolint:gosec // end calls it
	return r
}

// newRunningPool returns a pool of such things.
func newRunningPool[T published]() *pool.Pool[*running[T]] { return pool.New((*running[T]).end) }

// start has the value keep what it knows in a storage, and keeps it fresh until no configuration uses it any more.
func (r *running[T]) start(s fetch.Snapshots) {
	r.value.UseSnapshots(s)
	r.once.Do(func() { r.runs.Go(func() { r.value.Run(r.life) }) })
}

// end ends what runs. Requests that are under way go on with what is known.
func (r *running[T]) end() error {
	r.stop()
	r.runs.Wait()
	return nil
}
