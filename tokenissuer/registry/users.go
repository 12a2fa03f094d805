package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Users lists every user, by id; of one organisation, unless its id is empty.
func (g *Registry) Users(ctx context.Context, organisation string) ([]*store.User, error) {
	list, err := g.Stored.Users(ctx, organisation)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(slices.Clone(list), func(u *store.User) bool { return g.Declared.LookupUser(u.ID) != nil })
	for _, u := range g.Declared.Users() {
		if organisation == "" || u.Organisation == organisation {
			list = append(list, u)
		}
	}
	slices.SortFunc(list, func(a, b *store.User) int { return strings.Compare(a.ID, b.ID) })
	return list, nil
}

// User returns one user, or ErrNotFound.
func (g *Registry) User(ctx context.Context, id string) (*store.User, error) {
	return g.Families.Directory.User(ctx, id)
}

// AddUser registers a user with a password, a hash of one in user.PasswordHash, or neither: then the user can sign in
// once a password is set. An empty id is generated. ErrTaken when the id is in use, ErrEmailTaken when the address is.
func (g *Registry) AddUser(ctx context.Context, u store.User, password oauth.Secret) (*store.User, error) {
	return g.addUser(ctx, u, password, g.Stored.AddUser)
}

// AddExternalUser registers a user with the first account at an identity provider, whose UserID and times it sets, in one step. ErrTaken when the id, the address or the account is in use.
func (g *Registry) AddExternalUser(ctx context.Context, u store.User, identity store.Identity) (*store.User, error) {
	u.External = true
	return g.addUser(ctx, u, oauth.Secret{}, func(ctx context.Context, u *store.User, organisationDeclared bool) error {
		identity.UserID, identity.LinkedAt, identity.LastUsedAt, identity.Created = u.ID, u.CreatedAt, u.CreatedAt, true
		return g.Stored.AddExternalUser(ctx, u, identity, organisationDeclared)
	})
}

func (g *Registry) addUser(ctx context.Context, u store.User, password oauth.Secret, add func(context.Context, *store.User, bool) error) (*store.User, error) {
	if u.ID == "" {
		u.ID = oauth.NewID()
	}
	if u.Service && u.Email == "" {
		u.Email = store.ServiceEmail(u.ID)
		u.Name = cmp.Or(u.Name, u.ID)
	}
	var err error
	if u.Email, err = store.CanonicalEmail(u.Email); err != nil {
		return nil, invalidInput{err}
	}
	if u.Role != "" {
		if err := g.Roles.Check(u.Role); err != nil {
			return nil, invalidInput{err}
		}
	}
	u.SetDefaults(g.Roles)
	u.CreatedAt = g.Families.Now().Truncate(time.Microsecond)
	if err := u.Validate(); err != nil {
		return nil, invalidInput{err}
	}
	if g.Known.OpenID {
		if err := store.CheckSubject(u.ID); err != nil {
			return nil, invalidInput{err}
		}
	}
	if g.isDeclared(u.ID) {
		return nil, store.ErrTaken
	}
	if g.Declared.LookupUserByEmail(u.Email) != nil {
		return nil, store.ErrEmailTaken
	}
	if !password.IsEmpty() {
		if u.Service {
			return nil, errServiceSignsIn
		}
		if u.PasswordHash, err = g.hash(ctx, password); err != nil {
			return nil, err
		}
	}
	err = add(ctx, &u, u.Organisation == "" || g.Declared.LookupOrganisation(u.Organisation) != nil)
	if errors.Is(err, store.ErrNotFound) {
		return nil, invalidInput{fmt.Errorf("there is no organisation %q: add it first", u.Organisation)}
	}
	if err != nil {
		return nil, err
	}
	return &u, nil
}

func (g *Registry) hash(ctx context.Context, password oauth.Secret) (oauth.Secret, error) {
	if err := passwords.Validate(password); err != nil {
		return oauth.Secret{}, invalidInput{err}
	}
	return g.Hasher.Hash(ctx, password)
}

// SetPassword gives a user another password and ends every token and session of the user.
func (g *Registry) SetPassword(ctx context.Context, id string, password oauth.Secret) error {
	hash, err := g.hash(ctx, password)
	if err != nil {
		return err
	}
	return g.setHash(ctx, id, hash)
}

// errServiceSignsIn refuses a password for a service account.
var errServiceSignsIn = invalidInput{errors.New("it is a service account: nobody signs in with it. Give it a token: caddy oauth pat add")}

func (g *Registry) setHash(ctx context.Context, id string, hash oauth.Secret) error {
	user, err := g.User(ctx, id)
	switch {
	case err != nil:
		return err
	case user.Service:
		return errServiceSignsIn
	}
	return g.changeUser(ctx, id, store.UserChange{Password: &hash})
}

// SetPasswordHash is SetPassword with the hash of the password, as `caddy hash-password` prints it.
func (g *Registry) SetPasswordHash(ctx context.Context, id string, hash oauth.Secret) error {
	if err := passwords.ValidateHash(hash); err != nil {
		return invalidInput{err}
	}
	return g.setHash(ctx, id, hash)
}

// SetRole gives a user another role and ends every token and session of the user.
func (g *Registry) SetRole(ctx context.Context, id string, role store.Role) error {
	if err := g.Roles.Check(role); err != nil {
		return invalidInput{err}
	}
	return g.changeUser(ctx, id, store.UserChange{Role: &role})
}

