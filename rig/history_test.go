//go:build linux

package rig

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/gatehouse-auth/gatehouse/internal/machine"
)

// verb is what a client does with a token family.
type verb string

const (
	redeem  verb = "redeem"  // a code, or the request that creates an admin's token: both yield the first tokens
	refresh verb = "refresh" // a refresh token
	revoke  verb = "revoke"  // any token
	use     verb = "use"     // an access token, at the gate
)

// deed is one request about a family.
type deed struct {
	verb verb
	// token is the refresh token that was sent.
	token string
	// misuse: the client knows that what it sends was used before, or sends it twice concurrently. Only such a request may end the
	// family.
	misuse bool
}

// outcome is what the client learned. The zero value is a refusal.
type outcome struct {
	accepted bool
	// lost: the answer did not arrive, and the request may or may not have.
	lost bool
	// next is the refresh token in the answer.
	next string
}

// state is a family as an observer of its whole life would know it.
type state struct {
	phase phase
	// newest is the valid refresh token, and before is the one that yields it once more. unseen is a token whose answer was lost.
	newest, before string
}

type phase string

const (
	unborn phase = "unborn" // its code was not redeemed
	alive  phase = "alive"
	dead   phase = "dead"
)

const unseen = "?"

// family is the model of a token family (RFC 6749 §4.1.2 and §10.4). A code is redeemed once, and a second use ends the family. Each
// refresh token has one successor, which it yields any number of times until the successor is used. An older one ends the family. Nothing
// is accepted after the end, and nothing is refused before it.
var family = porcupine.NondeterministicModel{
	Init: func() []any { return []any{state{phase: unborn}} },
	Step: func(from, input, output any) []any {
		s, d, o := from.(state), input.(deed), output.(outcome)
		var next []state
		switch d.verb {
		case redeem:
			next = s.redeem(d, o)
		case refresh:
			next = s.refresh(d, o)
		case revoke:
			next = s.revoke(o)
		case use:
			if o.accepted == (s.phase == alive) {
				next = []state{s}
			}
		}
		states := make([]any, 0, len(next))
		for _, s := range next {
			states = append(states, s)
		}
		return states
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
	DescribeState:     func(s any) string { return fmt.Sprintf("%+v", s) },
}

// model is family in the form that the checker requires.
var model = sync.OnceValue(func() porcupine.Model { return family.ToModel() })

func (s state) redeem(d deed, o outcome) []state {
	ended := state{phase: dead}
	switch {
	case o.lost && s.phase == unborn:
		return []state{s, {phase: alive, newest: unseen}}
	case o.lost && d.misuse:
		return []state{s, ended}
	case o.lost:
		return []state{s}
	case o.accepted && s.phase == unborn:
		return []state{{phase: alive, newest: o.next}}
	case !o.accepted && s.phase != unborn:
		return []state{ended}
	}
	return nil
}

func (s state) refresh(d deed, o outcome) []state {
	newest, before := s.phase == alive && d.token == s.newest, s.phase == alive && d.token == s.before
	switch {
	case o.lost && newest:
		return []state{s, {alive, unseen, d.token}}
	case o.lost && d.misuse && !before:
		return []state{s, {phase: dead}}
	case o.lost:
		return []state{s}
	case o.accepted && newest, o.accepted && before && s.newest == unseen:
		return []state{{alive, o.next, d.token}}
	case o.accepted && before && s.newest == o.next:
		return []state{s}
	case !o.accepted && !newest && !before && s.phase != unborn:
		return []state{{phase: dead}}
	}
	return nil
}

func (s state) revoke(o outcome) []state {
	switch {
	case o.lost:
		return []state{s, {phase: dead}}
	case o.accepted:
		return []state{{phase: dead}}
	}
	return nil
}

// history is what clients have done to one family.
type history struct {
	mu    sync.Mutex
	began time.Time
	steps []porcupine.Operation
}

// slack is the tolerance for delays.
type slack struct {
	// late is how long after a client has lost a connection the database may still execute its statement.
	late time.Duration
	// stale is how long the gate of another node may not know of a revocation.
	stale time.Duration
}

// stretched returns a promised time for a machine as busy as this one has been, at most four times the promise. What takes longer is too
// late on any machine.
func stretched(promised time.Duration) time.Duration {
	return min(machine.Stretch(promised), 4*promised)
}

// add records a request: when it was sent, its outcome, and that the outcome is known now.
func (h *history) add(d deed, sent time.Time, o outcome, s slack) {
	h.mu.Lock()
	defer h.mu.Unlock()
	call, returned := sent.Sub(h.began), time.Since(h.began)
	if o.lost {
		returned += stretched(s.late)
	}
	if d.verb == use {
		call -= stretched(s.stale)
	}
	if n := len(h.steps); o.lost && n > 0 && h.steps[n-1].Input == d && h.steps[n-1].Output == o {
		h.steps[n-1].Return = int64(returned) // it does not matter which of them it was
		return
	}
	h.steps = append(h.steps, porcupine.Operation{Input: d, Call: int64(call), Output: o, Return: int64(returned)})
}

// checkPatience is how long the check of one history may take. Histories are short.
const checkPatience = 20 * time.Second

// check returns an error unless the history has an order that the model allows.
func (h *history) check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if result := porcupine.CheckOperationsTimeout(model(), h.open(), checkPatience); result != porcupine.Ok {
		return fmt.Errorf("the history of a family is %s:\n%s", result, h.text())
	}
	return nil
}

// open returns the history without the lost requests that make no difference, because they are the most expensive to check: if a refresh
// token was sent again and yielded its successor, it does not matter how often it had been sent before.
func (h *history) open() []porcupine.Operation {
	answered := make(map[deed]bool)
	for _, step := range h.steps {
		if d := step.Input.(deed); d.verb == refresh && !d.misuse && step.Output.(outcome).accepted {
			answered[d] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(h.steps), func(step porcupine.Operation) bool {
		return step.Output.(outcome).lost && answered[step.Input.(deed)]
	})
}

// text formats the history in the order in which the requests were sent.
func (h *history) text() string {
	steps := slices.SortedFunc(slices.Values(h.steps), func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var text strings.Builder
	for _, step := range steps {
		d, o := step.Input.(deed), step.Output.(outcome)
		answer := "refused"
		switch {
		case o.lost:
			answer = "lost"
		case o.accepted:
			answer = "accepted " + short(o.next)
		}
		misuse := ""
		if d.misuse {
			misuse = " (misuse)"
		}
		fmt.Fprintf(&text, "%12v to %12v: %s %s%s: %s\n", time.Duration(step.Call), time.Duration(step.Return), d.verb, short(d.token), misuse, answer)
	}
	return text.String()
}

// short returns the end of a token, where it differs from its predecessors.
func short(token string) string { return token[max(0, len(token)-6):] }
