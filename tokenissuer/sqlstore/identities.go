package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	identityColumns  = `provider, subject, user_id, declared_email, source, linked_at, last_used_at, created, vouches, refresh_token`
	selectIdentities = `SELECT ` + identityColumns + ` FROM identities`
	insertIdentity   = `INSERT INTO identities (` + identityColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
		ON CONFLICT (provider, subject) `
)

// identityValues are the arguments of insertIdentity.
func identityValues(i store.Identity) []any {
	return []any{i.Provider, i.Subject, i.UserID, i.DeclaredEmail, i.Source, micros(i.LinkedAt), micros(i.LastUsedAt), i.Created, i.Vouches, i.RefreshToken}
}

func scanIdentity(row scanner) (i store.Identity, err error) {
	var linked, used sql.Null[int64]
	err = row.Scan(&i.Provider, &i.Subject, &i.UserID, &i.DeclaredEmail, &i.Source, &linked, &used, &i.Created, &i.Vouches, &i.RefreshToken)
	i.LinkedAt, i.LastUsedAt = timeOf(linked), timeOf(used)
	return i, err
}

// UserByIdentity returns the identity of that name.
func (s identities) UserByIdentity(ctx context.Context, provider, subject string) (store.Identity, error) {
	found, err := askFor(ctx, s.db.text(selectIdentities+` WHERE provider = $1 AND subject = $2`),
		[]any{possible(provider), possible(subject)}, scanIdentity)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return store.Identity{}, store.ErrNotFound
	case err != nil:
		return store.Identity{}, fmt.Errorf("reading identity: %w", err)
	}
	return found, nil
}

// Identities lists the identities of a user, sorted by the bytes of provider and subject.
func (s identities) Identities(ctx context.Context, userID string) ([]store.Identity, error) {
	list, err := askAll(ctx, s.db.text(selectIdentities+` WHERE user_id = $1`), []any{possible(userID)}, scanIdentity)
	if err != nil {
		return nil, fmt.Errorf("listing identities: %w", err)
	}
	slices.SortFunc(list, func(a, b store.Identity) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Subject, b.Subject))
	})
	return list, nil
}

// LinkIdentity links an identity to a user. It locks the user's row first: a concurrent removal of the user waits, and then sees the
// identity.
func (s identities) LinkIdentity(ctx context.Context, identity store.Identity) error {
	return s.db.step(ctx, "linking identity", func(ctx context.Context, tx session) error {
		if identity.DeclaredEmail == "" {
			if err := mustHit(tx.ExecContext(ctx, `UPDATE users SET external = TRUE, apart = apart OR email_verified_by = $2 AND password_hash = '' WHERE id = $1`, identity.UserID, store.Unvouched)); err != nil {
				return err
			}
		}
		return mustAdd(tx.ExecContext(ctx, insertIdentity+`DO UPDATE SET last_used_at = excluded.last_used_at, declared_email = excluded.declared_email, source = excluded.source, vouches = excluded.vouches,
			refresh_token = excluded.refresh_token
			WHERE identities.user_id = excluded.user_id`, identityValues(identity)...))
	})
}

// TouchIdentity records when an identity was last used, and at which provider.
func (s identities) TouchIdentity(ctx context.Context, identity store.Identity) error {
	return s.db.statement(ctx, "touching identity", func(ctx context.Context, tx session) error {
		return mustHit(tx.ExecContext(ctx, `UPDATE identities SET last_used_at = $1, source = $2, vouches = $3,
			refresh_token = CASE WHEN $7 = '' THEN refresh_token ELSE $7 END WHERE provider = $4 AND subject = $5 AND user_id = $6`,
			micros(identity.LastUsedAt), identity.Source, identity.Vouches, possible(identity.Provider), possible(identity.Subject), possible(identity.UserID), possible(identity.RefreshToken)))
	})
}

// IdentitiesInUse lists identities whose users have something that lives.
func (s identities) IdentitiesInUse(ctx context.Context, provider, after string, at time.Time, limit int) ([]store.Identity, error) {
	list, err := askAll(ctx, s.db.text(selectIdentities+` AS i WHERE provider = $1 AND subject > $2 AND (
		EXISTS (SELECT 1 FROM families f WHERE f.user_id = i.user_id AND f.revoked_at IS NULL AND f.provider = i.provider AND f.expires_at > $3)
		OR EXISTS (SELECT 1 FROM personal_tokens p WHERE p.user_id = i.user_id AND p.expires_at > $3)) ORDER BY subject LIMIT $4`),
		[]any{possible(provider), possible(after), micros(at), limit}, scanIdentity)
	if err != nil {
		return nil, fmt.Errorf("listing identities in use: %w", err)
	}
	return list, nil
}

// IdentitySources lists the sources of a provider's identities.
func (s identities) IdentitySources(ctx context.Context, provider string) ([]string, error) {
	list, err := askAll(ctx, s.db.text(`SELECT DISTINCT source FROM identities WHERE provider = $1`), []any{possible(provider)}, func(row scanner) (source string, err error) {
		err = row.Scan(&source)
		return source, err
	})
	if err != nil {
		return nil, fmt.Errorf("listing sources of identities: %w", err)
	}
	return list, nil
}

// UnlinkIdentity deletes an identity and ends the families of its provider. It locks the rows of the user and of all the user's
// identities first, which serializes it with steps that link, unlink or sign in with one.
func (s identities) UnlinkIdentity(ctx context.Context, u store.Unlinking, end store.Ending) ([]store.Revocation, error) {
	return s.db.endingStep(ctx, "unlinking identity", func(ctx context.Context, tx session) ([]store.Revocation, error) {
		userID := possible(u.UserID)
		if _, err := tx.ExecContext(ctx, `UPDATE users SET external = external WHERE id = $1`, userID); err != nil { // no row: the user is declared
			return nil, err
		}
		linked, err := queryAll(ctx, tx, `UPDATE identities SET user_id = user_id WHERE user_id = $1
			RETURNING `+identityColumns, []any{userID}, scanIdentity)
		if err != nil {
			return nil, err
		}
		if err := u.Check(linked); err != nil {
			return nil, err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM identities WHERE provider = $1 AND subject = $2`, u.Provider, u.Subject); err != nil {
			return nil, err
		}
		said, unverified := store.VerifiedBy(u.Provider), ""
		former := said
		if slices.ContainsFunc(linked, func(i store.Identity) bool { return i.Created && i.Provider == u.Provider && i.Subject == u.Subject }) {
			former, unverified = "", store.Unvouched // the address is the provider's
		}
		if _, err := tx.ExecContext(ctx, `UPDATE users SET external = EXISTS (SELECT 1 FROM identities WHERE user_id = $1 AND declared_email = ''),
			email_verified_by = CASE WHEN email_verified_by IN ($2, $3) THEN $4 ELSE email_verified_by END WHERE id = $1`, userID, said, former, unverified); err != nil {
			return nil, err
		}
		left, err := forgetHolder(ctx, tx, u.UserID, end)
		if err != nil {
			return nil, err
		}
		err = mustHit(tx.ExecContext(ctx, `UPDATE users SET provider_groups = '[]', groups_by = '', version = version + 1
			WHERE id = $1 AND groups_by = $2 AND provider_groups <> '[]'`, userID, u.Provider))
		if !errors.Is(err, store.ErrNotFound) {
			if err == nil {
				err = renewTerms(ctx, tx, userID)
			}
			if err != nil {
				return nil, err
			}
			tokens, err := changePersonalTokens(ctx, tx, u.UserID, end)
			if err != nil {
				return nil, err
			}
			return s.db.endFamiliesOf(ctx, tx, u.UserID, end, append(left, tokens...)...)
		}
		return s.db.endFamilies(ctx, tx, end, left, u.Ends())
	})
}

// forgetHolder deletes the factors and personal access tokens of a stored user who cannot sign in any more, and returns the revocations of the
// tokens: the next person who comes to the user may be another one.
func forgetHolder(ctx context.Context, tx session, userID string, end store.Ending) ([]store.Revocation, error) {
	err := mustHit(tx.ExecContext(ctx, `UPDATE users SET external = external WHERE id = $1 AND NOT external AND password_hash = ''`, possible(userID)))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM factors WHERE user_id = $1`, userID); err != nil {
		return nil, err
	}
	return deletePersonalTokens(ctx, tx, store.PersonalTokenFilter{UserID: userID}, end)
}
