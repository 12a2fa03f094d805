package sqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/storetest"
)

// addDeclared adds a living family for each id.
func addDeclared(t *testing.T, s *Store, ids ...string) {
	t.Helper()
	for _, id := range ids {
		f := declaredFamily(id)
		f.TokenLifetime = time.Minute
		must(t, storetest.Done(s.Families.AddFamily(t.Context(), f)))
	}
}

// heldFamily lets another node's transaction change the family's row without ending.
func heldFamily(t *testing.T, s *Store, id, change string) *sql.Tx {
	t.Helper()
	tx, err := s.db.write.BeginTx(t.Context(), nil)
	must(t, err)
	t.Cleanup(func() { _ = tx.Rollback() }) // after its end it does nothing
	_, err = tx.ExecContext(t.Context(), `SET LOCAL idle_in_transaction_session_timeout = 0`)
	must(t, err)
	result, err := tx.ExecContext(t.Context(), `UPDATE families SET `+change+` WHERE id = $1`, id)
	must(t, err)
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		t.Fatalf("%d rows are held (%v)", n, err)
	}
	return tx
}

// TestAHeldFamilyDelaysNobodyElse: another transaction holds a family's row and does not end. A caller that ends that family waits for
// the row, and gets no answer before. All other callers, in the same batch or later, are answered meanwhile.
func TestAHeldFamilyDelaysNobodyElse(t *testing.T) {
	for _, c := range []struct {
		name, change string
		end          func(*sql.Tx) error
	}{
		{"the other one leaves", "note = 'held'", (*sql.Tx).Rollback},
		{"the other one changes it", "generation = generation + 1", (*sql.Tx).Commit},
		{"the other one ends it", "revoked_at = 1", (*sql.Tx).Commit},
	} {
		t.Run(c.name, func(t *testing.T) {
			dsn := sharedDatabase(t)
			s, other := openPostgres(t, dsn), openPostgres(t, dsn)
			addDeclared(t, s, "held", "beside", "later")
			holder := heldFamily(t, other, "held", c.change)
			release := heldFeed(t, s)
			results := queueBehind(t, s, endStep(s, "held"), endStep(s, "beside"), revokeStep(s, revocation("token")), endStep(s, "held"))
			release()
			for i, result := range []<-chan error{results[0], results[2], results[3]} {
				if err := <-result; err != nil {
					t.Errorf("step %d beside the held one: %v", i, err)
				}
			}
			for _, step := range []func(context.Context) error{endStep(s, "later"), endStep(s, "unknown"), revokeStep(s, revocation("late token"))} {
				must(t, step(t.Context()))
			}
			held := []<-chan error{results[1], results[4]}
			for _, result := range held {
				select {
				case err := <-result:
					t.Fatalf("the end of the held family is answered: %v", err)
				default:
				}
			}
			if found := recorded(t, s); len(found) != 6 || found["held"].ID != "" {
				t.Errorf("the feed has %v", found)
			}
			must(t, c.end(holder))
			for _, result := range held {
				must(t, <-result)
			}
			if found := recorded(t, s); found["held"].ID == "" {
				t.Errorf("the end of the family was acknowledged and is not in the feed: %v", found)
			}
			for _, id := range []string{"held", "beside", "later"} {
				if f, err := s.Families.Family(t.Context(), id); err != nil || f.RevokedAt.IsZero() {
					t.Errorf("%q is %+v (%v)", id, f, err)
				}
			}
		})
	}
}

// TestAHeldFamilyIsGivenUp: a caller whose time is over does not get success, and the family is unchanged.
func TestAHeldFamilyIsGivenUp(t *testing.T) {
	dsn := sharedDatabase(t)
	s, other := openPostgres(t, dsn), openPostgres(t, dsn)
	addDeclared(t, s, "held")
	holder := heldFamily(t, other, "held", "note = 'held'")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := endStep(s, "held")(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the end of a held family returned %v", err)
	}
	if found := recorded(t, s); len(found) != 0 {
		t.Errorf("the feed has %v", found)
	}
	must(t, holder.Rollback())
	must(t, endStep(s, "held")(t.Context()))
	if found := recorded(t, s); found["held"].ID == "" {
		t.Errorf("the feed has %v", found)
	}
}

// TestIDsThatPostgresCannotStore: ids that PostgreSQL cannot store fail alone, and not the calls in the same transaction.
func TestIDsThatPostgresCannotStore(t *testing.T) {
	s := openPostgres(t, sharedDatabase(t))
	release := heldFeed(t, s)
	var incompressible []byte
	for i := range 100 {
		digest := sha256.Sum256(fmt.Append(nil, i))
		incompressible = append(incompressible, digest[:]...)
	}
	for i := range incompressible {
		incompressible[i] = 1 + incompressible[i]&0x7e
	}
	steps := []func(context.Context) error{revokeStep(s, revocation("beside"))}
	for _, id := range []string{"no\x00text", "no\xfftext", string(incompressible)} {
		steps = append(steps, revokeStep(s, revocation("good"), revocation(id)), endStep(s, id))
	}
	steps = append(steps, revokeStep(s, revocation("behind")))
	results := queueBehind(t, s, steps...)
	release()
	last := len(results) - 1
	must(t, errors.Join(<-results[0], <-results[1], <-results[last]))
	for i, result := range results[2:last] {
		if err := <-result; err == nil {
			t.Errorf("step %d was recorded", i+1)
		}
	}
	if found := recorded(t, s); len(found) != 3 {
		t.Errorf("the feed has %d", len(found))
	}
}
