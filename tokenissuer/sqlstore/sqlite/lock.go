package sqlite

import (
	"context"
	"errors"
	"time"
)

// errLogInUse: another connection reads an older snapshot, or writes.
var errLogInUse = errors.New("the write-ahead log is in use")

// lockPoll is how often a writer checks whether another process has finished. SQLite's own wait eventually sleeps a tenth of a second
// between checks, and then rarely gets the lock from a process that commits without a pause.
const lockPoll = time.Millisecond

// AwaitLock calls try until no other process blocks it, or until the lock timeout or stop ends the wait.
func (d *Database) AwaitLock(stop <-chan struct{}, try func() error) error {
	for end := time.Now().Add(d.lockTimeout); ; {
		err := try()
		if !isBusy(err) || !time.Now().Before(end) {
			return err
		}
		select {
		case <-stop:
			return err
		case <-time.After(lockPoll):
		}
	}
}

// TruncateLog moves the write-ahead log into the database and empties it, which removes older versions of pages.
func (d *Database) TruncateLog(ctx context.Context) error {
	var busy, logged, moved int
	return d.AwaitLock(ctx.Done(), func() error {
		err := d.Write.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &logged, &moved)
		if err == nil && busy != 0 {
			err = errLogInUse
		}
		return err
	})
}
