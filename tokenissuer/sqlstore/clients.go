package sqlstore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// selectClients reads clients with their secrets in one statement, so that both are of one moment: a row for every
// secret, or one row without.
const selectClients = `SELECT c.id, c.name, c.type, c.grants, c.scopes, c.redirect_uris, c.lifetimes,
	c.cors_origins, c.openid, c.keys, c.exchange, c.first_party, c.pkce_required, c.pkce_optional, c.revoke_previous, c.disabled, c.created_at,
	c.origin, c.last_used_at, s.digest, s.created_at, s.expires_at
	FROM clients c LEFT JOIN client_secrets s ON s.client_id = c.id`

// standIn is the id of a row that is read in place of a client that does not exist, so that the time of an answer does
// not tell which ids do. It is no id that a client could have: control characters are refused.
const standIn = "\x01stand-in"

// whereClient selects the client $1, or the stand-in $2 when there is none, with the same work.
const whereClient = ` WHERE c.id = COALESCE((SELECT id FROM clients WHERE id = $1), $2) ORDER BY s.number`

// addStandIn writes the stand-in, once. It has what most clients have: one secret.
func (s *Store) addStandIn(ctx context.Context) error {
	err := s.AddClient(ctx, &store.Client{
		ID: standIn, Name: "Stands in for every client that does not exist", Type: store.ConfidentialClient,
		Secrets: make([]store.ClientSecret, 1), Grants: []oauth.GrantType{oauth.ClientCredentials},
		Scopes: oauth.Scopes{oauth.ScopePublic}, Disabled: true,
	})
	if errors.Is(err, store.ErrTaken) {
		return nil
	}
	return err
}

// Client returns the client of that id.
func (s *Store) Client(ctx context.Context, id string) (*store.Client, error) {
	list, err := askClients(ctx, s.clientByID, possible(id), standIn)
	if err != nil {
		return nil, fmt.Errorf("reading client: %w", err)
	}
	if len(list) == 0 || list[0].ID == standIn {
		return nil, store.ErrNotFound
	}
	return list[0], nil
}

