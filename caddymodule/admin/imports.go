package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// importOperations change many users at once, each in a step of its own, and with the time that a request about one has.
var importOperations = map[Route]operation{
	ImportUsers:   shows[[]Imported]("Adds users, and changes those that exist if asked to", withBody(importUsers)),
	ImportClients: shows[[]Imported]("Takes over the clients of another server, with their ids and secrets", withBody(importClients)),
	ImportTokens:  shows[ImportedTokens]("Takes over a stretch of the tokens of another server, as digests", withLongBody(maxTokensBody, importTokens)),
	EndImport:     changes("Ends a run of imports, so that the next one may begin", withBody(endImport)),
	ChangeGroups:  shows[[]Imported]("Puts users into a group, or takes them out", withBody(changeGroups)),
}

// UsersToImport are users to add, or to change if Update is set. With DryRun nothing is stored, and the results say what would be.
type UsersToImport struct {
	Users  []UserToImport `json:"users"`
	Update bool           `json:"update,omitzero"`
	// A Source names the server that the users come from, by their IDs. What it has changed since the last import is changed here, whatever
	// Update says, and nothing else.
	ImportRun
}

// UserToImport is a user as a table has it. What is empty gets its default, and of a user who exists it stays.
type UserToImport struct {
	// ID is that at the Source; empty: a new user gets one.
	ID           string   `json:"id,omitzero"`
	Email        string   `json:"email"`
	Name         string   `json:"name,omitzero"`
	Username     string   `json:"preferred_username,omitzero"`
	Organisation string   `json:"organisation,omitzero"`
	Role         string   `json:"role,omitzero"`
	Groups       []string `json:"groups,omitempty"`
	Status       string   `json:"status,omitzero"`
	// Hash is of the first password. It is not used for a user who has one. For one who may be another person the row is refused.
	Hash string `json:"password_hash,omitzero"`
	// Mapped names members that the Source has a column for: if one of organisation, role, groups and password_hash is empty now, it is reset here.
	Mapped []string `json:"mapped,omitempty"`
	// EmailVerified reports that the Source has verified the address. Note is for the operator.
	EmailVerified bool   `json:"email_verified,omitzero"`
	Note          string `json:"note,omitzero"`
}

// Outcome is what became of a user in a change of many.
type Outcome string

// The outcomes. Differs is that of a user who exists with other members, and is not to be changed.
const (
	Added     Outcome = "added"
	Updated   Outcome = "updated"
	Unchanged Outcome = "unchanged"
	Differs   Outcome = "differs"
	Refused   Outcome = "refused"
)

// Imported is the result for a user.
type Imported struct {
	// User is the address or the id of the request.
	User   string  `json:"user"`
	ID     string  `json:"id,omitzero"`
	Result Outcome `json:"result"`
	// Members are those that were changed, or that differ.
	Members []string `json:"members,omitempty"`
	// Reason is why it was refused, or what has to be known about it.
	Reason string `json:"reason,omitzero"`
}

// becomes is the result with an error, unless that is not about the user.
func (i Imported) becomes(result Outcome, err error) (Imported, error) {
	i.Result = result
	if err == nil {
		return i, nil
	}
	if statusOf(err) >= http.StatusInternalServerError {
		return i, err
	}
	i.Result, i.Members, i.Reason = Refused, nil, inWords("user", err).Error()
	return i, nil
}

func importUsers(t *Target, r *http.Request, asked UsersToImport) (int, any, error) {
	if asked.Source != "" {
		if err := asked.begin(r.Context(), t); err != nil {
			return 0, nil, err
		}
		return takeover{t, asked.Source, asked.DryRun}.users(r.Context(), asked)
	}
	results := make([]Imported, 0, len(asked.Users))
	for _, row := range asked.Users {
		result, err := t.importUser(sqlstore.WithTimeout(r.Context()), row, asked)
		if err != nil {
			return 0, nil, err
		}
		results = append(results, result)
	}
	return http.StatusOK, results, nil
}

func (t *Target) importUser(ctx context.Context, row UserToImport, asked UsersToImport) (Imported, error) {
	result := Imported{User: row.Email}
	email, err := store.CanonicalEmail(row.Email)
	if err != nil {
		return result.becomes(Refused, store.InvalidInput(err))
	}
	if err := row.checkHash(); err != nil {
		return result.becomes(Refused, err)
	}
	user, err := t.Issuer.Families.Directory.UserByEmail(ctx, email)
	if errors.Is(err, store.ErrNotFound) {
		return t.importNew(ctx, t.Registry.People, row, asked.DryRun)
	}
	if err != nil {
		return result.becomes(Refused, err)
	}
	result.ID = user.ID
	patch := row.differences(user)
	result.Members = patch.Names(user)
	hash := oauth.NewSecret(row.Hash)
	sets := !hash.IsEmpty() && user.PasswordHash.IsEmpty()
	if sets {
		result.Members = append(result.Members, "password_hash")
	}
	switch {
	case len(result.Members) == 0:
		return result.becomes(Unchanged, nil)
	case user.Declared:
		return result.becomes(Refused, store.ErrDeclared)
	case !asked.Update:
		return result.becomes(Differs, nil)
	}
	change := store.MergeUser(patch, t.Issuer.Roles)
	change.NewHolder = sets
	merge := change.Edit
	var after store.User
	change.Edit = func(u *store.User) error {
		err := merge(u)
		if err == nil && sets && u.PasswordHash.IsEmpty() { // the user may have chosen one meanwhile
			if u.Email != email {
				return errFirstPassword
			}
			u.PasswordHash, err = hash, row.checkFirstPassword(u)
		}
		after = *u
		return err
	}
	if asked.DryRun {
		return result.becomes(Updated, people.DryRun{People: t.Registry.People}.UpdateUser(ctx, user, change))
	}
	if err = t.Registry.People.UpdateUser(ctx, user.ID, change); err == nil {
		t.record(ctx, "user updated", append([]zap.Field{zap.String("subject", user.ID), zap.Strings("changed", result.Members)}, told(patch, &after)...)...)
	}
	return result.becomes(Updated, err)
}

