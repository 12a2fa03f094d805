package federation

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/registry"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// The reasons for which an account is nobody's here, for the audit log.
const (
	reasonEmailDomain = "email_domain_not_allowed"
	reasonGroup       = "group_not_allowed"
	// reasonUnknown: no user has the account, and the rules make none.
	reasonUnknown = "user_unknown"
	// reasonRemoved: the account's user was removed from the configuration, or from the store beside this sign-in.
	reasonRemoved  = "user_removed"
	reasonInactive = "user_inactive"
	// reasonOtherProvider: another provider had the name when the account was linked.
	reasonOtherProvider = "identity_of_other_provider"
	// reasonUnlinked: the account was taken from its user beside this sign-in.
	reasonUnlinked = "identity_unlinked"
	// reasonOtherIdentity: the user of the address has another account of the same provider already.
	reasonOtherIdentity = "user_has_other_account"
	// reasonAddressUnproven: nobody has proved that the address is the user's who has it here, so the account of whoever does prove
	// it does not become that user's.
	reasonAddressUnproven   = "user_address_unproven"
	reasonAddressUnverified = "address_unverified"
	reasonAddressUnusable   = "address_unusable"
	reasonAddressTaken      = "address_taken"
)

// touchInterval is how exactly it is known when an identity was last used.
const touchInterval = store.Day

// Accounts finds the users of accounts.
type Accounts struct {
	// Registry knows who exists, and adds and changes users by the rules that hold for operators too.
	Registry *registry.Registry
}

// User returns the user to whom an account belongs, as the user is after this sign-in. The rules are those of the account's
// provider. An account that is nobody's is an access_denied whose reason is for the audit log.
func (a Accounts) User(ctx context.Context, account Account, rules Rules) (*store.User, error) {
	email := account.verifiedEmail()
	if err := rules.allows(account, email); err != nil {
		return nil, err
	}
	account.Groups = rules.prefixed(account.Groups)
	user, err := a.find(ctx, account, rules)
	if errors.Is(err, store.ErrTaken) {
		// Of the first sign-ins of one account at the same moment one adds the user. The others find it now.
		user, err = a.find(ctx, account, rules)
	}
	switch {
	case errors.Is(err, store.ErrTaken):
		return nil, refused(reasonAddressTaken)
	case err != nil:
		return nil, storeError(err)
	case !user.IsActive():
		return nil, refused(reasonInactive)
	}
	return user, nil
}

// find is one attempt of User. ErrTaken: somebody was faster, or another user has the address.
func (a Accounts) find(ctx context.Context, account Account, rules Rules) (*store.User, error) {
	identity, err := a.Registry.Stored.UserByIdentity(ctx, account.Provider, account.Subject)
	linked := err == nil
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	if linked {
		user, err := a.Registry.User(ctx, identity.UserID)
		switch {
		case err == nil && identity.IsOf(user) && rules.knows(identity):
			return a.known(ctx, account, rules, identity, user)
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return nil, err
		}
		// The user was declared and is so no more, and whoever has the id is another person, or the account was one of another provider.
		// Only a verified address leads on.
	}
	if rules.Link == LinkVerifiedEmail {
		user, err := a.link(ctx, account, rules, identity)
		if !errors.Is(err, store.ErrNotFound) {
			return user, err
		}
	}
	switch {
	case linked && !rules.knows(identity):
		return nil, refused(reasonOtherProvider)
	case linked:
		return nil, refused(reasonRemoved)
	case rules.Create == nil:
		return nil, refused(reasonUnknown)
	}
	return a.create(ctx, account, rules)
}

// known returns the user of an identity, brought up to date.
func (a Accounts) known(ctx context.Context, account Account, rules Rules, identity store.Identity, user *store.User) (*store.User, error) {
	if !user.IsActive() { // nothing is written for somebody who stays out
		return nil, refused(reasonInactive)
	}
	// A user whom this provider has created is what it says. Any other it has only been linked to.
	created := identity.LinkedAt.Equal(user.CreatedAt)
	user, err := a.refresh(ctx, user, account, rules, created)
	if err != nil {
		return nil, err
	}
	now := a.now()
	if now.Sub(identity.LastUsedAt) < touchInterval && identity.Source == rules.Source {
		return user, nil
	}
	identity.LastUsedAt, identity.Source = now, rules.Source
	if err := a.Registry.Stored.TouchIdentity(ctx, identity); errors.Is(err, store.ErrNotFound) {
		return nil, refused(reasonUnlinked)
	} else if err != nil {
		return nil, err
	}
	return user, nil
}

