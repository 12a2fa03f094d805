package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

const selectUsers = `SELECT id, email, name, organisation, role, status, password_hash, version, created_at FROM users`

// whereUser and whereEmail select the user of the id or the address $1, or the stand-in $2 when there is none, with the
// same work.
const (
	whereUser  = ` WHERE id = COALESCE((SELECT id FROM users WHERE id = $1), $2)`
	whereEmail = ` WHERE id = COALESCE((SELECT id FROM users WHERE email = $1), $2)`
)

// standInUser is the id, and the address, of the user that is read in place of one that does not exist. It is another
// one than standIn because clients and users share no id.
const standInUser = standIn + " user"

// addStandInUser writes the stand-in, once. Its hash has the length that most have, and no scheme.
func (s *Store) addStandInUser(ctx context.Context) error {
	err := s.AddUser(ctx, &tokenissuer.User{
		ID: standInUser, Email: standInUser, Name: "Stands in for every user that does not exist", Organisation: standIn,
		Role: tokenissuer.RoleMember, Status: tokenissuer.UserDisabled, PasswordHash: tokenissuer.NewSecret(strings.Repeat("-", 97)),
	}, true)
	if errors.Is(err, tokenissuer.ErrTaken) {
		return nil
	}
	return err
}

// User returns the user of that id.
func (s *Store) User(ctx context.Context, id string) (*tokenissuer.User, error) {
	return findUser(ctx, s.userByID, id)
}

// UserByEmail returns the user of that canonical address.
func (s *Store) UserByEmail(ctx context.Context, email string) (*tokenissuer.User, error) {
	return findUser(ctx, s.userByEmail, email)
}

func findUser(ctx context.Context, q question, key string) (*tokenissuer.User, error) {
	u, err := askFor(ctx, q, []any{possible(key), standInUser}, scanUser)
	if err != nil {
		return nil, fmt.Errorf("reading user: %w", err)
	}
	if u.ID == standInUser {
		return nil, tokenissuer.ErrNotFound
	}
	return u, nil
}

