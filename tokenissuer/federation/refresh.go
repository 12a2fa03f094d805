package federation

import (
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// verifiedEmail returns the account's address in canonical form; "" when there is none that the provider has verified.
func (a Account) verifiedEmail() string {
	if !a.EmailVerified {
		return ""
	}
	email, err := store.CanonicalEmail(a.Email)
	if err != nil {
		return ""
	}
	return email
}

// describe gives a user the name and the profile of the account, without what no user can have.
func (a Account) describe(user *store.User) {
	named := store.User{ID: "any", Email: "any@any", Name: a.Name, Status: store.UserActive}
	if a.Name != "" && named.Validate() == nil {
		user.Name = a.Name
	}
	if !a.Profile.IsZero() && a.Profile.Validate() == nil {
		user.Profile = a.Profile.Clone()
	}
}

// changeOf returns what is not yet as the account says it. Created: the account has created the user. An address that is not verified
// takes the place of none that was.
func (a Account) changeOf(user *store.User, rules Rules, created bool) (change store.UserChange) {
	if a.Groups != nil {
		if groups := keptGroups(a.Groups); !slices.Equal(groups, slices.Sorted(slices.Values(user.Groups))) {
			change.Groups = &groups
		}
	}
	email, err := store.CanonicalEmail(a.Email)
	if err == nil && email == user.Email && a.EmailVerified && !user.EmailVerified {
		change.EmailVerified = &a.EmailVerified
	}
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
	switch {
	case err != nil:
	case email == user.Email && user.EmailVerified && !a.EmailVerified: // the provider takes its word back
		change.EmailVerified = &a.EmailVerified
	case email != user.Email && (a.EmailVerified || !user.EmailVerified && rules.AllowUnverifiedEmail):
		change.Email, change.EmailVerified = &email, &a.EmailVerified
	}
	return change
}

// maxGroupsRead bounds how many groups of an account are looked at.
const maxGroupsRead = 1000

// keptGroups returns the groups that a user can be in: sorted, each once, without those that cannot be written down, and without
// the last ones when there are more than a user can have. They are sorted first, so that it is always the same that are left out.
func keptGroups(groups []string) []string {
	sorted := slices.Compact(slices.Sorted(slices.Values(groups)))
	kept := []string{}
	for _, group := range sorted[:min(len(sorted), maxGroupsRead)] {
		if more := append(kept, group); store.ValidateGroups(more) == nil {
			kept = more
		}
	}
	return kept
}
