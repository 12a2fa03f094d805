package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// Backup writes a consistent copy of the database into a new file that only its owner can read. The database may be in use. An incomplete
// copy is removed.
func (d *Database) Backup(ctx context.Context, to string) (err error) {
	if !filepath.IsAbs(to) {
		return errors.New("the path must be absolute")
	}
	// SQLite would create the file with the mode that the umask allows. It accepts an empty file.
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, file.Close())
		if err != nil {
			_ = os.Remove(to) // the error that is returned matters more
		}
	}()
	db, err := d.connect("")
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // it was only read
	if _, err := db.ExecContext(ctx, `VACUUM INTO $1`, to); err != nil {
		return Explain(err)
	}
	return errors.Join(file.Sync(), syncDirectory(filepath.Dir(to)))
}
