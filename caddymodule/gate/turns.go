package gate

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/caller"
	"github.com/gatehouse-auth/gatehouse/internal/fairqueue"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

const (
	// maxLookups is how many personal access tokens the store is asked about at once.
	maxLookups = 16
	// maxWaiting is how many requests wait for a turn at once, and maxWait how long each of them does. A signature takes a
	// tenth of a millisecond, so a full queue is through in less.
	maxWaiting = 1024
	maxWait    = 2 * time.Second
	// busyRetry is the Retry-After of a request that got no turn.
	busyRetry = time.Second
)

// turns bounds the work on tokens seen for the first time: a flood of bad tokens gets a share of the processors, and never
// all of them. Tokens that were verified before need no turn.
type turns struct{ signatures, lookups *fairqueue.Queue }

// newTurns returns turns in which half of Go's processors verify signatures.
func newTurns() turns {
	return turns{signatures: newQueue(max(1, runtime.GOMAXPROCS(0)/2), maxWaiting), lookups: newQueue(maxLookups, maxWaiting)}
}

// newQueue returns a queue in which no request waits longer than maxWait.
func newQueue(slots, places int) *fairqueue.Queue {
	q := fairqueue.New(slots, places)
	q.MaxWait = maxWait
	return q
}

// admission returns the Admission of a request to a queue. The next turn goes to the address that had the fewest requests in the
// queue, so a flood from one address does not delay others. A recheck of a stream, which has no request, is always next: a
// flood must neither end a stream nor delay the end of another.
func admission(ctx context.Context, q *fairqueue.Queue) token.Admission {
	return func() (done func(), err error) {
		var shares []fairqueue.Share
		if ctx.Value(caddyhttp.VarsCtxKey) != nil {
			shares = []fairqueue.Share{{Name: caller.Network(caller.IP(ctx)), Most: maxWaiting}}
		}
		done, err = q.Enter(ctx, shares...)
		switch {
		case errors.Is(err, context.Canceled):
			return nil, oauth.Unavailable("verification_awaited", err)
		case err != nil:
			verificationsBusy.Inc()
			return nil, oauth.ErrVerificationBusy.WithCause(err).WithRetryAfter(busyRetry)
		}
		return done, nil
	}
}
