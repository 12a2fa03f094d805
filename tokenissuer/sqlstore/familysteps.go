package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// userStands is the condition that a family's user is declared, or is stored, active and in the family's version. A change of a user ends
// the families in the same step. The condition therefore only matters if someone changed the table by hand.
const userStands = `(user_declared OR EXISTS (SELECT 1 FROM users WHERE users.id = families.user_id
		AND CAST(users.version AS TEXT) = families.user_version AND ` + isActive + `))`

// The single-use steps. The first two update only a family for which TokenFamily.Redeemable or Rotatable returns Done.
const (
	redeemCode = `UPDATE families SET code_spent_at = $1, rotated_at = $1, generation = $2, expires_at = $3
		WHERE id = $4 AND has_code AND code_spent_at IS NULL AND code_expires_at >= $1 AND revoked_at IS NULL AND code_failures < $5 AND ` + userStands
	rotateRefreshToken = `UPDATE families SET generation = generation + 1, rotated_at = $1, rotated_by = $4
		WHERE id = $2 AND generation = $3 AND expires_at > $1 AND revoked_at IS NULL AND ` + userStands
	decideRequest = `INSERT INTO decided_requests (id, expires_at) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING`

	// selectRefused reads the family $1 and whether userStands holds.
	selectRefused = `SELECT ` + familyColumns + `, ` + userStands + ` FROM families WHERE id = $1`
)

// RedeemCode redeems the family's code.
func (s families) RedeemCode(ctx context.Context, id string, r store.Redemption) (store.Outcome, *store.TokenFamily, error) {
	return refusalOf(s.db.statement(ctx, "redeeming code", func(ctx context.Context, tx session) error {
		err := mustHit(tx.prepared(ctx, s.db.prepared[redeemCode]).ExecContext(ctx, micros(r.At), r.Generation, micros(r.ExpiresAt), id, r.MaxFailures))
		if errors.Is(err, store.ErrNotFound) {
			return whyRefused(ctx, tx, id, func(f *store.TokenFamily) store.Outcome { return f.Redeemable(r.At, r.MaxFailures) })
		}
		return err
	}))
}

// RotateRefreshToken advances the generation.
func (s families) RotateRefreshToken(ctx context.Context, id string, generation int64, r store.Rotation) (store.Outcome, *store.TokenFamily, error) {
	const name = "rotating refresh token"
	rotate := func(ctx context.Context, tx session) error {
		err := mustHit(tx.prepared(ctx, s.db.prepared[rotateRefreshToken]).ExecContext(ctx, micros(r.At), id, generation, r.By))
		if errors.Is(err, store.ErrNotFound) {
			return whyRefused(ctx, tx, id, func(f *store.TokenFamily) store.Outcome { return f.Rotatable(generation, r.At) })
		}
		return err
	}
	if len(r.Ended) == 0 {
		return refusalOf(s.db.statement(ctx, name, rotate))
	}
	ended := slices.Clone(r.Ended)
	return refusalOf(s.db.announcedStep(ctx, name, func(ctx context.Context, tx session) error {
		if err := rotate(ctx, tx); err != nil {
			return err
		}
		return s.db.record(ctx, tx, ended...)
	}))
}

// whyRefused returns the reason why a single-use step updated no family. It queries in the step's own session after the step. If the step
// met another one, it has waited for that one's commit, and the query therefore sees its result.
func whyRefused(ctx context.Context, tx session, id string, judge func(*store.TokenFamily) store.Outcome) error {
	var stands bool
	f, err := scanFamilyAnd(tx.QueryRowContext(ctx, selectRefused, possible(id)), &stands)
	if errors.Is(err, sql.ErrNoRows) {
		return refusal{outcome: store.Missing}
	}
	if err != nil {
		return err
	}
	outcome := judge(f)
	if outcome == store.Done {
		if stands { // the protocol cannot lead here
			return errors.New("the family was changed by hand beside the step")
		}
		outcome = store.UserChanged
	}
	return refusal{outcome, f}
}

// refusal ends a step that changes nothing. It has the step's outcome and, where the contract returns it, the family.
type refusal struct {
	outcome store.Outcome
	family  *store.TokenFamily
}

// Error is for the log of a step that should not have been refused.
func (r refusal) Error() string { return "refused: " + r.outcome.String() }

// outcomeOf turns the error of a step into its outcome.
func outcomeOf(err error) (store.Outcome, error) {
	outcome, _, err := refusalOf(err)
	return outcome, err
}

// refusalOf is outcomeOf with the family of a refusal.
func refusalOf(err error) (store.Outcome, *store.TokenFamily, error) {
	var r refusal
	switch {
	case err == nil:
		return store.Done, nil, nil
	case errors.As(err, &r):
		return r.outcome, r.family, nil
	}
	return 0, nil, err
}

// DecideRequest records that an authorization request was decided.
func (s families) DecideRequest(ctx context.Context, requestID string, expires time.Time) (store.Outcome, error) {
	return outcomeOf(s.db.statement(ctx, "deciding request", func(ctx context.Context, tx session) error {
		return mustBeFirst(tx.prepared(ctx, s.db.prepared[decideRequest]).ExecContext(ctx, requestID, micros(expires)))
	}))
}

// CountCodeFailure counts a wrong code verifier.
func (s families) CountCodeFailure(ctx context.Context, id string) error {
	return s.db.statement(ctx, "counting code failure", func(ctx context.Context, tx session) error {
		_, err := tx.ExecContext(ctx, `UPDATE families SET code_failures = code_failures + 1 WHERE id = $1`, id)
		return err
	})
}

// TouchFamily records when a session was last used.
func (s families) TouchFamily(ctx context.Context, id string, at time.Time) (store.Outcome, error) {
	return outcomeOf(s.db.statement(ctx, "touching family", func(ctx context.Context, tx session) error {
		return mustLive(tx.ExecContext(ctx, `UPDATE families
			SET rotated_at = CASE WHEN rotated_at IS NULL OR rotated_at < $1 THEN $1 ELSE rotated_at END
			WHERE id = $2 AND revoked_at IS NULL`, micros(at), id))
	}))
}