// link gives the account to the user who has its verified address. ErrNotFound when there is none. Former is the identity of that name, which
// leads to nobody; the zero value: there is none.
func (a Accounts) link(ctx context.Context, account Account, rules Rules, former store.Identity) (*store.User, error) {
	email := account.verifiedEmail()
	if email == "" {
		return nil, store.ErrNotFound
	}
	user, err := a.Registry.Issuer.Directory.UserByEmail(ctx, email)
	switch {
	case err != nil:
		return nil, err
	case user.Status != store.UserActive || user.Service: // nobody signs in with a service account
		return nil, refused(reasonInactive)
	case user.External && !user.Declared && !user.EmailVerified:
		// Another provider has created the user with an address that it had not verified: anybody could have been there first.
		return nil, refused(reasonAddressUnproven)
	}
	others, err := a.Registry.Stored.Identities(ctx, user.ID)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(others, func(i store.Identity) bool { return i.Provider == account.Provider && i.IsOf(user) && rules.knows(i) }) {
		return nil, refused(reasonOtherIdentity)
	}
	if former.UserID != "" && (former.UserID != user.ID || !rules.knows(former)) {
		if err := a.Registry.Unlink(ctx, store.Unlinking{Provider: former.Provider, Subject: former.Subject, UserID: former.UserID, MayBeLast: true}); err != nil {
			return nil, err
		}
	}
	now := a.now()
	if err := a.Registry.Stored.LinkIdentity(ctx, store.Identity{
		Provider: account.Provider, Subject: account.Subject, UserID: user.ID, DeclaredEmail: user.DeclaredEmail(), Source: rules.Source, LinkedAt: now, LastUsedAt: now,
	}); err != nil {
		return nil, err
	}
	if user, err = a.Registry.User(ctx, user.ID); err != nil { // External now
		return nil, err
	}
	return a.refresh(ctx, user, account, Rules{}, false)
}

// create adds a user for the account.
func (a Accounts) create(ctx context.Context, account Account, rules Rules) (*store.User, error) {
	email, err := store.CanonicalEmail(account.Email)
	switch {
	case err != nil:
		return nil, refused(reasonAddressUnusable)
	case !account.EmailVerified && !rules.AllowUnverifiedEmail:
		return nil, refused(reasonAddressUnverified)
	}
	user := store.User{
		Email: email, EmailVerified: account.EmailVerified, Groups: keptGroups(account.Groups),
		Organisation: rules.Create.Organisation, Role: rules.Create.Role,
	}
	account.describe(&user)
	added, err := a.Registry.AddExternalUser(ctx, user, store.Identity{Provider: account.Provider, Subject: account.Subject, Source: rules.Source})
	if registry.IsInvalidInput(err) { // an organisation or a role that is gone: the person can do nothing about it
		return nil, oauth.NewError(oauth.ServerError, "creation_failed").WithCause(err)
	}
	if err != nil {
		return nil, err
	}
	return a.Registry.User(ctx, added.ID) // with its version
}

// refresh makes a stored user what the account says: the groups and, of a user whom the provider has created, name, address and
// profile. It writes nothing when nothing has changed.
func (a Accounts) refresh(ctx context.Context, user *store.User, account Account, rules Rules, created bool) (*store.User, error) {
	if user.Declared {
		return user, nil
	}
	change := account.changeOf(user, rules, created)
	if change == (store.UserChange{}) {
		return user, nil
	}
	err := a.Registry.UpdateUser(ctx, user.ID, change)
	if errors.Is(err, store.ErrTaken) { // another user has the new address: this one keeps the old
		change.Email, change.EmailVerified = nil, nil
		if change == (store.UserChange{}) {
			return user, nil
		}
		err = a.Registry.UpdateUser(ctx, user.ID, change)
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil, refused(reasonRemoved)
	}
	if err != nil {
		return nil, err
	}
	return a.Registry.User(ctx, user.ID)
}

func (a Accounts) now() time.Time { return a.Registry.Issuer.Now() }

// refused returns the error for an account that is nobody's here. The person does not learn the reason, which may tell of somebody
// else.
func refused(reason string) error { return oauth.NewError(oauth.AccessDenied, reason) }

// storeError returns an error of User: those that are errors of OAuth as they are, any other is the store's.
func storeError(err error) error {
	if _, ok := errors.AsType[*oauth.Error](err); ok {
		return err
	}
	return oauth.Unavailable("store_unavailable", err)
}

// Linked lists the accounts that lead to a user, by provider and subject.
func (a Accounts) Linked(ctx context.Context, user *store.User) ([]store.Identity, error) {
	list, err := a.Registry.Stored.Identities(ctx, user.ID)
	if err != nil {
		return nil, oauth.Unavailable("store_unavailable", err)
	}
	return list, nil
}
