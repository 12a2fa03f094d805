package sqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	importedColumns = `source, record, id, access_digest, refresh_digest, client_id, family_id, scopes, created_at, access_expires_at, expires_at`
	selectImported  = `SELECT ` + importedColumns + ` FROM imported_tokens`
	// rowsAtOnce is how many rows one INSERT has, and keysAtOnce how many keys another statement.
	rowsAtOnce = 25
	keysAtOnce = 100
	// endedAtOnce is how many stored tokens one step reads beside those of its batch: it must end in the time that a step has.
	endedAtOnce = 500
)

// lastRecord is behind every record.
var lastRecord = []byte{0xff}

// ImportTokens stores the tokens of a batch. It locks the rows of their users first, as a step that adds one family does.
func (s imports) ImportTokens(ctx context.Context, batch store.ImportBatch, end store.Ending) (store.ImportOutcome, error) {
	var outcome store.ImportOutcome
	err := s.db.announcedStep(ctx, "importing tokens", func(ctx context.Context, tx session) error {
		batch := batch
		outcome = store.ImportOutcome{}
		before, upto, err := s.importedBefore(ctx, tx, batch)
		if err != nil {
			return err
		}
		if outcome.DoneUpto = upto; upto != "" {
			later := slices.IndexFunc(batch.Tokens, func(t store.NewImport) bool { return t.Record > upto })
			if later >= 0 {
				batch.Tokens = batch.Tokens[:later]
			}
		}
		outcome.Tokens = make([]store.Outcome, len(batch.Tokens))
		versions, err := s.activeUsers(ctx, tx, batch)
		if err != nil {
			return err
		}
		var added []store.NewImport
		for i, t := range batch.Tokens {
			version, active := "", true
			if t.Family != nil && !batch.DryRun {
				version, active = versions[t.Family.User.ID]
			}
			_, known := before[t.Record]
			switch delete(before, t.Record); {
			case known:
				outcome.Tokens[i] = store.Replayed
				continue
			case !active:
				outcome.Tokens[i] = store.UserChanged
				continue
			}
			if outcome.Tokens[i] = store.Done; t.Family != nil {
				f := *t.Family
				f.User.Version = version
				t.Family = &f
			}
			added = append(added, t)
		}
		for _, record := range batch.Kept {
			delete(before, record)
		}
		maps.DeleteFunc(before, func(_ string, t *store.ImportedToken) bool {
			hasEnded := t.Access == [sha256.Size]byte{} && t.Refresh == [sha256.Size]byte{}
			return hasEnded || !t.KeptUntil.After(end.At)
		})
		if outcome.Ended = len(before); batch.DryRun {
			return nil
		}
		if err := s.insertImported(ctx, tx, batch.Source, added); isTwice(err) {
			return fmt.Errorf("%w: %w", errOvertaken, err) // another import has some of the rows
		} else if err != nil {
			return err
		}
		outcome.Revocations, err = s.endImported(ctx, tx, batch.Source, before, end)
		return err
	})
	if err != nil {
		return store.ImportOutcome{}, fmt.Errorf("importing tokens: %w", err)
	}
	return outcome, nil
}

// importedBefore returns the stored tokens of a batch's records. There may be any number between two rows of the source, so it reads only some
// more than the batch has. upto is then the last record that it has read, and otherwise empty.
func (s imports) importedBefore(ctx context.Context, tx session, batch store.ImportBatch) (before map[string]*store.ImportedToken, upto string, err error) {
	end := []byte(batch.Upto)
	if batch.Upto == "" {
		end = lastRecord
	}
	most := len(batch.Tokens) + len(batch.Kept) + endedAtOnce
	list, err := queryAll(ctx, tx, selectImported+` WHERE source = $1 AND record > $2 AND record <= $3 ORDER BY record LIMIT $4`,
		[]any{batch.Source, []byte(batch.After), end, most}, scanImported)
	if err != nil {
		return nil, "", err
	}
	if len(list) == most {
		upto = list[most-1].Record
	}
	before = make(map[string]*store.ImportedToken, len(list))
	for _, t := range list {
		before[t.Record] = t
	}
	return before, upto, nil
}

