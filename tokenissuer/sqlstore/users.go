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

	"github.com/go-json-experiment/json"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore/postgres"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	// userColumns are in the order of scanUser.
	userColumns = `id, email, status, organisation, members, email_verified_by, provider_groups, groups_by, external, service, apart,
	password_hash, version, created_at, updated_at`
	selectUsers = `SELECT ` + userColumns + ` FROM users`
)

// whereUser and whereEmail select the user with the id or the address $1, or the stand-in $2 when there is none, at the same cost.
const (
	whereUser  = ` WHERE id = COALESCE((SELECT id FROM users WHERE id = $1), $2)`
	whereEmail = ` WHERE id = COALESCE((SELECT id FROM users WHERE email = $1), $2)`
)

// standInUser is the id and the address of the user that is read in place of one that does not exist. It differs from standIn because
// clients and users cannot share an id.
const standInUser = standIn + " user"

// addStandIn stores the stand-in, once. Its hash has the most common length, and no scheme.
func (s users) addStandIn(ctx context.Context) error {
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
func (s users) User(ctx context.Context, id string) (*store.User, error) {
	return findUser(ctx, s.db.text(selectUsers+whereUser), id)
}

// UserByEmail returns the user with that canonical address.
func (s users) UserByEmail(ctx context.Context, email string) (*store.User, error) {
	return findUser(ctx, s.db.text(selectUsers+whereEmail), email)
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

// Users lists the users of an organisation, or all if the organisation is empty, sorted by the bytes of their ids.
func (s users) Users(ctx context.Context, organisation string) ([]*store.User, error) {
	query, args := selectUsers+` WHERE id <> $1`, []any{standInUser}
	if organisation != "" {
		query, args = query+` AND organisation = $2`, append(args, possible(organisation))
	}
	list, err := askAll(ctx, s.db.text(query), args, scanUser)
	if err != nil {
		return nil, fmt.Errorf("listing users: %w", err)
	}
	slices.SortFunc(list, func(a, b *store.User) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

func scanUser(row scanner) (*store.User, error) {
	var u store.User
	var id, email, hash string
	var status store.UserStatus
	var organisation string
	var version int64
	var created, updated sql.Null[int64]
	var members, providerGroups []byte
	err := row.Scan(&id, &email, &status, &organisation, &members, &u.EmailVerifiedBy, &providerGroups, &u.GroupsBy, &u.External, &u.Service, &u.Apart, &hash,
		&version, &created, &updated)
	if err != nil {
		return nil, err
	}
	if err = json.Unmarshal(members, &u); err == nil && len(providerGroups) > len("[]") {
		err = json.Unmarshal(providerGroups, &u.ProviderGroups)
	}
	if err != nil {
		return nil, fmt.Errorf("user %q is damaged: %w", id, err)
	}
	u.ID, u.Email, u.Status, u.Organisation = id, email, status, organisation
	u.PasswordHash, u.Version, u.CreatedAt, u.UpdatedAt = oauth.NewSecret(hash), strconv.FormatInt(version, 10), timeOf(created), timeOf(updated)
	return &u, nil
}

// userMembers encodes a user's members for their column, except those with columns of their own, which statements refer to.
func userMembers(u *store.User) string {
	members := *u
	members.ID, members.Email, members.Status, members.Organisation = "", "", "", ""
	text, _ := json.Marshal(&members) // strings and flags can always be encoded
	return string(text)
}

// groupNames encodes the list for its column.
func groupNames(groups []string) string {
	if len(groups) == 0 {
		return "[]"
	}
	text, _ := json.Marshal(groups) // strings can always be encoded
	return string(text)
}

// AddUser registers a user with its identities. The id of a removed user stays taken for a while, like that of a removed client. The
// address does not.
func (s users) AddUser(ctx context.Context, user *store.User, organisationDeclared bool, identities ...store.Identity) error {
	u, linked := *user, slices.Clone(identities)
	u.External = u.External || len(linked) > 0
	return s.db.step(ctx, "adding user", func(ctx context.Context, tx session) error { return addUser(ctx, tx, &u, organisationDeclared, linked) })
}

// addUser adds a user with identities.
func addUser(ctx context.Context, tx session, u *store.User, organisationDeclared bool, linked []store.Identity) error {
	if !organisationDeclared {
		if err := holdOrganisation(ctx, tx, u.Organisation); err != nil {
			return fmt.Errorf("organisation %q: %w", u.Organisation, err)
		}
	}
	if err := takeSubject(ctx, tx, u.ID, "user", u.CreatedAt); err != nil {
		return err
	}
	err := mustAdd(tx.ExecContext(ctx, `INSERT INTO users (`+userColumns+`, password_scheme)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 1, $13, $14, $15) ON CONFLICT (email) DO NOTHING`,
		u.ID, u.Email, string(u.Status), u.Organisation, userMembers(u), u.EmailVerifiedBy, groupNames(u.ProviderGroups), u.GroupsBy, u.External,
		u.Service, u.Apart, u.PasswordHash.Reveal(), micros(u.CreatedAt), micros(u.UpdatedAt), passwords.SchemeOf(u.PasswordHash)))
	if errors.Is(err, store.ErrTaken) {
		return store.ErrEmailTaken
	}
	for _, i := range linked {
		i.UserID = u.ID
		if err == nil {
			err = mustAdd(tx.ExecContext(ctx, insertIdentity+`DO NOTHING`, identityValues(i)...))
		}
	}
	if err == nil {
		err = searchedUsers.addTerms(ctx, tx, u.ID, userTerms(u))
	}
	return err
}

// ChangeUser makes the change and, unless tokens are kept, ends every family of the user.
func (s users) ChangeUser(ctx context.Context, userID string, change store.UserChange, end store.Ending) ([]store.Revocation, error) {
	return s.db.endingStep(ctx, "changing user", func(ctx context.Context, tx session) ([]store.Revocation, error) {
		ends, strangers, err := changeUser(ctx, tx, userID, change, end)
		if err != nil || !ends {
			return nil, err
		}
		if change.UnlinkIdentities {
			if _, err := tx.ExecContext(ctx, `DELETE FROM identities WHERE user_id = $1`, userID); err != nil {
				return nil, err
			}
		}
		var ended []store.Revocation
		if strangers {
			if ended, err = deletePersonalTokens(ctx, tx, store.PersonalTokenFilter{UserID: userID}, end); err != nil {
				return nil, err
			}
		}
		tokens, err := changePersonalTokens(ctx, tx, userID, end)
		if err != nil {
			return nil, err
		}
		return s.db.endFamiliesOf(ctx, tx, userID, end, append(ended, tokens...)...)
	})
}

// changeUser changes a user's row, and the identities and factors that depend on it. It reports whether tokens end, and whether the personal
// access tokens may be another person's. It locks the row before it reads it: from then on no family of the old version is added.
func changeUser(ctx context.Context, tx session, userID string, change store.UserChange, end store.Ending) (ends, strangers bool, err error) {
	u, err := scanUser(tx.QueryRowContext(ctx, `UPDATE users SET version = version WHERE id = $1 RETURNING `+userColumns, possible(userID)))
	if errors.Is(err, sql.ErrNoRows) {
		return false, false, store.ErrNotFound
	}
	if err != nil {
		return false, false, err
	}
	before := *u
	if ends, err = change.Apply(u); err != nil {
		return false, false, editError{err}
	}
	unlinks, unproven := change.UnlinkIdentities && before.External, change.NewHolder && before.EmailVerifiedBy == store.Unvouched
	strangers = unlinks || unproven
	removesFactors := change.RemoveFactors || unlinks
	if unproven && u.EmailVerified() && !removesFactors {
		var hasFactor bool
		if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM factors WHERE user_id = $1)`, userID).Scan(&hasFactor); err != nil {
			return false, false, err
		}
		if hasFactor { // its owner has not proved the address
			u.EmailVerifiedBy = store.Unvouched
		}
	}
	if change.UnlinkIdentities && !u.EmailVerified() && u.Email == before.Email {
		linked, err := queryAll(ctx, tx, selectIdentities+` WHERE user_id = $1`, []any{possible(userID)}, scanIdentity)
		if err != nil {
			return false, false, err
		}
		if slices.ContainsFunc(linked, func(i store.Identity) bool { return i.Created }) {
			u.EmailVerifiedBy = store.Unvouched // the address is a provider's
		}
	}
	if u.Organisation != before.Organisation && u.Organisation != "" && !change.OrganisationDeclared {
		if err := holdOrganisation(ctx, tx, u.Organisation); err != nil {
			return false, false, fmt.Errorf("organisation %q: %w", u.Organisation, err)
		}
	}
	moves := 0
	if ends {
		moves = 1
	}
	_, err = tx.ExecContext(ctx, `UPDATE users SET status = $1, organisation = $2, members = $3, email_verified_by = $4, provider_groups = $5,
		groups_by = $6, external = $7, service = $8, password_hash = $9, password_scheme = $10, version = version + $11, updated_at = $12, apart = $13
		WHERE id = $14`,
		string(u.Status), u.Organisation, userMembers(u), u.EmailVerifiedBy, groupNames(u.ProviderGroups), u.GroupsBy, u.External, u.Service,
		u.PasswordHash.Reveal(), passwords.SchemeOf(u.PasswordHash), moves, micros(end.At), u.Apart, userID)
	if err != nil {
		return false, false, err
	}
	if u.Email != before.Email {
		err := mustAdd(tx.ExecContext(ctx, `UPDATE users SET email = $1
			WHERE id = $2 AND NOT EXISTS (SELECT 1 FROM users WHERE email = $1 AND id <> $2)`, u.Email, userID))
		if isTwice(err) || errors.Is(err, store.ErrTaken) { // in PostgreSQL another user may have got it since the query
			return false, false, store.ErrEmailTaken
		}
		if err != nil {
			return false, false, err
		}
	}
	if err := searchedUsers.changeTerms(ctx, tx, userID, userTerms(&before), userTerms(u)); err != nil {
		return false, false, err
	}
	for _, follows := range []struct {
		does      bool
		statement string
		args      []any
	}{
		{u.Email != before.Email, `UPDATE identities SET vouches = FALSE WHERE user_id = $1`, []any{userID}},
		{change.KeepIdentities, `UPDATE identities SET linked_at = $1 WHERE user_id = $2`, []any{micros(end.At), userID}},
		{change.VerifiesEmail, `UPDATE identities SET vouches = TRUE WHERE user_id = $1`, []any{userID}},
		{removesFactors, `DELETE FROM factors WHERE user_id = $1`, []any{userID}},
		{change.RemovePasskeys, `DELETE FROM factors WHERE user_id = $1 AND kind = $2`, []any{userID, string(store.Passkey)}},
	} {
		if follows.does {
			if _, err := tx.ExecContext(ctx, follows.statement, follows.args...); err != nil {
				return false, false, err
			}
		}
	}
	return ends, strangers, nil
}

// isTwice reports whether a statement violated a unique index.
func isTwice(err error) bool { return postgres.Code(err) == "23505" }

// RehashPassword replaces the hash old. It does nothing if the user does not exist or has another hash.
func (s users) RehashPassword(ctx context.Context, userID string, old, hash oauth.Secret) error {
	return s.db.step(ctx, "rehashing password", func(ctx context.Context, tx session) error {
		_, err := tx.ExecContext(ctx, `UPDATE users SET password_hash = $1, password_scheme = $2
			WHERE id = $3 AND password_hash = $4`,
			hash.Reveal(), passwords.SchemeOf(hash), userID, old.Reveal())
		return err
	})
}

// RemoveUser deletes the user with its consents and ends every family. Its id stays taken for a while or for ever.
func (s users) RemoveUser(ctx context.Context, userID string, end store.Ending) ([]store.Revocation, error) {
	return s.db.endingStep(ctx, "removing user", func(ctx context.Context, tx session) ([]store.Revocation, error) {
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
		return s.db.endFamiliesOf(ctx, tx, userID, end, tokens...)
	})
}

// selectSchemes steps from one scheme to the next in the index users_by_password_scheme. DISTINCT would read the whole index to find a
// handful of schemes.
const selectSchemes = `WITH RECURSIVE found(scheme) AS (
	SELECT MIN(password_scheme) FROM users WHERE password_scheme > ''
	UNION ALL SELECT (SELECT MIN(password_scheme) FROM users WHERE password_scheme > scheme) FROM found WHERE scheme IS NOT NULL)
	SELECT scheme FROM found WHERE scheme IS NOT NULL`

// PasswordSchemes lists the distinct schemes of the stored hashes.
func (s users) PasswordSchemes(ctx context.Context) ([]string, error) {
	list, err := askAll(ctx, s.db.text(selectSchemes), nil, func(row scanner) (scheme string, err error) {
		err = row.Scan(&scheme)
		return scheme, err
	})
	if err != nil {
		return nil, fmt.Errorf("listing password schemes: %w", err)
	}
	return list, nil
}
