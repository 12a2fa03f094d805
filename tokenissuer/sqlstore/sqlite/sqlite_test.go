package sqlite

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestAwaitLockAsksOften: another process that commits without a pause releases the lock for some microseconds between two commits.
// SQLite's own wait, with ten attempts a second, seldom succeeds then.
func TestAwaitLockAsksOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Database{lockTimeout: 2 * time.Second}
		tries, start := 0, time.Now()
		locked := func() error { tries++; return errLogInUse }
		if err := d.AwaitLock(nil, locked); !errors.Is(err, errLogInUse) || tries < 1000 || time.Since(start) != d.lockTimeout {
			t.Errorf("after %d tries in %v got %v", tries, time.Since(start), err)
		}
		tries = 0
		if err := d.AwaitLock(nil, func() error {
			if tries == 3 {
				return nil
			}
			return locked()
		}); err != nil || tries != 3 {
			t.Errorf("after %d tries got %v", tries, err)
		}
		tries = 0
		stop := make(chan struct{})
		close(stop)
		if err := d.AwaitLock(stop, locked); !errors.Is(err, errLogInUse) || tries != 1 {
			t.Errorf("stopped, after %d tries got %v", tries, err)
		}
		tries = 0
		broken := errors.New("broken")
		if err := d.AwaitLock(nil, func() error { tries++; return broken }); !errors.Is(err, broken) || tries != 1 {
			t.Errorf("another failure was tried %d times and gave %v", tries, err)
		}
	})
}
