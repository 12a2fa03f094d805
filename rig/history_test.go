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

// verb is what a client does to a token family.
type verb string

const (
	redeem  verb = "redeem"  // a code, or the request that creates an admin's token: what gives the first tokens
	refresh verb = "refresh" // a refresh token
	revoke  verb = "revoke"  // any token
	use     verb = "use"     // an access token, at the gate
)

// deed is one request about a family.
type deed struct {
	verb verb
	// token is the refresh token that was presented.
	token string
	// misuse: the client knows that what it presents was used before, or sends it twice at a time. Only such a request may
	// end the family.
	misuse bool
}

// outcome is what its client learned. The zero value is a refusal.
type outcome struct {
	accepted bool
	// lost: the answer did not arrive, and nobody knows whether the request did.
	lost bool
	// next is the refresh token that came back.
	next string
}

// state is a family as an observer of its whole life would know it.
type state struct {
	phase phase
	// newest is the refresh token that is good, and before the one that gives it once more. unseen is a token whose answer was
	// lost.
	newest, before string
}

type phase string

const (
	unborn phase = "unborn" // its code waits
	alive  phase = "alive"
	dead   phase = "dead"
)

const unseen = "?"

// family is the model of a token family (RFC 6749 §4.1.2 and §10.4): a code is redeemed once, and a second time ends the
// family; each refresh token has one successor, which it gives as often as it is asked until that is used; one that is older
// ends the family; nothing is accepted after the end, and nothing is refused before it.
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

// model is family in the form that the checker wants.
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

// slack is how far the judgement of time may go.
type slack struct {
	// late is how long after a client has lost a connection the database may still do what it was told.
	late time.Duration
	// stale is how long the gate of another node may not know of a revocation.
	stale time.Duration
}

// stretched is a promised time on a machine as busy as this one has been, up to four times it: what comes later than that is
// too late on any machine.
func stretched(promised time.Duration) time.Duration {
	return min(machine.Stretch(promised), 4*promised)
}

// add notes a request: when it was sent, what came of it, and that this is known now.
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

// checkPatience is how long one history may take. They are short.
const checkPatience = 20 * time.Second

// check reports whether what happened can be put in an order that the model allows.
func (h *history) check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if result := porcupine.CheckOperationsTimeout(model(), h.open(), checkPatience); result != porcupine.Ok {
		return fmt.Errorf("the history of a family is %s:\n%s", result, h.text())
	}
	return nil
}

// open is the history without the lost requests that make no difference, for they cost the checker most: of a refresh token that
// was then sent again and gave its successor, nobody can tell how often it had been asked before.
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

// text is the history in the order in which the requests were sent.
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

// short is the end of a token, where it differs from its predecessors.
func short(token string) string { return token[max(0, len(token)-6):] }
