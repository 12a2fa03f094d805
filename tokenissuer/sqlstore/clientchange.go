package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// ChangeClient changes the members that are not nil, in one statement.
func (s *Store) ChangeClient(ctx context.Context, clientID string, change store.ClientChange) error {
	fail := func(err error) error { return fmt.Errorf("changing client: %w", err) }
	grants, err := jsonOf(change.Grants)
	if err != nil {
		return fail(err)
	}
	scopes, err := jsonOf(change.Scopes)
	if err != nil {
		return fail(err)
	}
	uris, err := jsonOf(change.RedirectURIs)
	if err != nil {
		return fail(err)
	}
	origins, err := jsonOf(change.CORSOrigins)
	if err != nil {
		return fail(err)
	}
	lifetimes, err := jsonOf(change.Lifetimes)
	if err != nil {
		return fail(err)
	}
	return s.step(ctx, "changing client", func(ctx context.Context, tx session) error {
		return mustHit(tx.ExecContext(ctx, `UPDATE clients SET name = COALESCE($1, name), type = COALESCE($2, type),
			grants = COALESCE($3, grants), scopes = COALESCE($4, scopes), redirect_uris = COALESCE($5, redirect_uris),
			lifetimes = COALESCE($6, lifetimes), first_party = COALESCE($7, first_party),
			pkce_required = COALESCE($8, pkce_required), cors_origins = COALESCE($9, cors_origins),
			revoke_previous = COALESCE($10, revoke_previous) WHERE id = $11`,
			nullable(change.Name), nullable((*string)(change.Type)), grants, scopes, uris, lifetimes,
			nullable(change.FirstParty), nullable(change.PKCERequired), origins, nullable(change.RevokePrevious),
			possible(clientID)))
	})
}

// nullable is NULL for nil.
func nullable[T any](value *T) sql.Null[T] {
	if value == nil {
		return sql.Null[T]{}
	}
	return sql.Null[T]{V: *value, Valid: true}
}

// jsonOf is the JSON text of a value, and NULL for nil.
func jsonOf[T any](value *T) (sql.Null[string], error) {
	if value == nil {
		return sql.Null[string]{}, nil
	}
	text, err := json.Marshal(value)
	return sql.Null[string]{V: string(text), Valid: true}, err
}