// activeUsers returns the versions of those users of a batch who came from its source, are active and not Apart, and locks their rows.
func (s imports) activeUsers(ctx context.Context, tx session, batch store.ImportBatch) (map[string]string, error) {
	versions := make(map[string]string)
	var ids []any
	for _, t := range batch.Tokens {
		if t.Family == nil || batch.DryRun {
			continue
		}
		if _, has := versions[t.Family.User.ID]; !has {
			versions[t.Family.User.ID] = ""
			ids = append(ids, possible(t.Family.User.ID))
		}
	}
	clear(versions)
	for keys := range slices.Chunk(ids, keysAtOnce) {
		args := append(padded(keys), batch.Source, string(store.ImportedUser))
		rows, err := queryAll(ctx, tx, selectOwners+s.db.dialect.shareLock, args, func(row scanner) (pair [2]string, err error) { return pair, row.Scan(&pair[0], &pair[1]) })
		if err != nil {
			return nil, err
		}
		for _, pair := range rows {
			versions[pair[0]] = pair[1]
		}
	}
	return versions, nil
}

// selectOwners reads who of some users are active, were made of records of a source, and are not Apart.
var selectOwners = fmt.Sprintf(`SELECT id, CAST(version AS TEXT) FROM users WHERE id IN (%s) AND `+isActive+` AND NOT apart AND EXISTS (
	SELECT 1 FROM import_states s WHERE s.source = $%d AND s.kind = $%d AND s.record = users.id AND s.added_at = users.created_at)`,
	placeholders(1, keysAtOnce), keysAtOnce+1, keysAtOnce+2)

// placeholders returns $first to $(first+n-1), separated by commas.
func placeholders(first, n int) string {
	var text strings.Builder
	for i := range n {
		_, _ = fmt.Fprintf(&text, ", $%d", first+i)
	}
	return text.String()[len(", "):]
}

// insertImported stores tokens with their families.
func (s imports) insertImported(ctx context.Context, tx session, source string, tokens []store.NewImport) error {
	var families, imported [][]any
	for _, t := range tokens {
		scopes, err := json.Marshal(t.Scopes)
		if err != nil {
			return err
		}
		if t.Family != nil {
			values, err := familyColumnValues(t.Family)
			if err != nil {
				return err
			}
			families = append(families, values)
		}
		imported = append(imported, []any{
			source, []byte(t.Record), t.ID, digestOrNull(t.Access), digestOrNull(t.Refresh), t.ClientID, t.FamilyID, string(scopes), micros(t.CreatedAt),
			micros(t.ExpiresAt), micros(t.KeptUntil),
		})
	}
	if err := s.insertRows(ctx, tx, intoFamilies, families); err != nil {
		return err
	}
	return s.insertRows(ctx, tx, intoImported, imported)
}

// The tables of insertRows.
const (
	intoFamilies = `INSERT INTO families (` + familyColumns + `)`
	intoImported = `INSERT INTO imported_tokens (` + importedColumns + `)`
)

// insertOne returns the statement that inserts one row of a table with that many columns.
func insertOne(into string, columns int) string {
	return into + ` VALUES (` + placeholders(1, columns) + `)`
}

// columnsIn returns the number of columns in a list.
func columnsIn(list string) int { return strings.Count(list, ",") + 1 }

