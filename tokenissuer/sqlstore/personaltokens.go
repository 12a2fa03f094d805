package sqlstore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const personalTokenColumns = `id, digest, user_id, user_declared, name, scopes, audience, created_at, expires_at, last_used_at, changed_at`

const selectPersonalTokens = `SELECT ` + personalTokenColumns + ` FROM personal_tokens`

// scanPersonalToken reads a row of selectPersonalTokens.
func scanPersonalToken(row scanner) (*store.PersonalToken, error) {
	var t store.PersonalToken
	var digest, scopes, audience []byte
	var created, expires, used, changed sql.Null[int64]
	err := row.Scan(&t.ID, &digest, &t.UserID, &t.UserDeclared, &t.Name, &scopes, &audience, &created, &expires, &used, &changed)
	if err != nil {
		return nil, err
	}
	if len(digest) != sha256.Size {
		return nil, fmt.Errorf("personal access token %q is damaged: a digest of %d bytes", t.ID, len(digest))
	}
	if err := errors.Join(json.Unmarshal(scopes, &t.Scopes), json.Unmarshal(audience, &t.Audience)); err != nil {
		return nil, fmt.Errorf("personal access token %q is damaged: %w", t.ID, err)
	}
	t.Digest = [sha256.Size]byte(digest)
	t.CreatedAt, t.ExpiresAt, t.LastUsedAt, t.ChangedAt = timeOf(created), timeOf(expires), timeOf(used), timeOf(changed)
	return &t, nil
}

// AddPersonalToken stores a token. It locks the owner's row first: a concurrent change of the owner waits, and then sees the token.
func (s personalTokens) AddPersonalToken(ctx context.Context, token *store.PersonalToken, userVersion string) error {
	t := *token
	scopes, err := json.Marshal(append(oauth.Scopes{}, t.Scopes...))
	if err != nil {
		return fmt.Errorf("adding personal access token: %w", err)
	}
	audience, err := json.Marshal(append([]string{}, t.Audience...))
	if err != nil {
		return fmt.Errorf("adding personal access token: %w", err)
	}
	return s.db.step(ctx, "adding personal access token", func(ctx context.Context, tx session) error {
		if !t.UserDeclared {
			if err := s.db.lockActive(ctx, tx, t.UserID, userVersion); err != nil {
				return err
			}
		}
		return mustAdd(tx.ExecContext(ctx, `INSERT INTO personal_tokens (`+personalTokenColumns+`)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING`,
			t.ID, t.Digest[:], t.UserID, t.UserDeclared, t.Name, string(scopes), string(audience), micros(t.CreatedAt), micros(t.ExpiresAt),
			micros(t.LastUsedAt), micros(t.ChangedAt)))
	})
}

// lockActive locks the row of a user who is stored, active and in that version until the step ends, or returns ErrNotFound.
func (db *database) lockActive(ctx context.Context, tx session, userID, version string) error {
	var id string
	err := tx.QueryRowContext(ctx, `SELECT id FROM users WHERE id = $1 AND CAST(version AS TEXT) = $2 AND `+isActive+db.dialect.shareLock,
		possible(userID), version).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return store.ErrNotFound
	}
	return err
}

// PersonalToken returns the token of a digest.
func (s personalTokens) PersonalToken(ctx context.Context, digest [sha256.Size]byte) (*store.PersonalToken, error) {
	t, err := askFor(ctx, s.db.text(selectPersonalTokens+` WHERE digest = $1`), []any{digest[:]}, scanPersonalToken)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, store.ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("reading personal access token: %w", err)
	}
	return t, nil
}

// PersonalTokens lists the tokens of a user, or of all users.
func (s personalTokens) PersonalTokens(ctx context.Context, userID string) ([]*store.PersonalToken, error) {
	query, args := selectPersonalTokens, []any(nil)
	if userID != "" {
		query, args = query+` WHERE user_id = $1`, []any{possible(userID)}
	}
	list, err := askAll(ctx, s.db.text(query), args, scanPersonalToken)
	if err != nil {
		return nil, fmt.Errorf("listing personal access tokens: %w", err)
	}
	slices.SortFunc(list, func(a, b *store.PersonalToken) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

// TouchPersonalToken records the day of the last use.
func (s personalTokens) TouchPersonalToken(ctx context.Context, id string, day time.Time) error {
	return s.db.statement(ctx, "touching personal access token", func(ctx context.Context, tx session) error {
		_, err := tx.ExecContext(ctx, `UPDATE personal_tokens SET last_used_at = $1 WHERE id = $2 AND COALESCE(last_used_at, 0) < $1`,
			micros(day), possible(id))
		return err
	})
}

// EndPersonalTokens deletes the tokens that match.
func (s personalTokens) EndPersonalTokens(ctx context.Context, which store.PersonalTokenFilter, end store.Ending) ([]store.Revocation, error) {
	return s.db.endingStep(ctx, "ending personal access tokens", func(ctx context.Context, tx session) ([]store.Revocation, error) {
		ended, err := deletePersonalTokens(ctx, tx, which, end)
		if len(ended) == 0 || err != nil {
			return nil, err
		}
		return ended, s.db.record(ctx, tx, ended...)
	})
}

// deletePersonalTokens deletes the tokens that match and returns the revocations to record.
func deletePersonalTokens(ctx context.Context, tx session, which store.PersonalTokenFilter, end store.Ending) ([]store.Revocation, error) {
	if which == (store.PersonalTokenFilter{}) {
		return nil, nil
	}
	return personalTokensIn(ctx, tx, end, `DELETE FROM personal_tokens WHERE ($1 = '' OR id = $1) AND ($2 = '' OR user_id = $2) RETURNING id, NULL`,
		possible(which.ID), possible(which.UserID))
}

// changePersonalTokens follows a change of a stored user. It deletes the tokens of a user who is not active, and otherwise records the
// change in them. It returns the revocations to record.
func changePersonalTokens(ctx context.Context, tx session, userID string, end store.Ending) ([]store.Revocation, error) {
	ended, err := personalTokensIn(ctx, tx, end,
		`DELETE FROM personal_tokens WHERE user_id = $1 AND NOT EXISTS (SELECT 1 FROM users WHERE id = $1 AND `+isActive+`) RETURNING id, NULL`, userID)
	if err != nil {
		return nil, err
	}
	changed, err := personalTokensIn(ctx, tx, end,
		`UPDATE personal_tokens SET changed_at = CASE WHEN changed_at + 1000000 > $2 THEN changed_at + 1000000 ELSE $2 END
		WHERE user_id = $1 RETURNING id, changed_at`, userID, end.At.UnixMicro())
	return append(ended, changed...), err
}

// personalTokensIn runs a statement that returns ids of tokens and their time of change, and returns the revocation of each.
func personalTokensIn(ctx context.Context, tx session, end store.Ending, statement string, args ...any) ([]store.Revocation, error) {
	ended, err := queryAll(ctx, tx, statement, args, func(row scanner) (store.Revocation, error) {
		var id string
		var changed sql.Null[int64]
		err := row.Scan(&id, &changed)
		return store.RevocationOfPersonalToken(id, timeOf(changed), end), err
	})
	if err != nil {
		return nil, fmt.Errorf("ending personal access tokens: %w", err)
	}
	return ended, nil
}
