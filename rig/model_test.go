//go:build linux

package rig

import (
	"testing"
	"time"
)

// told is a step of an invented history: it begins and ends at these milliseconds.
type told struct {
	from, to int
	deed     deed
	outcome  outcome
}

var (
	gave    = func(next string) outcome { return outcome{accepted: true, next: next} }
	done    = outcome{accepted: true}
	refused = outcome{}
	lost    = outcome{lost: true}
)

// TestTheModel checks valid histories, and histories in which something was lost or spent twice. A checker that accepts one of the latter
// would accept a broken node.
func TestTheModel(t *testing.T) {
	for name, row := range map[string]struct {
		good  bool
		steps []told
	}{
		"the usual life": {true, []told{
			{0, 1, deed{verb: redeem}, gave("r1")},
			{2, 3, deed{verb: use}, done},
			{4, 5, deed{verb: refresh, token: "r1"}, gave("r2")},
			{6, 7, deed{verb: revoke}, done},
			{8, 9, deed{verb: use}, refused},
			{10, 11, deed{verb: refresh, token: "r2"}, refused},
		}},
		"a lost answer is asked for again": {true, []told{
			{0, 1, deed{verb: redeem}, gave("r1")},
			{2, 3, deed{verb: refresh, token: "r1"}, lost},
			{4, 5, deed{verb: refresh, token: "r1"}, gave("r2")},
			{6, 7, deed{verb: refresh, token: "r2"}, gave("r3")},
		}},
		"a code that was redeemed unseen is refused and ends": {true, []told{
			{0, 1, deed{verb: redeem}, lost},
			{2, 3, deed{verb: redeem}, refused},
		}},
		"a code that was not redeemed is redeemed by the second request": {true, []told{
			{0, 1, deed{verb: redeem}, lost},
			{2, 3, deed{verb: redeem}, gave("r1")},
			{4, 5, deed{verb: use}, done},
		}},
		"two at a time, one wins, and all ends": {true, []told{
			{0, 4, deed{verb: redeem, misuse: true}, gave("r1")},
			{1, 3, deed{verb: redeem, misuse: true}, refused},
			{5, 6, deed{verb: use}, refused},
		}},
		"two refresh at a time": {true, []told{
			{0, 1, deed{verb: redeem}, gave("r1")},
			{2, 5, deed{verb: refresh, token: "r1"}, gave("r2")},
			{3, 4, deed{verb: refresh, token: "r1"}, gave("r2")},
		}},
		"an old token ends the family": {true, []told{
			{0, 1, deed{verb: redeem}, gave("r1")},
			{2, 3, deed{verb: refresh, token: "r1"}, gave("r2")},
			{4, 5, deed{verb: refresh, token: "r2"}, gave("r3")},
			{6, 7, deed{verb: refresh, token: "r1", misuse: true}, lost},
			{8, 9, deed{verb: use}, refused},
		}},
		"a lost revocation may have happened": {true, []told{
			{0, 1, deed{verb: redeem}, gave("r1")},
			{2, 3, deed{verb: revoke}, lost},
			{4, 5, deed{verb: use}, refused},
		}},
		"an acknowledged refresh token is lost": {false, []told{
			{0, 1, deed{verb: redeem}, gave("r1")},
			{2, 3, deed{verb: refresh, token: "r1"}, gave("r2")},
			{4, 5, deed{verb: refresh, token: "r2"}, refused},
		}},
		"a rotation that was acknowledged is undone": {false, []told{
			{0, 1, deed{verb: redeem}, gave("r1")},
			{2, 3, deed{verb: refresh, token: "r1"}, gave("r2")},
			{4, 5, deed{verb: refresh, token: "r2"}, gave("r3")},
			{6, 7, deed{verb: refresh, token: "r1", misuse: true}, gave("r2")},
		}},
		"a retry within the grace is refused": {false, []told{
			{0, 1, deed{verb: redeem}, gave("r1")},
			{2, 3, deed{verb: refresh, token: "r1"}, lost},
			{4, 5, deed{verb: refresh, token: "r1"}, refused},
		}},
		"a retry within the grace gives another successor": {false, []told{
			{0, 1, deed{verb: redeem}, gave("r1")},
			{2, 3, deed{verb: refresh, token: "r1"}, gave("r2")},
			{4, 5, deed{verb: refresh, token: "r1"}, gave("r2'")},
		}},
		"a lost refresh ends the family": {false, []told{
			{0, 1, deed{verb: redeem}, gave("r1")},
			{2, 3, deed{verb: refresh, token: "r1"}, lost},
			{4, 5, deed{verb: use}, refused},
		}},
		"a code is redeemed twice": {false, []told{
			{0, 1, deed{verb: redeem}, gave("r1")},
			{2, 3, deed{verb: redeem, misuse: true}, gave("r1'")},
		}},
		"a code is redeemed twice at a time": {false, []told{
			{0, 4, deed{verb: redeem, misuse: true}, gave("r1")},
			{1, 3, deed{verb: redeem, misuse: true}, gave("r1'")},
		}},
		"a good code is refused": {false, []told{
			{0, 1, deed{verb: redeem}, refused},
		}},
		"a code that was used twice leaves its tokens alive": {false, []told{
			{0, 1, deed{verb: redeem}, gave("r1")},
			{2, 3, deed{verb: redeem, misuse: true}, refused},
			{4, 5, deed{verb: use}, done},
		}},
		"an access token is accepted after the revocation": {false, []told{
			{0, 1, deed{verb: redeem}, gave("r1")},
			{2, 3, deed{verb: revoke}, done},
			{4, 5, deed{verb: use}, done},
		}},
		"a refresh token is accepted after the revocation": {false, []told{
			{0, 1, deed{verb: redeem}, gave("r1")},
			{2, 3, deed{verb: revoke}, done},
			{4, 5, deed{verb: refresh, token: "r1"}, gave("r2")},
		}},
		"a revocation is forgotten": {false, []told{
			{0, 1, deed{verb: redeem}, gave("r1")},
			{2, 3, deed{verb: revoke}, lost},
			{4, 5, deed{verb: use}, refused},
			{6, 7, deed{verb: use}, done},
		}},
		"a created token is not accepted": {false, []told{
			{0, 1, deed{verb: redeem}, gave("r1")},
			{2, 3, deed{verb: use}, refused},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := history{began: time.Now()}
			for _, step := range row.steps {
				h.tell(step)
			}
			if err := h.check(); (err == nil) != row.good {
				t.Errorf("the checker says: %v", err)
			}
		})
	}
}

