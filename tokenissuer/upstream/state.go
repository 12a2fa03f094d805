package upstream

import (
	"sync"
	"time"
)

// State is how it went with a provider lately.
type State struct {
	// LastSuccess is when it last answered as it should; zero: not since the start.
	LastSuccess time.Time
	// LastFailure is when it last failed, and LastError how, without secrets; zero and empty: not since the start.
	LastFailure time.Time
	LastError   string
	// DownSince is when it began to fail; zero: it works, as far as is known.
	DownSince time.Time
}

// health remembers how sign-ins went. The zero value knows nothing.
type health struct {
	mu    sync.Mutex
	state State
}

// note records the outcome of an exchange with the provider. An error that may be the person's says nothing of the provider.
func (h *health) note(now time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		h.state.LastSuccess, h.state.DownSince = now, time.Time{}
	case isProvidersFault(err):
		h.state.LastFailure, h.state.LastError = now, err.Error()
		if h.state.DownSince.IsZero() {
			h.state.DownSince = now
		}
	}
}

func (h *health) read() State {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state
}

// State returns how it went with fetches of metadata and keys, and with sign-ins.
func (p *OpenID) State() State {
	s, known := p.health.read(), p.published.Known()
	if known.FetchedAt.After(s.LastSuccess) {
		s.LastSuccess = known.FetchedAt
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
