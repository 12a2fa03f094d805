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

// errImpatient: the earlier queries of the request have used up its time.
var errImpatient = errors.New("the request has waited for the database for too long")

// requestTimeout is how long all queries and steps of one request may wait in total.
const requestTimeout = postgres.RequestTimeout + postgres.RequestTimeout/4

type timeoutKey struct{}

// WithTimeout returns the context of a request whose queries and steps together wait little longer than a single one may. Without it a
// request that makes several queries to a silent database would hang several times as long.
func WithTimeout(ctx context.Context) context.Context {
	left := new(atomic.Int64)
	left.Store(int64(requestTimeout))
	return context.WithValue(ctx, timeoutKey{}, left)
}

// Wait returns a context in which a request waits for a query that it shares with others: for limit, but no longer than the time that the
// request has left. The returned function ends the wait, which counts as one of the request's own.
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

// queue bounds how many queries and steps a database has at a time, including those that wait for a connection, and how long each takes.
// A nil queue bounds nothing.
type queue struct {
	room    int64
	timeout time.Duration
	inside  atomic.Int64
}

// enter admits a query or a step. The returned context ends when its time is over, and not when the caller goes away: cancelling costs
// the connection. A caller whose context has a deadline has that timeout instead; see also WithTimeout.
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

// forEver is a limit that only the caller's deadline ends.
const forEver = time.Duration(math.MaxInt64)
