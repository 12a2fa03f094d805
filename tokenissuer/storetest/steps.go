package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

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

// refusalsTell: a refused step returns the first of its reasons and the unchanged family.
func refusalsTell(t *testing.T, s store.Store) {
	late := now.AddDate(10, 0, 0)
	spend := func(f *store.TokenFamily) { must(t, redeem(t, s.Families, f.ID, 2)) }
	revoke := func(f *store.TokenFamily) { end(t, s.Families, store.FamilyFilter{ID: f.ID}) }
	guess := func(f *store.TokenFamily) {
		for range maxFailures {
			must(t, s.Families.CountCodeFailure(t.Context(), f.ID))
		}
	}
	for _, c := range []struct {
		name           string
		before         []func(*store.TokenFamily)
		at             time.Time
		redeem, rotate store.Outcome
	}{
		{name: "spent", before: []func(*store.TokenFamily){spend}, at: now, redeem: store.Replayed, rotate: store.Replayed},
		{name: "spent and revoked", before: []func(*store.TokenFamily){spend, revoke}, at: now, redeem: store.Replayed, rotate: store.Revoked},
		{name: "spent and late", before: []func(*store.TokenFamily){spend}, at: late, redeem: store.Replayed, rotate: store.Expired},
		{name: "revoked", before: []func(*store.TokenFamily){revoke}, at: now, redeem: store.Revoked, rotate: store.Missing},
		{name: "revoked and late", before: []func(*store.TokenFamily){revoke}, at: late, redeem: store.Revoked, rotate: store.Missing},
		{name: "late", at: late, redeem: store.Expired, rotate: store.Missing},
		{name: "late and guessed", before: []func(*store.TokenFamily){guess}, at: late, redeem: store.Expired, rotate: store.Missing},
		{name: "guessed", before: []func(*store.TokenFamily){guess}, at: now, redeem: store.TooManyFailures, rotate: store.Missing},
	} {
		f := family(c.name)
		addFamilies(t, s.Families, f)
		for _, step := range c.before {
			step(f)
		}
		want := readFamily(t, s.Families, f.ID)
		outcome, got, err := s.Families.RedeemCode(t.Context(), f.ID, store.Redemption{At: c.at, Generation: 7, ExpiresAt: late, MaxFailures: maxFailures})
		if must(t, err); outcome != c.redeem || got == nil {
			t.Fatalf("%s: redeeming is %v with %+v, want %v", c.name, outcome, got, c.redeem)
		}
		sameFamily(t, got, want)
		outcome, got, err = s.Families.RotateRefreshToken(t.Context(), f.ID, 1, store.Rotation{At: c.at})
		if must(t, err); outcome != c.rotate || got == nil {
			t.Fatalf("%s: rotating is %v with %+v, want %v", c.name, outcome, got, c.rotate)
		}
		sameFamily(t, got, want)
		sameFamily(t, readFamily(t, s.Families, f.ID), want)
	}
}
