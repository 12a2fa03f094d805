package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/mail"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var userOperations = map[Route]operation{
	ListUsers:    shows[[]User]("Lists the users", bare(listUsers)).by(reflect.TypeFor[userQuery]()),
	AddUser:      adds[User]("Registers a user", withMembers[newUser](addUser)),
	ShowUser:     shows[User]("Shows a user", bare(showUser)),
	UpdateUser:   shows[User]("Changes the given members of a user", withMembers[changedUser](updateUser)),
	RemoveUser:   changes("Deletes a user and ends every token and session", bare(removeUser)),
	UserSessions: shows[[]Session]("Lists the browsers in which a user is signed in", bare(userSessions)),
	SetPassword:  changes("Gives a user another password and ends every token and session", withBody(setPassword)),
	SetRole:      changes("Gives a user another role and ends every token and session", withBody(setRole)),
	DisableUser:  changes("Refuses a user and ends every token and session", setStatus(store.UserDisabled, "user disabled")),
	LockUser:     changes("Refuses a user whose account may be in other hands", setStatus(store.UserLocked, "user locked")),
	EnableUser:   changes("Lets a disabled or locked user in again", setStatus(store.UserActive, "user enabled")),
}

// userQuery is the filter of the list of users.
type userQuery struct {
	Search        string          `json:"search" help:"Beginning of the name, of the e-mail address, or of the preferred username"`
	Organisation  string          `json:"organisation" help:"Id of the organisation"`
	Group         string          `json:"group" help:"A group, of the operator's or of a provider"`
	Role          store.Role      `json:"role" help:"The role"`
	Provider      string          `json:"provider" help:"Name of an identity provider at which the user has an account"`
	State         store.UserState `json:"state" help:"active, disabled, locked or invited (active, and cannot sign in yet)"`
	WithoutFactor bool            `json:"without_factor" help:"true: users without a second factor"`
	pageQuery
}

// newUser are the members of a new user.
type newUser struct {
	store.User
	NewPassword
	EmailVerified bool `json:"email_verified,omitzero"`
	Service       bool `json:"service,omitzero"`
}

// changedUser are the members of a change of a user.
type changedUser struct {
	store.User
	EmailVerified bool `json:"email_verified,omitzero"`
	// Identities is keep or unlink.
	Identities string `json:"identities,omitzero"`
}

// User is what an operator sees of a user: its id, its members and its state, of the password only whether there is one.
type User struct {
	store.User
	Organisation string     `json:"organisation"`
	Role         store.Role `json:"role"`
	// RoleUndeclared: the role is no longer declared, so the user has none.
	RoleUndeclared bool `json:"role_undeclared,omitzero"`
	// ProviderGroups are those that the provider GroupsBy has set; Groups are the operator's.
	ProviderGroups []string `json:"provider_groups,omitempty"`
	GroupsBy       string   `json:"groups_by,omitzero"`
	HasPassword    bool     `json:"has_password"`
	// External: the user has an account at an identity provider, and needs no password.
	External bool `json:"external,omitzero"`
	// Service: it is a service account, with which no person signs in.
	Service bool `json:"service,omitzero"`
	// Identities are the accounts at identity providers with which the user signs in. Lists leave them out.
	Identities    []Identity `json:"identities,omitempty"`
	Source        string     `json:"source"`
	CreatedAt     time.Time  `json:"created_at,omitzero"`
	EmailVerified bool       `json:"email_verified"`
	// EmailVerifiedBy is "operator" or "provider NAME".
	EmailVerifiedBy string `json:"email_verified_by,omitzero"`
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
		User: *u, Organisation: u.Organisation, Role: u.Role, RoleUndeclared: u.Role != "" && !t.Issuer.Roles.Has(u.Role),
		ProviderGroups: u.ProviderGroups, GroupsBy: u.GroupsBy, HasPassword: !u.PasswordHash.IsEmpty(), External: u.External, Service: u.Service,
		Source: source(u.Declared), CreatedAt: u.CreatedAt, EmailVerified: u.EmailVerified(),
	}
	if view.EmailVerified {
		view.EmailVerifiedBy = u.EmailVerifiedBy
	}
	return view
}

func listUsers(t *Target, r *http.Request) (int, any, error) {
	asked, err := queryOf[userQuery](r)
	if err != nil {
		return 0, nil, err
	}
	q := store.UserQuery{
		Search: asked.Search, Organisation: asked.Organisation, Group: asked.Group, Role: asked.Role, Provider: asked.Provider, State: asked.State,
		WithoutFactor: asked.WithoutFactor, Limit: asked.Limit,
	}
	if q.State != "" {
		if _, err = store.ParseUserState(string(q.State)); err != nil {
			return 0, nil, store.InvalidInput(err)
		}
	}
	if err := asked.read(&q.After, &q.Limit); err != nil {
		return 0, nil, err
	}
	found, err := people.Search{People: t.Registry.People}.Users(r.Context(), q)
	status, users, err := listed(found.Users, err, t.viewOfUser)
	return status, page{users, next(r, found.Next)}, err
}

