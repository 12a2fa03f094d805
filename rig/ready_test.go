//go:build linux && failpoint

package rig

import (
	"os"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/machine"
)

// TestCrashReadyWithManyFamilies measures how long a killed node takes until it serves again, on a database of a given size: row 2 of the
// reliability targets names a million and a second. CRASH_ROWS is the number of families.
func TestCrashReadyWithManyFamilies(t *testing.T) {
	const bound = time.Second
	rows := 20000
	if text := os.Getenv("CRASH_ROWS"); text != "" {
		rows = int(number(t, "CRASH_ROWS", text))
	}
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			s := store.open(t)
			s.node.Restart()
			s.haveTokens()
			s.multiply(rows, "many", "expires_at")
			var times []time.Duration
			for range 5 {
				s.node.Kill()
				took := s.node.Restart()
				times = append(times, took)
				if machine.Fair(took) > bound {
					t.Errorf("it took %v", took)
				}
				s.mustRefresh()
			}
			t.Logf("%d families: serving after exec %s", rows, quantiles(times))
		})
	}
}
