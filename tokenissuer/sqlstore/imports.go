package sqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	importedColumns = `source, record, id, access_digest, refresh_digest, client_id, family_id, scopes, created_at, access_expires_at, expires_at`
	selectImported  = `SELECT ` + importedColumns + ` FROM imported_tokens`
	// rowsAtOnce is how many rows one INSERT has, and how many keys one SELECT.
	rowsAtOnce = 25
)

// lastRecord is behind every record.
var lastRecord = []byte{0xff}

// ImportTokens stores the tokens of a batch. It locks the rows of their users first, as a step that adds one family does.
func (s imports) ImportTokens(ctx context.Context, batch store.ImportBatch, end store.Ending) (store.ImportOutcome, error) {
	var outcome store.ImportOutcome
	err := s.db.announcedStep(ctx, "importing tokens", func(ctx context.Context, tx session) error {
		outcome = store.ImportOutcome{Tokens: make([]store.Outcome, len(batch.Tokens))}
		before, err := s.importedBefore(ctx, tx, batch)
		if err != nil {
			return err
		}
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
			delete(before, t.Record)
			switch {
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
		for record, t := range before {
			if !t.KeptUntil.After(end.At) {
				delete(before, record)
			}
		}
		if outcome.Ended = len(before); batch.DryRun {
			return nil
		}
		if err := s.insertImported(ctx, tx, batch.Source, added); err != nil {
			return err
		}
		outcome.Revocations, err = s.endImported(ctx, tx, before, end)
		return err
	})
	if err != nil {
		return store.ImportOutcome{}, fmt.Errorf("importing tokens: %w", err)
	}
	return outcome, nil
}

// importedBefore returns the stored tokens of a batch's records.
func (s imports) importedBefore(ctx context.Context, tx session, batch store.ImportBatch) (map[string]*store.ImportedToken, error) {
	upto := []byte(batch.Upto)
	if batch.Upto == "" {
		upto = lastRecord
	}
	list, err := queryAll(ctx, tx, selectImported+` WHERE source = $1 AND record > $2 AND record <= $3`, []any{batch.Source, []byte(batch.After), upto}, scanImported)
	before := make(map[string]*store.ImportedToken, len(list))
	for _, t := range list {
		before[t.Record] = t
	}
	return before, err
}

// activeUsers returns the versions of those users of a batch who are stored and active, and locks their rows.
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
	for len(ids) > 0 {
		var some [rowsAtOnce]any // padded, so that there is one statement
		n := copy(some[:], ids)
		for i := n; i < len(some); i++ {
			some[i] = some[0]
		}
		ids = ids[n:]
		rows, err := queryAll(ctx, tx, `SELECT id, CAST(version AS TEXT) FROM users WHERE id IN (`+placeholders(1, rowsAtOnce)+`) AND `+isActive+
			s.db.dialect.shareLock, some[:], func(row scanner) (pair [2]string, err error) { return pair, row.Scan(&pair[0], &pair[1]) })
		if err != nil {
			return nil, err
		}
		for _, pair := range rows {
			versions[pair[0]] = pair[1]
		}
	}
	return versions, nil
}

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

// endImported deletes tokens and ends what belongs to them.
func (s imports) endImported(ctx context.Context, tx session, tokens map[string]*store.ImportedToken, end store.Ending) ([]store.Revocation, error) {
	var ended []store.Revocation
	var filters []store.FamilyFilter
	for _, t := range tokens {
		if _, err := tx.ExecContext(ctx, `DELETE FROM imported_tokens WHERE source = $1 AND record = $2`, t.Source, []byte(t.Record)); err != nil {
			return nil, err
		}
		if t.FamilyID == "" {
			ended = append(ended, store.Revocation{Kind: store.RevokeToken, ID: t.ID, ExpiresAt: t.KeptUntil.Add(store.RevocationMargin)})
		} else {
			filters = append(filters, store.FamilyFilter{ID: t.FamilyID})
		}
	}
	return s.db.endFamilies(ctx, tx, end, ended, filters...)
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

// ImportedAccess returns the token with a digest of the access token.
func (s imports) ImportedAccess(ctx context.Context, digest [sha256.Size]byte) (*store.ImportedToken, error) {
	return s.imported(ctx, ` WHERE access_digest = $1`, digest)
}

// ImportedRefresh returns the token with a digest of the refresh token.
func (s imports) ImportedRefresh(ctx context.Context, digest [sha256.Size]byte) (*store.ImportedToken, error) {
	return s.imported(ctx, ` WHERE refresh_digest = $1`, digest)
}

func (s imports) imported(ctx context.Context, where string, digest [sha256.Size]byte) (*store.ImportedToken, error) {
	list, err := askAll(ctx, s.db.text(selectImported+where+` LIMIT 2`), []any{digest[:]}, scanImported)
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
func (s imports) ImportStates(ctx context.Context, source, kind string, records []string) (map[string]string, error) {
	states := make(map[string]string, len(records))
	for len(records) > 0 {
		args := []any{source, kind}
		n := min(len(records), rowsAtOnce)
		for i := range rowsAtOnce {
			args = append(args, possible(records[min(i, n-1)]))
		}
		records = records[n:]
		list, err := askAll(ctx, s.db.text(`SELECT record, state FROM import_states WHERE source = $1 AND kind = $2 AND record IN (`+placeholders(3, rowsAtOnce)+`)`), args,
			func(row scanner) (pair [2]string, err error) {
				var state []byte
				err = row.Scan(&pair[0], &state)
				pair[1] = string(state)
				return pair, err
			})
		if err != nil {
			return nil, fmt.Errorf("reading what was imported: %w", err)
		}
		for _, pair := range list {
			states[pair[0]] = pair[1]
		}
	}
	return states, nil
}

// PutImportState replaces the state of a record.
func (s imports) PutImportState(ctx context.Context, source, kind, record, state string) error {
	return s.db.statement(ctx, "recording an import", func(ctx context.Context, tx session) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO import_states (source, kind, record, state) VALUES ($1, $2, $3, $4)
			ON CONFLICT (source, kind, record) DO UPDATE SET state = excluded.state`, source, kind, record, []byte(state))
		return err
	})
}
