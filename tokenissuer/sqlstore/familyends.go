package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// EndFamilies revokes the families that match.
func (s families) EndFamilies(ctx context.Context, which store.FamilyFilter, end store.Ending) ([]store.Revocation, error) {
	if isOne(which) {
		return s.endFamily(ctx, which.ID, end)
	}
	which.Origins, which.ExceptScopes = slices.Clone(which.Origins), slices.Clone(which.ExceptScopes)
	return s.db.endingStep(ctx, "ending families", func(ctx context.Context, tx session) ([]store.Revocation, error) {
		return s.db.endFamilies(ctx, tx, end, nil, which)
	})
}

// isOne reports whether a filter has an ID and nothing else.
func isOne(which store.FamilyFilter) bool {
	return which.ID != "" && which.UserID == "" && which.ClientID == "" && which.ActorID == "" && which.SessionID == "" &&
		which.UserVersion == "" && len(which.ExceptScopes) == 0 && len(which.Origins) == 0
}

// endFamilyByID revokes the family $1, unless it was revoked before.
const endFamilyByID = `UPDATE families SET revoked_at = $2 WHERE revoked_at IS NULL AND id = $1
	RETURNING ` + endedColumns

// endedColumns are the columns of scanEnded.
const endedColumns = `id, created_at, rotated_at, token_lifetime, origin`

// endFamily revokes one family. It records the revocation whatever the family's state, even if it does not exist.
func (s families) endFamily(ctx context.Context, id string, end store.Ending) ([]store.Revocation, error) {
	r := &recording{family: id, end: end}
	var withIt []store.Revocation
	err := s.db.announced(ctx, job{name: "ending families", records: r, do: func(ctx context.Context, tx session) error {
		withIt = nil
		f, err := scanEnded(tx.prepared(ctx, s.db.prepared[endFamilyByID]).QueryRowContext(ctx, possible(id), micros(end.At)))
		switch {
		case errors.Is(err, sql.ErrNoRows):
			r.ended = r.endedBefore()
		case err != nil:
			return err
		default:
			r.ended = endOf(f, end)
			if withIt, err = endSignIns(ctx, tx, end, f); err != nil {
				return err
			}
		}
		return s.db.record(ctx, tx, append(withIt, r.ended)...)
	}})
	if err != nil {
		return nil, err
	}
	return append(withIt, r.ended), nil
}

