package sqlstore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// populate adds users with the terms that AddUser gives them: ten organisations, a group for each hundred, and every hundredth is disabled,
// every thousandth invited.
func populate(t testing.TB, s *Store, users int) {
	t.Helper()
	numbers := fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) `, users)
	term := func(text string) string { return fmt.Sprintf(`CAST(%s AS BLOB)`, text) }
	if s.db.dialect.concurrent() {
		term = func(text string) string { return fmt.Sprintf(`convert_to(%s, 'UTF8')`, text) }
	}
	const status = `CASE WHEN i % 100 = 0 THEN 'disabled' ELSE 'active' END`
	statements := []string{
		`INSERT INTO subjects (id, kind) ` + numbers + `SELECT 'u' || i, 'user' FROM n`,
		`INSERT INTO users (` + userColumns + `, password_scheme) ` + numbers + `SELECT 'u' || i, 'person' || i || '@example.com', ` + status + `, 'org' || (i % 10),
			'{"name":"Ada ' || i || '","role":"member","groups":["g' || (i / 100) || '"]}', '', '[]', '', FALSE, FALSE, CASE WHEN i % 1000 = 0 THEN '' ELSE 'x' END, 1, 0, NULL, '' FROM n`,
	}
	for _, text := range []string{
		`'tada ' || i`, `'tperson' || i || '@example.com'`, `'oorg' || (i % 10)`, `'gg' || (i / 100)`, `'rmember'`,
	} {
		statements = append(statements, `INSERT INTO user_terms (term, user_id) `+numbers+`SELECT `+term(text)+`, 'u' || i FROM n`)
	}
	statements = append(statements, `INSERT INTO user_terms (term, user_id) `+numbers+`SELECT `+term(`'sdisabled'`)+`, 'u' || i FROM n WHERE i % 100 = 0`,
		`INSERT INTO identities (provider, subject, user_id, declared_email, source, created, vouches) `+numbers+`SELECT 'corp', 's' || i, 'u' || i, '', '', FALSE, FALSE FROM n WHERE i % 3 = 0`,
		`INSERT INTO factors (id, user_id, declared_email, kind, name, data, credential) `+numbers+`SELECT 'f' || i, 'u' || i, '', 'totp', '', `+term(`''`)+`, '' FROM n WHERE i % 2 = 0`,
		`ANALYZE`)
	for _, statement := range statements {
		if _, err := s.db.write.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
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
		populate(t, s, 100_000) // PostgreSQL reads a small table as a whole
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
		populate(b, s, 100_000)
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
