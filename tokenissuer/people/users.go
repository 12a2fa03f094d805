package people

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/mail"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// Users adds, changes and removes users and organisations at run time. It lists declared ones, but does not change them.
type Users struct {
	Families *families.Families
	Roles    store.RoleCatalogue
	// Hasher hashes new passwords.
	Hasher *passwords.Hasher
	// Usernames caches e-mail addresses. It is notified of every changed user.
	Usernames *token.UsernameCache
	// OpenID reports whether the issuer is an OpenID provider, which never reassigns a user's id.
	OpenID   bool
	Declared store.StaticDirectory
	Stored   Store
	// Post tells users that their password was changed; nil: nobody is told.
	Post *mail.Post
}

// Store is what Users, and callers that link accounts to users, need of a store.
type Store interface {
	store.UserStore
	store.IdentityStore
	store.DeclarationStore
	TokenEnder
}

// TokenEnder is the part of a store.PersonalTokenStore that ends tokens.
type TokenEnder interface {
	EndPersonalTokens(ctx context.Context, which store.PersonalTokenFilter, end store.Ending) ([]store.Revocation, error)
}

// StoreOf returns the parts of s that Users need.
func StoreOf(s store.Store) Store {
	return struct {
		store.UserStore
		store.IdentityStore
		store.DeclarationStore
		TokenEnder
	}{s.Users, s.Identities, s.Declarations, s.PersonalTokens}
}

