package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

// maxDropped is how many rows one DropFamilies deletes, so that no other writer waits long for it.
const maxDropped = 1000

// EndFamilies revokes the families that match.
func (s *Store) EndFamilies(ctx context.Context, which tokenissuer.FamilyFilter, end tokenissuer.Ending) ([]tokenissuer.Revocation, error) {
	which.Origins = slices.Clone(which.Origins)
	return s.endingStep(ctx, "ending families", func(ctx context.Context, tx *sql.Tx) ([]tokenissuer.Revocation, error) {
		return endFamilies(ctx, tx, which, end)
	})
}

// endingStep is step for what returns revocations. They are returned when it is certain that they were recorded.
func (s *Store) endingStep(ctx context.Context, name string,
	do func(context.Context, *sql.Tx) ([]tokenissuer.Revocation, error),
) ([]tokenissuer.Revocation, error) {
	var ended []tokenissuer.Revocation
	err := s.step(ctx, name, func(ctx context.Context, tx *sql.Tx) (err error) {
		ended, err = do(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return ended, nil
}

// endFamilies revokes the families that match and records the revocations that it returns.
func endFamilies(ctx context.Context, tx *sql.Tx, which tokenissuer.FamilyFilter, end tokenissuer.Ending) ([]tokenissuer.Revocation, error) {
	if which.ID == "" && which.UserID == "" && which.ClientID == "" && which.ActorID == "" {
		return nil, nil
	}
	conditions, args := familyConditions(which)
	args = append(args, micros(end.At))
	rows, err := tx.QueryContext(ctx, fmt.Sprintf(`UPDATE families SET revoked_at = $%d
		WHERE revoked_at IS NULL AND %s RETURNING id`, len(args), conditions), args...)
	ids, err := scanAll(rows, err, func(row scanner) (id string, err error) {
		err = row.Scan(&id)
		return id, err
	})
	if err != nil {
		return nil, err
	}
	if which.ID != "" && len(ids) == 0 {
		meant, err := isMeant(ctx, tx, which)
		if err != nil || !meant {
			return nil, err
		}
		ids = []string{which.ID}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	ended := make([]tokenissuer.Revocation, len(ids))
	for i, id := range ids {
		ended[i] = tokenissuer.Revocation{Kind: tokenissuer.RevokeFamily, ID: id, ExpiresAt: end.Until}
	}
	return ended, record(ctx, tx, ended...)
}

// endFamiliesOf revokes the families of a user, and those that the user has created for others.
func endFamiliesOf(ctx context.Context, tx *sql.Tx, userID string, end tokenissuer.Ending) ([]tokenissuer.Revocation, error) {
	own, err := endFamilies(ctx, tx, tokenissuer.FamilyFilter{UserID: userID}, end)
	if err != nil {
		return nil, err
	}
	created, err := endFamilies(ctx, tx, tokenissuer.FamilyFilter{ActorID: userID}, end)
	return append(own, created...), err
}

// isMeant tells whether the filter means the family that it names, though that was revoked or dropped before: always,
// unless there is one and it is another's than the filter says.
func isMeant(ctx context.Context, tx *sql.Tx, which tokenissuer.FamilyFilter) (bool, error) {
	conditions, args := familyConditions(which)
	var matches bool
	err := tx.QueryRowContext(ctx, fmt.Sprintf(`SELECT %s FROM families WHERE id = $1`, conditions), args...).Scan(&matches)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	return matches, err
}

// familyConditions is a filter as a condition, with what stands in it. The id, if there is one, is $1.
func familyConditions(which tokenissuer.FamilyFilter) (conditions string, args []any) {
	var all []string
	for _, member := range []struct{ column, value string }{
		{"id", which.ID}, {"user_id", which.UserID}, {"client_id", which.ClientID}, {"actor_subject", which.ActorID},
	} {
		if member.value != "" {
			args = append(args, member.value)
			all = append(all, fmt.Sprintf("%s = $%d", member.column, len(args)))
		}
	}
	var origins []string
	for _, origin := range which.Origins {
		args = append(args, string(origin))
		origins = append(origins, fmt.Sprintf("$%d", len(args)))
	}
	if len(origins) > 0 {
		all = append(all, "origin IN ("+strings.Join(origins, ", ")+")")
	}
	return strings.Join(all, " AND "), args
}

// DropFamilies deletes what expired before then, families first, the longest expired of them first.
func (s *Store) DropFamilies(ctx context.Context, expiredBefore time.Time) (more bool, err error) {
	var dropped int64
	err = s.step(ctx, "dropping families", func(ctx context.Context, tx *sql.Tx) error {
		for _, table := range []string{"families", "decided_requests"} {
			result, err := tx.ExecContext(ctx, fmt.Sprintf(`DELETE FROM %[1]s WHERE id IN (SELECT id FROM %[1]s
				WHERE expires_at < $1 ORDER BY expires_at LIMIT $2)`, table),
				expiredBefore.UnixMicro(), maxDropped-dropped)
			if err != nil {
				return err
			}
			rows, err := result.RowsAffected()
			if err != nil {
				return err
			}
			dropped += rows
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	return dropped == maxDropped, nil
}
