package upstream

import (
	"errors"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// authenticated returns when the person signed in at the provider, by our clock. It is zero if the ID token does not say. The token was
// issued just now, so its iat shows the difference between the provider's clock and ours. Up to a minute of it is corrected. If the person
// signed in after the browser was sent there, the result is now.
func (f Flow) authenticated(c *registered, now time.Time) time.Time {
	if c.AuthTime == nil {
		return time.Time{}
	}
	behind := max(-clockSkew, min(now.Sub(c.IssuedAt.Time), clockSkew))
	at := c.AuthTime.Add(behind)
	if !f.Began.IsZero() && !at.Before(f.Began.Add(-store.Leeway)) { // the provider's time is in whole seconds
		return now
	}
	return at
}

// checkAge refuses a sign-in at the provider that does not prove the required freshness. Ages are compared in whole seconds, as the issuer
// does afterwards.
func (f Flow) checkAge(at, now time.Time) error {
	switch {
	case !f.Fresh && f.MaxAge == 0, at.Equal(now):
		return nil
	case at.IsZero():
		return ErrInteraction.WithCause(errors.New("the ID token has no auth_time, so it proves no recent sign-in"))
	case f.Fresh:
		return ErrInteraction.WithCause(errors.New("the provider has not asked the person again: its auth_time is older than this sign-in"))
	case now.Unix()-at.Unix() > int64(f.MaxAge/time.Second):
		return ErrInteraction.WithCause(errors.New("the sign-in at the provider is older than max_age"))
	}
	return nil
}
