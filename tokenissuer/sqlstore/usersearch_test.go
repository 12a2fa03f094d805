package sqlstore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/manyrows"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// tablesOf returns the tables of a store, to be filled.
func tablesOf(s *Store) manyrows.Database {
	return manyrows.Database{Writes: s.db.write, PostgreSQL: s.db.dialect.concurrent()}
}

// userQueries are searches and filters with few and with many users, and combinations.
var userQueries = []store.UserQuery{
	{}, {Search: "a"}, {Search: "person7777@"}, {Search: "ADA 99"}, {Search: "nobody"}, {Group: "g77"}, {Organisation: "org7"}, {Role: store.RoleMember}, {Provider: "corp"},
	{State: "active"}, {State: "disabled"}, {State: store.UserInvited}, {WithoutFactor: true},
	{Search: "a", Organisation: "org7", State: "disabled", WithoutFactor: true}, {Organisation: "org7", Group: "g77", Role: store.RoleAdmin, Provider: "corp"},
}

// TestX56APageReadsNoMoreThanItsCandidates: a search or a filter among 100,000 users → an index finds the candidates, and no table is read as a
// whole.
func TestX56APageReadsNoMoreThanItsCandidates(t *testing.T) {
	if testing.Short() {
		t.Skip("adds 100,000 users")
	}
	eachDatabase(t, func(t *testing.T, s *Store) {
		users := 1000
		if strings.HasSuffix(t.Name(), "/PostgreSQL") {
			users = 100_000 // it reads a small table as a whole; SQLite plans without looking at the rows
		}
		tablesOf(s).Users(t, users)
		for _, q := range userQueries {
			q.Limit = 100
			search := newUserSearch(q)
			text := search.text()
			if plan := planOf(t, s, text, search.args...); readsAll(plan) {
				t.Errorf("%+v:\n%s", q, plan)
			}
		}
	})
}

// readsAll reports whether a plan reads a table as a whole. SQLite calls the candidates, which it has found by an index, a scan as well.
func readsAll(plan string) bool {
	for line := range strings.Lines(plan) {
		if line = strings.TrimSpace(line); strings.Contains(line, "Seq Scan") || strings.HasPrefix(line, "SCAN ") && line != "SCAN c" && (line != "SCAN x" || !strings.Contains(plan, "CO-ROUTINE x")) {
			return true
		}
	}
	return false
}

// BenchmarkFindUsers is a page of 100 of 100,000 users.
func BenchmarkFindUsers(b *testing.B) {
	for name, s := range map[string]*Store{"SQLite": openAt(b, newPath(b)), "PostgreSQL": openPostgres(b, sharedDatabase(b))} {
		tablesOf(s).Users(b, 100_000)
		for _, q := range userQueries {
			q.Limit = 100
			b.Run(fmt.Sprintf("%s/%+v", name, q), func(b *testing.B) {
				for b.Loop() {
					_, err := s.Users.FindUsers(b.Context(), q)
					must(b, err)
				}
			})
		}
	}
}
