package sqlstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/machine"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/storetest"
)

// childName is the environment variable that makes the test binary one of the processes of TestF9ManyProcesses. childPath is the file
// that they share, relative to the directory in which they are started.
const (
	childName = "GATEHOUSE_TEST_SQLITE_CHILD"
	childPath = "data/gatehouse.db"
)

const (
	processes = 4
	perChild  = 25
)

// The timeouts of a node, which TestMain changes.
var nodesLockTimeout, nodesServerTimeout, nodesNotifyTimeout = lockTimeout, serverTimeout, notifyTimeout

func TestMain(m *testing.M) {
	// Other tests cover how long a step waits for another process, a server for a node and a notification for its server. The rest must
	// not depend on the speed of a busy machine.
	lockTimeout, serverTimeout, notifyTimeout = time.Minute, 2*time.Minute, time.Minute
	if name := os.Getenv(childName); name != "" {
		end(child(name))
	}
	if name := os.Getenv(racerName); name != "" {
		end(race(name))
	}
	machine.Watch()
	os.Exit(m.Run())
}

// end exits a process that runs no tests.
func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// report is what a child sends to its parent.
type report struct {
	Key  string   // the first key that it read after its own attempt
	Won  []string // the shared ids that it got, and the requests that it decided
	Seen int      // the revocations that it saw at the end
}

// child opens the database at the same time as the other children and races them through every kind of write.
func child(name string) (err error) {
	if _, err := io.ReadAll(os.Stdin); err != nil { // the parent closes it for all at once
		return err
	}
	ctx, now := context.Background(), time.Now()
	s, err := OpenSQLite(ctx, childPath, Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	key, err := keys.NewSigningKey(oauth.ES256, now)
	if err != nil {
		return err
	}
	stored, err := key.Stored(nil)
	if err != nil {
		return err
	}
	if err := s.Keys.ChangeKeys(ctx, store.AddFirstKey(stored)); err != nil {
		return err
	}
	keys, err := s.Keys.SigningKeys(ctx)
	if err != nil || len(keys) != 1 {
		return fmt.Errorf("there are %d keys (%w)", len(keys), err)
	}
	told := report{Key: keys[0].ID}
	for i := range perChild {
		id := fmt.Sprint("shared ", i)
		switch err := s.Clients.AddClient(ctx, newClient(id, oauth.NewClientSecret())); {
		case err == nil:
			told.Won = append(told.Won, id)
		case !errors.Is(err, store.ErrTaken):
			return err
		}
		request := fmt.Sprint("request ", i)
		switch err := storetest.Done(s.Families.DecideRequest(ctx, request, now.Add(time.Hour))); {
		case err == nil:
			told.Won = append(told.Won, request)
		case !errors.Is(err, storetest.Refused(store.Replayed)):
			return err
		}
		secret := store.ClientSecret{Digest: oauth.NewClientSecret().Digest(), CreatedAt: now}
		if err := s.Clients.ChangeClient(ctx, id, store.RotateSecret(secret, now.Add(time.Hour))); err != nil {
			return err
		}
		if err := s.Revocations.Revoke(ctx, revocation(fmt.Sprint(name, " ", i)), revocation("shared")); err != nil {
			return err
		}
	}
	list, _, err := s.Revocations.Revocations(ctx, store.FeedPosition{})
	told.Seen = len(list)
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(told))
}

// atOnce runs processes of the test binary in a directory, with names in that environment variable, and returns what they print. They
// wait for the end of their input, which is the same moment for all.
func atOnce[T any](t *testing.T, dir, variable string, n int) []T {
	t.Helper()
	program, err := os.Executable()
	must(t, err)
	start, gate, err := os.Pipe()
	must(t, err)
	children, stdout, stderr, told := make([]*exec.Cmd, n), make([]bytes.Buffer, n), make([]bytes.Buffer, n), make([]T, n)
	for i := range children {
		c := exec.CommandContext(t.Context(), program)
		c.Dir, c.Env = dir, append(os.Environ(), fmt.Sprint(variable, "=process ", i))
		c.Stdin, c.Stdout, c.Stderr = start, &stdout[i], &stderr[i]
		must(t, c.Start())
		children[i] = c
	}
	must(t, errors.Join(start.Close(), gate.Close()))
	for i, c := range children {
		if err := c.Wait(); err != nil || stderr[i].Len() > 0 {
			t.Fatalf("process %d: %v: %s", i, err, &stderr[i])
		}
		if err := json.Unmarshal(stdout[i].Bytes(), &told[i]); err != nil {
			t.Fatalf("process %d said %q: %v", i, &stdout[i], err)
		}
	}
	return told
}

// TestF9ManyProcesses starts four processes on one file that does not exist yet. One of them creates the schema, one key is the first,
// each id has one owner, each request is decided once, no secret and no revocation is lost, and no process is refused. Output of the
// libraries would corrupt the output of the test.
func TestF9ManyProcesses(t *testing.T) {
	dir := t.TempDir()
	owners, keys := make(map[string]int), make(map[string]bool)
	for i, told := range atOnce[report](t, dir, childName, processes) {
		keys[told.Key] = true
		for _, id := range told.Won {
			owners[id]++
		}
		if told.Seen < perChild+1 {
			t.Errorf("process %d saw %d revocations, fewer than it made", i, told.Seen)
		}
	}
	if len(keys) != 1 {
		t.Errorf("the processes read different first keys: %v", keys)
	}
	s := openAt(t, filepath.Join(dir, childPath))
	for i := range perChild {
		id := fmt.Sprint("shared ", i)
		if owners[id] != 1 {
			t.Errorf("%d processes added %q", owners[id], id)
		}
		if request := fmt.Sprint("request ", i); owners[request] != 1 {
			t.Errorf("%d processes decided %q", owners[request], request)
		}
		c, err := s.Clients.Client(t.Context(), id)
		must(t, err)
		if want := 1 + processes; len(c.Secrets) != want {
			t.Errorf("%q has %d secrets, want %d", id, len(c.Secrets), want)
		}
	}
	list, position, err := s.Revocations.Revocations(t.Context(), store.FeedPosition{})
	must(t, err)
	if len(list) != processes*perChild+1 || position.At != processes*perChild {
		t.Errorf("%d revocations at position %d, want %d at %d", len(list), position.At, processes*perChild+1, processes*perChild)
	}
}
