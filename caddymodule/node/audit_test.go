package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/auditlog"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// auditEvents returns the kept events, newest first.
func (n *Node) auditEvents(t *testing.T) []store.AuditEvent {
	t.Helper()
	events, next, err := n.Store().Audit.AuditEvents(t.Context(), store.AuditFilter{}, store.AuditKey{}, 5000)
	if err != nil || !next.IsZero() {
		t.Fatalf("%d events, and more: %v, %v", len(events), !next.IsZero(), err)
	}
	return events
}

// fillAudit adds an event for each hour of the past.
func (n *Node) fillAudit(t *testing.T, hours int) {
	t.Helper()
	for hour := range hours {
		at := n.StoreTime().Add(-time.Duration(hour)*time.Hour - time.Minute)
		e := store.AuditEvent{Key: store.AuditKey{At: at, ID: 1}, Event: fmt.Sprint(hour), Data: "{}"}
		if err := n.Store().Audit.AddAuditEvents(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
}

// TestX40HowLongEventsAreKept: audit events beyond `keep`, or more than `max_events` → the oldest are dropped by the housekeeper, and the others
// stay; a clock that is set back drops nothing; without `audit` → they go after thirty days.
func TestX40HowLongEventsAreKept(t *testing.T) {
	const hours = 1000
	for name, test := range map[string]struct {
		retention auditlog.Retention
		left      int
	}{
		"by age":    {auditlog.Retention{Keep: 100 * time.Hour, MaxEvents: 500}, 100},
		"by number": {auditlog.Retention{Keep: 900 * time.Hour, MaxEvents: 300}, 300},
		"all":       {auditlog.Retention{Keep: 2000 * time.Hour, MaxEvents: 1000}, hours},
		"left over": {auditlog.Retention{}, 30 * 24},
	} {
		t.Run(name, func(t *testing.T) {
			c := setClock(t)
			settings := inMemory
			settings.Audit = test.retention
			n := kept(t, settings)
			n.fillAudit(t, hours)
			c.advance(sizesInterval) // after the first round
			c.advance(-sizesInterval - 48*time.Hour)
			n.keepHouse(t)
			if left := n.auditEvents(t); len(left) < test.left {
				t.Errorf("with a clock that was set back %d are left, want at least %d", len(left), test.left)
			}
			c.advance(48 * time.Hour)
			for range 2 { // the clocks are compared
				c.advance(sizesInterval)
				n.keepHouse(t)
				c.advance(-sizesInterval)
			}
			left := n.auditEvents(t)
			if len(left) < test.left-1 || len(left) > test.left+1 || left[0].Event != "0" {
				t.Errorf("%d are left, the newest is %s; want %d", len(left), left[0].Event, test.left)
			}
			if rows, err := n.CountRows(t.Context()); err != nil || rows["audit_events"] != int64(len(left)) {
				t.Errorf("%d are counted, %v", rows["audit_events"], err)
			}
		})
	}
}

// TestX41LinesOfTheNode: a line about a stored key, which no request writes → it is kept as well; what waits when the node ends is kept.
func TestX41LinesOfTheNode(t *testing.T) {
	settings := onDisk(t)
	settings.Audit = auditlog.Retention{Keep: time.Hour, MaxEvents: 1000}
	n := prepared(t, settings)
	n.Audit.Logger().Named("audit").Warn("before the node is open")
	if err := n.Open(); err != nil {
		t.Fatal(err)
	}
	n.keyring.warnOfKey(fmt.Errorf("key k: %w", keys.ErrRefused))
	if err := n.Destruct(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range opened(t, settings).auditEvents(t) {
		got = append(got, e.Event)
	}
	if text := strings.Join(got, ", "); text != "stored signing key refused, before the node is open" {
		t.Errorf("kept is %s", text)
	}
}

// TestX42AKilledNode: another node opens the store of a node that has said nothing of its end → every event that was written is there, and at
// most those of the queue are missing.
func TestX42AKilledNode(t *testing.T) {
	settings := onDisk(t)
	settings.Audit = auditlog.Retention{Keep: time.Hour, MaxEvents: 1000}
	n := opened(t, settings)
	audit := n.Audit.Logger().Named("audit")
	const lines = 100
	for range lines {
		audit.Info("signed in")
	}
	for deadline := time.Now().Add(patience); len(n.auditEvents(t)) < lines; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the events are not written")
		}
	}
	other := opened(t, settings) // n is still there, and closes nothing
	seen := map[store.AuditKey]bool{}
	for _, e := range other.auditEvents(t) {
		seen[e.Key] = true
	}
	if len(seen) != lines {
		t.Errorf("the other node finds %d events of %d", len(seen), lines)
	}
}
