package signin

import (
	"fmt"
	"sync"
	"time"
)

// Step is one check that an operator has asked for of a provider.
type Step struct {
	// Name is stable. It says what was checked.
	Name string `json:"step"`
	// Result says whether it passed.
	Result Result `json:"result"`
	// Text says what was found, or what to do.
	Text string `json:"text"`
}

// Result is the result of a Step.
type Result string

// The results.
const (
	Passed Result = "passed"
	Failed Result = "failed"
	// Advice is something that works, and could be better, or that only the operator can compare.
	Advice Result = "advice"
)

// Steps collects what was found.
type Steps []Step

// Pass adds a step that went well.
func (s *Steps) Pass(name, format string, values ...any) { s.Add(name, Passed, format, values...) }

// Fail adds a step that did not.
func (s *Steps) Fail(name string, err error) { s.Add(name, Failed, "%s", err) }

// Advise adds a step that works, with what could be better.
func (s *Steps) Advise(name, format string, values ...any) { s.Add(name, Advice, format, values...) }

// Add adds a step.
func (s *Steps) Add(name string, result Result, format string, values ...any) {
	*s = append(*s, Step{Name: name, Result: result, Text: fmt.Sprintf(format, values...)})
}

// State is how a provider has answered lately.
type State struct {
	// LastSuccess is when it last answered as it should; zero: not since the start.
	LastSuccess time.Time
	// LastFailure is when it last failed, and LastError how, without secrets; zero and empty: not since the start.
	LastFailure time.Time
	LastError   string
	// DownSince is when it began to fail; zero: it works, as far as is known.
	DownSince time.Time
}

// Health remembers how a provider has answered. The zero value knows nothing. It is safe for concurrent use.
type Health struct {
	mu    sync.Mutex
	state State
}

// Note records that the provider has answered as it should, or its fault. A refusal that may be the person's is neither.
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
