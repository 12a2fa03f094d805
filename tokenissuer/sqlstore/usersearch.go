package sqlstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// searchedUsers are users and their terms.
var searchedUsers = searched{table: `users`, columns: userColumns, terms: `user_terms`, id: `user_id`}

// The kinds of terms in user_terms, beside textTerm.
const (
	organisationTerm = "o"
	groupTerm        = "g"
	roleTerm         = "r"
	statusTerm       = "s" // of users who are not active
)

// userTerms returns the terms of a user, sorted, without duplicates.
func userTerms(u *store.User) []string {
	terms := textTerms(u.SearchTexts())
	for _, group := range u.AllGroups() {
		terms = append(terms, groupTerm+group)
	}
	if u.Organisation != "" {
		terms = append(terms, organisationTerm+u.Organisation)
	}
	if u.Role != "" {
		terms = append(terms, roleTerm+string(u.Role))
	}
	if u.Status != store.UserActive {
		terms = append(terms, statusTerm+string(u.Status))
	}
	slices.Sort(terms)
	return slices.Compact(terms)
}

// renewTerms replaces the terms of a stored user by those of the user's row, which the caller holds.
func renewTerms(ctx context.Context, tx session, userID string) error {
	u, err := scanUser(tx.QueryRowContext(ctx, selectUsers+` WHERE id = $1`, userID))
	if err != nil {
		return err
	}
	return searchedUsers.replaceTerms(ctx, tx, userID, userTerms(u))
}

// newUserSearch chooses the index that leaves the fewest candidates: that of the search, of a group, and so on.
func newUserSearch(q store.UserQuery) *search {
	s := newSearch(searchedUsers, standInUser, q.After, q.Limit)
	if q == (store.UserQuery{After: q.After, Limit: q.Limit}) {
		s.limit = q.Limit + 2 // the stand-in, and one that shows that there is another page
	}
	if text := store.SearchText(q.Search); text != "" {
		s.begins(text)
	}
	for _, filter := range []struct{ kind, value string }{
		{groupTerm, q.Group}, {statusTerm, notActive(q.State)}, {organisationTerm, q.Organisation}, {roleTerm, string(q.Role)},
	} {
		if filter.value != "" {
			s.among(`user_terms`, `term = `+s.arg([]byte(possible(filter.kind+filter.value))))
		}
	}
	if q.Provider != "" {
		s.among(`identities`, `declared_email = '' AND provider = `+s.arg(possible(q.Provider)))
	}
	switch {
	case q.State == store.UserState(store.UserActive):
		s.conditions = append(s.conditions, `x.status = 'active' AND NOT (`+isInvited+`)`)
	case q.State == store.UserInvited && s.candidates == "":
		s.all = isInvited
	case q.State == store.UserInvited:
		s.conditions = append(s.conditions, isInvited)
	}
	if q.WithoutFactor {
		s.conditions = append(s.conditions, `NOT `+exists(`factors`, `user_id = x.id AND declared_email = '' AND kind <> '`+string(store.RecoveryCodes)+`'`))
	}
	return s
}

// isInvited is also in the index users_invited. SQLite uses a partial index only for a statement that repeats its condition.
const isInvited = `status = 'active' AND password_hash = '' AND NOT external AND NOT service`

// notActive returns the status of a state that is the status of users who are not active.
func notActive(state store.UserState) string {
	if state == store.UserInvited || state == store.UserState(store.UserActive) {
		return ""
	}
	return string(state)
}

// FindUsers returns a page of the users that a query selects.
func (s users) FindUsers(ctx context.Context, which store.UserQuery) (store.UserPage, error) {
	found, next, err := findPage(ctx, s.db, newUserSearch(which), which.Limit, scanUser)
	if err != nil {
		return store.UserPage{}, fmt.Errorf("finding users: %w", err)
	}
	return store.UserPage{Users: found, Next: next}, nil
}
