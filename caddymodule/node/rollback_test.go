package node

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/memstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// silentMarks is a store that says nothing about its marks.
type silentMarks struct{ store.Store }

func (silentMarks) Progress(ctx context.Context, _ sqlstore.Marks) (sqlstore.Progress, error) {
	<-ctx.Done()
	return sqlstore.Progress{}, ctx.Err()
}

func (silentMarks) Distrust(context.Context, sqlstore.Marks, store.StoredKey, []string, time.Time) (bool, error) {
	return false, nil
}

// TestK11AStopWaitsForNoDatabase: one that has not answered the last poll delays a stop by nothing, and one that goes silent
// then by a second.
func TestK11AStopWaitsForNoDatabase(t *testing.T) {
	n := prepared(t, Settings{})
	n.store = silentMarks{memstore.New()}
	for _, test := range []struct {
		name string
		away bool
		want time.Duration
	}{{"known to be away", true, 0}, {"silent just now", false, time.Second}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n.feed.failing = test.away
				began := time.Now()
				n.keepMarks()
				if took := time.Since(began); took != test.want {
					t.Errorf("it takes %s, want %s", took, test.want)
				}
			})
		})
	}
}

// TestK11AMarkerIsNotPutBack by a node that closes when another has come farther.
func TestK11AMarkerIsNotPutBack(t *testing.T) {
	n := opened(t, onDisk(t))
	n.keyring.mu.Lock()
	defer n.keyring.mu.Unlock()
	content := func() string {
		t.Helper()
		content, err := os.ReadFile(n.rollbackDetector.path())
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	before := content()
	former := n.rollbackDetector
	former.seen.Revocations--
	if err := former.write(); err != nil || content() != before {
		t.Errorf("%v: it was %s and is %s", err, before, content())
	}
	next := n.rollbackDetector
	next.seen.Revocations++
	if err := next.write(); err != nil || content() == before {
		t.Errorf("%v: it still is %s", err, before)
	}
}
