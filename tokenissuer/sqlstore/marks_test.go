package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// onEachDialect runs a test on each dialect. Every call of open opens a store of the same database.
func onEachDialect(t *testing.T, test func(t *testing.T, open func() *Store)) {
	t.Run("sqlite", func(t *testing.T) {
		path := newPath(t)
		test(t, func() *Store { return openAt(t, path) })
	})
	t.Run("postgres", func(t *testing.T) {
		dsn := sharedDatabase(t)
		test(t, func() *Store { return openPostgres(t, dsn) })
	})
}

func newKey(id string) store.StoredKey {
	return store.StoredKey{ID: id, Algorithm: oauth.ES256, Private: []byte("private part of " + id), CreatedAt: time.Now()}
}

func progressOf(t *testing.T, s *Store, seen Marks) Progress {
	t.Helper()
	now, err := s.Progress(t.Context(), seen)
	must(t, err)
	return now
}

func marksOf(t *testing.T, s *Store) Marks {
	t.Helper()
	return progressOf(t, s, Marks{}).Marks
}

// TestK11Identity: a database has one identity, whichever node asks first, and no other database has the same.
func TestK11Identity(t *testing.T) {
	seen := make(map[string]bool)
	onEachDialect(t, func(t *testing.T, open func() *Store) {
		stores := []*Store{open(), open()}
		var mu sync.Mutex
		var asking sync.WaitGroup
		found := make(map[string]bool)
		for i := range 8 {
			asking.Go(func() {
				now, err := stores[i%2].Progress(t.Context(), Marks{})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				found[now.Identity] = true
			})
		}
		asking.Wait()
		if len(found) != 1 {
			t.Fatalf("the database has the identities %v", found)
		}
		for identity := range found {
			if again := progressOf(t, open(), Marks{}).Identity; again != identity || len(identity) < 6 || seen[identity] {
				t.Errorf("identity %q, and was %q", again, identity)
			}
			seen[identity] = true
		}
	})
}

// TestK11MarksMove: marks advance with what they stand for, and comparing them shows which database is behind.
func TestK11MarksMove(t *testing.T) {
	onEachDialect(t, func(t *testing.T, open func() *Store) {
		s := open()
		start := marksOf(t, s)
		must(t, s.Revocations.Revoke(t.Context(), revocation("acme")))
		revoked := marksOf(t, s)
		must(t, s.Keys.ChangeKeys(t.Context(), store.AddKey(newKey("k"))))
		added := marksOf(t, s)
		for _, c := range []struct {
			name   string
			seen   Marks
			behind bool
		}{
			{"nothing was seen", Marks{}, false},
			{"before the revocation", start, false},
			{"before the key", revoked, false},
			{"now", added, false},
			{"a revocation further", Marks{Revocations: added.Revocations + 1, Keys: added.Keys}, true},
			{"a key further", Marks{Revocations: added.Revocations, Keys: added.Keys + 1}, true},
			{"another way", Marks{Revocations: added.Revocations, Tag: added.Tag + 1, Keys: added.Keys}, true},
		} {
			if got := progressOf(t, s, c.seen).Behind; got != c.behind {
				t.Errorf("%s: behind is %v", c.name, got)
			}
		}
		if revoked.Revocations <= start.Revocations || revoked.Tag == start.Tag || added.Keys <= revoked.Keys {
			t.Errorf("the marks are %+v, %+v, %+v", start, revoked, added)
		}
		if _, position, err := s.Revocations.Revocations(t.Context(), store.FeedPosition{}); err != nil || position.At != added.Revocations {
			t.Errorf("the feed is at %d, %v, want %d", position.At, err, added.Revocations)
		}
	})
}

// whoSaw returns the position of a reader that has read the feed to its end, with these marks.
func whoSaw(m Marks) store.FeedPosition {
	return store.FeedPosition{At: m.Revocations, End: m.Revocations, Tag: m.Tag}
}

// putBack restores the counters to earlier marks and deletes everything after them, as a backup would.
func putBack(t *testing.T, s *Store, to Marks) {
	t.Helper()
	for name, position := range map[string]int64{"revocations": to.Revocations, "signing_keys": to.Keys} {
		_, err := s.db.write.ExecContext(t.Context(), `UPDATE counters SET position = $1 WHERE name = $2`, position, name)
		must(t, err)
	}
	_, err := s.db.write.ExecContext(t.Context(), `DELETE FROM revocations WHERE position > $1`, to.Revocations)
	must(t, err)
}

