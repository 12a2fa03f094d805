package signin

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// The reasons why an account has no user here, for the audit log.
const (
	reasonEmailDomain = "email_domain_not_allowed"
	reasonGroup       = "group_not_allowed"
	// reasonUnknown: no user has the account, and the rules do not create one.
	reasonUnknown = "user_unknown"
	// reasonRemoved: the account's user was removed from the configuration, or from the store during this sign-in.
	reasonRemoved  = "user_removed"
	reasonInactive = "user_inactive"
	// reasonOtherProvider: another provider had this name when the account was linked.
	reasonOtherProvider = "identity_of_other_provider"
	// reasonUnlinked: the account was unlinked from its user during this sign-in.
	reasonUnlinked = "identity_unlinked"
	// reasonOtherIdentity: the user with the address has another account of the same provider.
	reasonOtherIdentity = "user_has_other_account"
	// reasonAddressUnproven: another account of the user with the address has not proved the address. So the account of a person who does
	// prove it is not linked to that user.
	reasonAddressUnproven = "user_address_unproven"
	// reasonOtherAddress: the account does not have the user's address, and the user has other accounts.
	reasonOtherAddress      = "identity_has_other_address"
	reasonAddressUnverified = "address_unverified"
	reasonAddressUnusable   = "address_unusable"
	reasonAddressTaken      = "address_taken"
)

// touchInterval is the precision with which the last use of an identity is recorded.
const touchInterval = store.Day

// Accounts finds the users of accounts.
type Accounts struct {
	// Families provides the directory and the clock.
	Families *families.Families
	// Users adds and changes users.
	Users Users
	// Changed is called for each added or changed user, for the audit log. It may be nil.
	Changed func(Change)
}

// Users adds and changes users by the same rules as for operators. Package people implements it.
type Users interface {
	// AddUser adds a user with accounts at providers. If the organisation or the role does not exist, store.IsInvalidInput is true for the
	// error.
	AddUser(ctx context.Context, u store.User, password oauth.Secret, identities ...store.Identity) (*store.User, error)
	UpdateUser(ctx context.Context, id string, change store.UserChange) error
	Unlink(ctx context.Context, u store.Unlinking) error
	// EndPersonalTokens ends the personal access tokens of a user.
	EndPersonalTokens(ctx context.Context, userID string) error
	// Identities returns the store of accounts at providers.
	Identities() store.IdentityStore
}

// Change describes a change to a user caused by a sign-in at a provider.
type Change struct {
	UserID, Provider string
	// Added reports that the user was added. Otherwise Members lists the changed members.
	Added   bool
	Members []string
}

func (a Accounts) changed(c Change) {
	if a.Changed != nil {
		a.Changed(c)
	}
}

// User returns the user to whom an account belongs, as updated by this sign-in. rules are those of the account's provider. If there is no
// such user, the error is access_denied with a reason for the audit log.
func (a Accounts) User(ctx context.Context, account Account, rules Rules) (*store.User, error) {
	ctx = context.WithoutCancel(ctx) // a browser that hangs up must not keep a change out of the audit log
	email := account.verifiedEmail()
	if err := rules.allows(account, email); err != nil {
		return nil, err
	}
	account.Groups = rules.prefixed(account.Groups)
	user, err := a.find(ctx, account, rules)
	if errors.Is(err, store.ErrTaken) {
		// One of several concurrent first sign-ins of an account adds the user. The others now find it.
		user, err = a.find(ctx, account, rules)
	}
	switch {
	case errors.Is(err, store.ErrTaken):
		return nil, refused(reasonAddressTaken)
	case errors.Is(err, store.ErrNotFound): // removed meanwhile
		return nil, refused(reasonRemoved)
	case err != nil:
		return nil, err
	case !user.IsActive():
		return nil, refused(reasonInactive)
	}
	return user, nil
}