// Users returns the users of an organisation, or all users if its id is empty, sorted by id.
func (g *Users) Users(ctx context.Context, organisation string) ([]*store.User, error) {
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

// User returns one user, or store.ErrNotFound.
func (g *Users) User(ctx context.Context, id string) (*store.User, error) {
	return g.Families.Directory.User(ctx, id)
}

// AddUser registers a user with a password, with the hash of one in u.PasswordHash, or with neither. In the last case the user can sign in
// once a password is set. identities are the user's first accounts at identity providers. AddUser sets their UserID and times, and adds
// them in the same step. An empty id is replaced by a generated one. The error is store.ErrTaken if the id or an account is in use, or
// store.ErrEmailTaken if the address is.
func (g *Users) AddUser(ctx context.Context, u store.User, password oauth.Secret, identities ...store.Identity) (*store.User, error) {
	u.External = u.External || len(identities) > 0
	err := prepare(g, &u)
	if err != nil {
		return nil, err
	}
	if !password.IsEmpty() {
		if u.Service {
			return nil, errServiceSignsIn
		}
		if u.PasswordHash, err = g.hash(ctx, password, passwords.Owner{Email: u.Email}); err != nil {
			return nil, err
		}
	}
	identities = slices.Clone(identities)
	for i := range identities {
		identities[i].UserID, identities[i].LinkedAt, identities[i].LastUsedAt, identities[i].Created = u.ID, u.CreatedAt, u.CreatedAt, true
	}
	err = g.Stored.AddUser(ctx, &u, u.Organisation == "" || g.Declared.LookupOrganisation(u.Organisation) != nil, identities...)
	if errors.Is(err, store.ErrNotFound) {
		return nil, noOrganisation(u.Organisation)
	}
	if err != nil {
		return nil, err
	}
	return &u, nil
}

// prepare fills in what a registration omitted, and refuses what the declarations and the rules do not allow.
func prepare(g *Users, u *store.User) error {
	if u.ID == "" {
		u.ID = oauth.NewID()
	}
	if u.Service && u.Email == "" {
		u.Email = store.ServiceEmail(u.ID)
		u.Name = cmp.Or(u.Name, u.ID)
	}
	email, err := store.CanonicalEmail(u.Email)
	if err != nil {
		return store.InvalidInput(err)
	}
	u.Email = email
	if u.Role != "" {
		if err := g.Roles.Check(u.Role); err != nil {
			return store.InvalidInput(err)
		}
	}
	u.SetDefaults(g.Roles)
	u.CreatedAt = g.Families.Now().Truncate(time.Microsecond)
	if err := u.Validate(); err != nil {
		return store.InvalidInput(err)
	}
	if g.OpenID {
		if err := store.CheckSubject(u.ID); err != nil {
			return store.InvalidInput(err)
		}
	}
	if g.Declared.Declares(u.ID) {
		return store.ErrTaken
	}
	if g.Declared.LookupUserByEmail(u.Email) != nil {
		return store.ErrEmailTaken
	}
	return nil
}

func noOrganisation(id string) error {
	return store.InvalidInput(fmt.Errorf("there is no organisation %q: add it first", id))
}

// SetPassword sets a user's password and ends every token and session of the user. It refuses what passwords.Validate refuses for the user.
func (g *Users) SetPassword(ctx context.Context, id string, password oauth.Secret) error {
	user, err := g.User(ctx, id)
	if err != nil {
		return err
	}
	owner, err := ownerOf(ctx, g.Families, user)
	if err != nil {
		return err
	}
	hash, err := g.hash(ctx, password, owner)
	if err != nil {
		return err
	}
	return g.SetPasswordHash(ctx, id, hash)
}

// ownerOf returns what passwords.Validate needs to know of a user.
func ownerOf(ctx context.Context, fs *families.Families, user *store.User) (passwords.Owner, error) {
	factors, err := fs.Store.Factors(ctx, user.ID)
	hasFactor := slices.ContainsFunc(factors, func(f *store.Factor) bool { return f.IsOf(user) && f.IsSecond() })
	return passwords.Owner{Email: user.Email, HasFactor: hasFactor}, err
}

func (g *Users) hash(ctx context.Context, password oauth.Secret, owner passwords.Owner) (oauth.Secret, error) {
	if err := passwords.Validate(password, owner); err != nil {
		return oauth.Secret{}, store.InvalidInput(err)
	}
	return g.Hasher.Hash(ctx, password)
}

// errServiceSignsIn refuses a password for a service account.
var errServiceSignsIn = store.InvalidInput(errors.New("it is a service account: nobody signs in with it. Give it a token: caddy oauth pat add"))

// SetPasswordHash is like SetPassword with the hash of the password, as `caddy hash-password` prints it.
func (g *Users) SetPasswordHash(ctx context.Context, id string, hash oauth.Secret) error {
	if err := passwords.ValidateHash(hash); err != nil {
		return store.InvalidInput(err)
	}
	user, err := g.User(ctx, id)
	switch {
	case err != nil:
		return err
	case user.Service:
		return errServiceSignsIn
	}
	change := store.UserChange{NewHolder: true, Edit: func(u *store.User) error { u.PasswordHash = hash; return nil }}
	if err := g.endUser(ctx, id, func(end store.Ending) ([]store.Revocation, error) { return g.Stored.ChangeUser(ctx, id, change, end) }); err != nil {
		return err
	}
	if !user.PasswordHash.IsEmpty() { // otherwise it is the first one
		g.Post.Notify(ctx, user, mail.PasswordChanged, "")
	}
	return nil
}

// SetRole sets a user's role and ends every token and session of the user.
func (g *Users) SetRole(ctx context.Context, id string, role store.Role) error {
	if err := g.Roles.Check(role); err != nil {
		return store.InvalidInput(err)
	}
	return g.set(ctx, id, func(u *store.User) { u.Role = role })
}

// SetUserStatus disables, locks or enables a user. It ends every token and session of the user.
func (g *Users) SetUserStatus(ctx context.Context, id string, status store.UserStatus) error {
	if _, err := store.ParseUserStatus(string(status)); err != nil {
		return store.InvalidInput(err)
	}
	return g.set(ctx, id, func(u *store.User) { u.Status = status })
}

// UpdateUser changes a user and checks the changed members by the rules of registration. It ends every token and session of the user,
// unless the change keeps them. The error is store.ErrEmailTaken if another user has the address.
func (g *Users) UpdateUser(ctx context.Context, id string, change store.UserChange) error {
	user, err := g.User(ctx, id)
	if err != nil {
		return err
	}
	if user.Declared {
		return store.ErrDeclared
	}
	edit, organisation := change.Edit, user.Organisation
	change.Edit = func(u *store.User) error {
		before := *u
		if edit != nil {
			if err := edit(u); err != nil {
				return asked(err)
			}
		}
		organisation = u.Organisation
		return asked(g.checkUser(u, &before))
	}
	edited := *user
	if err := change.Edit(&edited); err != nil {
		return err
	}
	var factors []*store.Factor // those that go
	if change.UnlinkIdentities && user.External {
		if factors, err = g.Families.Store.Factors(ctx, id); err != nil {
			return err
		}
	}
	change.OrganisationDeclared = g.Declared.LookupOrganisation(organisation) != nil
	err = g.endUser(ctx, id, func(end store.Ending) ([]store.Revocation, error) { return g.Stored.ChangeUser(ctx, id, change, end) })
	g.Usernames.Forget(id)
	if errors.Is(err, store.ErrNotFound) && organisation != user.Organisation { // an answer: the step is over
		return noOrganisation(organisation)
	}
	if err == nil && len(factors) > 0 {
		g.Post.Notify(ctx, user, mail.FactorRemoved, "")
	}
	return err
}

// asked marks the error of an edit as the caller's mistake, unless it describes a state.
func asked(err error) error {
	if err == nil || store.IsAnswer(err) {
		return err
	}
	return store.InvalidInput(err)
}

// checkUser refuses an invalid change. It accepts a role that the user already had, even if the role is no longer declared.
func (g *Users) checkUser(u, before *store.User) error {
	if u.Email != before.Email && g.Declared.LookupUserByEmail(u.Email) != nil {
		return store.ErrEmailTaken
	}
	if u.Role != "" && u.Role != before.Role {
		if err := g.Roles.Check(u.Role); err != nil {
			return err
		}
	}
	return u.Validate()
}

// UserNamed returns the user with an id or, failing that, with an e-mail address. The error is store.ErrNotFound if there is none.
func (g *Users) UserNamed(ctx context.Context, name string) (*store.User, error) {
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

// set changes a user and ends every token and session.
func (g *Users) set(ctx context.Context, id string, set func(*store.User)) error {
	change := store.UserChange{Edit: func(u *store.User) error { set(u); return nil }}
	return g.endUser(ctx, id, func(end store.Ending) ([]store.Revocation, error) { return g.Stored.ChangeUser(ctx, id, change, end) })
}

// RemoveUser removes a user and ends every token and session of the user. The id can be reused once the last token has expired, but never
// if the issuer is an OpenID provider.
func (g *Users) RemoveUser(ctx context.Context, id string) error {
	return g.endUser(ctx, id, func(end store.Ending) ([]store.Revocation, error) { return g.Stored.RemoveUser(ctx, id, end) })
}

func (g *Users) endUser(ctx context.Context, id string, step func(store.Ending) ([]store.Revocation, error)) error {
	if g.Declared.LookupUser(id) != nil {
		return store.ErrDeclared
	}
	end := g.Families.Ending()
	end.KeepsID = g.OpenID // the sub of an ID token is never reassigned (OpenID Connect Core 1.0 §2)
	ended, err := step(end)
	if err != nil {
		return err
	}
	g.Families.Revocations.Add(ended...)
	return nil
}

// RevokeUser ends every token and session of a user, and what the user created for others: the tokens of the families, and any other access
// token issued so far. A new sign-in afterwards works at once. The error is store.ErrNotFound if no user is known by that id.
func (g *Users) RevokeUser(ctx context.Context, id string) error {
	if known, err := g.isKnown(ctx, id); err != nil || !known {
		return cmp.Or(err, store.ErrNotFound)
	}
	return g.RevokeAnybody(ctx, id)
}

// RevokeAnybody is like RevokeUser for a user known only to another issuer.
func (g *Users) RevokeAnybody(ctx context.Context, id string) error {
	// The revocation comes first: whatever is created meanwhile is created with a token that it revokes.
	if err := g.Families.Revoke(ctx, g.Families.RevocationOf(store.RevokeUser, id)); err != nil {
		return err
	}
	return g.Families.EndPerson(ctx, id)
}

// isKnown reports whether one of our tokens may name a user: one who exists, was removed, was declared until recently, or has a living
// family.
func (g *Users) isKnown(ctx context.Context, id string) (bool, error) {
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

// Unlink removes an identity from its user, and ends everything that resulted from sign-ins at its provider. An identity that the user does
// not have is left unchanged, as if it did not exist. Unlinking the only way to sign in is an invalid_request.
func (g *Users) Unlink(ctx context.Context, u store.Unlinking) error {
	ended, err := g.Stored.UnlinkIdentity(ctx, u, g.Families.Ending())
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case errors.Is(err, store.ErrLastWayIn):
		return oauth.NewError(oauth.InvalidRequest, "identity_is_only_way_in")
	case err != nil:
		return err
	}
	g.Families.Revocations.Add(ended...)
	return nil
}

// EndPersonalTokens ends the personal access tokens of a user.
func (g *Users) EndPersonalTokens(ctx context.Context, userID string) error {
	ended, err := g.Stored.EndPersonalTokens(ctx, store.PersonalTokenFilter{UserID: userID}, g.Families.Ending())
	if err == nil {
		g.Families.Revocations.Add(ended...)
	}
	return err
}

// Identities returns the store of accounts at providers.
func (g *Users) Identities() store.IdentityStore { return g.Stored }
