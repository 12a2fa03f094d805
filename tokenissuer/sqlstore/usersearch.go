package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// The kinds of terms in user_terms.
const (
	textTerm         = "t"
	organisationTerm = "o"
	groupTerm        = "g"
	roleTerm         = "r"
	statusTerm       = "s" // of users who are not active
)

// maxTerm is how much of a text is kept for searches. PostgreSQL has no longer entries than 2.7 KB in an index.
const maxTerm = 512

// userTerms returns the terms of a user, sorted, without duplicates.
func userTerms(u *store.User) []string {
	var terms []string
	for _, text := range u.SearchTexts() {
		terms = append(terms, (textTerm + text)[:min(len(textTerm+text), maxTerm)])
	}
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

// addTerms stores the terms of a user who has none.
func addTerms(ctx context.Context, tx session, u *store.User) error {
	args, rows := []any{u.ID}, []string{}
	for _, term := range userTerms(u) {
		args = append(args, []byte(term))
		rows = append(rows, fmt.Sprintf("($%d, $1)", len(args)))
	}
	if len(rows) == 0 {
		return nil
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO user_terms (term, user_id) VALUES `+strings.Join(rows, ", "), args...)
	return err
}

// addAllTerms stores the terms of all users, of whom none has any.
func addAllTerms(ctx context.Context, tx session) error {
	const some = 500 // in memory at once
	for after := ""; ; {
		users, err := queryAll(ctx, tx, selectUsers+` WHERE id > $1 AND id <> $2 ORDER BY id LIMIT $3`, []any{after, standInUser, some}, scanUser)
		if err != nil {
			return err
		}
		for _, u := range users {
			if err := addTerms(ctx, tx, u); err != nil {
				return err
			}
			after = u.ID
		}
		if len(users) < some {
			return nil
		}
	}
}

// changeTerms replaces the terms of a user who changed. The caller holds the user's row.
func changeTerms(ctx context.Context, tx session, before, after *store.User) error {
	if slices.Equal(userTerms(before), userTerms(after)) {
		return nil
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM user_terms WHERE user_id = $1`, after.ID); err != nil {
		return err
	}
	return addTerms(ctx, tx, after)
}

// renewTerms replaces the terms of a stored user by those of the user's row, which the caller holds.
func renewTerms(ctx context.Context, tx session, userID string) error {
	u, err := scanUser(tx.QueryRowContext(ctx, selectUsers+` WHERE id = $1`, userID))
	if err != nil {
		return err
	}
	return changeTerms(ctx, tx, &store.User{}, u)
}

// maxCandidates is how many users are looked at for a page, if it is not full before.
const maxCandidates = 1000

// userSearch is a query for a page of users: candidates, in the order of an index, and the conditions that they have to meet.
type userSearch struct {
	candidates string // empty: the users for whom on holds
	on         string
	conditions []string
	args       []any
	limit      int // of candidates
}

// arg adds an argument and returns its placeholder.
func (s *userSearch) arg(value any) string {
	s.args = append(s.args, value)
	return fmt.Sprintf("$%d", len(s.args))
}

// newUserSearch chooses the index that leaves the fewest candidates: that of the search, of a group, and so on.
func newUserSearch(q store.UserQuery) *userSearch {
	s := &userSearch{limit: max(maxCandidates, q.Limit+1), on: `TRUE`}
	if q == (store.UserQuery{After: q.After, Limit: q.Limit}) {
		s.limit = q.Limit + 2 // the stand-in, and one that shows that there is another page
	}
	s.conditions = append(s.conditions, `u.id <> `+s.arg(standInUser))
	if text := store.SearchText(q.Search); text != "" {
		s.searchText(text, q.After)
	}
	for _, filter := range []struct{ kind, value string }{
		{groupTerm, q.Group}, {statusTerm, notActive(q.State)}, {organisationTerm, q.Organisation}, {roleTerm, string(q.Role)},
	} {
		if filter.value != "" {
			s.among(`user_terms`, `term = `+s.arg([]byte(possible(filter.kind+filter.value))), q.After)
		}
	}
	if q.Provider != "" {
		s.among(`identities`, `declared_email = '' AND provider = `+s.arg(possible(q.Provider)), q.After)
	}
	switch {
	case q.State == store.UserState(store.UserActive):
		s.conditions = append(s.conditions, `u.status = 'active' AND NOT (`+isInvited+`)`)
	case q.State == store.UserInvited && s.candidates == "":
		s.on = isInvited
	case q.State == store.UserInvited:
		s.conditions = append(s.conditions, isInvited)
	}
	if q.WithoutFactor {
		s.conditions = append(s.conditions, `NOT `+exists(`factors`, `user_id = u.id AND declared_email = '' AND kind <> '`+string(store.RecoveryCodes)+`'`))
	}
	if s.candidates == "" {
		s.on += ` AND u.id > ` + s.arg(possible(q.After.ID))
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

// exists is EXISTS as a scalar, for which PostgreSQL does not read all rows that are in the table about anybody.
func exists(table, where string) string {
	return `COALESCE((SELECT TRUE FROM ` + table + ` WHERE ` + where + ` LIMIT 1), FALSE)`
}

// searchText makes the users whose texts begin with a text the candidates. A user with several such texts is found by the first.
func (s *userSearch) searchText(text string, after store.UserPosition) {
	from := textTerm + possible(text)
	first, end := s.arg([]byte(from)), s.arg([]byte(from+"\xff")) // UTF-8 has no such byte
	at := s.arg([]byte(max(after.Found, from)))
	s.candidates = `SELECT term, user_id FROM user_terms WHERE term < ` + end + ` AND (term, user_id) > (` + at + `, ` + s.arg(possible(after.ID)) + `)
		ORDER BY term, user_id LIMIT ` + s.arg(s.limit)
	s.conditions = append(s.conditions, `NOT `+exists(`user_terms`, `user_id = u.id AND term >= `+first+` AND term < c.term`))
}

// among makes the users of a table the candidates if there are none yet, and a condition otherwise.
func (s *userSearch) among(table, where string, after store.UserPosition) {
	if s.candidates != "" {
		s.conditions = append(s.conditions, exists(table, where+` AND user_id = u.id`))
		return
	}
	s.candidates = `SELECT DISTINCT CAST(NULL AS BYTEA) AS term, user_id FROM ` + table + ` WHERE ` + where + ` AND user_id > ` + s.arg(possible(after.ID)) + ` ORDER BY user_id LIMIT ` + s.arg(s.limit)
}

func (s *userSearch) text() string {
	conditions := strings.Join(s.conditions, " AND ")
	if s.candidates == "" {
		return `SELECT NULL, u.id, (` + conditions + `), ` + userColumns + ` FROM users u WHERE ` + s.on + ` ORDER BY u.id LIMIT ` + s.arg(s.limit)
	}
	return `SELECT c.term, c.user_id, (` + conditions + `), ` + userColumns + `
		FROM (` + s.candidates + `) AS c JOIN users u ON u.id = c.user_id ORDER BY c.term, c.user_id`
}

// FindUsers returns a page of the users that a query selects.
func (s users) FindUsers(ctx context.Context, which store.UserQuery) (store.UserPage, error) {
	search, page, seen := newUserSearch(which), store.UserPage{}, 0
	text := search.text()
	err := ask(ctx, s.db.text(text), search.args, func(rows *sql.Rows) error {
		for rows.Next() {
			var term []byte
			var id string
			var matches bool
			u, err := scanUser(behind{rows, []any{&term, &id, &matches}})
			if err != nil {
				return err
			}
			if seen++; matches && len(page.Users) == which.Limit {
				return nil // page.Next is there: a further user follows
			}
			page.Next = store.UserPosition{Found: string(term), ID: id}
			if matches {
				page.Users = append(page.Users, u)
			}
		}
		if seen < search.limit {
			page.Next = store.UserPosition{}
		}
		return rows.Err()
	})
	if err != nil {
		return store.UserPage{}, fmt.Errorf("finding users: %w", err)
	}
	return page, nil
}

// behind is a row without its first columns, which are read into first.
type behind struct {
	row   scanner
	first []any
}

// Scan reads the row.
func (b behind) Scan(into ...any) error { return b.row.Scan(slices.Concat(b.first, into)...) }