// find makes one attempt of User. It returns store.ErrTaken if a concurrent sign-in was first, or if another user has the address.
func (a Accounts) find(ctx context.Context, account Account, rules Rules) (*store.User, error) {
	identity, err := a.Users.Identities().UserByIdentity(ctx, account.Provider, account.Subject)
	linked := err == nil
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	if linked {
		user, err := a.Families.Directory.User(ctx, identity.UserID)
		switch {
		case err == nil && identity.IsOf(user) && rules.knows(identity):
			return a.known(ctx, account, rules, identity, user, true)
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return nil, err
		}
		// The user is no longer declared and another person has the id, or the account belonged to another provider. Only a verified
		// address can link it.
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

// known returns the user of an identity, updated from the account. isUse reports that the account is used now, and not only looked at.
func (a Accounts) known(ctx context.Context, account Account, rules Rules, identity store.Identity, user *store.User, isUse bool) (*store.User, error) {
	if !user.IsActive() { // nothing is written for a user who may not sign in
		return nil, refused(reasonInactive)
	}
	before := identity
	identity.Vouches = account.vouchesAs(before, user, rules)
	proved := identity.Vouches || account.vouchesFor(user.Email)
	if !proved {
		if err := a.checkAlone(ctx, user, account, before); err != nil {
			return nil, err
		}
	}
	if !account.NamedOnly {
		address := user.Email
		var err error
		if user, err = a.refresh(ctx, user, account, rules, identity.Created); err != nil {
			return nil, err
		}
		if user.Email != address { // the identity vouched for the former address
			before.Vouches = false
		}
		identity.Vouches = account.vouchesAs(before, user, rules)
	}
	kept, err := a.sealed(account)
	if err != nil {
		return nil, err
	}
	before.RefreshToken, identity.RefreshToken = "", kept // TouchIdentity keeps the earlier one if there is no new one
	now := a.now()
	identity.Source = rules.Source
	if (!isUse || now.Sub(identity.LastUsedAt) < touchInterval) && identity == before {
		return user, nil
	}
	if isUse {
		identity.LastUsedAt = now
	}
	if err := a.touch(ctx, identity); err != nil {
		return nil, err
	}
	// A concurrent change may have given the user another address or, based on this account's earlier statement, another account.
	switch {
	case identity.Vouches:
		later, err := a.Families.Directory.User(ctx, user.ID)
		if err == nil && later.Email != user.Email {
			identity.Vouches = false
			err = a.touch(ctx, identity)
		}
		if errors.Is(err, store.ErrNotFound) {
			return nil, refused(reasonRemoved)
		}
		return user, err
	case !proved:
		return user, a.checkAlone(ctx, user, account, identity)
	}
	return user, nil
}

// touch records the last use of an identity, and changes to it.
func (a Accounts) touch(ctx context.Context, identity store.Identity) error {
	err := a.Users.Identities().TouchIdentity(ctx, identity)
	if errors.Is(err, store.ErrNotFound) {
		return refused(reasonUnlinked)
	}
	return err
}

// checkAlone refuses an account that has not proved the user's address if other accounts are linked to the user. They were linked by
// address, so they may belong to another person, unless an operator added them together. checkAlone also withdraws the provider's
// verification of the address. If a provider created the user and no account vouches for the address, it removes the address.
func (a Accounts) checkAlone(ctx context.Context, user *store.User, account Account, identity store.Identity) error {
	all, err := a.Users.Identities().Identities(ctx, user.ID)
	if err != nil {
		return err
	}
	apart, vouched, created := false, false, identity.Created
	for _, i := range all {
		if i.IsOf(user) && (i.Provider != identity.Provider || i.Subject != identity.Subject) {
			apart = apart || !i.LinkedAt.Equal(identity.LinkedAt)
			vouched, created = vouched || i.Vouches, created || i.Created
		}
	}
	if !apart {
		return nil
	}
	if identity.Vouches {
		identity.Vouches = false
		if err := a.touch(ctx, identity); err != nil {
			return err
		}
	}
	if user.Declared || account.NamedOnly {
		return refused(reasonOtherAddress)
	}
	_, err = a.update(ctx, user, account, func(u *store.User) {
		if u.EmailVerifiedBy == store.VerifiedBy(account.Provider) {
			u.EmailVerifiedBy = ""
		}
		if created && !vouched && u.EmailVerifiedBy == "" {
			u.SetEmail(store.UnknownEmail(u.ID))
		}
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return refused(reasonOtherAddress)
}

// link links the account to the user who has its verified address. The error is store.ErrNotFound if there is no such user. former is an
// identity of the same name whose user is gone, or the zero value.
func (a Accounts) link(ctx context.Context, account Account, rules Rules, former store.Identity) (*store.User, error) {
	email := account.verifiedEmail()
	if email == "" {
		return nil, store.ErrNotFound
	}
	user, err := a.Families.Directory.UserByEmail(ctx, email)
	if err != nil {
		return nil, err
	}
	if err := a.checkLink(ctx, user, account, rules); err != nil {
		return nil, err
	}
	if former.UserID != "" && (former.UserID != user.ID || !rules.knows(former)) {
		if err := a.Users.Unlink(ctx, store.Unlinking{Provider: former.Provider, Subject: former.Subject, UserID: former.UserID, MayBeLast: true}); err != nil {
			return nil, err
		}
	}
	kept, err := a.sealed(account)
	if err != nil {
		return nil, err
	}
	now := a.now()
	if err := a.Users.Identities().LinkIdentity(ctx, store.Identity{
		Provider: account.Provider, Subject: account.Subject, UserID: user.ID, DeclaredEmail: user.DeclaredEmail(), Source: rules.Source, LinkedAt: now, LastUsedAt: now,
		Vouches: true, RefreshToken: kept,
	}); err != nil {
		return nil, err
	}
	linked, err := a.Families.Directory.User(ctx, user.ID)
	if err != nil {
		return nil, err
	}
	// During this sign-in, one of the other accounts may have stopped vouching for the address.
	if err := a.checkLink(ctx, linked, account, rules); err != nil || linked.Email != email {
		unlinking := store.Unlinking{Provider: account.Provider, Subject: account.Subject, UserID: user.ID, MayBeLast: true}
		return nil, cmp.Or(a.Users.Unlink(ctx, unlinking), err, refused(reasonAddressUnproven))
	}
	a.changed(Change{UserID: user.ID, Provider: account.Provider, Members: []string{"identities"}})
	if account.NamedOnly {
		return linked, nil
	}
	return a.refresh(ctx, linked, account, rules, false)
}

// checkLink refuses to link an account to the user who has its address, unless all other accounts of the user vouch for the address too.
// The statement must come from a provider whose accounts are linked by address, or from an operator. A user with a password and an unvouched
// address may be another person, who has chosen that address.
func (a Accounts) checkLink(ctx context.Context, user *store.User, account Account, rules Rules) error {
	others, err := a.Users.Identities().Identities(ctx, user.ID)
	switch {
	case err != nil:
		return err
	case user.Status != store.UserActive || user.Service: // service accounts do not sign in
		return refused(reasonInactive)
	case user.EmailVerifiedBy == store.Unvouched && !user.PasswordHash.IsEmpty():
		return refused(reasonAddressUnproven)
	}
	for _, i := range others {
		switch {
		case !i.IsOf(user):
		case i.Provider == account.Provider && i.Subject == account.Subject && rules.knows(i): // this account, already linked
		case i.Provider == account.Provider && rules.knows(i):
			return refused(reasonOtherIdentity)
		case !i.Vouches:
			return refused(reasonAddressUnproven)
		}
	}
	return nil
}

// create adds a user for the account.
func (a Accounts) create(ctx context.Context, account Account, rules Rules) (*store.User, error) {
	email, err := canonicalEmail(account.Email)
	switch {
	case err != nil:
		return nil, refused(reasonAddressUnusable)
	case !account.EmailVerified && !rules.AllowUnverifiedEmail:
		return nil, refused(reasonAddressUnverified)
	}
	user := store.User{Email: email, Organisation: rules.Create.Organisation, Role: rules.Create.Role}
	if account.EmailVerified {
		user.EmailVerifiedBy = store.VerifiedBy(account.Provider)
	}
	if account.Groups != nil {
		user.ProviderGroups, user.GroupsBy = keptGroups(account.Groups, nil), account.Provider
	}
	account.describe(&user)
	kept, err := a.sealed(account)
	if err != nil {
		return nil, err
	}
	added, err := a.Users.AddUser(ctx, user, oauth.Secret{}, store.Identity{
		Provider: account.Provider, Subject: account.Subject, Source: rules.Source, Vouches: account.EmailVerified && rules.Link == LinkVerifiedEmail,
		RefreshToken: kept,
	})
	if store.IsInvalidInput(err) { // the organisation or the role does not exist, and the person cannot correct that
		return nil, oauth.NewError(oauth.ServerError, "creation_failed").WithCause(err)
	}
	if err != nil {
		return nil, err
	}
	a.changed(Change{UserID: added.ID, Provider: account.Provider, Added: true})
	return a.Families.Directory.User(ctx, added.ID) // including its version
}

// refresh updates a stored user from the account: the groups and, for a user created for a provider's account, also name, address and
// profile. It writes nothing if nothing has changed.
func (a Accounts) refresh(ctx context.Context, user *store.User, account Account, rules Rules, created bool) (*store.User, error) {
	if user.Declared {
		return user, nil
	}
	edit := func(u *store.User) { account.edit(u, rules, created) }
	changed, err := a.update(ctx, user, account, edit)
	if errors.Is(err, store.ErrTaken) { // another user has the new address, so this user gets none
		account.Email = ""
		changed, err = a.update(ctx, user, account, edit)
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil, refused(reasonRemoved)
	}
	if err != nil {
		return nil, err
	}
	if !changed {
		return user, nil
	}
	return a.Families.Directory.User(ctx, user.ID)
}

// update applies a change that a provider's statement requires. It reports whether the user changed. If another user has the placeholder
// address that the change would set, the user keeps the old address, for which the provider no longer vouches.
func (a Accounts) update(ctx context.Context, user *store.User, account Account, edit func(*store.User)) (changed bool, err error) {
	after := *user
	edit(&after)
	if len(changes(user, &after)) == 0 {
		return false, nil
	}
	change := store.UserChange{KeepsTokens: true, Edit: func(u *store.User) error { edit(u); return nil }}
	err = a.Users.UpdateUser(ctx, user.ID, change)
	if errors.Is(err, store.ErrTaken) && after.Email != user.Email && after.Email == store.UnknownEmail(user.ID) {
		keep := func(u *store.User) { email := u.Email; edit(u); u.Email = email }
		after = *user
		if keep(&after); len(changes(user, &after)) == 0 {
			return false, nil
		}
		change.Edit = func(u *store.User) error { keep(u); return nil }
		err = a.Users.UpdateUser(ctx, user.ID, change)
	}
	if err == nil {
		a.changed(Change{UserID: user.ID, Provider: account.Provider, Members: changes(user, &after)})
	}
	return true, err
}

func (a Accounts) now() time.Time { return a.Families.Now() }

// refused returns the error for an account without a user here. The person does not learn the reason, which may concern someone else.
func refused(reason string) error { return oauth.NewError(oauth.AccessDenied, reason) }

// Linked lists the accounts linked to a user, sorted by provider and subject.
func (a Accounts) Linked(ctx context.Context, user *store.User) ([]store.Identity, error) {
	return a.Users.Identities().Identities(ctx, user.ID)
}
