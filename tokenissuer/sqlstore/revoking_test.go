package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/storetest"
)

// bothDatabases runs a test on each database.
func bothDatabases(t *testing.T, test func(t *testing.T, s *Store)) {
	t.Run("SQLite", func(t *testing.T) { test(t, openAt(t, newPath(t))) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, openPostgres(t, sharedDatabase(t))) })
}

// heldFeed prevents all callers from taking a position until release is called.
func heldFeed(t *testing.T, s *Store) (release func()) {
	t.Helper()
	tx, err := s.db.write.BeginTx(t.Context(), nil)
	must(t, err)
	_, err = tx.ExecContext(t.Context(), `SELECT position FROM counters WHERE name = 'revocations' FOR UPDATE`)
	must(t, err)
	return func() { must(t, tx.Rollback()) }
}

// queueBehind starts the steps, in order, behind one that is held, which makes them share a transaction.
func queueBehind(t *testing.T, s *Store, steps ...func(context.Context) error) []<-chan error {
	t.Helper()
	line := s.db.steps.(*transactions).revoking
	begin := func(step func(context.Context) error) <-chan error {
		result := make(chan error, 1)
		go func() { result <- step(t.Context()) }()
		return result
	}
	results := []<-chan error{begin(func(ctx context.Context) error { return s.Revocations.Revoke(ctx, revocation("first")) })}
	tokentest.Eventually(t, "the first waits for the counter", func() bool { return s.db.write.Stats().InUse >= 2 && line.Waiting() == 0 })
	for i, step := range steps {
		results = append(results, begin(step))
		tokentest.Eventually(t, "the next one waits", func() bool { return line.Waiting() == i+1 })
	}
	return results
}

// recorded returns the content of the feed, by id.
func recorded(t *testing.T, s *Store) map[string]store.Revocation {
	t.Helper()
	list, _, err := s.Revocations.Revocations(t.Context(), store.FeedPosition{})
	must(t, err)
	found := make(map[string]store.Revocation, len(list))
	for _, r := range list {
		found[r.ID] = r
	}
	return found
}

func endStep(s *Store, id string) func(context.Context) error {
	return func(ctx context.Context) error {
		list, err := s.Families.EndFamilies(ctx, store.FamilyFilter{ID: id}, ending())
		if err == nil && (len(list) != 1 || list[0].ID != id || list[0].Kind != store.RevokeFamily) {
			return fmt.Errorf("ending %q returned %v", id, list)
		}
		return err
	}
}

func revokeStep(s *Store, list ...store.Revocation) func(context.Context) error {
	return func(ctx context.Context) error { return s.Revocations.Revoke(ctx, list...) }
}

// TestRevocationsShareATransaction: callers that wait for the feed are recorded in one transaction, with the widest of the revocations of
// one id.
func TestRevocationsShareATransaction(t *testing.T) {
	s := openPostgres(t, sharedDatabase(t))
	f := declaredFamily("living")
	f.TokenLifetime = time.Minute
	must(t, storetest.Done(s.Families.AddFamily(t.Context(), f)))
	before, err := s.db.progress(t.Context(), Marks{})
	must(t, err)
	release := heldFeed(t, s)
	early, late := revocation("twice"), revocation("twice")
	late.ExpiresAt = late.ExpiresAt.Add(time.Hour)
	early.IssuedUntil, late.IssuedUntil = time.Now().Add(time.Minute), time.Now()
	results := queueBehind(t, s, revokeStep(s, early), revokeStep(s, late), endStep(s, "living"), endStep(s, "living"),
		endStep(s, "unknown"), revokeStep(s, revocation("a"), revocation("b")), revokeStep(s, revocation("c")))
	release()
	for i, result := range results {
		if err := <-result; err != nil {
			t.Errorf("step %d returned %v", i, err)
		}
	}
	found := recorded(t, s)
	for _, id := range []string{"first", "twice", "living", "unknown", "a", "b", "c"} {
		if found[id].ID == "" {
			t.Errorf("%q was acknowledged and is not in the feed", id)
		}
	}
	if len(found) != 7 {
		t.Errorf("the feed has %v", found)
	}
	if got := found["twice"]; !got.ExpiresAt.Equal(late.ExpiresAt.Truncate(time.Microsecond)) || !got.IssuedUntil.Equal(early.IssuedUntil.Truncate(time.Microsecond)) {
		t.Errorf("of two for one id the feed has %+v", got)
	}
	if got, err := s.Families.Family(t.Context(), "living"); err != nil || got.RevokedAt.IsZero() {
		t.Errorf("the family is %+v (%v)", got, err)
	}
	after, err := s.db.progress(t.Context(), Marks{})
	must(t, err)
	if moved := after.Revocations - before.Revocations; moved != 2 {
		t.Errorf("the feed moved by %d", moved)
	}
}

// TestRevocationsShareOneTrip: without a refusal all waiting callers take one position.
func TestRevocationsShareOneTrip(t *testing.T) {
	s := openPostgres(t, sharedDatabase(t))
	release := heldFeed(t, s)
	results := queueBehind(t, s, revokeStep(s, revocation("a")), endStep(s, "b"), revokeStep(s, revocation("c")))
	release()
	for _, result := range results {
		must(t, <-result)
	}
	list, position, err := s.Revocations.Revocations(t.Context(), store.FeedPosition{At: 1})
	must(t, err)
	if len(list) != 3 || position.At != 2 {
		t.Errorf("behind the first are %v, up to position %d", list, position.At)
	}
}