// Users lists the users, of one organisation unless its id is empty, by the bytes of their ids.
func (s *Store) Users(ctx context.Context, organisation string) ([]*tokenissuer.User, error) {
	query, args := selectUsers+` WHERE id <> $1`, []any{standInUser}
	if organisation != "" {
		query, args = query+` AND organisation = $2`, append(args, possible(organisation))
	}
	list, err := askAll(ctx, s.text(query), args, scanUser)
	if err != nil {
		return nil, fmt.Errorf("listing users: %w", err)
	}
	slices.SortFunc(list, func(a, b *tokenissuer.User) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

// scanUser reads a row of selectUsers.
func scanUser(row scanner) (*tokenissuer.User, error) {
	var u tokenissuer.User
	var hash string
	var version int64
	var created sql.Null[int64]
	err := row.Scan(&u.ID, &u.Email, &u.Name, &u.Organisation, &u.Role, &u.Status, &hash, &version, &created)
	u.PasswordHash, u.Version, u.CreatedAt = tokenissuer.NewSecret(hash), strconv.FormatInt(version, 10), timeOf(created)
	return &u, err
}

// AddUser registers a user. The id of a removed user stays taken, like that of a removed client; the address does not.
func (s *Store) AddUser(ctx context.Context, user *tokenissuer.User, organisationDeclared bool) error {
	u := *user
	return s.step(ctx, "adding user", func(ctx context.Context, tx session) error {
		if !organisationDeclared {
			if err := holdOrganisation(ctx, tx, u.Organisation); err != nil {
				return fmt.Errorf("organisation %q: %w", u.Organisation, err)
			}
		}
		if err := takeSubject(ctx, tx, u.ID, "user"); err != nil {
			return err
		}
		return mustAdd(tx.ExecContext(ctx, `INSERT INTO users (id, email, name, organisation, role, status,
			password_hash, password_scheme, version, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1, $9)
			ON CONFLICT (email) DO NOTHING`,
			u.ID, u.Email, u.Name, u.Organisation, string(u.Role), string(u.Status),
			u.PasswordHash.Reveal(), tokenissuer.PasswordScheme(u.PasswordHash), micros(u.CreatedAt)))
	})
}

// takeSubject gives an id to a client or a user, for ever. ErrTaken when somebody has it or had it.
func takeSubject(ctx context.Context, tx session, id, kind string) error {
	return mustAdd(tx.ExecContext(ctx,
		`INSERT INTO subjects (id, kind) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING`, id, kind))
}

// HadUser reports whether the id is or was a user's.
func (s *Store) HadUser(ctx context.Context, userID string) (bool, error) {
	had, err := askFor(ctx, s.text(`SELECT EXISTS (SELECT 1 FROM subjects WHERE id = $1 AND kind = 'user')`), []any{possible(userID)},
		func(row scanner) (had bool, err error) { return had, row.Scan(&had) })
	if err != nil {
		return false, fmt.Errorf("asking for an id: %w", err)
	}
	return had, nil
}

// ChangeUser makes the change and ends every family of the user: what was granted before it is worth nothing after it.
func (s *Store) ChangeUser(ctx context.Context, userID string, change tokenissuer.UserChange, end tokenissuer.Ending) ([]tokenissuer.Revocation, error) {
	var hash, scheme, role, status sql.Null[string]
	if change.Password != nil {
		hash = sql.Null[string]{V: change.Password.Reveal(), Valid: true}
		scheme = sql.Null[string]{V: tokenissuer.PasswordScheme(*change.Password), Valid: true}
	}
	if change.Role != nil {
		role = sql.Null[string]{V: string(*change.Role), Valid: true}
	}
	if change.Status != nil {
		status = sql.Null[string]{V: string(*change.Status), Valid: true}
	}
	return s.endingStep(ctx, "changing user", func(ctx context.Context, tx session) ([]tokenissuer.Revocation, error) {
		// The user's row comes first: from here on no family of the old version is born.
		err := mustHit(tx.ExecContext(ctx, `UPDATE users SET password_hash = COALESCE($1, password_hash),
			password_scheme = COALESCE($2, password_scheme), role = COALESCE($3, role), status = COALESCE($4, status),
			version = version + 1 WHERE id = $5`, hash, scheme, role, status, possible(userID)))
		if err != nil {
			return nil, err
		}
		return s.endFamiliesOf(ctx, tx, userID, end)
	})
}

// RehashPassword replaces the hash old. A user that is gone has it no more than one whose password was changed.
func (s *Store) RehashPassword(ctx context.Context, userID string, old, hash tokenissuer.Secret) error {
	return s.step(ctx, "rehashing password", func(ctx context.Context, tx session) error {
		_, err := tx.ExecContext(ctx, `UPDATE users SET password_hash = $1, password_scheme = $2
			WHERE id = $3 AND password_hash = $4`,
			hash.Reveal(), tokenissuer.PasswordScheme(hash), userID, old.Reveal())
		return err
	})
}

// RemoveUser deletes the user with its consents and ends every family. Its id stays taken.
func (s *Store) RemoveUser(ctx context.Context, userID string, end tokenissuer.Ending) ([]tokenissuer.Revocation, error) {
	return s.endingStep(ctx, "removing user", func(ctx context.Context, tx session) ([]tokenissuer.Revocation, error) {
		if err := mustHit(tx.ExecContext(ctx, `DELETE FROM users WHERE id = $1`, possible(userID))); err != nil {
			return nil, err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM consents WHERE user_id = $1`, userID); err != nil {
			return nil, err
		}
		return s.endFamiliesOf(ctx, tx, userID, end)
	})
}

// selectSchemes goes from one scheme to the next in the index users_by_password_scheme: DISTINCT would read it from one end
// to the other, for a handful of schemes of a million users.
const selectSchemes = `WITH RECURSIVE found(scheme) AS (
	SELECT MIN(password_scheme) FROM users WHERE password_scheme > ''
	UNION ALL SELECT (SELECT MIN(password_scheme) FROM users WHERE password_scheme > scheme) FROM found WHERE scheme IS NOT NULL)
	SELECT scheme FROM found WHERE scheme IS NOT NULL`

// PasswordSchemes lists the distinct schemes of the stored hashes.
func (s *Store) PasswordSchemes(ctx context.Context) ([]string, error) {
	list, err := askAll(ctx, s.text(selectSchemes), nil, func(row scanner) (scheme string, err error) {
		err = row.Scan(&scheme)
		return scheme, err
	})
	if err != nil {
		return nil, fmt.Errorf("listing password schemes: %w", err)
	}
	return list, nil
}