func showUser(t *Target, r *http.Request) (int, any, error) {
	user, err := t.Registry.People.UserNamed(r.Context(), r.PathValue("id"))
	if err != nil {
		return 0, nil, err
	}
	identities, err := t.Registry.People.Stored.Identities(r.Context(), user.ID)
	if err != nil {
		return 0, nil, err
	}
	view := t.viewOfUser(user)
	for _, i := range identities {
		view.Identities = append(view.Identities, Identity{Provider: i.Provider, Subject: i.Subject, LinkedAt: i.LinkedAt, LastUsedAt: i.LastUsedAt})
	}
	return http.StatusOK, versioned{view, versionOfUser(user)}, nil
}

// NewPassword is a password or its hash.
type NewPassword struct {
	Password string `json:"password,omitzero"`
	Hash     string `json:"password_hash,omitzero"`
}

var errTwoPasswords = store.InvalidInput(errors.New("give password or password_hash, not both"))

// addUser takes the members of a user, its id, one of password and password_hash or neither, email_verified, and service: that makes a
// service account, which needs no address.
func addUser(t *Target, r *http.Request, p store.Patch) (int, any, error) {
	user, err := t.addUser(r, p)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, t.viewOfUser(user), nil
}

func (t *Target) addUser(r *http.Request, p store.Patch) (*store.User, error) {
	var asked store.User
	var n NewPassword
	var verified bool
	if err := errors.Join(p.Take("id", &asked.ID), p.Take("password", &n.Password), p.Take("password_hash", &n.Hash), p.Take("service", &asked.Service),
		p.Take("email_verified", &verified), p.Apply(&asked)); err != nil {
		return nil, malformed(err)
	}
	switch {
	case asked.Status != "":
		return nil, malformed(errors.New("a new user is active: leave status out"))
	case n.Password != "" && n.Hash != "":
		return nil, errTwoPasswords
	}
	asked.PasswordHash = oauth.NewSecret(n.Hash)
	if verified {
		asked.EmailVerifiedBy = store.VerifiedByOperator
	}
	user, err := t.Registry.People.AddUser(r.Context(), asked, oauth.NewSecret(n.Password))
	if err != nil {
		return nil, err
	}
	recordAdded(r.Context(), t, user)
	return user, nil
}

// recordAdded writes the audit line of a new user.
func recordAdded(ctx context.Context, t *Target, user *store.User) {
	fields := []zap.Field{zap.String("subject", user.ID), zap.String("organisation", user.Organisation), zap.String("role", string(user.Role))}
	if user.Service {
		fields = append(fields, zap.Bool("service", true))
	}
	if len(user.Groups) > 0 {
		fields = append(fields, zap.Strings("groups", user.Groups))
	}
	t.record(ctx, "user added", fields...)
}

// updateUser merges the members of the request into the user. Beside them it takes email_verified, of the new address when that changes
// too, and identities.
func updateUser(t *Target, r *http.Request, p store.Patch) (int, any, error) {
	user, err := t.Registry.People.UserNamed(r.Context(), r.PathValue("id"))
	if err != nil {
		return 0, nil, err
	}
	changed := p.Names(user)
	for _, name := range []string{"email_verified", "identities"} {
		if p.Has(name) {
			changed = append(changed, name)
		}
	}
	var about aboutIdentities
	unverified := p.Has("email_verified")
	if err := errors.Join(p.Take("email_verified", &about.verifies), p.Take("identities", &about.choice)); err != nil {
		return 0, nil, malformed(err)
	}
	switch unverified = unverified && !about.verifies; {
	case len(p) == 0 && !unverified && !about.verifies && about.choice == "":
		return 0, nil, store.InvalidInput(errors.New("name what to change: name, email, role, status, organisation, groups, email_verified or a member of the profile"))
	case p.Resets("status"):
		return 0, nil, store.InvalidInput(errors.New("status: use active, disabled or locked"))
	}
	edited := *user
	if err := edited.Merge(p, t.Issuer.Roles); err != nil {
		return 0, nil, malformed(err)
	}
	about.moves = edited.Email != user.Email
	if err := about.check(r.Context(), t, user); err != nil {
		return 0, nil, err
	}
	change := store.MergeUser(p, t.Issuer.Roles)
	change.VerifiesEmail = about.verifies
	change.UnlinkIdentities, change.KeepIdentities = about.choice == unlinkIdentities, about.choice == keepIdentities
	var before, after store.User // as this change has found and left the user: another one may follow at once
	merge := change.Edit
	change.Edit = func(u *store.User) error {
		if err := checkVersion(r, versionOfUser(u)); err != nil {
			return err
		}
		before = *u
		if unverified {
			u.EmailVerifiedBy = store.Unvouched
		}
		err := merge(u)
		after = *u
		return err
	}
	if err = t.Registry.People.UpdateUser(r.Context(), user.ID, change); err != nil {
		return 0, nil, err
	}
	t.record(r.Context(), "user updated", append([]zap.Field{zap.String("subject", user.ID), zap.Strings("changed", changed)}, told(p, &after)...)...)
	if after.Email != before.Email {
		t.Registry.People.Post.Notify(r.Context(), &before, mail.AddressChanged, after.Email)
	}
	if user, err = t.Registry.People.User(r.Context(), user.ID); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, versioned{t.viewOfUser(user), versionOfUser(user)}, nil
}