// SetUserStatus disables, locks or enables a user. Every token and session of the user ends.
func (g *Registry) SetUserStatus(ctx context.Context, id string, status store.UserStatus) error {
	if _, err := store.ParseUserStatus(string(status)); err != nil {
		return invalidInput{err}
	}
	return g.changeUser(ctx, id, store.UserChange{Status: &status})
}

// UpdateUser makes the members that a change names, and no others, what it says: an empty name is the e-mail address, an empty
// role or organisation is none. Every token and session of the user ends, unless the change is of name and address alone.
// ErrEmailTaken when another user has the address.
func (g *Registry) UpdateUser(ctx context.Context, id string, change store.UserChange) error {
	if change == (store.UserChange{}) {
		return invalidInput{errors.New("name what to change: name, email, role, status, organisation, groups, email_verified or a member of the profile")}
	}
	user, err := g.User(ctx, id)
	if err != nil {
		return err
	}
	if user.Declared {
		return ErrDeclared
	}
	email := user.Email
	if change.Email != nil {
		if email, err = store.CanonicalEmail(*change.Email); err != nil {
			return invalidInput{err}
		}
		if g.Declared.LookupUserByEmail(email) != nil {
			return store.ErrEmailTaken
		}
		change.Email = &email
	}
	if change.Name != nil && *change.Name == "" {
		change.Name = &email
	}
	if change.Role != nil && *change.Role != "" {
		if err := g.Roles.Check(*change.Role); err != nil {
			return invalidInput{err}
		}
	}
	if change.Organisation != nil {
		change.OrganisationDeclared = *change.Organisation == "" || g.Declared.LookupOrganisation(*change.Organisation) != nil
	}
	updated := *user
	change.Apply(&updated)
	if err := updated.Validate(); err != nil {
		return invalidInput{err}
	}
	err = g.changeUser(ctx, id, change)
	g.Usernames.Forget(id)
	if change.Organisation != nil && errors.Is(err, store.ErrNotFound) {
		return invalidInput{fmt.Errorf("there is no organisation %q: add it first", *change.Organisation)}
	}
	return err
}

// UserNamed returns the user of an id, or else of an e-mail address. ErrNotFound when there is neither.
func (g *Registry) UserNamed(ctx context.Context, name string) (*store.User, error) {
	user, err := g.User(ctx, name)
	if !errors.Is(err, store.ErrNotFound) {
		return user, err
	}
	email, wrong := store.CanonicalEmail(name)
	if wrong != nil {
		return nil, err
	}
	return g.Families.Directory.UserByEmail(ctx, email)
}

func (g *Registry) changeUser(ctx context.Context, id string, change store.UserChange) error {
	return g.endUser(ctx, id, func(end store.Ending) ([]store.Revocation, error) { return g.Stored.ChangeUser(ctx, id, change, end) })
}

// RemoveUser deletes a user and ends every token and session. The id can be used again once the last token has
// expired, and never where the issuer is an OpenID provider.
func (g *Registry) RemoveUser(ctx context.Context, id string) error {
	return g.endUser(ctx, id, func(end store.Ending) ([]store.Revocation, error) { return g.Stored.RemoveUser(ctx, id, end) })
}

func (g *Registry) endUser(ctx context.Context, id string, step func(store.Ending) ([]store.Revocation, error)) error {
	if g.Declared.LookupUser(id) != nil {
		return ErrDeclared
	}
	end := g.Families.Ending()
	end.KeepsID = g.Known.OpenID // the sub of an ID token is never reassigned (OpenID Connect Core 1.0 §2)
	ended, err := step(end)
	if err != nil {
		return err
	}
	g.Families.Revocations.Add(ended...)
	return nil
}

// RevokeUser ends every token and session of a user, and what the user has created for others: those of the families, and
// any other access token that was issued until now. A sign-in after it works at once. ErrNotFound when nobody is known by that id.
func (g *Registry) RevokeUser(ctx context.Context, id string) error {
	if known, err := g.isKnown(ctx, id); err != nil || !known {
		return cmp.Or(err, store.ErrNotFound)
	}
	return g.RevokeAnybody(ctx, id)
}

// RevokeAnybody is RevokeUser for a user whom another issuer knows.
func (g *Registry) RevokeAnybody(ctx context.Context, id string) error {
	// The revocation comes first: what is created meanwhile is created with a token that it hits.
	if err := g.Families.Revoke(ctx, g.Families.RevocationOf(store.RevokeUser, id)); err != nil {
		return err
	}
	return g.Families.EndPerson(ctx, id)
}

// isKnown reports whether a token of ours may name a user: one who exists, was removed, was declared until lately, or has
// a family that lives.
func (g *Registry) isKnown(ctx context.Context, id string) (bool, error) {
	if _, err := g.User(ctx, id); !errors.Is(err, store.ErrNotFound) {
		return err == nil, err
	}
	if known, err := g.Stored.HadUser(ctx, id); known || err != nil {
		return known, err
	}
	before, ended, err := g.Stored.Declarations(ctx)
	if err != nil {
		return false, err
	}
	for _, d := range ended {
		before = append(before, d.Declaration)
	}
	if slices.ContainsFunc(before, func(d store.Declaration) bool { return d.Kind == store.RevokeUser && d.ID == id }) {
		return true, nil
	}
	families, err := g.Families.Store.FamiliesOf(ctx, id, g.Families.Now())
	return len(families) > 0, err
}

// RevokeFamily ends a token family.
func (g *Registry) RevokeFamily(ctx context.Context, id string) error {
	return g.Families.EndFamilies(ctx, store.FamilyFilter{ID: id})
}

// Identities returns the store's accounts at providers.
func (g *Registry) Identities() store.IdentityStore { return g.Stored }
