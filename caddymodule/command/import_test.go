package command

import (
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
)

// TestDK40AnImportThatStoodStill: the last answer to an import is older than its lease → it sends nothing more, because another may have begun.
func TestDK40AnImportThatStoodStill(t *testing.T) {
	last := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m := doorkeeperImport{answered: last, now: func() time.Time { return last.Add(admin.ImportLease + time.Second) }}
	if err := m.call(admin.ImportTokens.For(), nil, nil); err == nil || !strings.Contains(err.Error(), "stood still") {
		t.Errorf("it goes on: %v", err)
	}
}