// tell adds an invented step.
func (h *history) tell(s told) {
	h.add(s.deed, h.began, s.outcome, slack{})
	last := &h.steps[len(h.steps)-1]
	last.Call, last.Return = int64(s.from), int64(s.to)
}

// TestTheSlackOfManyNodes: a revocation that another node's gate has not received, and a statement that the database executes for a dead
// node, are allowed within the slack and errors afterwards.
func TestTheSlackOfManyNodes(t *testing.T) {
	const late, stale = time.Minute, time.Minute
	for name, row := range map[string]struct {
		slack slack
		good  bool
	}{
		"one node":   {slack{}, false},
		"many nodes": {slack{late: late, stale: stale}, true},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			hears := history{began: now}
			hears.add(deed{verb: redeem}, now, gave("r1"), row.slack)
			hears.add(deed{verb: revoke}, time.Now(), done, row.slack)
			hears.add(deed{verb: use}, time.Now(), done, row.slack)
			comes := history{began: now}
			comes.add(deed{verb: redeem}, now, gave("r1"), row.slack)
			comes.add(deed{verb: revoke}, time.Now(), lost, row.slack)
			comes.add(deed{verb: use}, time.Now(), done, row.slack)
			comes.add(deed{verb: use}, time.Now(), refused, row.slack)
			for what, h := range map[string]*history{"stale": &hears, "late": &comes} {
				if err := h.check(); (err == nil) != row.good {
					t.Errorf("%s: the checker says: %v", what, err)
				}
			}
		})
	}
}