// errFirstPassword is the error of a row whose password may be that of another person than the user with its address.
var errFirstPassword = store.InvalidInput(errors.New("it has no password here, and the table's may be another person's: leave the hash out. " +
	"The user signs in at a provider, or gets a link with: caddy oauth user invite"))

// checkFirstPassword refuses the password of a row for a user who exists, unless the row's address is verified, or no one has vouched for the
// user's either. A user with an identity has another way in.
func (row UserToImport) checkFirstPassword(u *store.User) error {
	if u.External || !row.EmailVerified && u.EmailVerifiedBy != store.Unvouched {
		return errFirstPassword
	}
	return nil
}

// checkHash refuses a hash that cannot be verified, or takes too long to.
func (row UserToImport) checkHash() error {
	if row.Hash == "" {
		return nil
	}
	if err := passwords.ValidateImported(oauth.NewSecret(row.Hash)); err != nil {
		return store.InvalidInput(err)
	}
	return nil
}

// importNew adds a user to g.
func (t *Target) importNew(ctx context.Context, g *people.Users, row UserToImport, dry bool) (Imported, error) {
	u := store.User{
		ID: row.ID, Email: row.Email, Name: row.Name, Organisation: row.Organisation, Role: store.Role(row.Role), Groups: row.Groups, Status: store.UserStatus(row.Status),
		PasswordHash: oauth.NewSecret(row.Hash),
	}
	if u.EmailVerifiedBy = store.Unvouched; row.EmailVerified {
		u.EmailVerifiedBy = store.VerifiedByOperator
	}
	if row.Username != "" {
		u.Profile = &store.Profile{PreferredUsername: row.Username}
	}
	result := Imported{User: row.Email}
	if dry {
		return result.becomes(Added, people.DryRun{People: g}.AddUser(ctx, u))
	}
	added, err := g.AddUser(ctx, u, oauth.Secret{})
	if err == nil {
		result.ID = added.ID
		recordAdded(ctx, t, added)
	}
	return result.becomes(Added, err)
}

// differences is the patch that gives a user what the row has.
func (row UserToImport) differences(user *store.User) store.Patch {
	username := ""
	if user.Profile != nil {
		username = user.PreferredUsername
	}
	patch := make(store.Patch)
	for _, member := range []struct{ name, wanted, is string }{
		{"name", row.Name, user.Name}, {"preferred_username", row.Username, username}, {"organisation", row.Organisation, user.Organisation},
		{"role", row.Role, string(user.Role)}, {"status", row.Status, string(user.Status)},
	} {
		if member.wanted != "" && member.wanted != member.is {
			patch[member.name], _ = json.Marshal(member.wanted) // UTF-8, as the request was
		}
	}
	if len(row.Groups) > 0 && !slices.Equal(slices.Sorted(slices.Values(row.Groups)), slices.Sorted(slices.Values(user.Groups))) {
		patch["groups"], _ = json.Marshal(row.Groups)
	}
	return patch
}

// GroupChange puts users into a group or takes them out, each by the id or the e-mail address.
type GroupChange struct {
	Group  string   `json:"group"`
	Add    []string `json:"add,omitempty"`
	Remove []string `json:"remove,omitempty"`
}

// errUnchanged ends a change that would change nothing, and would end tokens.
var errUnchanged = errors.New("nothing changes")

func changeGroups(t *Target, r *http.Request, asked GroupChange) (int, any, error) {
	if err := store.ValidateGroups([]string{asked.Group}); err != nil {
		return 0, nil, store.InvalidInput(err)
	}
	results := make([]Imported, 0, len(asked.Add)+len(asked.Remove))
	for i, name := range slices.Concat(asked.Add, asked.Remove) {
		result, err := t.changeGroup(sqlstore.WithTimeout(r.Context()), name, asked.Group, i < len(asked.Add))
		if err != nil {
			return 0, nil, err
		}
		results = append(results, result)
	}
	return http.StatusOK, results, nil
}

func (t *Target) changeGroup(ctx context.Context, name, group string, belongs bool) (Imported, error) {
	result := Imported{User: name}
	user, err := t.Registry.People.UserNamed(ctx, name)
	if err != nil {
		return result.becomes(Refused, err)
	}
	result.ID = user.ID
	var groups []string
	err = t.Registry.People.UpdateUser(ctx, user.ID, store.UserChange{Edit: func(u *store.User) error {
		without := slices.DeleteFunc(slices.Clone(u.Groups), func(g string) bool { return g == group })
		switch is := len(without) < len(u.Groups); {
		case is == belongs:
			return errUnchanged
		case belongs:
			without = append(without, group)
		}
		u.Groups, groups = without, without
		return nil
	}})
	if errors.Is(err, errUnchanged) {
		return result.becomes(Unchanged, nil)
	}
	if err == nil {
		result.Members = []string{"groups"}
		t.record(ctx, "user updated", zap.String("subject", user.ID), zap.Strings("changed", result.Members), zap.Strings("groups", groups))
	}
	return result.becomes(Updated, err)
}
