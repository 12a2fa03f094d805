package tokenissuer

import (
	"context"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// bucket is what attempts are counted in.
type bucket struct {
	name  string
	limit Limit
}

// reserve counts an attempt in every bucket before it is judged, so that of attempts that run side by side no more are
// judged than the limit allows. The attempt is refused, and not counted, when a bucket is full. Who succeeds forgives.
// Where a database counts, one that is known to be full costs it nothing: who goes on guessing must not keep it busy.
func (is *Issuer) reserve(ctx context.Context, buckets []bucket, reason string, now time.Time) error {
	if err := is.checkBuckets(ctx, buckets, reason, now); err != nil {
		return err
	}
	for i, b := range buckets {
		if n, until := is.Attempts.Fail(ctx, b.name, b.limit.Window, now); n > b.limit.Failures {
			is.forgive(ctx, buckets[:i+1], now)
			return throttled(reason, until, now)
		}
	}
	return nil
}

// reserveGrant counts what is granted to a user or by an admin, each way of granting by itself: each writes records that stay
// until they expire.
func (is *Issuer) reserveGrant(ctx context.Context, origin oauth.GrantType, userID string) error {
	err := is.reserve(ctx, is.limited(bucket{"mint\x00" + string(origin) + "\x00" + userID, is.GrantLimit}), "mint_throttled", is.Now())
	if err != nil {
		return oauth.AsError(err).WithDescription("Too many tokens were created. Try again later.")
	}
	return nil
}

// checkBuckets refuses when a bucket is full.
func (is *Issuer) checkBuckets(ctx context.Context, buckets []bucket, reason string, now time.Time) error {
	for _, b := range buckets {
		if n, until := is.Attempts.Failures(ctx, b.name, now); n >= b.limit.Failures {
			return throttled(reason, until, now)
		}
	}
	return nil
}

func (is *Issuer) forgive(ctx context.Context, buckets []bucket, now time.Time) {
	for _, b := range buckets {
		is.Attempts.Forgive(ctx, b.name, now)
	}
}

// limited leaves out the buckets that have no limit.
func (is *Issuer) limited(buckets ...bucket) []bucket {
	if is.Attempts == nil {
		return nil
	}
	kept := buckets[:0]
	for _, b := range buckets {
		if b.limit.Failures > 0 {
			kept = append(kept, b)
		}
	}
	return kept
}