// Clients lists every client, by the bytes of its id. The database's own order would be that of its locale.
func (s *Store) Clients(ctx context.Context) ([]*store.Client, error) {
	list, err := askClients(ctx, s.text(selectClients+` WHERE c.id <> $1 ORDER BY c.id, s.number`), standIn)
	if err != nil {
		return nil, fmt.Errorf("listing clients: %w", err)
	}
	slices.SortFunc(list, func(a, b *store.Client) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

// askClients runs a query that begins with selectClients.
func askClients(ctx context.Context, q query, args ...any) (list []*store.Client, err error) {
	err = ask(ctx, q, args, func(rows *sql.Rows) error {
		list, err = scanClients(rows)
		return err
	})
	return list, err
}

// scanClients reads the rows of selectClients. Those of one client follow each other.
func scanClients(rows *sql.Rows) ([]*store.Client, error) {
	var list []*store.Client
	for rows.Next() {
		var c store.Client
		var grants, scopes, uris, lifetimes, origins, openID, ownKeys, exchange, digest sql.RawBytes
		var created, lastUsed, secretCreated, secretExpires sql.Null[int64]
		err := rows.Scan(&c.ID, &c.Name, &c.Type, &grants, &scopes, &uris, &lifetimes,
			&origins, &openID, &ownKeys, &exchange, &c.FirstParty, &c.PKCERequired, &c.PKCEOptional, &c.RevokePrevious, &c.Disabled, &created,
			&c.Origin, &lastUsed, &digest, &secretCreated, &secretExpires)
		if err != nil {
			return nil, err
		}
		if len(list) == 0 || list[len(list)-1].ID != c.ID {
			c.CreatedAt, c.LastUsedAt = timeOf(created), timeOf(lastUsed)
			err := errors.Join(json.Unmarshal(grants, &c.Grants), json.Unmarshal(scopes, &c.Scopes),
				json.Unmarshal(uris, &c.RedirectURIs), json.Unmarshal(lifetimes, &c.Lifetimes), json.Unmarshal(origins, &c.CORSOrigins),
				json.Unmarshal(openID, &c.OpenID), json.Unmarshal(ownKeys, &c.ClientKeys), json.Unmarshal(exchange, &c.Exchange))
			if err != nil {
				return nil, fmt.Errorf("client %q is damaged: %w", c.ID, err)
			}
			list = append(list, &c)
		}
		if digest == nil {
			continue
		}
		if len(digest) != sha256.Size {
			return nil, fmt.Errorf("client %q is damaged: a digest of %d bytes", c.ID, len(digest))
		}
		last := list[len(list)-1]
		last.Secrets = append(last.Secrets, store.ClientSecret{
			Digest: [sha256.Size]byte(digest), CreatedAt: timeOf(secretCreated), ExpiresAt: timeOf(secretExpires),
		})
	}
	return list, rows.Err()
}

// AddClient registers a client. The id of a removed client stays taken for as long as its tokens may live: whoever got it
// next would own tokens that were issued to another.
func (s *Store) AddClient(ctx context.Context, client *store.Client) error {
	var texts [8]string
	for i, value := range []any{client.Grants, client.Scopes, client.RedirectURIs, client.Lifetimes, client.CORSOrigins, client.OpenID, client.ClientKeys, client.Exchange} {
		text, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("adding client: %w", err)
		}
		texts[i] = string(text)
	}
	c, secrets := *client, slices.Clone(client.Secrets)
	return s.step(ctx, "adding client", func(ctx context.Context, tx session) error {
		if err := takeSubject(ctx, tx, c.ID, "client", c.CreatedAt); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO clients (id, name, type, grants, scopes, redirect_uris, lifetimes,
			cors_origins, openid, keys, exchange, first_party, pkce_required, pkce_optional, revoke_previous, disabled, created_at, origin, last_used_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)`,
			c.ID, c.Name, string(c.Type), texts[0], texts[1], texts[2], texts[3], texts[4], texts[5], texts[6], texts[7],
			c.FirstParty, c.PKCERequired, c.PKCEOptional, c.RevokePrevious, c.Disabled, micros(c.CreatedAt), string(c.Origin), micros(c.LastUsedAt))
		if err != nil {
			return err
		}
		for _, secret := range secrets {
			if err := addSecret(ctx, tx, c.ID, secret); err != nil {
				return err
			}
		}
		return nil
	})
}

// addSecret puts a secret behind the client's others. The caller holds the client's row.
func addSecret(ctx context.Context, tx session, clientID string, secret store.ClientSecret) error {
	var number int64
	err := tx.QueryRowContext(ctx,
		`SELECT COALESCE(MAX(number), 0) + 1 FROM client_secrets WHERE client_id = $1`, clientID).Scan(&number)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx,
		`INSERT INTO client_secrets (client_id, number, digest, created_at, expires_at) VALUES ($1, $2, $3, $4, $5)`,
		clientID, number, secret.Digest[:], micros(secret.CreatedAt), micros(secret.ExpiresAt))
	return err
}

// RotateClientSecret adds a secret and ends the older ones. Those that ended by the time the new one was made are
// dropped. A zero othersUntil leaves the older ones as they are.
func (s *Store) RotateClientSecret(ctx context.Context, clientID string, secret store.ClientSecret, othersUntil time.Time) error {
	return s.step(ctx, "rotating client secret", func(ctx context.Context, tx session) error {
		// This changes nothing but holds the client's row in every dialect, so that rotations follow each other.
		if err := mustHit(tx.ExecContext(ctx, `UPDATE clients SET disabled = disabled WHERE id = $1`, clientID)); err != nil {
			return err
		}
		if !othersUntil.IsZero() {
			_, err := tx.ExecContext(ctx, `UPDATE client_secrets SET expires_at = $1
				WHERE client_id = $2 AND (expires_at IS NULL OR expires_at > $1)`, micros(othersUntil), clientID)
			if err != nil {
				return err
			}
		}
		// The same secret again is a caller that did not hear the first answer.
		_, err := tx.ExecContext(ctx, `DELETE FROM client_secrets
			WHERE client_id = $1 AND (digest = $2 OR expires_at <= $3)`, clientID, secret.Digest[:], micros(secret.CreatedAt))
		if err != nil {
			return err
		}
		return addSecret(ctx, tx, clientID, secret)
	})
}

// DisableClient marks the client and revokes its tokens.
func (s *Store) DisableClient(ctx context.Context, clientID string, tokens store.Revocation) error {
	return s.announcedStep(ctx, "disabling client", func(ctx context.Context, tx session) error {
		if err := mustHit(tx.ExecContext(ctx, `UPDATE clients SET disabled = $1 WHERE id = $2`, true, clientID)); err != nil {
			return err
		}
		return s.record(ctx, tx, tokens)
	})
}

// EnableClient takes the mark away.
func (s *Store) EnableClient(ctx context.Context, clientID string) error {
	return s.step(ctx, "enabling client", func(ctx context.Context, tx session) error {
		return mustHit(tx.ExecContext(ctx, `UPDATE clients SET disabled = $1 WHERE id = $2`, false, clientID))
	})
}

// TouchClient sets when the client was used last.
func (s *Store) TouchClient(ctx context.Context, clientID string, at time.Time) error {
	return s.step(ctx, "touching client", func(ctx context.Context, tx session) error {
		return mustHit(tx.ExecContext(ctx, `UPDATE clients SET last_used_at = CASE WHEN last_used_at > $1 THEN last_used_at ELSE $1 END WHERE id = $2`,
			micros(at), possible(clientID)))
	})
}

// CountClients counts the clients of an origin, without the stand-in.
func (s *Store) CountClients(ctx context.Context, origin store.ClientOrigin) (n int, err error) {
	err = askOne(ctx, s.text(`SELECT COUNT(*) FROM clients WHERE origin = $1 AND id <> $2`), []any{string(origin), standIn}, &n)
	if err != nil {
		return 0, fmt.Errorf("counting clients: %w", err)
	}
	return n, nil
}

// RemoveClient deletes the client with its secrets and revokes its tokens. Its id stays taken for a while.
func (s *Store) RemoveClient(ctx context.Context, clientID string, tokens store.Revocation) error {
	return s.announcedStep(ctx, "removing client", func(ctx context.Context, tx session) error {
		// The client's row comes first: from here on nobody adds a secret.
		if err := mustHit(tx.ExecContext(ctx, `UPDATE clients SET disabled = disabled WHERE id = $1`, clientID)); err != nil {
			return err
		}
		for _, statement := range []string{`DELETE FROM client_secrets WHERE client_id = $1`, `DELETE FROM clients WHERE id = $1`} {
			if _, err := tx.ExecContext(ctx, statement, clientID); err != nil {
				return err
			}
		}
		if err := freeSubject(ctx, tx, clientID, tokens.FreeAt()); err != nil {
			return err
		}
		return s.record(ctx, tx, tokens)
	})
}

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
	openID, err := jsonOf(change.OpenID)
	if err != nil {
		return fail(err)
	}
	ownKeys, err := jsonOf(change.Keys)
	if err != nil {
		return fail(err)
	}
	exchange, err := jsonOf(change.Exchange)
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
			revoke_previous = COALESCE($10, revoke_previous), openid = COALESCE($11, openid),
			pkce_optional = COALESCE($12, pkce_optional), keys = COALESCE($13, keys),
			exchange = COALESCE($14, exchange) WHERE id = $15`,
			nullable(change.Name), nullable((*string)(change.Type)), grants, scopes, uris, lifetimes,
			nullable(change.FirstParty), nullable(change.PKCERequired), origins, nullable(change.RevokePrevious),
			openID, nullable(change.PKCEOptional), ownKeys, exchange, possible(clientID)))
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
