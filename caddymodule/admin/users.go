package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/registry"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var userOperations = map[string]operation{
	"GET /oauth/users":                listUsers,
	"POST /oauth/users":               withBody(addUser),
	"GET /oauth/users/{id}":           showUser,
	"PATCH /oauth/users/{id}":         withBody(updateUser),
	"DELETE /oauth/users/{id}":        removeUser,
	"GET /oauth/users/{id}/sessions":  listSessions,
	"POST /oauth/users/{id}/password": withBody(setPassword),
	"POST /oauth/users/{id}/role":     withBody(setRole),
	"POST /oauth/users/{id}/disable":  setStatus(store.UserDisabled, "user disabled"),
	"POST /oauth/users/{id}/lock":     setStatus(store.UserLocked, "user locked"),
	"POST /oauth/users/{id}/enable":   setStatus(store.UserActive, "user enabled"),
}

// User is what an operator sees of a user: whether there is a password, and nothing of it.
type User struct {
	ID           string     `json:"id"`
	Email        string     `json:"email"`
	Name         string     `json:"name"`
	Organisation string     `json:"organisation"`
	Role         store.Role `json:"role"`
	// RoleUndeclared: there is no such role any more, so the user has none.
	RoleUndeclared bool     `json:"role_undeclared,omitzero"`
	Groups         []string `json:"groups,omitempty"`
	// ProviderGroups are those into which the provider GroupsBy has put the user; Groups are the operator's.
	ProviderGroups []string         `json:"provider_groups,omitempty"`
	GroupsBy       string           `json:"groups_by,omitzero"`
	Status         store.UserStatus `json:"status"`
	HasPassword    bool             `json:"has_password"`
	// External: an identity provider vouches for the user, who needs no password then.
	External bool `json:"external,omitzero"`
	// Service: nobody signs in as the user, who is a machine's account.
	Service bool `json:"service,omitzero"`
	// Identities are the accounts at identity providers with which the user signs in. Lists leave them out.
	Identities    []Identity `json:"identities,omitempty"`
	Source        string     `json:"source"`
	CreatedAt     time.Time  `json:"created_at,omitzero"`
	EmailVerified bool       `json:"email_verified"`
	// EmailVerifiedBy is "operator" or "provider NAME".
	EmailVerifiedBy string `json:"email_verified_by,omitzero"`
	store.Profile
}

// Identity is an account of a user at an identity provider.
type Identity struct {
	Provider   string    `json:"provider"`
	Subject    string    `json:"subject"`
	LinkedAt   time.Time `json:"linked_at,omitzero"`
	LastUsedAt time.Time `json:"last_used_at,omitzero"`
}

func (t *Target) viewOfUser(u *store.User) User {
	view := User{
		RoleUndeclared: u.Role != "" && !t.Issuer.Roles.Has(u.Role),
		ID:             u.ID, Email: u.Email, Name: u.Name, Organisation: u.Organisation, Role: u.Role, Groups: u.Groups, Status: u.Status,
		HasPassword: !u.PasswordHash.IsEmpty(), Source: source(u.Declared), CreatedAt: u.CreatedAt,
		EmailVerified: u.EmailVerified(), EmailVerifiedBy: u.EmailVerifiedBy, ProviderGroups: u.ProviderGroups, GroupsBy: u.GroupsBy, External: u.External, Service: u.Service,
	}
	if u.Profile != nil {
		view.Profile = *u.Profile
	}
	return view
}

func listUsers(t *Target, r *http.Request) (int, any, error) {
	organisation, err := organisationAsked(r.URL)
	if err != nil {
		return 0, nil, err
	}
	users, err := t.Registry.Users(r.Context(), organisation)
	return listed(users, err, t.viewOfUser)
}

// organisationAsked reads the filter of a list; empty: there is none. Anything else in the query is refused, for a
// misspelled filter would list everybody.
func organisationAsked(u *url.URL) (string, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", registry.InvalidInput(errors.New("the query is malformed"))
	}
	for name, values := range query {
		if name != "organisation" || len(values) != 1 || values[0] == "" {
			return "", registry.InvalidInput(errors.New("the list takes one filter: ?organisation=ID"))
		}
	}
	return query.Get("organisation"), nil
}

