package store

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// UserState is a UserStatus, or UserInvited.
type UserState string

// UserInvited is the state of an active user who cannot sign in yet: without a password, an account at a provider, and not a service account.
const UserInvited UserState = "invited"

// UserStates lists the states.
func UserStates() []string {
	return []string{string(UserActive), string(UserDisabled), string(UserLocked), string(UserInvited)}
}

// ParseUserState returns the state of that name.
func ParseUserState(name string) (UserState, error) {
	if !slices.Contains(UserStates(), name) {
		return "", fmt.Errorf("unknown state %q: use active, disabled, locked or invited", name)
	}
	return UserState(name), nil
}

// State returns the user's state.
func (u *User) State() UserState {
	if u.Status == UserActive && !u.IsActive() {
		return UserInvited
	}
	return UserState(u.Status)
}

// UserQuery selects users by every member that is set.
type UserQuery struct {
	// Search is the beginning of a name, an address or a username. It is compared as SearchText.
	Search       string
	Organisation string
	// Group is one of User.AllGroups.
	Group string
	Role  Role
	// Provider is an identity provider at which the user has an account.
	Provider string
	State    UserState
	// WithoutFactor selects users for whom no Factor is second.
	WithoutFactor bool
	// After is where the page begins; the zero value: at the beginning.
	After SearchPosition
	// Limit is the greatest number of users in the page, 1 to MaxPage.
	Limit int
}

// MaxPage is the greatest Limit of a query.
const MaxPage = 1000

// SearchPosition is a position in what a query selects: behind the thing with the id ID, found by the text Found. It is valid for queries
// that differ in After and Limit alone.
type SearchPosition struct {
	Found string `json:"f,omitzero"`
	ID    string `json:"i,omitzero"`
}

// UserPage is a page of users.
type UserPage struct {
	Users []*User
	// Next is where the next page begins; the zero value: there is none. A page with a Next may have few users or none.
	Next SearchPosition
}

// SearchText returns the form in which texts are compared in a search: as CanonicalEmail compares addresses, without surrounding white
// space, in NFKC, in lower case.
func SearchText(text string) string {
	return strings.TrimSpace(norm.NFKC.String(strings.ToLower(norm.NFKC.String(text))))
}

// SearchTexts returns the texts by which a search finds the user: name, address and username, without duplicates and empty ones.
func (u *User) SearchTexts() []string {
	texts := []string{u.Name, u.Email}
	if u.Profile != nil {
		texts = append(texts, u.PreferredUsername)
	}
	return searchTexts(texts...)
}

// searchTexts returns texts as SearchText, sorted, without duplicates and empty ones.
func searchTexts(texts ...string) []string {
	for i, text := range texts {
		texts[i] = SearchText(text)
	}
	slices.Sort(texts)
	return slices.DeleteFunc(slices.Compact(texts), func(text string) bool { return text == "" })
}

// begins reports whether one of some texts begins with what is searched.
func begins(texts []string, search string) bool {
	search = SearchText(search)
	return search == "" || slices.ContainsFunc(texts, func(text string) bool { return strings.HasPrefix(text, search) })
}

// Matches reports whether the query selects the user as far as the user's own record says. It does not consider Provider, WithoutFactor,
// and After.
func (q UserQuery) Matches(u *User) bool {
	return begins(u.SearchTexts(), q.Search) &&
		(q.Organisation == "" || u.Organisation == q.Organisation) && (q.Role == "" || u.Role == q.Role) &&
		(q.Group == "" || slices.Contains(u.AllGroups(), q.Group)) && (q.State == "" || u.State() == q.State)
}
