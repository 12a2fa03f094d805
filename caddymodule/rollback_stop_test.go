package caddymodule

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestK11RevokedJustBeforeAStop: a revocation just before an orderly stop, then a backup from before it → noticed, because the stop writes
// the marker.
func TestK11RevokedJustBeforeAStop(t *testing.T) {
	g := startGatehouse(t, durableSite)
	good, revoked := g.token(), g.token()
	g.must(204, "POST", "/oauth/revocations", `{"client":"somebody"}`)
	g.marked() // not written again for a second
	backup := g.vars.Replace("DIR/state/backup.db")
	g.must(204, "POST", "/oauth/backup", `{"path":"`+backup+`"}`)
	g.must(204, "POST", "/oauth/revocations", `{"jti":"`+decodedID(t, g, revoked)+`"}`)
	g.stop()
	check(t, os.Rename(backup, g.database()))
	g.reload(durableSite)
	if n := strings.Count(g.logs(), putBackLine); n != 1 {
		t.Errorf("the log tells of it %d times", n)
	}
	if a, b := g.gate(revoked), g.gate(good); a != 401 || b != 401 {
		t.Errorf("the gate answers %d to the revoked token and %d to another of its key", a, b)
	}
}

// TestK11RevokedWhileItStops: a revocation while the node closes → it is in the marker.
func TestK11RevokedWhileItStops(t *testing.T) {
	g := startGatehouse(t, durableSite)
	g.marked()
	e := g.app().node
	if !e.Life.Enter() {
		t.Fatal("it lets nobody in")
	}
	check(t, e.Destruct())
	check(t, e.Store().Revoke(t.Context(), store.Revocation{Kind: store.RevokeToken, ID: "late", ExpiresAt: time.Now().Add(time.Hour)}))
	now := g.progress()
	e.Life.Leave()
	g.eventually("the marker has it", func() bool { return isMarked(now) })
}

// TestK4EmptiedDatabase: a database file that was emptied → neither a start nor `migrate` touches it, and the error says why.
func TestK4EmptiedDatabase(t *testing.T) {
	g := startGatehouse(t, durableSite)
	g.marked()
	token := g.token()
	g.stop()
	content := readFile(t, g.database())
	check(t, os.Truncate(g.database(), 0))
	if err := g.tryReload(durableSite); err == nil || !strings.Contains(err.Error(), "is empty, and marker-") {
		t.Errorf("a start: %v", err)
	}
	if err := node.Migrate(node.Settings{Store: node.SQLite, Path: g.database()}); err == nil || !strings.Contains(err.Error(), "is empty, and marker-") {
		t.Errorf("migrating: %v", err)
	}
	if info, err := os.Stat(g.database()); err != nil || info.Size() != 0 {
		t.Errorf("the file was touched: %v", err)
	}
	check(t, os.WriteFile(g.database(), []byte(content), 0o600))
	g.reload(durableSite)
	if status := g.gate(token); status != 200 {
		t.Errorf("put back, the gate answers %d", status)
	}
	g.stop()
	check(t, os.Remove(g.database()))
	g.reload(durableSite)
	if status := g.gate(token); status != 401 {
		t.Errorf("removed, the gate answers %d", status)
	}
	g.marked()
}

// TestK4EmptyDatabaseOfAFirstStart: an empty file that a first start has left, and no marker → the start succeeds.
func TestK4EmptyDatabaseOfAFirstStart(t *testing.T) {
	g := startGatehouse(t, durableSite)
	g.stop()
	for _, file := range append(markers(t), g.database()) {
		check(t, os.Remove(file))
	}
	check(t, os.WriteFile(g.database(), nil, 0o600))
	g.reload(durableSite)
	if status := g.gate(g.token()); status != 200 {
		t.Errorf("the gate answers %d", status)
	}
}

// TestK4EmptyDatabaseBesideAnothersMarker: an empty database beside the marker of another → the start succeeds.
func TestK4EmptyDatabaseBesideAnothersMarker(t *testing.T) {
	g := startGatehouse(t, durableSite)
	g.marked()
	g.stop()
	check(t, os.WriteFile(g.vars.Replace("DIR/state/other.db"), nil, 0o600))
	g.reload(strings.Replace(durableSite, "state/oauth.db", "state/other.db", 1))
	if status := g.gate(g.token()); status != 200 {
		t.Errorf("the gate answers %d", status)
	}
}