func showUser(t *Target, r *http.Request) (int, any, error) {
	user, err := t.Registry.UserNamed(r.Context(), r.PathValue("id"))
	if err != nil {
		return 0, nil, err
	}
	identities, err := t.Registry.Stored.Identities(r.Context(), user.ID)
	if err != nil {
		return 0, nil, err
	}
	view := t.viewOfUser(user)
	for _, i := range identities {
		view.Identities = append(view.Identities, Identity{Provider: i.Provider, Subject: i.Subject, LinkedAt: i.LinkedAt, LastUsedAt: i.LastUsedAt})
	}
	return http.StatusOK, view, nil
}

// NewUser is the request to add a user, with one of password and password_hash, or neither.
type NewUser struct {
	ID           string     `json:"id,omitzero"`
	Email        string     `json:"email,omitzero"`
	Name         string     `json:"name,omitzero"`
	Organisation string     `json:"organisation,omitzero"`
	Role         store.Role `json:"role,omitzero"`
	Groups       []string   `json:"groups,omitempty"`
	// Service makes a service account, which needs no address.
	Service bool `json:"service,omitzero"`
	// EmailVerified and Profile are for applications of OpenID Connect.
	EmailVerified bool `json:"email_verified,omitzero"`
	store.Profile
	NewPassword
}

// NewPassword is a password or its hash.
type NewPassword struct {
	Password string `json:"password,omitzero"`
	Hash     string `json:"password_hash,omitzero"`
}

var errTwoPasswords = registry.InvalidInput(errors.New("give password or password_hash, not both"))

func addUser(t *Target, r *http.Request, n NewUser) (int, any, error) {
	if n.Password != "" && n.Hash != "" {
		return 0, nil, errTwoPasswords
	}
	user, err := t.Registry.AddUser(r.Context(), store.User{
		ID: n.ID, Email: n.Email, Name: n.Name, Organisation: n.Organisation, Role: n.Role, Groups: n.Groups,
		PasswordHash: oauth.NewSecret(n.Hash), EmailVerifiedBy: verifiedBy(n.EmailVerified), Profile: n.Clone(), Service: n.Service,
	}, oauth.NewSecret(n.Password))
	if err != nil {
		return 0, nil, err
	}
	fields := []zap.Field{zap.String("user_id", user.ID), zap.String("organisation", user.Organisation), zap.String("role", string(user.Role))}
	if user.Service {
		fields = append(fields, zap.Bool("service", true))
	}
	if len(user.Groups) > 0 {
		fields = append(fields, zap.Strings("groups", user.Groups))
	}
	t.record("user added", fields...)
	return http.StatusCreated, t.viewOfUser(user), nil
}

// userUpdate is the request to change a user: what is not named stays.
type userUpdate struct {
	Name         *string           `json:"name,omitzero"`
	Email        *string           `json:"email,omitzero"`
	Role         *store.Role       `json:"role,omitzero"`
	Status       *store.UserStatus `json:"status,omitzero"`
	Organisation *string           `json:"organisation,omitzero"`
	Groups       *[]string         `json:"groups,omitzero"`
	// EmailVerified is of the new address when that changes too.
	EmailVerified *bool `json:"email_verified,omitzero"`
	// Identities is "keep" or "unlink", for the accounts with which the user signs in; empty: they stay. A change that vouches for an
	// address has to say which, if none of the accounts has proved that address, and so has a change of the address of a user with several.
	Identities string `json:"identities,omitzero"`
	profileMembers
}

func updateUser(t *Target, r *http.Request, u userUpdate) (int, any, error) {
	user, err := t.Registry.UserNamed(r.Context(), r.PathValue("id"))
	if err != nil {
		return 0, nil, err
	}
	change := store.UserChange{
		Name: u.Name, Email: u.Email, Role: u.Role, Status: u.Status, Organisation: u.Organisation, Groups: u.Groups,
		Profile: u.profile(user.Profile), UnlinkIdentities: u.Identities == unlinkIdentities,
		KeepIdentities: u.Identities == keepIdentities,
	}
	if u.EmailVerified != nil {
		by := verifiedBy(*u.EmailVerified)
		change.EmailVerifiedBy = &by
	}
	identities, err := t.Registry.Stored.Identities(r.Context(), user.ID)
	if err != nil {
		return 0, nil, err
	}
	if err := u.checkIdentities(user, identities); err != nil {
		return 0, nil, err
	}
	if err = t.Registry.UpdateUser(r.Context(), user.ID, change); err != nil {
		return 0, nil, err
	}
	t.record("user updated", append([]zap.Field{zap.String("user_id", user.ID)}, u.fields()...)...)
	if user, err = t.Registry.User(r.Context(), user.ID); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, t.viewOfUser(user), nil
}