// TestK11Distrust: a database that was put back → one of several nodes stores a fresh key and revokes the older ones, in one step. A node
// that follows the feed from an earlier position misses nothing.
func TestK11Distrust(t *testing.T) {
	const n = 4
	onEachDialect(t, func(t *testing.T, open func() *Store) {
		stores := []*Store{open(), open()}
		s := stores[0]
		must(t, s.Keys.ChangeKeys(t.Context(), store.AddKey(newKey("old"))))
		must(t, s.Keys.ChangeKeys(t.Context(), store.AddKey(newKey("next"))))
		must(t, s.Keys.ChangeKeys(t.Context(), store.AddFirstKey(store.StoredKey{ID: "master", Algorithm: "other", Private: []byte("m"), CreatedAt: time.Now()})))
		must(t, s.Revocations.Revoke(t.Context(), revocation("early")))
		backup := marksOf(t, s)
		must(t, s.Revocations.Revoke(t.Context(), revocation("lost")))
		must(t, s.Keys.ChangeKeys(t.Context(), store.AddKey(newKey("lost"))))
		former := progressOf(t, s, Marks{})
		seen := former.Marks
		must(t, s.Keys.ChangeKeys(t.Context(), store.DropKey("lost")))
		putBack(t, s, backup)
		must(t, s.Revocations.Revoke(t.Context(), revocation("after the backup")))

		at, done := time.Now(), make([]bool, n)
		var nodes sync.WaitGroup
		for i := range n {
			nodes.Go(func() {
				var err error
				done[i], err = stores[i%2].Distrust(t.Context(), seen, newKey(fmt.Sprint("fresh ", i)), []string{"old", "next", "gone meanwhile"}, at)
				if err != nil {
					t.Error(err)
				}
			})
		}
		nodes.Wait()
		winner := slices.Index(done, true)
		if winner < 0 || slices.Contains(done[winner+1:], true) {
			t.Fatalf("done is %v", done)
		}
		keys, err := s.Keys.SigningKeys(t.Context())
		must(t, err)
		for _, k := range keys {
			wiped := !k.RevokedAt.IsZero() && len(k.Private) == 0
			if wiped != (k.ID == "old" || k.ID == "next") {
				t.Errorf("key %s is revoked at %v and has %d bytes", k.ID, k.RevokedAt, len(k.Private))
			}
		}
		if len(keys) != 4 || !slices.ContainsFunc(keys, func(k store.StoredKey) bool { return k.ID == fmt.Sprint("fresh ", winner) }) {
			t.Errorf("the keys are %+v", keys)
		}
		now := progressOf(t, s, seen)
		if now.Behind || now.Revocations <= seen.Revocations || now.Keys <= seen.Keys {
			t.Errorf("the counters are %+v, and were %+v", now, seen)
		}
		if again := progressOf(t, stores[1], seen); again != now || now.Identity == former.Identity {
			t.Errorf("the database is %q and %q, and was %q", now.Identity, again.Identity, former.Identity)
		}
		for _, from := range []store.FeedPosition{{}, whoSaw(backup), whoSaw(seen)} {
			list, _, err := stores[1].Revocations.Revocations(t.Context(), from)
			must(t, err)
			var ids []string
			for _, r := range list {
				ids = append(ids, string(r.Kind)+" "+r.ID)
			}
			slices.Sort(ids)
			if want := []string{"client after the backup", "client early", "key gone meanwhile", "key next", "key old"}; !slices.Equal(ids, want) {
				t.Errorf("from %+v the feed has %q, want %q", from, ids, want)
			}
		}
	})
}

// TestK9RevokedKeyLeavesTheFiles: the files contain neither a revoked key nor a dropped one, nor the form that a key had under a former
// key-encryption key.
func TestK9RevokedKeyLeavesTheFiles(t *testing.T) {
	for name, change := range map[string]func(*Store, context.Context, store.StoredKey) error{
		"revoked": func(s *Store, ctx context.Context, _ store.StoredKey) error {
			return s.Keys.ChangeKeys(ctx, store.EndKey("k", time.Now(), store.RevocationOfKey("k", time.Now())))
		},
		"dropped": func(s *Store, ctx context.Context, _ store.StoredKey) error {
			return s.Keys.ChangeKeys(ctx, store.DropKey("k"))
		},
		"sealed anew": func(s *Store, ctx context.Context, k store.StoredKey) error {
			sealed := newKey("k")
			sealed.Private, sealed.SealedWith = []byte("new form"), "kek 2"
			err := s.Keys.ChangeKeys(ctx, store.ReplaceKeys(store.KeyReplacement{Was: k, Becomes: sealed}))
			return err
		},
		"distrusted": func(s *Store, ctx context.Context, _ store.StoredKey) error {
			_, err := s.Distrust(ctx, Marks{Revocations: 1 << 40, Keys: 1 << 40}, newKey("fresh"), []string{"k"}, time.Now())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			s := openAt(t, path)
			k := newKey("k")
			k.Private, k.SealedWith = []byte(oauth.NewClientSecret().Reveal()), "kek 1"
			must(t, s.Keys.ChangeKeys(t.Context(), store.AddKey(k)))
			if !filesHold(t, path, k.Private) {
				t.Fatal("the search does not find what is there")
			}
			must(t, change(s, t.Context(), k))
			if filesHold(t, path, k.Private) {
				t.Error("the private part is still in the files")
			}
		})
	}
}
