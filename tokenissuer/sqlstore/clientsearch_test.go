package sqlstore

import (
	"fmt"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

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
		tablesOf(s).Clients(t, 40_000) // PostgreSQL reads a small table as a whole
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
		tablesOf(s).Clients(b, 10_000)
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
