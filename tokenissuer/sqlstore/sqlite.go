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
	// lockTimeout is how long a step waits for another process. Tests change it.
	lockTimeout = 2 * time.Second
	// checkedAtOnce is the largest size in bytes of a file that is checked completely before it is used. In a larger file only keys,
	// clients and revocations are checked first. Tests change it.
	checkedAtOnce int64 = 64 << 20
)

// OpenSQLite opens the SQLite database in the file at path, and creates the file and its directory when they are missing. It refuses a
// file that is damaged, has a newer schema, or is accessible to others in a way that it cannot correct.
//
// Several processes may have one file open: a write waits up to two seconds for another process. The file must be on a local disk,
// because SQLite's locks do not work on network file systems.
func OpenSQLite(ctx context.Context, path string, options Options) (*Store, error) {
	fail := func(err error) (*Store, error) {
		return nil, fmt.Errorf("opening SQLite database %s: %w", path, sqlite.Explain(err))
	}
	database, err := sqlite.Open(ctx, path, sqlite.Options{
		Warn: options.warn, LockTimeout: lockTimeout, CheckedAtOnce: checkedAtOnce,
		LargeTables: []string{"families", "decided_requests", "users", "subjects", "consents", "attempts", "audit_events"},
	})
	if err != nil {
		return fail(err)
	}
	db := newSQLite(database, options, database.TruncateLog, database.Backup)
	s, err := open(ctx, db, db.migrate)
	if err != nil {
		return fail(err)
	}
	if !database.Checked {
		// Queries that meet the damage fail until a backup is restored.
		db.later(func(ctx context.Context) {
			if err := database.CheckAll(ctx); err != nil && ctx.Err() == nil {
				options.warn("%v", sqlite.Explain(err))
			}
		})
	}
	return s, nil
}

// OpenMemory opens a new SQLite database in memory. Only this Store can use it, and Close deletes it.
func OpenMemory(ctx context.Context, options Options) (*Store, error) {
	var s *Store
	database, err := sqlite.OpenMemory()
	if err == nil {
		db := newSQLite(database, options, eraseNothing, noBackup("the store does not last: there is nothing to back up"))
		s, err = open(ctx, db, func(ctx context.Context) error { return makeSchema(ctx, db.write) })
	}
	if err != nil {
		return nil, fmt.Errorf("opening SQLite database in memory: %w", err)
	}
	return s, nil
}

func newSQLite(file *sqlite.Database, options Options, erase func(context.Context) error, backup func(context.Context, string) error) *database {
	return &database{
		write: file.Write, read: handle{db: file.Read}, feed: handle{db: file.Read}, options: options,
		dialect: dialect{
			goose: goose.DialectSQLite3, erase: erase, backup: backup,
			newRunner: func(ctx context.Context) (runner, error) { return newGroupCommit(ctx, file, options) },
			dropSome:  `DELETE FROM %[1]s WHERE %[2]s < $1 AND rowid IN (SELECT rowid FROM %[1]s WHERE %[2]s < $1 ORDER BY %[2]s LIMIT $2)`,
		},
	}
}

// NoBackup is the reason why a store cannot be backed up.
type NoBackup string

// Error says why.
func (e NoBackup) Error() string { return string(e) }

// noBackup returns the backup function of a dialect that has none.
func noBackup(why NoBackup) func(context.Context, string) error {
	return func(context.Context, string) error { return why }
}

// Backup writes a consistent copy of the database into a new file that only its owner can read, while steps continue. Do not copy an
// SQLite file that is in use in any other way: the content of its log would be missing. The error is a NoBackup for a database of a
// server and for one in memory.
func (s *Store) Backup(ctx context.Context, path string) error {
	err := s.db.dialect.backup(ctx, path)
	if err != nil && !errors.As(err, new(NoBackup)) {
		return fmt.Errorf("writing a backup to %s: %w", path, err)
	}
	return err
}