// told are the new values of members that the audit log tells. It names people by their ids alone.
func told(p store.Patch, user *store.User) (fields []zap.Field) {
	for _, field := range []zap.Field{
		zap.String("role", string(user.Role)), zap.String("status", string(user.Status)), zap.String("organisation", user.Organisation),
		zap.Strings("groups", user.Groups),
	} {
		if p.Has(field.Key) {
			fields = append(fields, field)
		}
	}
	return fields
}

// The choices of aboutIdentities.
const (
	keepIdentities   = "keep"
	unlinkIdentities = "unlink"
)

// aboutIdentities is what a change says of the accounts with which the user signs in.
type aboutIdentities struct {
	// choice is keepIdentities or unlinkIdentities; empty: they stay. A change that vouches for an address has to say which, if none of the
	// accounts has proved that address, and so has a change of the address of a user with several.
	choice string
	// verifies: the address is verified, and moves: it is another one.
	verifies, moves bool
}

// check returns an error for an unknown choice. Without a choice, it also refuses to mark an address as verified that no linking provider
// has verified for the user's accounts: the owner of the address could then sign in as the user, beside the owners of those accounts. No
// account has proved a new address.
func (a aboutIdentities) check(ctx context.Context, t *Target, user *store.User) error {
	identities, err := t.Registry.People.Stored.Identities(ctx, user.ID)
	if err != nil {
		return err
	}
	identities = slices.DeleteFunc(slices.Clone(identities), func(i store.Identity) bool { return !i.IsOf(user) })
	proved := !a.moves && (user.EmailVerifiedBy == store.VerifiedByOperator ||
		!slices.ContainsFunc(identities, func(i store.Identity) bool { return !i.Vouches }))
	vouches := a.verifies && len(identities) > 0 && !proved
	switch {
	case a.choice == "" && (vouches || a.moves && len(identities) > 1):
		return store.InvalidInput(errors.New("the user signs in with accounts that have not proved the address: `caddy oauth user show` lists them. " +
			"Take them away with `--identities unlink` (identities: unlink), or, if you know that they and the address are one person's, " +
			"say `--identities keep`"))
	case a.choice != "" && a.choice != keepIdentities && a.choice != unlinkIdentities:
		return store.InvalidInput(fmt.Errorf("identities %.64q: use keep or unlink", a.choice))
	}
	return nil
}

func removeUser(t *Target, r *http.Request) (int, any, error) {
	return t.changeUser(r, "user removed", t.Registry.People.RemoveUser)
}

func setPassword(t *Target, r *http.Request, n NewPassword) (int, any, error) {
	return t.changeUser(r, "user password set", func(ctx context.Context, id string) error {
		switch {
		case n.Password != "" && n.Hash != "":
			return errTwoPasswords
		case n.Hash != "":
			return t.Registry.People.SetPasswordHash(ctx, id, oauth.NewSecret(n.Hash))
		}
		return t.Registry.People.SetPassword(ctx, id, oauth.NewSecret(n.Password))
	})
}

// newRole is the request to give a user another role.
type newRole struct {
	Role store.Role `json:"role"`
}

func setRole(t *Target, r *http.Request, request newRole) (int, any, error) {
	return t.changeUser(r, "user role set", func(ctx context.Context, id string) error {
		return t.Registry.People.SetRole(ctx, id, request.Role)
	}, zap.String("role", string(request.Role)))
}

func setStatus(status store.UserStatus, what string) handler {
	return bare(func(t *Target, r *http.Request) (int, any, error) {
		return t.changeUser(r, what, func(ctx context.Context, id string) error {
			return t.Registry.People.SetUserStatus(ctx, id, status)
		})
	})
}

// changeUser changes the user whom the path names, by the id or the e-mail address, and records a change that went well. It compares the version
// before the change, not in its step.
func (t *Target) changeUser(r *http.Request, what string, change func(context.Context, string) error, details ...zap.Field) (int, any, error) {
	user, err := t.Registry.People.UserNamed(r.Context(), r.PathValue("id"))
	if err == nil {
		err = checkVersion(r, versionOfUser(user))
	}
	if err == nil {
		err = change(r.Context(), user.ID)
	}
	if err == nil {
		t.record(r.Context(), what, append([]zap.Field{zap.String("subject", user.ID)}, details...)...)
	}
	return http.StatusNoContent, nil, err
}
