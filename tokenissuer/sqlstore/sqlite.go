package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore/sqlite"
)

var (
	// lockTimeout is how long a step waits for another process's. Tests change it.
	lockTimeout = 2 * time.Second
	// checkedAtOnce is how large a file may be, in bytes, that is looked at from one end to the other before anybody is served. Keys,
	// clients and revocations are looked at in any case. Tests change it.
	checkedAtOnce int64 = 64 << 20
)

// OpenSQLite opens the SQLite database in the file at path, and creates file and directory when they are missing. It
// refuses a file that is damaged, of a newer schema, or open to others in a way that it cannot put right.
//
// Several processes may have one file open: a write waits up to two seconds for another process's. The file must lie
// on a local disk, because SQLite's locks do not hold on network file systems.
func OpenSQLite(ctx context.Context, path string, options Options) (*Store, error) {
	fail := func(err error) (*Store, error) {
		return nil, fmt.Errorf("opening SQLite database %s: %w", path, sqlite.Explain(err))
	}
	database, err := sqlite.Open(ctx, path, sqlite.Options{
		Warn: options.warn, LockTimeout: lockTimeout, CheckedAtOnce: checkedAtOnce,
		LargeTables: []string{"families", "decided_requests", "users", "subjects", "consents", "attempts"},
	})
	if err != nil {
		return fail(err)
	}
	s, err := open(ctx, &Store{
		write: database.Write, read: handle{db: database.Read}, feed: handle{db: database.Read}, options: options,
		dialect: dialect{
			goose: goose.DialectSQLite3, erase: database.TruncateLog, backup: database.Backup,
			newRunner: func(ctx context.Context) (runner, error) { return newGroupCommit(ctx, database, options) },
			place:     "rowid", placeAmong: "rowid IN (%s)",
		},
	})
	if err != nil {
		return fail(err)
	}
	if !database.Checked {
		// Queries that meet the damage fail until a backup is restored.
		s.later(func(ctx context.Context) {
			if err := database.CheckAll(ctx); err != nil && ctx.Err() == nil {
				options.warn("%v", sqlite.Explain(err))
			}
		})
	}
	return s, nil
}

// ErrNoBackup is returned where the database's own tools make backups.
var ErrNoBackup = errors.New("this store is backed up with the tools of its database, as with pg_dump")

// Backup writes a copy of the database, of one moment, into a new file that only its owner can read. Steps go on
// meanwhile. An SQLite file must not be copied while it is in use in any other way: what is in its log would be missing.
// ErrNoBackup in a database of a server.
func (s *Store) Backup(ctx context.Context, path string) error {
	if s.dialect.backup == nil {
		return ErrNoBackup
	}
	if err := s.dialect.backup(ctx, path); err != nil {
		return fmt.Errorf("writing a backup to %s: %w", path, err)
	}
	return nil
}
