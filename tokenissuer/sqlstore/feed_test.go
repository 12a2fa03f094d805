package sqlstore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// loseLast simulates a failover to a standby that lacked the last transaction.
func loseLast(t *testing.T, s *Store) {
	t.Helper()
	for _, statement := range []string{
		`DELETE FROM revocations WHERE position = (SELECT position FROM counters WHERE name = 'revocations')`,
		`DELETE FROM feed_tags WHERE position = (SELECT position FROM counters WHERE name = 'revocations')`,
		`UPDATE counters SET position = position - 1 WHERE name = 'revocations'`,
	} {
		_, err := s.db.write.ExecContext(t.Context(), statement)
		must(t, err)
	}
}

func idsFrom(t *testing.T, s *Store, after store.FeedPosition) (ids []string, next store.FeedPosition) {
	t.Helper()
	list, next, err := s.Revocations.Revocations(t.Context(), after)
	must(t, err)
	for _, r := range list {
		ids = append(ids, r.ID)
	}
	slices.Sort(ids)
	return ids, next
}

// TestK11FailoverThatLostARevocation: a node receives what was revoked since, even if the counter has reached the same position again,
// and the loss is detected and handled once.
func TestK11FailoverThatLostARevocation(t *testing.T) {
	for name, since := range map[string]int{"nothing since": 0, "as many since": 1, "more since": 5} {
		t.Run(name, func(t *testing.T) {
			onEachDialect(t, func(t *testing.T, open func() *Store) {
				a, b, c := open(), open(), open()
				must(t, a.Keys.ChangeKeys(t.Context(), store.AddKey(newKey("old"))))
				must(t, a.Revocations.Revoke(t.Context(), revocation("early")))
				noted := marksOf(t, b)
				must(t, a.Revocations.Revoke(t.Context(), revocation("lost")))
				_, position := idsFrom(t, b, store.FeedPosition{})
				_, _ = idsFrom(t, c, store.FeedPosition{})
				seen := marksOf(t, c)
				loseLast(t, a)
				want := []string{"early"}
				for i := range since {
					id := fmt.Sprint("new ", i)
					must(t, a.Revocations.Revoke(t.Context(), revocation(id)))
					want = append(want, id)
				}
				if got, next := idsFrom(t, b, position); !slices.Equal(got, want) || next.At != position.At-1+int64(since) || !next.Lost {
					t.Errorf("the node hears of %q up to %+v, want %q", got, next, want)
				}
				if got, _ := idsFrom(t, a, store.FeedPosition{}); !slices.Equal(got, want) || progressOf(t, a, noted).Behind {
					t.Errorf("who has not seen what was lost gets %q", got)
				}
				// One node has it from the feed and another from its marks, which outlive a process.
				lost := Marks{Revocations: position.End, Tag: position.Tag, Keys: noted.Keys}
				if !progressOf(t, b, lost).Behind || !progressOf(t, open(), seen).Behind {
					t.Fatal("nobody notices")
				}
				for i, n := range []struct {
					s    *Store
					seen Marks
				}{{b, lost}, {c, seen}, {b, lost}} {
					done, err := n.s.Distrust(t.Context(), n.seen, newKey(fmt.Sprint("fresh ", i)), []string{"old"}, time.Now())
					if err != nil || done != (i == 0) || progressOf(t, n.s, n.seen).Behind {
						t.Errorf("answer %d: done is %v, %v", i, done, err)
					}
				}
				want = append(want, "old")
				for _, s := range []*Store{a, b, c} {
					if got, _ := idsFrom(t, s, position); !slices.Equal(got, want) {
						t.Errorf("afterwards a node has %q, want %q", got, want)
					}
				}
			})
		})
	}
}

// TestK11TheFeedIsReadAgainAfterAFailure: a failed query does not advance the position.
func TestK11TheFeedIsReadAgainAfterAFailure(t *testing.T) {
	s := openAt(t, newPath(t))
	must(t, s.Revocations.Revoke(t.Context(), revocation("early")))
	must(t, s.Revocations.Revoke(t.Context(), revocation("lost")))
	_, position := idsFrom(t, s, store.FeedPosition{})
	loseLast(t, s)
	must(t, s.Revocations.Revoke(t.Context(), revocation("new")))
	rename := func(from, to string) {
		_, err := s.db.write.ExecContext(t.Context(), fmt.Sprintf(`ALTER TABLE %s RENAME TO %s`, from, to))
		must(t, err)
	}
	rename("revocations", "away")
	if _, _, err := s.Revocations.Revocations(t.Context(), position); err == nil {
		t.Fatal("there was an answer")
	}
	rename("away", "revocations")
	if got, _ := idsFrom(t, s, position); !slices.Equal(got, []string{"early", "new"}) {
		t.Errorf("the feed has %q", got)
	}
}

// TestWhoWasAwayForLong: a reader that was away for long gets everything, because the store can no longer compare what it has seen.
func TestWhoWasAwayForLong(t *testing.T) {
	onEachDialect(t, func(t *testing.T, open func() *Store) {
		a, b := open(), open()
		must(t, a.Revocations.Revoke(t.Context(), revocation("early")))
		_, position := idsFrom(t, b, store.FeedPosition{})
		if got, _ := idsFrom(t, b, position); len(got) > 0 {
			t.Errorf("it gets %q again", got)
		}
		_, err := a.db.write.ExecContext(t.Context(), `UPDATE counters SET position = position + $1 WHERE name = 'revocations'`, keptTags)
		must(t, err)
		must(t, a.Revocations.Revoke(t.Context(), revocation("new")))
		got, next := idsFrom(t, b, position)
		if !slices.Equal(got, []string{"early", "new"}) || progressOf(t, b, Marks{}).Behind {
			t.Errorf("it gets %q", got)
		}
		if got, _ := idsFrom(t, b, next); len(got) > 0 {
			t.Errorf("it gets %q again", got)
		}
	})
}

// TestFeedInPages: a long feed comes in pages that miss nothing, even if many revocations were recorded in one step or the counter was
// moved far ahead.
func TestFeedInPages(t *testing.T) {
	const steps, each = 500, 41
	onEachDialect(t, func(t *testing.T, open func() *Store) {
		s := open()
		for _, statement := range []string{
			fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
				INSERT INTO revocations (kind, id, position) SELECT 'jti', CAST(i AS TEXT), i / %d + 1 FROM n`, steps*each-1, each),
			fmt.Sprintf(`UPDATE counters SET position = %d WHERE name = 'revocations'`, steps+markGap),
		} {
			_, err := s.db.write.ExecContext(t.Context(), statement)
			must(t, err)
		}
		must(t, s.Revocations.Revoke(t.Context(), revocation("the last")))
		seen := make(map[string]bool)
		pages, position := 0, store.FeedPosition{At: 5, End: 5} // a position from before the counter was moved
		for more := true; more && pages < 10; pages++ {
			list, next, err := s.Revocations.Revocations(t.Context(), position)
			must(t, err)
			for _, r := range list {
				seen[r.ID] = true
			}
			if more = len(list) >= store.FeedPage; more && len(list) > store.FeedPage+2*each {
				t.Errorf("page %d has %d entries", pages, len(list))
			}
			position = next
		}
		if len(seen) != steps*each+1 || pages != 2 {
			t.Errorf("%d pages brought %d of %d", pages, len(seen), steps*each+1)
		}
		if list, next, err := s.Revocations.Revocations(t.Context(), position); len(list) > 0 || next.At != position.At || err != nil {
			t.Errorf("then come %d, up to %d of %d, %v", len(list), next.At, position.At, err)
		}
	})
}