// verifiedBy returns the EmailVerifiedBy of an address that an operator declares verified or not.
func verifiedBy(verified bool) string {
	if verified {
		return store.VerifiedByOperator
	}
	return ""
}

// The values of userUpdate.Identities.
const (
	keepIdentities   = "keep"
	unlinkIdentities = "unlink"
)

// checkIdentities returns an error for an unknown value of Identities. Unless Identities is given, it also refuses to mark an address as
// verified that no linking provider has verified for the user's accounts: the owner of the address could then sign in as the user, beside
// the owners of those accounts. No account has proved a new address.
func (u *userUpdate) checkIdentities(user *store.User, identities []store.Identity) error {
	identities = slices.DeleteFunc(slices.Clone(identities), func(i store.Identity) bool { return !i.IsOf(user) })
	moves := u.Email != nil
	if moves {
		email, err := store.CanonicalEmail(*u.Email)
		moves = err != nil || email != user.Email
	}
	proved := !moves && (user.EmailVerifiedBy == store.VerifiedByOperator ||
		!slices.ContainsFunc(identities, func(i store.Identity) bool { return !i.Vouches }))
	vouches := u.EmailVerified != nil && *u.EmailVerified && len(identities) > 0 && !proved
	switch {
	case u.Identities == "" && (vouches || moves && len(identities) > 1):
		return registry.InvalidInput(errors.New("the user signs in with accounts that have not proved the address: `caddy oauth user show` lists them. " +
			"Take them away with `--identities unlink` (identities: unlink), or, if you know that they and the address are one person's, " +
			"say `--identities keep`"))
	case u.Identities != "" && u.Identities != keepIdentities && u.Identities != unlinkIdentities:
		return registry.InvalidInput(fmt.Errorf("identities %.64q: use keep or unlink", u.Identities))
	}
	return nil
}

// fields are what was changed, for the audit log, which names people by their ids alone.
func (u *userUpdate) fields() (fields []zap.Field) {
	fields = append(fields, zap.Strings("changed", given(append([]namedMember{
		{"name", u.Name != nil}, {"email", u.Email != nil}, {"role", u.Role != nil}, {"status", u.Status != nil},
		{"organisation", u.Organisation != nil}, {"groups", u.Groups != nil}, {"email_verified", u.EmailVerified != nil}, {"identities", u.Identities != ""},
	}, u.members()...))))
	if u.Role != nil {
		fields = append(fields, zap.String("role", string(*u.Role)))
	}
	if u.Status != nil {
		fields = append(fields, zap.String("status", string(*u.Status)))
	}
	if u.Organisation != nil {
		fields = append(fields, zap.String("organisation", *u.Organisation))
	}
	if u.Groups != nil {
		fields = append(fields, zap.Strings("groups", *u.Groups))
	}
	return fields
}

func removeUser(t *Target, r *http.Request) (int, any, error) {
	return t.changeUser(r, "user removed", t.Registry.RemoveUser)
}

func setPassword(t *Target, r *http.Request, n NewPassword) (int, any, error) {
	return t.changeUser(r, "user password set", func(ctx context.Context, id string) error {
		switch {
		case n.Password != "" && n.Hash != "":
			return errTwoPasswords
		case n.Hash != "":
			return t.Registry.SetPasswordHash(ctx, id, oauth.NewSecret(n.Hash))
		}
		return t.Registry.SetPassword(ctx, id, oauth.NewSecret(n.Password))
	})
}

// newRole is the request to give a user another role.
type newRole struct {
	Role store.Role `json:"role"`
}

func setRole(t *Target, r *http.Request, request newRole) (int, any, error) {
	return t.changeUser(r, "user role set", func(ctx context.Context, id string) error {
		return t.Registry.SetRole(ctx, id, request.Role)
	}, zap.String("role", string(request.Role)))
}

func setStatus(status store.UserStatus, what string) operation {
	return func(t *Target, r *http.Request) (int, any, error) {
		return t.changeUser(r, what, func(ctx context.Context, id string) error {
			return t.Registry.SetUserStatus(ctx, id, status)
		})
	}
}

// changeUser changes the user whom the path names, by the id or the e-mail address, and records a change that went well.
func (t *Target) changeUser(r *http.Request, what string, change func(context.Context, string) error, details ...zap.Field) (int, any, error) {
	user, err := t.Registry.UserNamed(r.Context(), r.PathValue("id"))
	if err == nil {
		err = change(r.Context(), user.ID)
	}
	if err == nil {
		t.record(what, append([]zap.Field{zap.String("user_id", user.ID)}, details...)...)
	}
	return http.StatusNoContent, nil, err
}
