// Package manyrows fills the tables of a store, for tests and benchmarks of what grows with their rows.
package manyrows

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Database is the database of a store.
type Database struct {
	Writes interface {
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	}
	// PostgreSQL: it is not SQLite.
	PostgreSQL bool
}

func (d Database) run(tb testing.TB, statements ...string) {
	tb.Helper()
	for _, statement := range statements {
		if _, err := d.Writes.ExecContext(tb.Context(), statement); err != nil {
			tb.Fatalf("%s: %v", statement, err)
		}
	}
}

// bytes returns an expression for the bytes of a text.
func (d Database) bytes(text string) string {
	if d.PostgreSQL {
		return fmt.Sprintf(`convert_to(%s, 'UTF8')`, text)
	}
	return fmt.Sprintf(`CAST(%s AS BLOB)`, text)
}

// upTo begins a statement that selects from n(i), the numbers from 1.
func upTo(last int) string {
	return fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) `, last)
}

// Users adds users as an organisation has them, with the ids u1, u2 and so on: in ten organisations, in groups of 100, one in a hundred
// disabled, a third with an account at the provider corp, half with a second factor, one in a thousand invited.
func (d Database) Users(tb testing.TB, users int) {
	tb.Helper()
	numbers := upTo(users)
	statements := []string{
		`INSERT INTO subjects (id, kind) ` + numbers + `SELECT 'u' || i, 'user' FROM n`,
		`INSERT INTO users (id, email, status, organisation, members, email_verified_by, provider_groups, groups_by, external, service, password_hash,
			version, created_at, updated_at, password_scheme) ` + numbers + `SELECT 'u' || i, 'person' || i || '@example.com',
			CASE WHEN i % 100 = 0 THEN 'disabled' ELSE 'active' END, 'org' || (i % 10), '{"name":"Ada ' || i || '","role":"member","groups":["g' || (i / 100) || '"]}',
			'', '[]', '', FALSE, FALSE, CASE WHEN i % 1000 = 0 THEN '' ELSE 'x' END, 1, 0, NULL, '' FROM n`,
	}
	for _, text := range []string{
		`'tada ' || i`, `'tperson' || i || '@example.com'`, `'oorg' || (i % 10)`, `'gg' || (i / 100)`, `'rmember'`,
	} {
		statements = append(statements, `INSERT INTO user_terms (term, user_id) `+numbers+`SELECT `+d.bytes(text)+`, 'u' || i FROM n`)
	}
	d.run(tb, append(statements, `INSERT INTO user_terms (term, user_id) `+numbers+`SELECT `+d.bytes(`'sdisabled'`)+`, 'u' || i FROM n WHERE i % 100 = 0`,
		`INSERT INTO identities (provider, subject, user_id, declared_email, source, created, vouches) `+numbers+`SELECT 'corp', 's' || i, 'u' || i, '', '', FALSE, FALSE FROM n WHERE i % 3 = 0`,
		`INSERT INTO factors (id, user_id, declared_email, kind, name, data, credential) `+numbers+`SELECT 'f' || i, 'u' || i, '', 'totp', '', `+d.bytes(`''`)+`, '' FROM n WHERE i % 2 = 0`,
		`ANALYZE`)...)
}

// Clients adds confidential clients with the ids c1, c2 and so on: one in a hundred disabled, one in ten registered by itself.
func (d Database) Clients(tb testing.TB, clients int) {
	tb.Helper()
	numbers, digest := upTo(clients), `randomblob(32)`
	if d.PostgreSQL {
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
		statements = append(statements, `INSERT INTO client_terms (term, client_id) `+numbers+`SELECT `+d.bytes(text)+`, 'c' || i FROM n`)
	}
	d.run(tb, append(statements, `INSERT INTO client_terms (term, client_id) `+numbers+`SELECT `+d.bytes(`'sdisabled'`)+`, 'c' || i FROM n WHERE i % 100 = 0`, `ANALYZE`)...)
}

// AuditEvents adds events over the thirty days after start, as a busy site has them: a thousand users, few hosts and reasons, the three
// messages in turns and now and then "rare", about 400 bytes each.
func (d Database) AuditEvents(tb testing.TB, events int, start time.Time, messages [3]string) {
	tb.Helper()
	const batch = 100_000
	apart := 30 * 24 * time.Hour.Microseconds() / int64(events)
	for from := 0; from < events; from += batch {
		d.run(tb, upTo(min(batch, events-from))+fmt.Sprintf(`INSERT INTO audit_events (at, id, event, user_id, client_id, reason, host, data)
			SELECT CAST(%d AS BIGINT) + (i + %d) * CAST(%d AS BIGINT), i,
			CASE WHEN (i + %d) %% 50000 = 0 THEN 'rare' WHEN i %% 3 = 0 THEN '%s' WHEN i %% 3 = 1 THEN '%s' ELSE '%s' END,
			CASE WHEN i %% 2 = 0 THEN 'u-' || CAST((i * 7919) %% 1000 AS TEXT) END, 'app-' || CAST(i %% 20 AS TEXT),
			CASE WHEN i %% 4 = 0 THEN 'reason 0' WHEN i %% 4 = 1 THEN 'reason 1' END, 'host-' || CAST(i %% 2 AS TEXT) || '.example',
			'{"address":"192.0.2.1","host":"host.example","level":"info","method":"GET","msg":"request refused at the gate","path":"/orders/%s"}' FROM n`,
			start.UnixMicro(), from, apart, from, messages[0], messages[1], messages[2], strings.Repeat("x", 250)))
	}
	if d.PostgreSQL {
		d.run(tb, `ANALYZE audit_events`)
	}
}
