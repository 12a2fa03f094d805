package sqlstore

import (
	"fmt"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// populateClients adds clients with the terms that AddClient gives them: every tenth registered itself, every hundredth is disabled.
func populateClients(t testing.TB, s *Store, clients int) {
	t.Helper()
	numbers := fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) `, clients)
	bytes := func(text string) string { return fmt.Sprintf(`CAST(%s AS BLOB)`, text) }
	digest := `randomblob(32)`
	if s.db.dialect.concurrent() {
		bytes = func(text string) string { return fmt.Sprintf(`convert_to(%s, 'UTF8')`, text) }
		digest = `sha256(convert_to(i::text, 'UTF8'))`
	}
	const origin = `CASE WHEN i % 10 = 0 THEN 'registration' ELSE '' END`
	statements := []string{
		`INSERT INTO subjects (id, kind) ` + numbers + `SELECT 'c' || i, 'client' FROM n`,
		`INSERT INTO clients (id, members, disabled, origin) ` + numbers + `SELECT 'c' || i, '{"name":"Application ' || i ||
			'","type":"confidential","grants":["authorization_code","refresh_token"],"scopes":["openid","public"],"redirect_uris":["https://app' || i || '.example.com/callback"]}',
			i % 100 = 0, ` + origin + ` FROM n`,
		`INSERT INTO client_secrets (client_id, number, digest) ` + numbers + `SELECT 'c' || i, 1, ` + digest + ` FROM n`,
	}
	for _, text := range []string{`'tapplication ' || i`, `'tc' || i`, `'o' || ` + origin} {
		statements = append(statements, `INSERT INTO client_terms (term, client_id) `+numbers+`SELECT `+bytes(text)+`, 'c' || i FROM n`)
	}
	statements = append(statements, `INSERT INTO client_terms (term, client_id) `+numbers+`SELECT `+bytes(`'sdisabled'`)+`, 'c' || i FROM n WHERE i % 100 = 0`, `ANALYZE`)
	for _, statement := range statements {
		if _, err := s.db.write.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

var registered = store.FromRegistration

// clientQueries are searches and filters with few and with many clients, and combinations.
var clientQueries = []store.ClientQuery{
	{}, {Search: "a"}, {Search: "c777"}, {Search: "APPLICATION 99"}, {Search: "nobody"}, {Origin: &registered}, {State: store.ClientDisabled}, {State: store.ClientEnabled},
	{Search: "a", Origin: &registered, State: store.ClientDisabled},
}

// TestO22APageOfClientsReadsNoMoreThanItsCandidates: a search or a filter among 40,000 clients → an index finds the candidates, and no table is
// read as a whole.
func TestO22APageOfClientsReadsNoMoreThanItsCandidates(t *testing.T) {
	if testing.Short() {
		t.Skip("adds 40,000 clients")
	}
	eachDatabase(t, func(t *testing.T, s *Store) {
		populateClients(t, s, 40_000) // PostgreSQL reads a small table as a whole
		for _, q := range clientQueries {
			q.Limit = 50
			search := newClientSearch(q)
			text := search.text()
			if plan := planOf(t, s, text, search.args...); readsAll(plan) {
				t.Errorf("%+v:\n%s", q, plan)
			}
		}
	})
}

// BenchmarkFindClients is a page of 50 of 10,000 clients.
func BenchmarkFindClients(b *testing.B) {
	for name, s := range map[string]*Store{"SQLite": openAt(b, newPath(b)), "PostgreSQL": openPostgres(b, sharedDatabase(b))} {
		populateClients(b, s, 10_000)
		for _, q := range clientQueries {
			q.Limit = 50
			b.Run(fmt.Sprintf("%s/%+v", name, q), func(b *testing.B) {
				for b.Loop() {
					_, err := s.Clients.FindClients(b.Context(), q)
					must(b, err)
				}
			})
		}
	}
}
