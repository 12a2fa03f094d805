package seed

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const day = 24 * time.Hour

// users returns how many users the rows have.
func (p Plan) users() int { return max(p.Families/familiesOfUser, 1) }

// people adds the users of the rows, and their organisations.
func (p Plan) people(ctx context.Context, db *sql.DB) error {
	last := p.users() - 1
	now := time.Now().UnixMicro()
	if err := p.run(ctx, db, `INSERT INTO organisations (id, name, created_at)
		SELECT 'seed-org-' || i, 'Organisation ' || i, CAST($3 AS BIGINT) FROM SERIES AS n`, 0, last/usersOfOrganisation, now); err != nil {
		return err
	}
	if err := p.run(ctx, db, `INSERT INTO subjects (id, kind) SELECT 'seed-user-' || i, 'user' FROM SERIES AS n`, 0, last); err != nil {
		return err
	}
	return p.run(ctx, db, `INSERT INTO users (id, email, email_verified_by, members, organisation, provider_groups, groups_by, status, external,
			service, password_hash, password_scheme, version, created_at)
		SELECT 'seed-user-' || i, 'user' || i || '@seed.example', '', '{"name":"User ' || i || '","role":"member"}',
			'seed-org-' || (i / CAST($3 AS BIGINT)), '[]', '', 'active', FALSE, FALSE, $4, $5, 1, CAST($6 AS BIGINT)
		FROM SERIES AS n`, 0, last, usersOfOrganisation, passwordHash, passwords.SchemeOf(oauth.NewSecret(passwordHash)), now)
}

// families adds a chunk of families in the order of their ids, which an index inserts fastest. Every fifth belongs to
// a browser; the others belong to applications that have refreshed up to now.
func (p Plan) families(ctx context.Context, db *sql.DB, chunk int) error {
	from, to := p.Families*chunk/chunks, p.Families*(chunk+1)/chunks-1
	if to < from {
		return nil
	}
	now := time.Now()
	return p.run(ctx, db, `INSERT INTO families (id, user_id, user_version, user_declared, client_id, origin, provider, proof, session_id, scopes, claims, audience,
			actor_subject, actor_client_id, note, auth_time, created_at, expires_at, revoked_at, code_request_id, code_redirect_uri, code_challenge,
			code_nonce, code_refreshable, code_expires_at, code_spent_at, code_failures, generation, rotated_at, rotated_by, has_code, token_lifetime)
		SELECT id, 'seed-user-' || (i % CAST($3 AS BIGINT)), '1', FALSE,
			CASE WHEN i % 5 = 0 THEN 'gatehouse' ELSE $4 END, CASE WHEN i % 5 = 0 THEN 'session' ELSE 'authorization_code' END,
			'', '', '', '["public"]', '', '', '', '', CASE WHEN i % 5 = 0 THEN 'Firefox on Linux' ELSE '' END,
			CAST($5 AS BIGINT) - age, CAST($5 AS BIGINT) - age, CAST($5 AS BIGINT) - age + CAST($6 AS BIGINT), NULL,
			id, CASE WHEN i % 5 = 0 THEN '' ELSE $7 END, CASE WHEN i % 5 = 0 THEN '' ELSE 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM' END,
			'', i % 5 <> 0, CASE WHEN i % 5 = 0 THEN NULL ELSE CAST($5 AS BIGINT) - age + 60000000 END,
			CASE WHEN i % 5 = 0 THEN NULL ELSE CAST($5 AS BIGINT) - age + 1000000 END,
			0, 1 + i % 20, CAST($5 AS BIGINT) - age / 3, '', TRUE, 21600000000
		FROM (SELECT i, RANDOM AS id, (i * 7919) % 2592000 * CAST(1000000 AS BIGINT) AS age FROM SERIES AS n) AS r ORDER BY id`,
		from, to, p.users(), p.ClientID, now.UnixMicro(), (90 * day).Microseconds(), RedirectURI)
}

// finish adds the revocations. Then it checkpoints the write-ahead log of SQLite, or runs VACUUM ANALYZE on PostgreSQL.
func (p Plan) finish(ctx context.Context, db *sql.DB) error {
	if p.Revocations > 0 {
		if err := p.run(ctx, db, `INSERT INTO revocations (kind, id, issued_until, expires_at, position)
			SELECT 'family', RANDOM, NULL, CAST($3 AS BIGINT), i FROM SERIES AS n`, 1, p.Revocations, time.Now().Add(30*day).UnixMicro()); err != nil {
			return err
		}
		if err := p.run(ctx, db, `UPDATE counters SET position = $1 WHERE name = 'revocations' AND position < $1`, p.Revocations); err != nil {
			return err
		}
	}
	if p.DSN == "" {
		return p.run(ctx, db, `PRAGMA wal_checkpoint(TRUNCATE)`)
	}
	return p.run(ctx, db, `VACUUM ANALYZE`)
}

// Backlog makes that many of the families expire long ago, for housekeeping to drop.
func Backlog(ctx context.Context, d Database, families int) error {
	db, err := d.openBulk(ctx)
	if err != nil {
		return err
	}
	long := time.Now().Add(-3 * store.MaxLifetime).UnixMicro()
	err = d.run(ctx, db, `UPDATE families SET expires_at = $1
		WHERE id IN (SELECT id FROM families WHERE user_id LIKE 'seed-user-%' ORDER BY id LIMIT $2)`, long, families)
	return errors.Join(err, db.Close())
}