// insertRows inserts rows of equal length: one by one where a statement costs nothing but its work, and else several with each.
func (s imports) insertRows(ctx context.Context, tx session, into string, rows [][]any) error {
	if one := s.db.prepared[into]; one != nil {
		statement := tx.prepared(ctx, one)
		for _, row := range rows {
			if _, err := statement.ExecContext(ctx, row...); err != nil {
				return err
			}
		}
		return nil
	}
	for len(rows) > 0 {
		n := min(len(rows), rowsAtOnce)
		var text strings.Builder
		var args []any
		for i, row := range rows[:n] {
			text.WriteString([]string{` VALUES (`, `), (`}[min(i, 1)])
			text.WriteString(placeholders(len(args)+1, len(row)))
			args = append(args, row...)
		}
		if _, err := tx.ExecContext(ctx, into+text.String()+`)`, args...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// endImported deletes the digests of tokens, and ends what belongs to them. The rows stay, so that no import brings the tokens back.
func (s imports) endImported(ctx context.Context, tx session, source string, tokens map[string]*store.ImportedToken, end store.Ending) ([]store.Revocation, error) {
	var ended []store.Revocation
	var records, families []any
	for _, record := range slices.Sorted(maps.Keys(tokens)) {
		t := tokens[record]
		if records = append(records, []byte(record)); t.FamilyID == "" {
			ended = append(ended, store.Revocation{Kind: store.RevokeToken, ID: t.ID, ExpiresAt: t.ExpiresAt.Add(store.RevocationMargin)})
		} else {
			families = append(families, t.FamilyID)
		}
	}
	for keys := range slices.Chunk(records, keysAtOnce) {
		if _, err := tx.ExecContext(ctx, forgetDigests, append(padded(keys), source)...); err != nil {
			return nil, err
		}
	}
	for keys := range slices.Chunk(families, keysAtOnce) {
		marked, err := queryAll(ctx, tx, revokeSome, append(padded(keys), micros(end.At)), scanEnded)
		if err != nil {
			return nil, err
		}
		for _, f := range marked {
			ended = append(ended, endOf(f, end))
		}
	}
	if len(ended) == 0 {
		return nil, nil
	}
	return ended, s.db.record(ctx, tx, ended...)
}

// The statements of endImported. No family of an imported token is a sign-in, so nothing else ends with one.
var (
	forgetDigests = fmt.Sprintf(`UPDATE imported_tokens SET access_digest = NULL, refresh_digest = NULL WHERE record IN (%s) AND source = $%d`,
		placeholders(1, keysAtOnce), keysAtOnce+1)
	revokeSome = fmt.Sprintf(revokeMatching, keysAtOnce+1, "id IN ("+placeholders(1, keysAtOnce)+")")
)

// padded repeats the first of some keys until there are keysAtOnce, so that there is one statement for any number.
func padded(keys []any) []any {
	all := slices.Clone(keys)
	for len(all) < keysAtOnce {
		all = append(all, keys[0])
	}
	return all
}

func digestOrNull(digest [sha256.Size]byte) []byte {
	if digest == ([sha256.Size]byte{}) {
		return nil
	}
	return digest[:]
}

// scanImported reads a row of selectImported.
func scanImported(row scanner) (*store.ImportedToken, error) {
	var t store.ImportedToken
	var record, access, refresh, scopes []byte
	var created, expires, kept sql.Null[int64]
	err := row.Scan(&t.Source, &record, &t.ID, &access, &refresh, &t.ClientID, &t.FamilyID, &scopes, &created, &expires, &kept)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(scopes, &t.Scopes); err != nil {
		return nil, fmt.Errorf("imported token %q is damaged: %w", t.ID, err)
	}
	t.Record = string(record)
	copy(t.Access[:], access)
	copy(t.Refresh[:], refresh)
	t.CreatedAt, t.ExpiresAt, t.KeptUntil = timeOf(created), timeOf(expires), timeOf(kept)
	return &t, nil
}

// Imported returns the token with a digest. The two halves of the query read one index each.
func (s imports) Imported(ctx context.Context, digest [sha256.Size]byte) (*store.ImportedToken, error) {
	list, err := askAll(ctx, s.db.text(selectImported+` WHERE access_digest = $1 UNION ALL `+selectImported+` WHERE refresh_digest = $1 LIMIT 2`), []any{digest[:]}, scanImported)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading imported token: %w", err)
	case len(list) != 1:
		return nil, store.ErrNotFound
	}
	return list[0], nil
}

// HasImported reports whether there is an imported token.
func (s imports) HasImported(ctx context.Context) (bool, error) {
	has, err := askFor(ctx, s.db.text(`SELECT EXISTS (SELECT 1 FROM imported_tokens)`), nil, func(row scanner) (has bool, err error) { return has, row.Scan(&has) })
	if err != nil {
		return false, fmt.Errorf("asking for imported tokens: %w", err)
	}
	return has, nil
}

// ImportStates returns the states of records.
func (s imports) ImportStates(ctx context.Context, source string, kind store.ImportKind, keys []string) (map[string]store.ImportState, error) {
	states := make(map[string]store.ImportState, len(keys))
	for len(keys) > 0 {
		args := []any{source, string(kind)}
		n := min(len(keys), keysAtOnce)
		for i := range keysAtOnce {
			args = append(args, possible(keys[min(i, n-1)]))
		}
		keys = keys[n:]
		err := ask(ctx, s.db.text(selectStates), args, func(rows *sql.Rows) error {
			for rows.Next() {
				var key string
				var said []byte
				var added sql.Null[int64]
				if err := rows.Scan(&key, &said, &added); err != nil {
					return err
				}
				states[key] = store.ImportState{Said: string(said), AddedAt: timeOf(added)}
			}
			return rows.Err()
		})
		if err != nil {
			return nil, fmt.Errorf("reading what was imported: %w", err)
		}
	}
	return states, nil
}

var selectStates = `SELECT record, said, added_at FROM import_states WHERE source = $1 AND kind = $2 AND record IN (` + placeholders(3, keysAtOnce) + `)`

// AddImportedUser adds a user, with what the source said.
func (s imports) AddImportedUser(ctx context.Context, source, said string, user *store.User, organisationDeclared bool) error {
	u := *user
	return s.db.step(ctx, "adding user", func(ctx context.Context, tx session) error {
		if err := addUser(ctx, tx, &u, organisationDeclared, nil); err != nil {
			return err
		}
		return addState(ctx, tx, store.ImportRecord{Source: source, Kind: store.ImportedUser, Key: u.ID}, said, u.CreatedAt)
	})
}

// AddImportedClient adds a client, with what the source said.
func (s imports) AddImportedClient(ctx context.Context, source, said string, client *store.Client) error {
	add, err := addingClient(client)
	if err != nil {
		return fmt.Errorf("adding client: %w", err)
	}
	record, at := store.ImportRecord{Source: source, Kind: store.ImportedClient, Key: client.ID}, client.CreatedAt
	return s.db.step(ctx, "adding client", func(ctx context.Context, tx session) error {
		if err := add(ctx, tx); err != nil {
			return err
		}
		return addState(ctx, tx, record, said, at)
	})
}

// addState stores what a source said about a record of which a user or client was made at that time.
func addState(ctx context.Context, tx session, r store.ImportRecord, said string, at time.Time) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO import_states (source, kind, record, said, added_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (source, kind, record) DO UPDATE SET said = excluded.said, added_at = excluded.added_at`, r.Source, string(r.Kind), r.Key, []byte(said), at.UnixMicro())
	return err
}

// PutImportState replaces what a source said about a record.
func (s imports) PutImportState(ctx context.Context, r store.ImportRecord, said string) error {
	return s.db.statement(ctx, "recording an import", func(ctx context.Context, tx session) error {
		_, err := tx.ExecContext(ctx, `UPDATE import_states SET said = $4 WHERE source = $1 AND kind = $2 AND record = $3`, r.Source, string(r.Kind), r.Key, []byte(said))
		return err
	})
}
