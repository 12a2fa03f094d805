package upstream

import (
	"errors"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// authenticated returns when the person signed in at the provider, by our clock; zero: the ID token does not say. The token was
// issued just now, so its iat tells how far the provider's clock is from ours: up to a minute of that is made good. A person who
// signed in since the browser was sent there did so now.
func (f Flow) authenticated(c *registered, now time.Time) time.Time {
	if c.AuthTime == nil {
		return time.Time{}
	}
	behind := max(-clockSkew, min(now.Sub(c.IssuedAt.Time), clockSkew))
	at := c.AuthTime.Add(behind)
	if !f.Began.IsZero() && !at.Before(f.Began.Add(-store.Leeway)) { // the provider tells whole seconds
		return now
	}
	return at
}

// checkAge refuses a sign-in at the provider that does not prove what was demanded of it. Ages are compared in whole seconds, as the
// issuer does afterwards.
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
