package storetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Refused is the outcome of a step that changed nothing, as an error for errors.Is.
type Refused store.Outcome

// Error names the outcome.
func (r Refused) Error() string { return "refused: " + store.Outcome(r).String() }

// Done returns nil for a step that is done, and a Refused for one that was refused.
func Done(outcome store.Outcome, err error) error {
	switch {
	case (err == nil) == (outcome == 0):
		return fmt.Errorf("the outcome %q came with the error %w", outcome, err)
	case err != nil || outcome == store.Done:
		return err
	}
	return Refused(outcome)
}

// Used is Done for a step that returns the family if, and only if, it was refused.
func Used(outcome store.Outcome, f *store.TokenFamily, err error) error {
	if given := f != nil; given && (err != nil || outcome == store.Done) || !given && outcome > store.Missing {
		return fmt.Errorf("the outcome %q and the error %w came with the family %+v", outcome, err, f)
	}
	return Done(outcome, err)
}

// rotate uses a refresh token. A refusal must come with a family that explains it.
func rotate(t *testing.T, s store.FamilyStore, id string, generation int64, r store.Rotation) error {
	outcome, f, err := s.RotateRefreshToken(t.Context(), id, generation, r)
	if says := f.Rotatable(generation, r.At); f != nil && says != outcome && (says != store.Done || outcome != store.UserChanged) {
		return fmt.Errorf("the rotation is refused as %q, and the family is %+v", outcome, f)
	}
	return Used(outcome, f, err)
}

// use redeems a code. A refusal must come with a family that explains it.
func use(ctx context.Context, s store.FamilyStore, id string, r store.Redemption) error {
	outcome, f, err := s.RedeemCode(ctx, id, r)
	if says := f.Redeemable(r.At, r.MaxFailures); f != nil && says != outcome && (says != store.Done || outcome != store.UserChanged) {
		return fmt.Errorf("the redemption is refused as %q, and the family is %+v", outcome, f)
	}
	return Used(outcome, f, err)
}
