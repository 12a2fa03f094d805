package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore/postgres"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const selectUsers = `SELECT id, email, name, organisation, role, status, password_hash, version, created_at, group_names,
	email_verified_by, profile, updated_at, external, service, provider_groups, groups_by FROM users`

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
	err := s.AddUser(ctx, &store.User{
		ID: standInUser, Email: standInUser, Name: "Stands in for every user that does not exist", Organisation: standIn,
		Role: store.RoleMember, Status: store.UserDisabled, PasswordHash: oauth.NewSecret(strings.Repeat("-", 97)),
	}, true)
	if errors.Is(err, store.ErrTaken) {
		return nil
	}
	return err
}

// User returns the user of that id.
func (s *Store) User(ctx context.Context, id string) (*store.User, error) {
	return findUser(ctx, s.userByID, id)
}

// UserByEmail returns the user of that canonical address.
func (s *Store) UserByEmail(ctx context.Context, email string) (*store.User, error) {
	return findUser(ctx, s.userByEmail, email)
}

func findUser(ctx context.Context, q query, key string) (*store.User, error) {
	u, err := askFor(ctx, q, []any{possible(key), standInUser}, scanUser)
	if err != nil {
		return nil, fmt.Errorf("reading user: %w", err)
	}
	if u.ID == standInUser {
		return nil, store.ErrNotFound
	}
	return u, nil
}

// Users lists the users, of one organisation unless its id is empty, by the bytes of their ids.
func (s *Store) Users(ctx context.Context, organisation string) ([]*store.User, error) {
	query, args := selectUsers+` WHERE id <> $1`, []any{standInUser}
	if organisation != "" {
		query, args = query+` AND organisation = $2`, append(args, possible(organisation))
	}
	list, err := askAll(ctx, s.text(query), args, scanUser)
	if err != nil {
		return nil, fmt.Errorf("listing users: %w", err)
	}
	slices.SortFunc(list, func(a, b *store.User) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

// scanUser reads a row of selectUsers.
func scanUser(row scanner) (*store.User, error) {
	var u store.User
	var hash string
	var version int64
	var created, updated sql.Null[int64]
	var groups, profile, providerGroups []byte
	err := row.Scan(&u.ID, &u.Email, &u.Name, &u.Organisation, &u.Role, &u.Status, &hash, &version, &created, &groups,
		&u.EmailVerifiedBy, &profile, &updated, &u.External, &u.Service, &providerGroups, &u.GroupsBy)
	for text, list := range map[*[]byte]*[]string{&groups: &u.Groups, &providerGroups: &u.ProviderGroups} {
		if err == nil && len(*text) > len("[]") {
			err = json.Unmarshal(*text, list)
		}
	}
	if err == nil && len(profile) > 0 {
		err = json.Unmarshal(profile, &u.Profile)
	}
	u.UpdatedAt = timeOf(updated)
	u.PasswordHash, u.Version, u.CreatedAt = oauth.NewSecret(hash), strconv.FormatInt(version, 10), timeOf(created)
	return &u, err
}

// AddUser registers a user. The id of a removed user stays taken for a while, like that of a removed client; the address does not.
func (s *Store) AddUser(ctx context.Context, user *store.User, organisationDeclared bool) error {
	return s.step(ctx, "adding user", addingUser(user, organisationDeclared))
}

// addingUser is the step that registers a user.
func addingUser(user *store.User, organisationDeclared bool) work {
	u, groups, profile := *user, groupNames(user.Groups), profileText(user.Profile)
	return func(ctx context.Context, tx session) error {
		if !organisationDeclared {
			if err := holdOrganisation(ctx, tx, u.Organisation); err != nil {
				return fmt.Errorf("organisation %q: %w", u.Organisation, err)
			}
		}
		if err := takeSubject(ctx, tx, u.ID, "user", u.CreatedAt); err != nil {
			return err
		}
		err := mustAdd(tx.ExecContext(ctx, `INSERT INTO users (id, email, name, organisation, role, status,
			password_hash, password_scheme, version, created_at, group_names, email_verified_by, profile, updated_at, external, service,
			provider_groups, groups_by)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1, $9, $10, $11, $12, $13, $14, $15, $16, $17)
			ON CONFLICT (email) DO NOTHING`,
			u.ID, u.Email, u.Name, u.Organisation, string(u.Role), string(u.Status),
			u.PasswordHash.Reveal(), passwords.SchemeOf(u.PasswordHash), micros(u.CreatedAt), groups,
			u.EmailVerifiedBy, profile, micros(u.UpdatedAt), u.External, u.Service, groupNames(u.ProviderGroups), u.GroupsBy))
		if errors.Is(err, store.ErrTaken) {
			return store.ErrEmailTaken
		}
		return err
	}
}

// groupNames is the list as it is stored.
func groupNames(groups []string) string {
	if len(groups) == 0 {
		return "[]"
	}
	text, _ := json.Marshal(groups) // texts can always be written
	return string(text)
}

// profileText is a profile as it is stored: empty when no member has a value.
func profileText(p *store.Profile) string {
	if p.IsZero() {
		return ""
	}
	text, _ := json.Marshal(p) // texts can always be written
	return string(text)
}

// ChangeUser makes the change and ends every family of the user: what was granted before it is worth nothing after it.
func (s *Store) ChangeUser(ctx context.Context, userID string, change store.UserChange, end store.Ending) ([]store.Revocation, error) {
	row := columnsOf(change)
	row.updated = micros(end.At)
	row.keepsIdentities = change.KeepIdentities
	return s.endingStep(ctx, "changing user", func(ctx context.Context, tx session) ([]store.Revocation, error) {
		// The user's row comes first: from here on no family of the old version is born.
		if err := row.update(ctx, tx, userID); err != nil {
			return nil, err
		}
		if row.moves == 0 {
			return nil, nil
		}
		var ended []store.Revocation
		if change.UnlinkIdentities {
			var err error
			if ended, err = unlinkAll(ctx, tx, userID, end); err != nil {
				return nil, err
			}
		}
		tokens, err := changePersonalTokens(ctx, tx, userID, end)
		if err != nil {
			return nil, err
		}
		return s.endFamiliesOf(ctx, tx, userID, end, append(ended, tokens...)...)
	})
}

// userColumns are what a change of a user writes; what is not valid stays.
type userColumns struct {
	hash, scheme, role, status, groups, organisation, name, email, profile sql.Null[string]
	emailVerifiedBy, providerGroups, groupsBy                              sql.Null[string]
	updated                                                                sql.Null[int64]
	organisationDeclared, keepsIdentities                                  bool
	moves                                                                  int64 // of the version
}

func columnsOf(c store.UserChange) userColumns {
	row := userColumns{organisationDeclared: c.OrganisationDeclared, moves: 1}
	if c.KeepsTokens() {
		row.moves = 0
	}
	if c.Password != nil {
		row.hash = sql.Null[string]{V: c.Password.Reveal(), Valid: true}
		row.scheme = sql.Null[string]{V: passwords.SchemeOf(*c.Password), Valid: true}
	}
	if c.Groups != nil {
		row.groups = sql.Null[string]{V: groupNames(*c.Groups), Valid: true}
	}
	if c.Profile != nil {
		row.profile = sql.Null[string]{V: profileText(c.Profile), Valid: true}
	}
	if c.ProviderGroups != nil {
		row.providerGroups = sql.Null[string]{V: groupNames(*c.ProviderGroups), Valid: true}
	}
	row.emailVerifiedBy, row.groupsBy = nullable(c.EmailVerifiedBy), nullable(c.GroupsBy)
	row.role, row.status = nullable((*string)(c.Role)), nullable((*string)(c.Status))
	row.organisation, row.name, row.email = nullable(c.Organisation), nullable(c.Name), nullable(c.Email)
	return row
}

func (r userColumns) update(ctx context.Context, tx session, userID string) error {
	err := mustHit(tx.ExecContext(ctx, `UPDATE users SET password_hash = COALESCE($1, password_hash),
		password_scheme = COALESCE($2, password_scheme), role = COALESCE($3, role), status = COALESCE($4, status),
		group_names = COALESCE($5, group_names), organisation = COALESCE($6, organisation), name = COALESCE($7, name),
		version = version + $8, profile = COALESCE($9, profile), updated_at = $10,
		email_verified_by = COALESCE($11, CASE WHEN email = COALESCE($12, email) THEN email_verified_by ELSE '' END),
		provider_groups = COALESCE($13, provider_groups), groups_by = COALESCE($14, groups_by) WHERE id = $15`,
		r.hash, r.scheme, r.role, r.status, r.groups, r.organisation, r.name, r.moves, r.profile, r.updated,
		r.emailVerifiedBy, r.email, r.providerGroups, r.groupsBy, possible(userID)))
	if err != nil {
		return err
	}
	if r.organisation.V != "" && !r.organisationDeclared {
		if err := holdOrganisation(ctx, tx, r.organisation.V); err != nil {
			return fmt.Errorf("organisation %q: %w", r.organisation.V, err)
		}
	}
	if r.email.Valid { // nobody has vouched for the new one yet
		if _, err := tx.ExecContext(ctx, `UPDATE identities SET vouches = FALSE WHERE user_id = $1
			AND EXISTS (SELECT 1 FROM users WHERE id = $1 AND email <> $2)`, userID, r.email.V); err != nil {
			return err
		}
	}
	if r.keepsIdentities {
		if _, err := tx.ExecContext(ctx, `UPDATE identities SET linked_at = $1 WHERE user_id = $2`, r.updated, userID); err != nil {
			return err
		}
	}
	if r.emailVerifiedBy.V == store.VerifiedByOperator {
		if _, err := tx.ExecContext(ctx, `UPDATE identities SET vouches = TRUE WHERE user_id = $1`, userID); err != nil {
			return err
		}
	}
	if !r.email.Valid {
		return nil
	}
	err = mustAdd(tx.ExecContext(ctx, `UPDATE users SET email = $1
		WHERE id = $2 AND NOT EXISTS (SELECT 1 FROM users WHERE email = $1 AND id <> $2)`, r.email.V, userID))
	if isTwice(err) || errors.Is(err, store.ErrTaken) { // another one has taken it since, and PostgreSQL looked before
		return store.ErrEmailTaken
	}
	return err
}

// isTwice reports whether a statement failed because something that is there once would be there twice.
func isTwice(err error) bool { return postgres.Code(err) == "23505" }

// RehashPassword replaces the hash old. A user that is gone has it no more than one whose password was changed.
func (s *Store) RehashPassword(ctx context.Context, userID string, old, hash oauth.Secret) error {
	return s.step(ctx, "rehashing password", func(ctx context.Context, tx session) error {
		_, err := tx.ExecContext(ctx, `UPDATE users SET password_hash = $1, password_scheme = $2
			WHERE id = $3 AND password_hash = $4`,
			hash.Reveal(), passwords.SchemeOf(hash), userID, old.Reveal())
		return err
	})
}

// RemoveUser deletes the user with its consents and ends every family. Its id stays taken, for a while or for ever.
func (s *Store) RemoveUser(ctx context.Context, userID string, end store.Ending) ([]store.Revocation, error) {
	return s.endingStep(ctx, "removing user", func(ctx context.Context, tx session) ([]store.Revocation, error) {
		if err := mustHit(tx.ExecContext(ctx, `DELETE FROM users WHERE id = $1`, possible(userID))); err != nil {
			return nil, err
		}
		tokens, err := deletePersonalTokens(ctx, tx, store.PersonalTokenFilter{UserID: userID}, end)
		if err != nil {
			return nil, err
		}
		if err := forget(ctx, tx, userID, "user"); err != nil {
			return nil, err
		}
		if !end.KeepsID {
			if err := freeSubject(ctx, tx, userID, end.Until); err != nil {
				return nil, err
			}
		}
		return s.endFamiliesOf(ctx, tx, userID, end, tokens...)
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
