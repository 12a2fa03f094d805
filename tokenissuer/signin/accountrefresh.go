package signin

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
		user.Profile = a.Profile
	}
}

// edit makes the user what the account says. Created: the user was made for the account, and is what its provider says.
func (a Account) edit(user *store.User, rules Rules, created bool) {
	if a.Groups != nil {
		user.ProviderGroups, user.GroupsBy = keptGroups(a.Groups, user.Groups), a.Provider
	}
	a.editEmail(user, rules, created)
	if created {
		a.describe(user)
	}
}

// editEmail makes what follows from the address of the account. Each provider's word replaces its own, and no operator's: an address for
// which it no longer vouches is not verified. If the user was made for the account it is not the user's at all, and the user gets the one
// that the provider states now, if the user could have been made with that; else there is none. So it is with an address for which nobody vouches.
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

// changes lists what differs between two states of a user, as an operator calls it.
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

// maxGroupsRead bounds how many groups of an account are looked at.
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
