package node

import (
	"context"
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// silentMarks is a store whose marks request does not return.
type silentMarks struct{}

func (silentMarks) Progress(ctx context.Context, _ sqlstore.Marks) (sqlstore.Progress, error) {
	<-ctx.Done()
	return sqlstore.Progress{}, ctx.Err()
}

func (silentMarks) Distrust(context.Context, sqlstore.Marks, store.StoredKey, []string, time.Time) (bool, error) {
	return false, nil
}

// TestK11AStopWaitsForNoDatabase: a database that has not answered the last poll does not delay a stop; one that
// falls silent then delays it by a second.
func TestK11AStopWaitsForNoDatabase(t *testing.T) {
	n := prepared(t, Settings{})
	n.rollback.store = silentMarks{}
	for _, test := range []struct {
		name string
		away bool
		want time.Duration
	}{{"known to be away", true, 0}, {"silent just now", false, time.Second}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n.feed.failing = test.away
				began := time.Now()
				n.rollback.keepMarks()
				if took := time.Since(began); took != test.want {
					t.Errorf("it takes %s, want %s", took, test.want)
				}
			})
		})
	}
}

// TestK11AMarkerIsNotPutBack checks that a node that closes does not overwrite a marker that another node has
// advanced further.
func TestK11AMarkerIsNotPutBack(t *testing.T) {
	n := opened(t, onDisk(t))
	n.rollback.mu.Lock()
	defer n.rollback.mu.Unlock()
	content := func() string {
		t.Helper()
		content, err := os.ReadFile(n.rollback.marker.path())
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	before := content()
	marks := n.rollback.seen
	former := n.rollback.marker
	marks.Revocations--
	if err := former.write(marks); err != nil || content() != before {
		t.Errorf("%v: it was %s and is %s", err, before, content())
	}
	next := n.rollback.marker
	marks.Revocations += 2
	if err := next.write(marks); err != nil || content() == before {
		t.Errorf("%v: it still is %s", err, before)
	}
}

// TestK11K27LostBetweenTwoLooks: a request has read a revocation that a failover loses before the node has recorded
// it, and another revocation has taken its place in the feed. The feed's own record suffices to notice the loss, also
// when the node stops first. Every key is replaced by one of its algorithm.
func TestK11K27LostBetweenTwoLooks(t *testing.T) {
	settings := onDisk(t)
	settings.OpenID = true
	n := opened(t, settings)
	n.Life.stop() // only the test checks
	n.Life.runs.Wait()
	revoke := func(id string) {
		t.Helper()
		err := n.store.Revoke(t.Context(), store.Revocation{Kind: store.RevokeToken, ID: id, ExpiresAt: time.Now().Add(time.Hour)})
		if err == nil {
			err = n.Refresh(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	revoke("early")
	if err := n.rollback.syncKeys(t.Context()); err != nil {
		t.Fatal(err)
	}
	revoke("lost")
	db, err := sql.Open("sqlite", settings.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, statement := range []string{
		`DELETE FROM revocations WHERE position = (SELECT position FROM counters WHERE name = 'revocations')`,
		`DELETE FROM feed_tags WHERE position = (SELECT position FROM counters WHERE name = 'revocations')`,
		`UPDATE counters SET position = position - 1 WHERE name = 'revocations'`,
	} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	revoke("in its place")
	kept, former := n.rollback.marker.kept, n.Status().Signing
	if n.rollback.keepMarks(); n.rollback.marker.kept != kept {
		t.Errorf("the marker has gone from %+v to %+v", kept, n.rollback.marker.kept)
	}
	if err := n.rollback.syncKeys(t.Context()); err != nil {
		t.Fatal(err)
	}
	for algorithm, kid := range n.Status().Signing {
		if kid == "" || kid == former[algorithm] {
			t.Errorf("%s is signed by %q, before by %q", algorithm, kid, former[algorithm])
		}
	}
	if list := n.Keys.List(); len(list) != 3 || len(former) != 3 {
		t.Errorf("older keys are trusted still: %v, before %v", list, former)
	}
}

// revoke revokes a token.
func (n *Node) revoke(t *testing.T, id string) {
	t.Helper()
	if err := n.store.Revoke(t.Context(), store.Revocation{Kind: store.RevokeToken, ID: id, ExpiresAt: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
}

// isMarked reports whether the marker has recorded the database's progress.
func (n *Node) isMarked(t *testing.T) bool {
	t.Helper()
	now, err := n.store.Progress(t.Context(), sqlstore.Marks{})
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(filepath.Dir(n.rollback.marker.path()), "marker-"+now.Identity+".json"))
	var kept sqlstore.Marks
	return err == nil && json.Unmarshal(content, &kept) == nil && kept == now.Marks
}

// await waits for a condition.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// stop closes a node and waits until its database is closed.
func (n *Node) stop(t *testing.T) {
	t.Helper()
	if err := n.Destruct(); err != nil {
		t.Fatal(err)
	}
	await(t, "the database is closed", func() bool { _, err := os.Stat(n.settings.Path + "-wal"); return os.IsNotExist(err) })
}

// signs returns the key that a node signs with. A node that distrusts its database replaces it.
func (n *Node) signs() string { return n.Status().Signing[oauth.ES256] }

// copyFile copies a file.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestK11RevokedJustBeforeAStop: a revocation just before an orderly stop, then a backup from before it → noticed, because the stop writes
// the marker. A backup opened beside the original is distrusted, and the original is not.
func TestK11RevokedJustBeforeAStop(t *testing.T) {
	settings := onDisk(t)
	first := opened(t, settings)
	first.stop(t)
	backup := settings
	backup.Path = filepath.Join(t.TempDir(), "backup.db")
	copyFile(t, settings.Path, backup.Path)
	n := opened(t, settings)
	await(t, "the marker is written", func() bool { return n.isMarked(t) }) // not written again for a second
	n.revoke(t, "last")
	kid := n.signs()
	n.stop(t)
	distrusted := opened(t, backup)
	if distrusted.signs() == kid {
		t.Error("the backup is trusted")
	}
	distrusted.stop(t)
	n = opened(t, settings)
	if n.signs() != kid {
		t.Error("the original is distrusted")
	}
	n.stop(t)
	copyFile(t, backup.Path, settings.Path)
	if n = opened(t, settings); n.signs() == kid {
		t.Error("what was put back is trusted")
	}
}

// TestK11RevokedWhileItStops: a revocation while the node closes → it is in the marker.
func TestK11RevokedWhileItStops(t *testing.T) {
	n := opened(t, onDisk(t))
	if !n.Life.Enter() {
		t.Fatal("it lets nobody in")
	}
	if err := n.Destruct(); err != nil {
		t.Fatal(err)
	}
	n.revoke(t, "late")
	now, err := n.store.Progress(t.Context(), sqlstore.Marks{})
	if err != nil {
		t.Fatal(err)
	}
	n.Life.Leave()
	await(t, "the marker has it", func() bool {
		content, err := os.ReadFile(n.rollback.marker.path())
		var kept sqlstore.Marks
		return err == nil && json.Unmarshal(content, &kept) == nil && kept == now.Marks
	})
}

// TestK4EmptiedDatabase: a database file that was emptied → neither a start nor Migrate touches it, and the error says why. An empty file without
// a marker, as a first start leaves it, or beside the marker of another database → the start succeeds, as without a file.
func TestK4EmptiedDatabase(t *testing.T) {
	settings := onDisk(t)
	n := opened(t, settings)
	await(t, "the marker is written", func() bool { return n.isMarked(t) })
	kid, marker := n.signs(), n.rollback.marker.path()
	n.stop(t)
	kept := filepath.Join(t.TempDir(), "kept.db")
	copyFile(t, settings.Path, kept)
	empty := func(path string) {
		t.Helper()
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	empty(settings.Path)
	for what, err := range map[string]error{"a start": prepared(t, settings).Open(), "migrating": Migrate(settings)} {
		if err == nil || !strings.Contains(err.Error(), "is empty, and marker-") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if info, err := os.Stat(settings.Path); err != nil || info.Size() != 0 {
		t.Errorf("the file was touched: %v", err)
	}
	copyFile(t, kept, settings.Path)
	if n = opened(t, settings); n.signs() != kid {
		t.Error("put back, it is distrusted")
	}
	n.stop(t)
	other := settings
	other.Path = filepath.Join(filepath.Dir(settings.Path), "other.db")
	empty(other.Path)
	if n = opened(t, other); n.signs() == kid {
		t.Error("another database has this one's key")
	}
	if err := os.Remove(settings.Path); err != nil {
		t.Fatal(err)
	}
	n = opened(t, settings)
	if n.signs() == kid {
		t.Error("removed, it signs with the former key")
	}
	await(t, "the marker is written", func() bool { return n.isMarked(t) })
	next := n.rollback.marker.path()
	n.stop(t)
	for _, path := range []string{marker, next} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	empty(settings.Path)
	opened(t, settings)
}

// TestK11TheMemoryStoreHasNoMarker checks that nothing is recorded of a store in memory.
func TestK11TheMemoryStoreHasNoMarker(t *testing.T) {
	if n := opened(t, inMemory); n.rollback.store != nil {
		t.Error("its marks are kept")
	}
}
