package sqlite

import (
	"context"
	"errors"
	"time"
)

// errLogInUse: another connection reads an older state, or writes.
var errLogInUse = errors.New("the write-ahead log is in use")

// lockPoll is how often a writer asks whether another process's has ended. SQLite's own waiting sleeps a tenth of a second between
// two queries in the end, and a process that commits without a pause is hardly ever met in that way.
const lockPoll = time.Millisecond

// AwaitLock tries something until no other process is in its way, or the lock timeout or stop ends it.
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

// TruncateLog moves the write-ahead log into the database and empties it, so that no older state of a page is left.
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