// TestRevocationsFailTogether: when the transaction cannot be committed, every caller gets an error.
func TestRevocationsFailTogether(t *testing.T) {
	s := openPostgres(t, sharedDatabase(t))
	for _, statement := range []string{
		`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the commit fails' USING ERRCODE = 'XX000'; END $$`,
		`CREATE CONSTRAINT TRIGGER late AFTER INSERT ON revocations DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.id = 'poison') EXECUTE FUNCTION refuse()`,
	} {
		_, err := s.db.write.ExecContext(t.Context(), statement)
		must(t, err)
	}
	for name, poison := range map[string]func(context.Context) error{"a token": revokeStep(s, revocation("poison")), "a family": endStep(s, "poison")} {
		t.Run(name, func(t *testing.T) {
			release := heldFeed(t, s)
			results := queueBehind(t, s, revokeStep(s, revocation("before "+name)), poison, revokeStep(s, revocation("behind "+name)))
			release()
			must(t, <-results[0])
			for i, result := range results[1:] {
				if err := <-result; err == nil || !strings.Contains(err.Error(), "the commit fails") {
					t.Errorf("step %d returned %v", i, err)
				}
			}
			if found := recorded(t, s); len(found) != 1 {
				t.Errorf("the feed has %v", found)
			}
		})
	}
	must(t, s.Revocations.Revoke(t.Context(), revocation("later")))
}

// TestStepsOfOneTransactionShareAPosition: a step after one that took the position and failed takes it again.
func TestStepsOfOneTransactionShareAPosition(t *testing.T) {
	g := newGroup(t)
	refused := errors.New("refused")
	recording := func(id string, outcome error) job {
		return job{do: func(ctx context.Context, tx session) error {
			return errors.Join(g.store.db.record(ctx, tx, revocation(id)), outcome)
		}}
	}
	held, release := g.hold(t.Context())
	results := g.lineUp(t.Context(), recording("a", refused), recording("b", nil), recording("c", refused), recording("d", nil))
	release()
	must(t, <-held)
	for i, result := range results {
		if err := <-result; errors.Is(err, refused) != (i%2 == 0) {
			t.Errorf("step %d returned %v", i, err)
		}
	}
	list, position, err := g.store.Revocations.Revocations(t.Context(), store.FeedPosition{})
	must(t, err)
	if len(list) != 2 || list[0].ID != "b" || list[1].ID != "d" || position.At != 1 {
		t.Errorf("the feed has %v up to %d", list, position.At)
	}
	must(t, g.store.Revocations.Revoke(t.Context(), revocation("e")))
	if list, position, err = g.store.Revocations.Revocations(t.Context(), store.FeedPosition{At: 1}); err != nil || len(list) != 1 || position.At != 2 {
		t.Errorf("behind them are %v up to %d (%v)", list, position.At, err)
	}
}

// TestCredentialsOfAUserWhoDoesNotStand: a manual change of the table of users ends nothing, but credentials of the user can no longer be
// used.
func TestCredentialsOfAUserWhoDoesNotStand(t *testing.T) {
	for name, change := range map[string]string{
		"disabled":        `UPDATE users SET status = 'disabled'`,
		"another version": `UPDATE users SET version = version + 1`,
		"no password":     `UPDATE users SET password_hash = ''`,
		"gone":            `DELETE FROM users WHERE id = 'ada'`,
	} {
		t.Run(name, func(t *testing.T) {
			bothDatabases(t, func(t *testing.T, s *Store) {
				must(t, s.Users.AddUser(t.Context(), newUser("ada"), true))
				declared := newFamily("declared", "ada")
				declared.User.Declared = true
				must(t, errors.Join(storetest.Done(s.Families.AddFamily(t.Context(), newFamily("f", "ada"))), storetest.Done(s.Families.AddFamily(t.Context(), newFamily("g", "ada"))), storetest.Done(s.Families.AddFamily(t.Context(), declared))))
				must(t, storetest.Used(s.Families.RotateRefreshToken(t.Context(), "f", 1, store.Rotation{At: time.Now()})))
				_, err := s.db.write.ExecContext(t.Context(), change)
				must(t, err)
				for step, err := range map[string]error{
					"rotate": storetest.Used(s.Families.RotateRefreshToken(t.Context(), "f", 2, store.Rotation{At: time.Now()})),
					"redeem": storetest.Used(s.Families.RedeemCode(t.Context(), "g", store.Redemption{At: time.Now(), Generation: 1, ExpiresAt: time.Now().Add(time.Hour), MaxFailures: 5})),
				} {
					if !errors.Is(err, storetest.Refused(store.UserChanged)) {
						t.Errorf("%s: %v", step, err)
					}
				}
				must(t, storetest.Used(s.Families.RotateRefreshToken(t.Context(), "declared", 1, store.Rotation{At: time.Now()})))
			})
		})
	}
}
