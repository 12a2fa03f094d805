package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

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

// backupSQLite copies the database in the file at from. A copy that fails half-way is taken away again.
func backupSQLite(ctx context.Context, from, to string) (err error) {
	if !filepath.IsAbs(to) {
		return errors.New("the path must be absolute")
	}
	// SQLite would make the file readable to whomever the umask lets. It takes an empty one.
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, file.Close())
		if err != nil {
			_ = os.Remove(to) // the error says what matters
		}
	}()
	db, err := sql.Open("sqlite", dsn(from, ""))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // it has only read
	if _, err := db.ExecContext(ctx, `VACUUM INTO $1`, to); err != nil {
		return explainSQLite(err)
	}
	return errors.Join(file.Sync(), syncDirectory(filepath.Dir(to)))
}
