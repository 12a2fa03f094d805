package trust

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// outage records the failures of an issuer's introspection endpoint. The zero value has none.
type outage struct {
	warn   func(message string, err error) // nil: the operator is not warned
	pause  atomic.Int64                    // do not ask the issuer before this time, in Unix nanoseconds
	warned atomic.Int64                    // time of the last warning, in Unix nanoseconds
	failed atomic.Pointer[failedQuestion]  // nil: the last introspection succeeded, or there was none
}

// failedQuestion is an introspection request that failed.
type failedQuestion struct {
	at  time.Time
	err *oauth.Error // contains no secrets
}

// note records a failure and warns the operator, at most once in warnInterval. If general is true, the issuer is not
// asked about any token for failurePause.
func (o *outage) note(at time.Time, err *oauth.Error, general bool) {
	if general {
		o.pause.Store(at.Add(failurePause).UnixNano())
	}
	o.failed.Store(&failedQuestion{at, err})
	last := o.warned.Load()
	since := at.Sub(time.Unix(0, last))
	if o.warn == nil || last != 0 && 0 <= since && since < warnInterval || !o.warned.CompareAndSwap(last, at.UnixNano()) {
		return
	}
	o.warn("a trusted issuer does not answer questions about tokens", err)
}

// over records a success.
func (o *outage) over() { o.failed.Store(nil) }

// paused returns an error while the issuer must not be asked. It ignores a pause from before the clock was set back.
func (o *outage) paused(now time.Time) error {
	left := time.Unix(0, o.pause.Load()).Sub(now)
	if left <= 0 || left > failurePause {
		return nil
	}
	return unavailable("introspection_paused", nil)
}

// trouble returns how the last introspection failed; nil: it succeeded, or there was none.
func (o *outage) trouble(now time.Time) error {
	failed := o.failed.Load()
	if failed == nil {
		return nil
	}
	why := failed.err.Reason
	if cause := errors.Unwrap(failed.err); cause != nil {
		why = cause.Error()
	}
	age := max(now.Sub(failed.at), 0) // the clock may have been set back
	return fmt.Errorf("introspection failed %.0f s ago: %s", age.Seconds(), why)
}

// unavailable returns the error with Retry-After.
func unavailable(reason string, cause error) *oauth.Error {
	e := oauth.NewError(oauth.TemporarilyUnavailable, reason).WithCause(cause)
	e.RetryAfter = failurePause
	return e
}
