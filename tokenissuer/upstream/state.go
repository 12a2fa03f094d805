package upstream

import (
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

// noted records the outcome of an exchange with a provider. An error that may be the person's says nothing of the provider.
func noted(h *signin.Health, now time.Time, err error) {
	if err == nil || isProvidersFault(err) {
		h.Note(now, err)
	}
}

// State returns how it went with fetches of metadata and keys, and with sign-ins.
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
