package node

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/machine"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// patience is how long a test waits for an event. Only a failing test waits that long.
const patience = time.Minute

func TestMain(m *testing.M) {
	machine.Watch()
	os.Exit(run(m))
}

// run gives the tests their own data directory, where a node records how far its database had come.
func run(m *testing.M) int {
	home, err := os.MkdirTemp("", "gatehouse-home-")
	if err == nil {
		defer func() { _ = os.RemoveAll(home) }()
		err = os.Setenv("XDG_DATA_HOME", home)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// inMemory configures a node with nothing on disk.
var inMemory = Settings{Store: Memory, Issuer: "https://a.example", Algorithm: oauth.ES256, MaxStaleness: time.Minute}

// onDisk configures a node on a new SQLite file.
func onDisk(t *testing.T) Settings {
	s := inMemory
	s.Store, s.Path = SQLite, filepath.Join(t.TempDir(), "state", "oauth.db")
	return s
}

// prepared returns a node that has not opened.
func prepared(t *testing.T, settings Settings) *Node {
	t.Helper()
	n := newNode(settings, nil)
	t.Cleanup(func() { _ = n.Destruct() })
	return n
}

// opened returns a node that has opened.
func opened(t *testing.T, settings Settings) *Node {
	t.Helper()
	n := prepared(t, settings)
	if err := n.Open(); err != nil {
		t.Fatal(err)
	}
	return n
}

// kept returns a node whose first round of housekeeping is over. A round in progress uses the clocks as they were
// when it began.
func kept(t *testing.T, settings Settings) *Node {
	t.Helper()
	n := opened(t, settings)
	n.awaitRound(t)
	return n
}

// awaitRound waits until the first round of housekeeping is over. A node begins that round by itself.
func (n *Node) awaitRound(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(patience); n.Status().Rows == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the housekeeper has never counted")
		}
	}
}

// keepHouse runs a round of housekeeping.
func (n *Node) keepHouse(t *testing.T) {
	t.Helper()
	if err := n.KeepHouse(t.Context()); err != nil {
		t.Error(err)
	}
}

// issuer returns an issuer of the node.
func (n *Node) issuer() *issuer.Parts {
	p := issuer.New(
		issuer.Settings{Policy: clients.Policy{URL: n.settings.Issuer, Audience: []string{n.settings.Issuer}}, Lifetimes: store.DefaultLifetimes},
		issuer.Node{Keys: n.Keys, Verifier: n.Verifier, Revocations: n.Revocations, Refresh: n.Refresh, Now: n.StoreTime},
	)
	p.Families.Opened = families.Opened{Store: families.StoreOf(n.Store().Store), Master: n.MasterKey(), JTIMAC: n.JTIMAC()}
	return p
}

// testClock is a clock that only the test moves.
type testClock struct{ offset atomic.Int64 }

func (c *testClock) advance(d time.Duration) { c.offset.Add(int64(d)) }

// setClock gives every node created afterwards a clock that stands still until the test moves it.
func setClock(t *testing.T) *testClock {
	t.Helper()
	c, now := new(testClock), time.Now()
	before, monotonic := Clock, MonotonicClock
	Clock = func() time.Time { return now.Add(time.Duration(c.offset.Load())) }
	MonotonicClock = func() time.Time { return now }
	t.Cleanup(func() { Clock, MonotonicClock = before, monotonic })
	return c
}
