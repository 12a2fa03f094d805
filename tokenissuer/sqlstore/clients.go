package sqlstore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// selectClients reads clients with their secrets in one statement, which gives a consistent view: a row for every secret, or one row for
// a client without secrets.
const selectClients = `SELECT s.digest, s.hash, s.created_at, s.expires_at, c.id, c.members, c.disabled, c.origin, c.created_at, c.last_used_at
	FROM clients c LEFT JOIN client_secrets s ON s.client_id = c.id`

// standIn is the id of a row that is read in place of a client that does not exist. It keeps the timing independent of which ids exist.
// No client can have the id, because control characters are refused.
const standIn = "\x01stand-in"

// whereClient selects the client $1, or the stand-in $2 when there is none, at the same cost.
const whereClient = ` WHERE c.id = COALESCE((SELECT id FROM clients WHERE id = $1), $2) ORDER BY s.number`

// addStandIn stores the stand-in, once. It has one secret, like most clients.
func (s clients) addStandIn(ctx context.Context) error {
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
func (s clients) Client(ctx context.Context, id string) (*store.Client, error) {
	list, err := askClients(ctx, s.db.text(selectClients+whereClient), possible(id), standIn)
	if err != nil {
		return nil, fmt.Errorf("reading client: %w", err)
	}
	if len(list) == 0 || list[0].ID == standIn {
		return nil, store.ErrNotFound
	}
	return list[0], nil
}

// Clients lists all clients, sorted by the bytes of their ids. The database would sort by its locale.
func (s clients) Clients(ctx context.Context) ([]*store.Client, error) {
	list, err := askClients(ctx, s.db.text(selectClients+` WHERE c.id <> $1 ORDER BY c.id, s.number`), standIn)
	if err != nil {
		return nil, fmt.Errorf("listing clients: %w", err)
	}
	slices.SortFunc(list, func(a, b *store.Client) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

func askClients(ctx context.Context, q query, args ...any) (list []*store.Client, err error) {
	err = ask(ctx, q, args, func(rows *sql.Rows) error {
		list, err = scanClients(rows)
		return err
	})
	return list, err
}

// scanClients reads the rows of selectClients. The rows of one client are adjacent.
func scanClients(rows *sql.Rows) ([]*store.Client, error) {
	var list []*store.Client
	for rows.Next() {
		var secret storedSecret
		c, err := scanClient(behind{rows, secret.columns()})
		if err != nil {
			return nil, err
		}
		if last := len(list) - 1; last >= 0 && list[last].ID == c.ID {
			c = list[last]
		} else {
			list = append(list, c)
		}
		if err := secret.addTo(c); err != nil {
			return nil, err
		}
	}
	return list, rows.Err()
}

// Names returns the names of clients and users by their ids.
func (s clients) Names(ctx context.Context, ids []string) (map[string]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = possible(id)
	}
	those := ` WHERE id IN (` + placeholders(1, len(ids)) + `)`
	text := `SELECT id, members, email FROM users` + those + ` UNION ALL SELECT id, members, '' FROM clients` + those
	names := make(map[string]string, len(ids))
	_, err := askAll(ctx, s.db.text(text), args, func(row scanner) (struct{}, error) {
		var id, email string
		var members []byte
		var named struct {
			Name string `json:"name"`
		}
		err := row.Scan(&id, &members, &email)
		if err == nil {
			err = json.Unmarshal(members, &named)
		}
		if err == nil && id != standIn && id != standInUser {
			names[id] = cmp.Or(named.Name, email)
		}
		return struct{}{}, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading names: %w", err)
	}
	return names, nil
}

// clientColumns are in the order of scanClient.
const clientColumns = `id, members, disabled, origin, created_at, last_used_at`

// scanClient reads a row of clients, without secrets.
func scanClient(row scanner) (*store.Client, error) {
	var c store.Client
	var id string
	var members sql.RawBytes
	var created, lastUsed sql.Null[int64]
	if err := row.Scan(&id, &members, &c.Disabled, &c.Origin, &created, &lastUsed); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(members, &c); err != nil {
		return nil, fmt.Errorf("client %q is damaged: %w", id, err)
	}
	c.ID, c.CreatedAt, c.LastUsedAt = id, timeOf(created), timeOf(lastUsed)
	return &c, nil
}

// storedSecret is a row of client_secrets: digest, hash, created_at, expires_at. All are NULL for a client that is joined with no secret.
type storedSecret struct {
	digest, hash     sql.RawBytes
	created, expires sql.Null[int64]
}

func (s *storedSecret) columns() []any { return []any{&s.digest, &s.hash, &s.created, &s.expires} }

// addTo adds the secret to a client, if there is one.
func (s *storedSecret) addTo(c *store.Client) error {
	switch {
	case s.digest == nil:
		return nil
	case len(s.digest) != sha256.Size:
		return fmt.Errorf("client %q is damaged: a digest of %d bytes", c.ID, len(s.digest))
	}
	secret := store.ClientSecret{Digest: [sha256.Size]byte(s.digest), CreatedAt: timeOf(s.created), ExpiresAt: timeOf(s.expires)}
	if len(s.hash) > 0 {
		secret.Hash = oauth.NewSecret(string(s.hash))
	}
	c.Secrets = append(c.Secrets, secret)
	return nil
}

// AddClient registers a client. The id of a removed client stays taken as long as its tokens may live, because the next owner of the id
// would own them.
func (s clients) AddClient(ctx context.Context, client *store.Client) error {
	add, err := addingClient(client)
	if err != nil {
		return fmt.Errorf("adding client: %w", err)
	}
	return s.db.step(ctx, "adding client", add)
}

// addingClient returns the work of adding a client.
func addingClient(client *store.Client) (work, error) {
	members, err := membersOf(client)
	if err != nil {
		return nil, err
	}
	c, secrets := *client, slices.Clone(client.Secrets)
	return func(ctx context.Context, tx session) error {
		if err := takeSubject(ctx, tx, c.ID, "client", c.CreatedAt); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO clients (id, members, disabled, origin, created_at, last_used_at) VALUES ($1, $2, $3, $4, $5, $6)`,
			c.ID, members, c.Disabled, string(c.Origin), micros(c.CreatedAt), micros(c.LastUsedAt))
		if err != nil {
			return err
		}
		if err := addSecrets(ctx, tx, c.ID, secrets); err != nil {
			return err
		}
		return searchedClients.addTerms(ctx, tx, c.ID, clientTerms(&c))
	}, nil
}

// membersOf encodes a client's members for their column.
func membersOf(c *store.Client) (string, error) {
	members := *c
	members.ID = "" // it has a column of its own
	text, err := json.Marshal(&members)
	return string(text), err
}

// addSecrets stores the client's secrets. The caller holds the client's row.
func addSecrets(ctx context.Context, tx session, clientID string, secrets []store.ClientSecret) error {
	for i, secret := range secrets {
		_, err := tx.ExecContext(ctx,
			`INSERT INTO client_secrets (client_id, number, digest, hash, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6)`,
			clientID, i+1, secret.Digest[:], secret.Hash.Reveal(), micros(secret.CreatedAt), micros(secret.ExpiresAt))
		if err != nil {
			return err
		}
	}
	return nil
}

// CountClients counts the clients of an origin, without the stand-in.
func (s clients) CountClients(ctx context.Context, origin store.ClientOrigin) (n int, err error) {
	err = askOne(ctx, s.db.text(`SELECT COUNT(*) FROM clients WHERE origin = $1 AND id <> $2`), []any{string(origin), standIn}, &n)
	if err != nil {
		return 0, fmt.Errorf("counting clients: %w", err)
	}
	return n, nil
}

// RemoveClient deletes the client with its secrets and revokes its tokens. Its id stays taken for a while.
func (s clients) RemoveClient(ctx context.Context, clientID string, tokens store.Revocation) error {
	return s.db.announcedStep(ctx, "removing client", func(ctx context.Context, tx session) error {
		// Lock the client's row first: from here on no step adds a secret.
		if err := mustHit(tx.ExecContext(ctx, `UPDATE clients SET disabled = disabled WHERE id = $1`, clientID)); err != nil {
			return err
		}
		for _, statement := range []string{
			`DELETE FROM client_secrets WHERE client_id = $1`, `DELETE FROM client_terms WHERE client_id = $1`, `DELETE FROM clients WHERE id = $1`,
		} {
			if _, err := tx.ExecContext(ctx, statement, clientID); err != nil {
				return err
			}
		}
		if err := freeSubject(ctx, tx, clientID, tokens.FreeAt()); err != nil {
			return err
		}
		return s.db.record(ctx, tx, tokens)
	})
}

// ChangeClient makes the change and records its revocations.
func (s clients) ChangeClient(ctx context.Context, clientID string, change store.ClientChange) error {
	ends := slices.Clone(change.Ends)
	step := func(ctx context.Context, tx session) error {
		if err := changeClient(ctx, tx, clientID, change.Edit); err != nil || len(ends) == 0 {
			return err
		}
		return s.db.record(ctx, tx, ends...)
	}
	const name = "changing client"
	if len(ends) == 0 {
		return s.db.step(ctx, name, step)
	}
	return s.db.announcedStep(ctx, name, step)
}

func changeClient(ctx context.Context, tx session, clientID string, edit func(*store.Client) error) error {
	// This changes nothing but locks the client's row in every dialect, which serializes changes.
	if err := mustHit(tx.ExecContext(ctx, `UPDATE clients SET disabled = disabled WHERE id = $1`, possible(clientID))); err != nil {
		return err
	}
	c, err := clientIn(ctx, tx, clientID)
	if err != nil || edit == nil {
		return err
	}
	before, terms := slices.Clone(c.Secrets), clientTerms(c)
	if err := edit(c); err != nil {
		return editError{err}
	}
	members, err := membersOf(c)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE clients SET members = $1, disabled = $2, last_used_at = $3 WHERE id = $4`,
		members, c.Disabled, micros(c.LastUsedAt), clientID)
	if err == nil {
		err = searchedClients.changeTerms(ctx, tx, clientID, terms, clientTerms(c))
	}
	if err != nil || slices.EqualFunc(c.Secrets, before, store.ClientSecret.Equal) {
		return err
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM client_secrets WHERE client_id = $1`, clientID); err != nil {
		return err
	}
	return addSecrets(ctx, tx, clientID, c.Secrets)
}

// clientIn reads a client within a step.
func clientIn(ctx context.Context, tx session, clientID string) (*store.Client, error) {
	rows, err := tx.QueryContext(ctx, selectClients+` WHERE c.id = $1 ORDER BY s.number`, possible(clientID))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err returns the error
	list, err := scanClients(rows)
	if err != nil {
		return nil, err
	}
	if len(list) != 1 || list[0].ID != clientID { // the stand-in cannot be changed
		return nil, store.ErrNotFound
	}
	return list[0], nil
}
