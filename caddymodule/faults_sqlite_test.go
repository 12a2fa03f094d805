package caddymodule

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/machine"
)

// Faults of the disk under an SQLite store and of other processes that use it, as clients see them.

// recovery is how soon a grant must succeed after the fault has ended.
const recovery = time.Second

// besideAt opens a database as another process does that waits while the node writes.
func besideAt(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", fmt.Sprintf("%s?_pragma=busy_timeout(%d)", path, patience.Milliseconds()))
	check(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// soundAt checks that a database is not damaged.
func soundAt(t *testing.T, path string) {
	t.Helper()
	var said string
	if err := besideAt(t, path).QueryRow(`PRAGMA integrity_check`).Scan(&said); err != nil || said != "ok" {
		t.Errorf("the database is damaged: %s (%v)", said, err)
	}
}

// ordeal is a user with a code and tokens during a fault of the store.
type ordeal struct {
	*userDoor
	r     request
	code  string
	first tokens
}

func (u *userDoor) beforeFault() *ordeal {
	u.t.Helper()
	r := requestOf("conf")
	return &ordeal{userDoor: u, r: r, code: u.code(r, ada), first: u.userTokens(r, ada)}
}

// holds checks that every grant that needs the store fails with a temporary error and that the gate keeps serving.
func (o *ordeal) holds() {
	o.t.Helper()
	down := unavailable("store_unavailable")
	for range 3 {
		o.denied(o.r.exchange(o.code), down)
		o.denied(o.r.refresh(o.first.RefreshToken), down)
		if !o.alive(o.first.AccessToken) {
			o.t.Error("the gate refuses a good token")
		}
	}
}

// ends checks that grants succeed again soon and that the failed ones have had no effect.
func (o *ordeal) ends() {
	o.t.Helper()
	began := time.Now()
	var a answer
	o.eventually("the store is back", func() bool {
		a = o.ask(o.t, "/oauth/token", o.r.exchange(o.code).Encode())
		return a.status != http.StatusServiceUnavailable
	})
	took := time.Since(began)
	o.t.Logf("back after %s", took)
	if machine.Fair(took) > recovery {
		o.t.Errorf("it took %s to recover, want %s", took, recovery)
	}
	got := o.tokensIn(a)
	if f := o.familyOf(got.AccessToken); f.Refresh.Generation != 1 || f.Code.SpentAt.IsZero() {
		o.t.Errorf("the code's family: generation %d, spent %s", f.Refresh.Generation, f.Code.SpentAt)
	}
	second := o.gives(o.r.refresh(o.first.RefreshToken))
	if f := o.familyOf(second.AccessToken); f.Refresh.Generation != 2 {
		o.t.Errorf("generation %d after one refresh", f.Refresh.Generation)
	}
	o.denied(o.r.exchange(o.code), badGrant("code_replayed"))
	o.gone(got.AccessToken)
}

// TestF6ForeignWriter: a foreign process holds the write lock → requests that need it end in time with 503, the gate keeps serving.
func TestF6ForeignWriter(t *testing.T) {
	const held, wait = 3 * time.Second, 2 * time.Second
	u := openUsers(t, append(slices.Clone(patientCodes), onDiskPeople...)...)
	o := u.beforeFault()
	foreign, err := besideAt(t, u.database()).Conn(t.Context())
	check(t, err)
	exec := func(statement string) {
		t.Helper()
		if _, err := foreign.ExecContext(context.Background(), statement); err != nil {
			t.Fatal(err)
		}
	}
	exec("BEGIN IMMEDIATE")
	longest := time.Duration(0)
	for began := time.Now(); time.Since(began) < held; {
		longest = max(longest, o.crowd(8))
	}
	exec("ROLLBACK")
	t.Logf("the longest answer took %s", longest)
	if most := wait + time.Second; machine.Fair(longest) > most { // eight wait at once and are answered one after the other
		t.Errorf("an answer took %s, want %s at most", longest, most)
	}
	o.decisions(t)
	o.ends()
	soundAt(t, u.database())
}

// crowd sends many grants at once, which must all fail with a temporary error, and returns how long the last one took. The gate keeps
// serving meanwhile.
func (o *ordeal) crowd(many int) (longest time.Duration) {
	began := time.Now()
	took := make([]time.Duration, many)
	var group sync.WaitGroup
	for i := range took {
		group.Go(func() {
			form := o.r.exchange(o.code)
			if i%2 == 0 {
				form = o.r.refresh(o.first.RefreshToken)
			}
			a := o.ask(o.t, "/oauth/token", form.Encode())
			o.holdUnaudited(o.t, a, unavailable(""))
			took[i] = time.Since(began)
		})
	}
	for range many {
		if !o.alive(o.first.AccessToken) {
			o.t.Error("the gate refuses a good token")
		}
	}
	group.Wait()
	for _, t := range took {
		longest = max(longest, t)
	}
	return longest
}