// endingStep is step for a do that returns revocations. It returns them only if they were certainly recorded.
func (db *database) endingStep(ctx context.Context, name string,
	do func(context.Context, session) ([]store.Revocation, error),
) ([]store.Revocation, error) {
	var ended []store.Revocation
	err := db.announcedStep(ctx, name, func(ctx context.Context, tx session) (err error) {
		ended, err = do(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return ended, nil
}

// endFamilies revokes the families that match one of the filters. It records and returns their revocations, and those in ended. It takes
// the feed's counter last, when all rows are locked: waiting for a row while holding the counter would delay every revocation on every
// node.
func (db *database) endFamilies(ctx context.Context, tx session, end store.Ending, ended []store.Revocation, filters ...store.FamilyFilter) ([]store.Revocation, error) {
	for _, which := range filters {
		marked, err := db.markFamilies(ctx, tx, which, end)
		if err != nil {
			return nil, err
		}
		ended = append(ended, marked...)
	}
	if len(ended) == 0 {
		return nil, nil
	}
	return ended, db.record(ctx, tx, ended...)
}

// markFamilies revokes the families that match and returns the revocations to record.
func (db *database) markFamilies(ctx context.Context, tx session, which store.FamilyFilter, end store.Ending) (ended []store.Revocation, err error) {
	if which.ID == "" && which.UserID == "" && which.ClientID == "" && which.ActorID == "" && which.SessionID == "" {
		return nil, nil
	}
	families, err := markRevoked(ctx, tx, which, end)
	if err != nil {
		return nil, err
	}
	if db.dialect.concurrent() && len(families) > 0 {
		// A concurrent step may have added a family that the statement does not see. Such a step locks the row of the family's session,
		// which this transaction has locked now. A second pass therefore sees every family that there will ever be.
		more, err := markRevoked(ctx, tx, which, end)
		if err != nil {
			return nil, err
		}
		families = append(families, more...)
	}
	if ended, err = endSignIns(ctx, tx, end, families...); err != nil {
		return nil, err
	}
	for _, f := range families {
		ended = append(ended, endOf(f, end))
	}
	if which.ID != "" && len(ended) == 0 {
		meant, err := isMeant(ctx, tx, which)
		if err != nil || !meant {
			return nil, err
		}
		ended = []store.Revocation{{Kind: store.RevokeFamily, ID: which.ID, ExpiresAt: end.Until}}
	}
	return ended, nil
}

// endSignIns ends what ends with the sign-ins among the families: it revokes their host sessions, whose revocations it returns, and makes
// their clients' logouts due. This transaction has just revoked the sign-ins and holds their rows, and a step that adds a family to a
// sign-in locks its row. Every family that will ever belong to them is therefore visible.
func endSignIns(ctx context.Context, tx session, end store.Ending, families ...*store.TokenFamily) (ended []store.Revocation, err error) {
	for _, f := range families {
		if f.Origin != store.BrowserSession {
			continue
		}
		hosts, err := markRevoked(ctx, tx, store.FamilyFilter{SessionID: f.ID}, end)
		if err != nil {
			return nil, fmt.Errorf("ending host sessions: %w", err)
		}
		for _, host := range hosts {
			ended = append(ended, endOf(host, end))
		}
		if err := makeDue(ctx, tx, f.ID, end.At); err != nil {
			return nil, err
		}
	}
	return ended, nil
}

// revokeMatching revokes the families that match a condition.
const revokeMatching = `UPDATE families SET revoked_at = $%d
	WHERE revoked_at IS NULL AND %s RETURNING ` + endedColumns

// markRevoked revokes the families that match, as far as one statement sees them.
func markRevoked(ctx context.Context, tx session, which store.FamilyFilter, end store.Ending) ([]*store.TokenFamily, error) {
	conditions, args := familyConditions(which)
	args = append(args, micros(end.At))
	return queryAll(ctx, tx, fmt.Sprintf(revokeMatching, len(args), conditions), args, scanEnded)
}

// scanEnded reads the columns of a family that was just revoked.
func scanEnded(row scanner) (*store.TokenFamily, error) {
	var f store.TokenFamily
	var created, rotated sql.Null[int64]
	var lifetime int64
	err := row.Scan(&f.ID, &created, &rotated, &lifetime, &f.Origin)
	f.CreatedAt, f.Refresh.RotatedAt, f.TokenLifetime = timeOf(created), timeOf(rotated), time.Duration(lifetime)*time.Microsecond
	return &f, err
}

// endOf returns the revocation of a family that was just revoked.
func endOf(f *store.TokenFamily, end store.Ending) store.Revocation {
	return store.Revocation{Kind: store.RevokeFamily, ID: f.ID, ExpiresAt: f.RevokedUntil(end)}
}

// endFamiliesOf revokes the families of a user and those that the user created for others, and records them and the revocations in ended.
func (db *database) endFamiliesOf(ctx context.Context, tx session, userID string, end store.Ending, ended ...store.Revocation) ([]store.Revocation, error) {
	return db.endFamilies(ctx, tx, end, ended, store.FamilyFilter{UserID: userID}, store.FamilyFilter{ActorID: userID})
}

// isMeant reports whether the filter matches the family that it names, even if that was revoked or deleted before. It is false only if
// the family exists and does not match the other members.
func isMeant(ctx context.Context, tx session, which store.FamilyFilter) (bool, error) {
	conditions, args := familyConditions(which)
	var matches bool
	err := tx.QueryRowContext(ctx, fmt.Sprintf(`SELECT %s FROM families WHERE id = $1`, conditions), args...).Scan(&matches)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	return matches, err
}

// These conditions are also in the indices families_by_session and families_by_actor. SQLite uses a partial index only for a statement
// that repeats its condition.
const (
	isHostSession = `origin = 'host_session'`
	hasActor      = `actor_subject <> ''`
)

// familyConditions returns a filter as an SQL condition with its arguments. The ID, if set, is $1.
func familyConditions(which store.FamilyFilter) (conditions string, args []any) {
	var all []string
	for _, member := range []struct{ column, value string }{
		{"id", which.ID}, {"user_id", which.UserID}, {"client_id", which.ClientID}, {"actor_subject", which.ActorID},
		{"session_id", which.SessionID}, {"user_version", which.UserVersion}, {"provider", which.Provider},
	} {
		if member.value != "" {
			args = append(args, possible(member.value))
			all = append(all, fmt.Sprintf("%s = $%d", member.column, len(args)))
		}
	}
	if which.SessionID != "" {
		all = append(all, isHostSession)
	}
	if which.ActorID != "" {
		all = append(all, hasActor)
	}
	if which.ExceptSession != "" {
		args = append(args, possible(which.ExceptSession))
		all = append(all, fmt.Sprintf("id <> $%[1]d AND NOT (%[2]s AND session_id = $%[1]d)", len(args), isHostSession))
	}
	for _, scope := range which.ExceptScopes { // the column is a JSON array, and no scope has a quotation mark (RFC 6749 §3.3)
		args = append(args, `"`+possible(scope)+`"`)
		all = append(all, fmt.Sprintf("replace(scopes, $%d, '') = scopes", len(args)))
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
