package caddymodule

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
)

func readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	check(t, err)
	return string(content)
}

// putBackLine is the beginning of the log message about a database that was put back.
const putBackLine = "the database was put back to an older state"

// markers lists the marker files.
func markers(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(caddy.AppDataDir(), "oauth", "marker-*")) // without temporary files
	check(t, err)
	return files
}

// progress returns how far the database has come.
func (g *gatehouse) progress() sqlstore.Progress {
	g.t.Helper()
	now, err := g.app().node.Store().Progress(g.t.Context(), sqlstore.Marks{})
	check(g.t, err)
	return now
}

// marked waits until the marker has recorded the database's progress.
func (g *gatehouse) marked() {
	g.t.Helper()
	g.eventually("the marker is written", func() bool {
		return isMarked(g.progress())
	})
}

// isMarked reports whether the marker of a database has recorded its progress.
func isMarked(now sqlstore.Progress) bool {
	content, err := os.ReadFile(filepath.Join(caddy.AppDataDir(), "oauth", "marker-"+now.Identity+".json"))
	var kept sqlstore.Marks
	return err == nil && json.Unmarshal(content, &kept) == nil && kept == now.Marks
}

// TestK11RestoredBackup: a backup is restored and revocations since then are lost → tokens of the old key are
// refused, and a fresh key signs. The next start reports nothing.
func TestK11RestoredBackup(t *testing.T) {
	g := startGatehouse(t, durableSite)
	good, revoked := g.token(), g.token()
	old := kidOf(t, good)
	g.stop()
	backup := readFile(t, g.database())
	g.reload(durableSite)
	g.must(204, "POST", "/oauth/revocations", `{"jti":"`+decodedID(t, g, revoked)+`"}`)
	if g.gate(revoked) != 401 || g.gate(good) != 200 {
		t.Fatal("the revocation does not hold")
	}
	g.marked()
	g.stop()
	check(t, os.WriteFile(g.database(), []byte(backup), 0o600))
	g.reload(durableSite)
	if logs := g.logs(); strings.Count(logs, putBackLine) != 1 {
		t.Errorf("the log tells %d times of a restored backup", strings.Count(logs, putBackLine))
	}
	if a, b := g.gate(revoked), g.gate(good); a != 401 || b != 401 {
		t.Errorf("the gate answers %d to the revoked token and %d to another of its key", a, b)
	}
	fresh := g.token()
	if kid := kidOf(t, fresh); kid == old || g.gate(fresh) != 200 || strings.Contains(g.kids(), old) || g.keyViews()[old].State != keys.StateRevoked {
		t.Errorf("%s signs, published are %s, and all are %+v", kid, g.kids(), g.keyViews())
	}
	g.marked()
	g.stop()
	g.reload(durableSite)
	if g.gate(fresh) != 200 || g.gate(good) != 401 || strings.Count(g.logs(), putBackLine) != 1 {
		t.Error("the next start begins anew once more")
	}
}

// TestK11NoMarkNoAlarm: another database, or a missing marker → no alarm; a damaged marker, or one that cannot be written → logged, and the node
// serves.
func TestK11NoMarkNoAlarm(t *testing.T) {
	g := startGatehouse(t, durableSite)
	token := g.token()
	for range 3 {
		g.must(204, "POST", "/oauth/revocations", `{"client":"somebody","force":true}`)
	}
	g.marked()
	marker := markers(t)[0]
	restart := func(before func()) {
		t.Helper()
		g.stop()
		before()
		g.reload(durableSite)
		if g.gate(token) != 200 || strings.Contains(g.logs(), putBackLine) {
			t.Fatal("it was taken for a restored backup")
		}
	}
	restart(func() {})
	restart(func() { check(t, os.Remove(marker)) })
	g.marked()
	restart(func() { check(t, os.WriteFile(marker, []byte("garbage"), 0o644)) })
	if !strings.Contains(g.logs(), "the marker cannot be read") {
		t.Error("nobody is told of the damaged marker")
	}
	g.marked()
	restart(func() {
		check(t, os.RemoveAll(filepath.Dir(marker)))
		check(t, os.WriteFile(filepath.Dir(marker), nil, 0o600))
	})
	if !strings.Contains(g.logs(), "the marker cannot be written") {
		t.Error("nobody is told that there is no marker")
	}
	restart(func() { check(t, os.Remove(filepath.Dir(marker))) })
	g.marked()

	// Another database has its own marker.
	g.reload(strings.Replace(durableSite, "state/oauth.db", "other/oauth.db", 1))
	g.eventually("there are two markers", func() bool { return len(markers(t)) == 2 })
	if strings.Contains(g.logs(), putBackLine) {
		t.Error("another database was taken for a restored backup")
	}
}

// TestK5Marker: whatever the umask → the marker has mode 0600 and its directory 0700, also when the file was open to others.
func TestK5Marker(t *testing.T) {
	for name, umask := range map[string]int{"000": 0, "077": 0o077} {
		t.Run(name, func(t *testing.T) {
			before := syscall.Umask(umask)
			t.Cleanup(func() { syscall.Umask(before) })
			g := startGatehouse(t, durableSite)
			g.marked()
			g.checkModes(filepath.Join(caddy.AppDataDir(), "oauth"), 1)
			check(t, os.Chmod(markers(t)[0], 0o644))
			g.must(204, "POST", "/oauth/revocations", `{"client":"somebody","force":true}`)
			g.marked()
			g.checkModes(filepath.Join(caddy.AppDataDir(), "oauth"), 1)
		})
	}
}

// TestK11NodesThatDistrustTogether: a database under two nodes is put back → both take its fresh identity, and the marker of the former
// stays as it is, since other nodes may use that database.
func TestK11NodesThatDistrustTogether(t *testing.T) {
	g := startGatehouse(t, durableSite)
	use, err := node.Acquire(node.Settings{
		Store: node.SQLite, Path: g.database(), Issuer: "https://other.example", Algorithm: oauth.ES256, MaxStaleness: time.Minute,
	}, nil)
	check(t, err)
	t.Cleanup(func() { _ = use.Release() })
	other := use.Value
	check(t, other.Open())
	for range 3 {
		g.must(204, "POST", "/oauth/revocations", `{"client":"somebody","force":true}`)
	}
	g.marked()
	former := markers(t)
	before, revoked := readFile(t, former[0]), g.storedKey().ID
	g.behind("UPDATE counters SET position = 1 WHERE name IN ('revocations', 'signing_keys')")
	g.eventually("both have gone over", func() bool {
		for _, e := range []*node.Node{g.app().node, other} {
			if list := e.Keys.List(); len(list) != 1 || list[0].ID == revoked {
				return false
			}
		}
		return !strings.Contains(former[0], g.progress().Identity)
	})
	g.must(204, "POST", "/oauth/revocations", `{"client":"somebody else","force":true}`)
	g.marked()
	if files := markers(t); len(former) != 1 || len(files) != 2 || readFile(t, former[0]) != before {
		t.Errorf("there are %v and %v; the former has %s, and had %s", former, files, readFile(t, former[0]), before)
	}
	if list := other.Keys.List(); len(list) != 1 {
		t.Errorf("the other node has %d keys", len(list))
	}
}
