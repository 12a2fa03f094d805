package upstream

import (
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

// noted records the outcome of an exchange with a provider. An error that may be the person's fault is not recorded.
func noted(h *signin.Health, now time.Time, err error) {
	if err == nil || isProvidersFault(err) {
		h.Note(now, err)
	}
}

// State returns the health of the provider, by the fetches of metadata and keys and by the sign-ins.
func (p *OpenID) State() signin.State {
	s, known := p.health.State(), p.published.Known()
	if at := known.FetchedAt(); at.After(s.LastSuccess) {
		s.LastSuccess = at
	}
	if known.Failed == nil {
		return s
	}
	if known.FailedAt.After(s.LastFailure) {
		s.LastFailure, s.LastError = known.FailedAt, known.Failed.Error()
	}
	if s.DownSince.IsZero() || known.Since.Before(s.DownSince) {
		s.DownSince = known.Since
	}
	return s
}
