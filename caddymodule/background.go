package caddymodule

import (
	"context"
	"sync"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/trust"
)

// published is what somebody else publishes and we keep fresh.
type published interface {
	UseSnapshots(trust.Snapshots)
	// Run returns when ctx has ended.
	Run(ctx context.Context)
}

// pooled is something of somebody else's that several configurations share. It runs once one of them has started.
type pooled[T published] struct {
	value T
	once  sync.Once
	life  context.Context
	stop  context.CancelFunc
	runs  sync.WaitGroup
}

func newPooled[T published](value T) *pooled[T] {
	p := &pooled[T]{value: value}
	p.life, p.stop = context.WithCancel(context.Background()) //nolint:gosec // Destruct calls it
	return p
}

// start has the value keep what it knows in a storage, and keeps it fresh until no configuration uses it any more.
func (p *pooled[T]) start(s trust.Snapshots) {
	p.value.UseSnapshots(s)
	p.once.Do(func() { p.runs.Go(func() { p.value.Run(p.life) }) })
}

// Destruct ends what runs. Requests that are under way go on with what is known.
func (p *pooled[T]) Destruct() error {
	p.stop()
	p.runs.Wait()
	return nil
}
