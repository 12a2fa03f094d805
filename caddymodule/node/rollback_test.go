package node

import (
	"context"
	"database/sql"
	"os"
	"testing"
	"testing/synctest"
	"time"

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
		err := n.store.Revocations.Revoke(t.Context(), store.Revocation{Kind: store.RevokeToken, ID: id, ExpiresAt: time.Now().Add(time.Hour)})
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
