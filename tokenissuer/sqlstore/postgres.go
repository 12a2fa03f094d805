package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore/postgres"
)

const (
	// LeastPostgresPool is the smallest pool: one connection listens, and two run queries that no request waits for.
	LeastPostgresPool = reserved + 2
	reserved          = 3
	// queuedPerConnection is how many requests may wait or work per connection.
	queuedPerConnection = 64
)

// Timeouts that tests change.
var (
	serverTimeout = 5 * time.Second
	notifyTimeout = 2 * time.Second
	silence       = 20 * time.Second
)

// OpenPostgres opens a database of a PostgreSQL server, which any number of nodes share. At most pool connections are opened; 0 means 16.
func OpenPostgres(ctx context.Context, dsn oauth.Secret, pool int, options Options) (*Store, error) {
	fail := func(err error) (*Store, error) {
		return nil, fmt.Errorf("opening PostgreSQL database: %w", err)
	}
	server, err := postgres.New(dsn, postgres.Options{
		Warn: options.warn, ServerTimeout: serverTimeout, NotifyTimeout: notifyTimeout, Silence: silence,
	})
	if err != nil {
		return fail(err)
	}
	if pool == 0 {
		pool = 16
	}
	if pool < LeastPostgresPool {
		return fail(fmt.Errorf("a pool of %d connections is too small: use %d or more", pool, LeastPostgresPool))
	}
	q := &queue{room: int64(pool * queuedPerConnection), timeout: postgres.RequestTimeout}
	waiting := &queue{room: math.MaxInt64, timeout: postgres.BackgroundTimeout}
	requests, background := server.Requests(pool-reserved), server.Background(reserved-1)
	db := &database{
		write: requests, read: handle{db: requests, queue: q}, feed: handle{db: background, queue: waiting, remote: true}, options: options,
		dialect: dialect{
			goose: goose.DialectPostgres, erase: eraseNothing, shareLock: " FOR SHARE", server: server, notify: server.Notifier(background),
			backup:    noBackup("this store is backed up with the tools of its database, as with pg_dump"),
			newRunner: func(context.Context) (runner, error) { return newTransactions(requests, q), nil },
			dropSome:  `DELETE FROM %[1]s WHERE %[2]s < $1 AND ctid = ANY (ARRAY(SELECT ctid FROM %[1]s WHERE %[2]s < $1 ORDER BY %[2]s LIMIT $2))`,
			clock:     `SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)`,
			estimate:  `SELECT COALESCE(CAST(reltuples AS BIGINT), -1) FROM pg_class WHERE oid = to_regclass($1)`,
		},
	}
	if err := server.CheckVersion(ctx, background); err != nil {
		return fail(errors.Join(err, db.Close()))
	}
	s, err := open(ctx, db, db.migrate)
	if err != nil {
		return fail(err)
	}
	return s, nil
}

// eraseNothing does nothing. PostgreSQL overwrites nothing in place: VACUUM and the recycling of the write-ahead log remove old content.
// SQLite in memory has overwritten it already.
func eraseNothing(context.Context) error { return nil }

// Watch calls changed when another node may have recorded a revocation or changed a key, until ctx ends. Calls are hints: some may be
// lost or unnecessary, and a database without notifications makes none. Callers must therefore poll as well.
func (s *Store) Watch(ctx context.Context, changed func()) {
	if s.db.dialect.server != nil {
		s.db.dialect.server.Watch(ctx, changed)
	}
}
