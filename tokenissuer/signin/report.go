package signin

import (
	"fmt"
	"sync"
	"time"
)

// Step is one check of a provider that an operator requested.
type Step struct {
	// Name identifies the check. It is stable.
	Name string `json:"step"`
	// Result is whether the check passed.
	Result Result `json:"result"`
	// Text describes what was found or what to do.
	Text string `json:"text"`
}

// Result is the result of a Step.
type Result string

// The results.
const (
	Passed Result = "passed"
	Failed Result = "failed"
	// Advice means that something works but could be better, or that only the operator can compare.
	Advice Result = "advice"
)

// Steps collects results.
type Steps []Step

// Pass adds a step that passed.
func (s *Steps) Pass(name, format string, values ...any) { s.Add(name, Passed, format, values...) }

// Fail adds a step that failed.
func (s *Steps) Fail(name string, err error) { s.Add(name, Failed, "%s", err) }

// Advise adds a step that works but could be better.
func (s *Steps) Advise(name, format string, values ...any) { s.Add(name, Advice, format, values...) }

// Add adds a step.
func (s *Steps) Add(name string, result Result, format string, values ...any) {
	*s = append(*s, Step{Name: name, Result: result, Text: fmt.Sprintf(format, values...)})
}

// State is the recent health of a provider.
type State struct {
	// LastSuccess is when the provider last answered properly. It is zero if it has not since the start.
	LastSuccess time.Time
	// LastFailure is when the provider last failed, and LastError how, without secrets. They are zero and empty if it has not since the
	// start.
	LastFailure time.Time
	LastError   string
	// DownSince is when the provider began to fail. It is zero if the provider works, as far as is known.
	DownSince time.Time
}

// Health records how a provider has answered. The zero value is ready to use. It is safe for concurrent use.
type Health struct {
	mu    sync.Mutex
	state State
}

// Note records a proper answer of the provider, or its fault. A refusal that may be the person's fault counts as neither.
func (h *Health) Note(now time.Time, fault error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if fault == nil {
		h.state.LastSuccess, h.state.DownSince = now, time.Time{}
		return
	}
	h.state.LastFailure, h.state.LastError = now, fault.Error()
	if h.state.DownSince.IsZero() {
		h.state.DownSince = now
	}
}

// State returns what Note has recorded.
func (h *Health) State() State {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state
}
