package sqlstore

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// errCrowded: everybody would wait longer if one more did.
var errCrowded = errors.New("too many wait for the database")

// queue bounds who asks a database that many ask at a time: how many, those who wait for a connection included, and
// for how long. A nil queue bounds nothing.
type queue struct {
	room     int64
	patience time.Duration
	inside   atomic.Int64
}

// enter lets a question or a step in, with a context that ends when its patience does, and not when the caller goes: to
// break off costs the connection. A caller whose context has a deadline has a patience of its own.
func (q *queue) enter(ctx context.Context) (context.Context, func(), error) {
	if q == nil {
		return ctx, func() {}, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if q.inside.Add(1) > q.room {
		q.inside.Add(-1)
		return nil, nil, errCrowded
	}
	cancel := func() {}
	if _, ok := ctx.Deadline(); !ok {
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), q.patience)
	}
	return ctx, func() { cancel(); q.inside.Add(-1) }, nil
}
