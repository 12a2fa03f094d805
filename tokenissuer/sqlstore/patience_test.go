package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/storetest"
)

// waitForRows waits until that many of the database's sessions wait for locks.
func waitForRows(t *testing.T, s *Store, sessions int) {
	t.Helper()
	tokentest.Eventually(t, fmt.Sprint(sessions, " sessions wait"), func() bool {
		var n int
		must(t, askOne(t.Context(), s.db.background(`SELECT COUNT(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`), nil, &n))
		return n == sessions
	})
}

// unanswered fails the test if the step has ended.
func unanswered(t *testing.T, result <-chan error) {
	t.Helper()
	select {
	case err := <-result:
		t.Fatalf("the step is answered: %v", err)
	default:
	}
}

// inBackground starts the step.
func inBackground(t *testing.T, step func(context.Context) error) <-chan error {
	t.Helper()
	result := make(chan error, 1)
	go func() { result <- step(t.Context()) }()
	return result
}

// TestWhoEndsAHeldFamilyWaitsWithoutTheFeed: a caller that ends locked families waits for their rows only, and does not hold the feed.
func TestWhoEndsAHeldFamilyWaitsWithoutTheFeed(t *testing.T) {
	dsn := sharedDatabase(t)
	s, other := openPostgres(t, dsn), openPostgres(t, dsn)
	addDeclared(t, s, "held", "too")
	holder := heldFamily(t, other, "held", "note = 'held'")
	results := []<-chan error{inBackground(t, endStep(s, "held"))}
	waitForRows(t, s, 1)
	second := heldFamily(t, other, "too", "note = 'held'")
	for _, id := range []string{"held", "too", "too"} {
		results = append(results, inBackground(t, endStep(s, id)))
	}
	waitForRows(t, s, 4)
	for i, node := range []*Store{s, other, s, other} {
		must(t, node.Revocations.Revoke(t.Context(), revocation(fmt.Sprint("token ", i))))
	}
	waitForRows(t, s, 4)
	for _, result := range results {
		unanswered(t, result)
	}
	if found := recorded(t, s); len(found) != 4 {
		t.Errorf("the feed has %v", found)
	}
	must(t, errors.Join(second.Rollback(), holder.Rollback()))
	for _, result := range results {
		must(t, <-result)
	}
	if found := recorded(t, s); found["held"].ID == "" || found["too"].ID == "" {
		t.Errorf("the feed has %v", found)
	}
}

// TestTheEndOfABusyFamilyComesInItsTurn: another transaction waits for the same row, and then keeps it. A caller that only polled the row
// would come after that one.
func TestTheEndOfABusyFamilyComesInItsTurn(t *testing.T) {
	dsn := sharedDatabase(t)
	s, other := openPostgres(t, dsn), openPostgres(t, dsn)
	addDeclared(t, s, "busy")
	holder := heldFamily(t, other, "busy", "note = 'held'")
	ended := inBackground(t, endStep(s, "busy"))
	waitForRows(t, s, 1)
	next := inBackground(t, func(ctx context.Context) error {
		tx, err := other.db.write.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = tx.Rollback() }) // nothing is left of it
		_, err = tx.ExecContext(ctx, `UPDATE families SET note = 'held again' WHERE id = 'busy'`)
		return err
	})
	waitForRows(t, s, 2)
	must(t, holder.Rollback())
	must(t, <-ended)
	must(t, <-next)
	if found := recorded(t, s); found["busy"].ID == "" {
		t.Errorf("the feed has %v", found)
	}
}

// TestTheEndOfABusySession: families are added to a session without a pause, and each holds its row. The end of the session gets the row
// in between, and no family is added after it.
func TestTheEndOfABusySession(t *testing.T) {
	const callers = 8
	dsn := sharedDatabase(t)
	s, busy := openPostgres(t, dsn), openPostgresWith(t, dsn, callers+LeastPostgresPool)
	addDeclared(t, s, "session")
	var crowd sync.WaitGroup
	var added atomic.Int64
	var over, stop atomic.Bool
	defer func() { stop.Store(true); crowd.Wait() }()
	for n := range callers {
		crowd.Go(func() {
			for i := 0; !stop.Load(); i++ {
				f := declaredFamily(fmt.Sprint("family ", n, " ", i))
				f.Preconditions.SessionID = "session"
				late := over.Load()
				switch err := storetest.Done(busy.Families.AddFamily(context.WithoutCancel(t.Context()), f)); {
				case errors.Is(err, storetest.Refused(store.Revoked)):
					return
				case err != nil || late:
					t.Errorf("adding to a session, which is over: %v, returned %v", late, err)
					return
				}
				added.Add(1)
			}
		})
	}
	tokentest.Eventually(t, "the session is busy", func() bool { return added.Load() >= 4*callers })
	must(t, endStep(s, "session")(t.Context()))
	over.Store(true)
	crowd.Wait()
	if found := recorded(t, s); found["session"].ID == "" {
		t.Errorf("the feed has %v", found)
	}
}

// TestAChangedUserWaitsWithoutTheFeed: a user is changed while another transaction holds a family that the user has created for another
// user. All other callers are answered meanwhile, on every node.
func TestAChangedUserWaitsWithoutTheFeed(t *testing.T) {
	active := store.UserActive
	for name, step := range map[string]func(context.Context, *Store) error{
		"changed": func(ctx context.Context, s *Store) error {
			_, err := s.Users.ChangeUser(ctx, "ada", store.UserChange{Edit: func(u *store.User) error { u.Status = active; return nil }}, ending())
			return err
		},
		"removed": func(ctx context.Context, s *Store) error {
			_, err := s.Users.RemoveUser(ctx, "ada", ending())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			dsn := sharedDatabase(t)
			s, other := openPostgres(t, dsn), openPostgres(t, dsn)
			must(t, s.Users.AddUser(t.Context(), newUser("ada"), true))
			created := declaredFamily("created")
			created.Actor.Subject, created.Preconditions.ActorVersion = "ada", "1"
			must(t, errors.Join(storetest.Done(s.Families.AddFamily(t.Context(), newFamily("own", "ada"))), storetest.Done(s.Families.AddFamily(t.Context(), created))))
			addDeclared(t, s, "beside")
			holder := heldFamily(t, other, "created", "note = 'held'")
			result := inBackground(t, func(ctx context.Context) error { return step(ctx, s) })
			waitForRows(t, s, 1)
			must(t, errors.Join(s.Revocations.Revoke(t.Context(), revocation("a")), other.Revocations.Revoke(t.Context(), revocation("b")), endStep(other, "beside")(t.Context())))
			unanswered(t, result)
			if found := recorded(t, s); len(found) != 3 {
				t.Errorf("the feed has %v", found)
			}
			must(t, holder.Rollback())
			must(t, <-result)
			found := recorded(t, s)
			for _, id := range []string{"own", "created"} {
				if f, err := s.Families.Family(t.Context(), id); err != nil || f.RevokedAt.IsZero() || found[id].ID == "" {
					t.Errorf("%q is %+v, in the feed %+v (%v)", id, f, found[id], err)
				}
			}
		})
	}
}
