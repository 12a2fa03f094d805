package signin

import (
	"errors"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// canonicalEmail returns an address in canonical form. It refuses invalid addresses, and the placeholders of users without an address,
// which no provider can send.
func canonicalEmail(address string) (string, error) {
	email, err := store.CanonicalEmail(address)
	if err == nil && store.IsReservedEmail(email) {
		return "", errors.New("an address of users who have none")
	}
	return email, err
}

// verifiedEmail returns the account's address in canonical form. It returns "" if the provider has not verified one.
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

// states reports whether a canonical address is one of the account's addresses, verified or not.
func (a Account) states(address string) bool {
	return slices.ContainsFunc(append([]string{a.Email}, a.Aliases...), func(alias string) bool {
		email, err := canonicalEmail(alias)
		return err == nil && email == address
	})
}

// vouchesFor reports whether the provider has verified a canonical address of the account.
func (a Account) vouchesFor(address string) bool { return a.EmailVerified && a.states(address) }

// vouchesAs returns the new value of Vouches for the user's identity, after this use of the account. If an operator verified the address of
// the account that created the user, that holds as long as the account has the address.
func (a Account) vouchesAs(identity store.Identity, user *store.User, rules Rules) bool {
	switch {
	case a.NamedOnly && a.Email == "": // an assertion may omit the address
		return identity.Vouches
	case a.vouchesFor(user.Email) && (rules.Link == LinkVerifiedEmail || identity.Vouches && a.NamedOnly):
		return true
	}
	return identity.Vouches && identity.Created && user.EmailVerifiedBy == store.VerifiedByOperator && a.states(user.Email)
}

// describe sets a user's name and profile from the account. It skips values that a user cannot have.
func (a Account) describe(user *store.User) {
	named := store.User{ID: "any", Email: "any@any", Name: a.Name, Status: store.UserActive}
	if a.Name != "" && named.Validate() == nil {
		user.Name = a.Name
	}
	if !a.Profile.IsZero() && a.Profile.Validate() == nil {
		user.Profile = a.Profile
	}
}

// edit updates the user from the account. created reports that the user was created for the account; then the provider determines name,
// address and profile too.
func (a Account) edit(user *store.User, rules Rules, created bool) {
	if a.Groups != nil {
		user.ProviderGroups, user.GroupsBy = keptGroups(a.Groups, user.Groups), a.Provider
	}
	a.editEmail(user, rules, created)
	if created {
		a.describe(user)
	}
}

// editEmail updates the user's address from the account. A provider's statement replaces its own earlier one, but never an operator's. An
// address for which the provider no longer vouches becomes unverified. If the user was created for the account, such an address is removed:
// the user gets the address that the provider states now if the rules allow creating a user with it, and otherwise none. The same applies
// to an address that was never verified.
func (a Account) editEmail(user *store.User, rules Rules, created bool) {
	by := store.VerifiedBy(a.Provider)
	email, err := canonicalEmail(a.Email)
	usable := err == nil && (a.EmailVerified || rules.AllowUnverifiedEmail)
	switch {
	case user.EmailVerifiedBy == store.VerifiedByOperator:
	case a.vouchesFor(user.Email):
		user.EmailVerifiedBy = by
	case created && usable && email != user.Email && (a.EmailVerified || user.EmailVerifiedBy == "" || user.EmailVerifiedBy == by):
		user.SetEmail(email)
		if a.EmailVerified {
			user.EmailVerifiedBy = by
		}
	case user.EmailVerifiedBy != by && (user.EmailVerifiedBy != "" || !created):
	case created && (!usable || email != user.Email):
		user.SetEmail(store.UnknownEmail(user.ID))
	case user.EmailVerifiedBy == by:
		user.EmailVerifiedBy = ""
	}
}

// changes lists the members that differ between two states of a user, by the operator's names for them.
func changes(before, after *store.User) (names []string) {
	for _, m := range []struct {
		name    string
		differs bool
	}{
		{"name", after.Name != before.Name}, {"email", after.Email != before.Email},
		{"email_verified", after.EmailVerifiedBy != before.EmailVerifiedBy || after.Email != before.Email && after.EmailVerified()}, // a new address is verified anew
		{"profile", after.Profile != before.Profile && (before.Profile == nil || *after.Profile != *before.Profile)},
		{"provider_groups", after.GroupsBy != before.GroupsBy || !slices.Equal(after.ProviderGroups, before.ProviderGroups)},
	} {
		if m.differs {
			names = append(names, m.name)
		}
	}
	return names
}

// maxGroupsRead bounds how many groups of an account are read.
const maxGroupsRead = 1000

// keptGroups returns the groups that a user can have in addition to the operator's: sorted, without duplicates and unusable names, and
// without the last ones if there are too many. Sorting comes first, so that the same ones are always dropped.
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
