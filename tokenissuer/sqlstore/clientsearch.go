package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// searchedClients are clients and their terms.
var searchedClients = searched{table: `clients`, columns: clientColumns, terms: `client_terms`, id: `client_id`}

// The kinds of terms in client_terms, beside textTerm. Those of statusTerm are of disabled clients.
const originTerm = "o"

// clientTerms returns the terms of a client, sorted.
func clientTerms(c *store.Client) []string {
	terms := append(textTerms(c.SearchTexts()), originTerm+string(c.Origin))
	if c.Disabled {
		terms = append(terms, statusTerm+string(store.ClientDisabled))
	}
	slices.Sort(terms)
	return slices.Compact(terms)
}

// newClientSearch chooses the index that leaves the fewest candidates.
func newClientSearch(q store.ClientQuery) *search {
	s := newSearch(searchedClients, standIn, q.After, q.Limit)
	if q == (store.ClientQuery{After: q.After, Limit: q.Limit}) {
		s.limit = q.Limit + 2 // the stand-in, and one that shows that there is another page
	}
	if text := store.SearchText(q.Search); text != "" {
		s.begins(text)
	}
	switch q.State {
	case store.ClientDisabled:
		s.among(`client_terms`, `term = `+s.arg([]byte(statusTerm+string(store.ClientDisabled))))
	case store.ClientEnabled:
		s.conditions = append(s.conditions, `NOT x.disabled`)
	}
	if q.Origin != nil {
		s.among(`client_terms`, `term = `+s.arg([]byte(possible(originTerm+string(*q.Origin)))))
	}
	return s
}

// FindClients returns a page of the clients that a query selects. It reads their secrets in a second statement: joined, those of all candidates
// would be read.
func (s clients) FindClients(ctx context.Context, which store.ClientQuery) (store.ClientPage, error) {
	found, next, err := findPage(ctx, s.db, newClientSearch(which), which.Limit, scanClient)
	if err == nil && len(found) > 0 {
		err = s.addSecretsTo(ctx, found)
	}
	if err != nil {
		return store.ClientPage{}, fmt.Errorf("finding clients: %w", err)
	}
	return store.ClientPage{Clients: found, Next: next}, nil
}

// addSecretsTo adds their secrets to clients.
func (s clients) addSecretsTo(ctx context.Context, list []*store.Client) error {
	byID, args, places := make(map[string]*store.Client, len(list)), make([]any, 0, len(list)), make([]string, 0, len(list))
	for _, c := range list {
		byID[c.ID], args, places = c, append(args, c.ID), append(places, fmt.Sprintf("$%d", len(args)+1))
	}
	text := `SELECT client_id, digest, hash, created_at, expires_at FROM client_secrets WHERE client_id IN (` + strings.Join(places, ", ") + `) ORDER BY client_id, number`
	return ask(ctx, s.db.text(text), args, func(rows *sql.Rows) error {
		for rows.Next() {
			var id string
			var secret storedSecret
			err := rows.Scan(append([]any{&id}, secret.columns()...)...)
			if err == nil {
				err = secret.addTo(byID[id])
			}
			if err != nil {
				return err
			}
		}
		return rows.Err()
	})
}
