package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// Backup writes a copy of the database, of one moment, into a new file that only its owner can read. The database may be in use
// meanwhile. A copy that fails half-way is removed.
func (d *Database) Backup(ctx context.Context, to string) (err error) {
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
	db, err := d.connect("")
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // it has only read
	if _, err := db.ExecContext(ctx, `VACUUM INTO $1`, to); err != nil {
		return Explain(err)
	}
	return errors.Join(file.Sync(), syncDirectory(filepath.Dir(to)))
}
