package federation

import (
	"errors"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// canonicalEmail returns an address in canonical form. It refuses what is not an address, and the placeholders of users who have none,
// which no provider can give.
func canonicalEmail(address string) (string, error) {
	email, err := store.CanonicalEmail(address)
	if err == nil && store.IsReservedEmail(email) {
		return "", errors.New("an address of users who have none")
	}
	return email, err
}

// verifiedEmail returns the account's address in canonical form; "" when there is none that the provider has verified.
func (a Account) verifiedEmail() string {
	if !a.EmailVerified {
		return ""
	}
	email, err := canonicalEmail(a.Email)
	if err != nil {
		return ""
	}
	return email
}

// states reports whether a canonical address is one of the account's, verified or not.
func (a Account) states(address string) bool {
	return slices.ContainsFunc(append([]string{a.Email}, a.Aliases...), func(alias string) bool {
		email, err := canonicalEmail(alias)
		return err == nil && email == address
	})
}

// vouchesFor reports whether the provider has verified a canonical address of the account.
func (a Account) vouchesFor(address string) bool { return a.EmailVerified && a.states(address) }

// vouchesAs returns the Vouches of the user's identity after this use of the account. An operator's word for the account that created the
// user holds as long as the account has the address.
func (a Account) vouchesAs(identity store.Identity, user *store.User, rules Rules) bool {
	switch {
	case a.NamedOnly && a.Email == "": // which it need not say
		return identity.Vouches
	case a.vouchesFor(user.Email) && (rules.Link == LinkVerifiedEmail || identity.Vouches && a.NamedOnly):
		return true
	}
	return identity.Vouches && identity.Created && user.EmailVerifiedBy == store.VerifiedByOperator && a.states(user.Email)
}

// describe sets the name and the profile of a user from the account, without what a user cannot have.
func (a Account) describe(user *store.User) {
	named := store.User{ID: "any", Email: "any@any", Name: a.Name, Status: store.UserActive}
	if a.Name != "" && named.Validate() == nil {
		user.Name = a.Name
	}
	if !a.Profile.IsZero() && a.Profile.Validate() == nil {
		user.Profile = a.Profile.Clone()
	}
}

// changeOf returns the change that brings a user up to date with the account. created reports that the provider has created the user, and
// so determines name, address and profile.
func (a Account) changeOf(user *store.User, rules Rules, created bool) (change store.UserChange) {
	if a.Groups != nil {
		if groups := keptGroups(a.Groups, user.Groups); !slices.Equal(groups, user.ProviderGroups) {
			change.ProviderGroups = &groups
		}
		if user.GroupsBy != a.Provider {
			change.GroupsBy = &a.Provider
		}
	}
	a.changeEmail(&change, user, rules, created)
	if !created {
		return change
	}
	updated := *user
	a.describe(&updated)
	if updated.Name != user.Name {
		change.Name = &updated.Name
	}
	if !updated.Profile.IsZero() && (user.Profile == nil || *updated.Profile != *user.Profile) {
		change.Profile = updated.Profile
	}
	return change
}

// changeEmail adds what follows from the account's address. A provider's word replaces only its own earlier one: an address for which it no
// longer vouches is no longer verified. A user who was created for the account loses such an address, and gets the one that the provider
// states now, if the user could have been created with it, or none. The same applies to an address that no account vouches for.
func (a Account) changeEmail(change *store.UserChange, user *store.User, rules Rules, created bool) {
	by, nobody := store.VerifiedBy(a.Provider), ""
	email, err := canonicalEmail(a.Email)
	usable := err == nil && (a.EmailVerified || rules.AllowUnverifiedEmail)
	switch {
	case user.EmailVerifiedBy == store.VerifiedByOperator:
	case a.vouchesFor(user.Email):
		if user.EmailVerifiedBy != by {
			change.EmailVerifiedBy = &by
		}
	case created && usable && email != user.Email && (a.EmailVerified || user.EmailVerifiedBy == "" || user.EmailVerifiedBy == by):
		change.Email, change.EmailVerifiedBy = &email, &nobody
		if a.EmailVerified {
			change.EmailVerifiedBy = &by
		}
	case user.EmailVerifiedBy != by && (user.EmailVerifiedBy != "" || !created):
	case created && (!usable || email != user.Email):
		if unknown := store.UnknownEmail(user.ID); user.Email != unknown {
			change.Email, change.EmailVerifiedBy = &unknown, &nobody
		}
	case user.EmailVerifiedBy == by:
		change.EmailVerifiedBy = &nobody
	}
}

// maxGroupsRead bounds how many groups of an account are read.
const maxGroupsRead = 1000

// keptGroups returns the groups that a user can have beside those of the operator: sorted, each once, without unusable names, and without
// the last ones if there are too many. They are sorted first, so that always the same ones are left out.
func keptGroups(groups, operators []string) []string {
	sorted := slices.Compact(slices.Sorted(slices.Values(groups)))
	kept := []string{}
	for _, group := range sorted[:min(len(sorted), maxGroupsRead)] {
		more := store.User{Groups: operators, ProviderGroups: append(kept, group)}
		if store.ValidateGroups(more.AllGroups()) == nil {
			kept = more.ProviderGroups
		}
	}
	return kept
}
