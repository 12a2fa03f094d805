package sqlstore

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore/postgres"
)

// errCrowded: the queue is full.
var errCrowded = errors.New("too many wait for the database")

// errImpatient: the request has waited long enough, for earlier queries.
var errImpatient = errors.New("the request has waited for the database for too long")

// requestTimeout is how long all queries and steps of one request may wait, together.
const requestTimeout = postgres.RequestTimeout + postgres.RequestTimeout/4

type timeoutKey struct{}

// WithTimeout returns the context of a request whose queries and steps wait, all together, little longer than one alone
// may. Without it a request that asks a silent database several times would hang several times as long.
func WithTimeout(ctx context.Context) context.Context {
	left := new(atomic.Int64)
	left.Store(int64(requestTimeout))
	return context.WithValue(ctx, timeoutKey{}, left)
}

// Wait returns a context in which a request waits for a query that others ask too: for that long, and for no longer than
// it has time left. The function ends the wait, which counts as one of its own.
func Wait(ctx context.Context, limit time.Duration) (context.Context, func()) {
	left, bounded := ctx.Value(timeoutKey{}).(*atomic.Int64)
	if bounded {
		limit = min(limit, time.Duration(left.Load()))
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	began := time.Now()
	return ctx, func() {
		cancel()
		if bounded {
			left.Add(-int64(time.Since(began)))
		}
	}
}

// queue bounds how many queries and steps a database has at a time, those that wait for a connection included, and how long each
// takes. A nil queue bounds nothing.
type queue struct {
	room    int64
	timeout time.Duration
	inside  atomic.Int64
}

// enter lets a query or a step in, with a context that ends when its time does, and not when the caller goes: to
// break off costs the connection. A caller whose context has a deadline has a timeout of its own; see WithTimeout too.
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
	left, bounded := ctx.Value(timeoutKey{}).(*atomic.Int64)
	if bounded && left.Load() <= 0 {
		q.inside.Add(-1)
		return nil, nil, errImpatient
	}
	limit := q.timeout
	if bounded {
		limit = min(limit, time.Duration(left.Load()))
	}
	if _, ok := ctx.Deadline(); !ok {
		ctx = context.WithoutCancel(ctx)
	} else if !bounded {
		limit = forEver
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	entered := time.Now()
	return ctx, func() {
		cancel()
		q.inside.Add(-1)
		if bounded {
			left.Add(-int64(time.Since(entered)))
		}
	}, nil
}

// forEver is as long as a caller says.
const forEver = time.Duration(math.MaxInt64)
