package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// follow returns the names of what was recorded after a position, and the next position.
func follow(t *testing.T, s store.RevocationStore, after store.FeedPosition) (map[string]bool, store.FeedPosition) {
	t.Helper()
	list, position, err := s.Revocations(t.Context(), after)
	must(t, err)
	if position.At < after.At {
		t.Fatalf("the position went back from %d to %d", after.At, position.At)
	}
	names := make(map[string]bool, len(list))
	for _, r := range list {
		names[name(r)] = true
	}
	return names, position
}

func sameNames(t *testing.T, got map[string]bool, want ...string) {
	t.Helper()
	missing := len(got) != len(want)
	for _, name := range want {
		missing = missing || !got[name]
	}
	if missing {
		t.Errorf("the feed has %v, want %q", got, want)
	}
}

var feedChecks = []check{
	// From its position a reader gets only what is new. A known revocation comes again when it is wider.
	{name: "FeedGoesOn", test: func(t *testing.T, s store.Store) {
		got, position := follow(t, s.Revocations, store.FeedPosition{})
		sameNames(t, got)
		must(t, s.Revocations.Revoke(t.Context(), revocation("a"), revocation("b")))
		got, position = follow(t, s.Revocations, position)
		sameNames(t, got, "client a", "client b")
		got, position = follow(t, s.Revocations, position)
		sameNames(t, got)
		must(t, s.Revocations.Revoke(t.Context(), revocation("c")))
		got, position = follow(t, s.Revocations, position)
		sameNames(t, got, "client c")
		got, _ = follow(t, s.Revocations, store.FeedPosition{})
		sameNames(t, got, "client a", "client b", "client c")
		got, _ = follow(t, s.Revocations, position)
		sameNames(t, got)
		wider := revocation("a")
		wider.ExpiresAt = wider.ExpiresAt.AddDate(0, 0, 1)
		must(t, s.Revocations.Revoke(t.Context(), wider))
		got, _ = follow(t, s.Revocations, position)
		sameNames(t, got, "client a")
		same(t, recorded(t, s.Revocations)["client a"], wider)
	}},
	// The feed has the revocations of every step, not only those of Revoke.
	{name: "FeedCarriesEveryStep", test: func(t *testing.T, s store.Store) {
		must(t, s.Clients.AddClient(t.Context(), client("a")))
		must(t, s.Clients.AddClient(t.Context(), client("b")))
		must(t, s.Revocations.Revoke(t.Context(), revocation("c")))
		_, position := follow(t, s.Revocations, store.FeedPosition{})
		must(t, s.Clients.ChangeClient(t.Context(), "a", store.DisableClient(revocation("a"))))
		got, position := follow(t, s.Revocations, position)
		sameNames(t, got, "client a")
		must(t, s.Clients.RemoveClient(t.Context(), "b", revocation("b")))
		got, _ = follow(t, s.Revocations, position)
		sameNames(t, got, "client b")
	}},
	// A position that the store has not reached comes from a later state of it, before a backup was restored or a store in memory was lost.
	// Its reader must not wait there while new revocations get lower positions.
	{name: "FeedOfAnotherStore", test: func(t *testing.T, s store.Store) {
		must(t, s.Revocations.Revoke(t.Context(), revocation("a")))
		list, position, err := s.Revocations.Revocations(t.Context(), store.FeedPosition{At: 1 << 40, End: 1 << 40, Tag: 1})
		must(t, err)
		if len(list) != 1 || position.At >= 1<<40 {
			t.Fatalf("a reader from another time got %v and position %d, want everything and the store's own position", list, position.At)
		}
		must(t, s.Revocations.Revoke(t.Context(), revocation("b")))
		got, _ := follow(t, s.Revocations, position)
		sameNames(t, got, "client b")
	}},
	// 16 writers record new names and one that they share, on either of the stores of one place, while a reader continues from its position.
	// After each query it has everything that was acknowledged before, and in the end the last state of each name.
	{name: "FeedMissesNothingInARace", beside: func(t *testing.T, a, b store.Store) {
		const writers, each = 16, 8
		var mu sync.Mutex
		var acknowledged []string
		done, seen := make(chan struct{}), make(map[string]store.Revocation)
		write := func(s store.Store, own store.Revocation, days int) error {
			shared := revocation("shared")
			shared.ExpiresAt = shared.ExpiresAt.AddDate(0, 0, days)
			if days%3 > 0 {
				return s.Revocations.Revoke(t.Context(), own, shared)
			}
			return errors.Join(errOf(s.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: own.ID}, theEnd)), s.Revocations.Revoke(t.Context(), own, shared))
		}
		all(t, 2, func(i int) error {
			if i == 0 {
				defer close(done)
				return errors.Join(race(writers, func(w int) error {
					for n := range each {
						own := endOf(fmt.Sprint(w, " ", n), theEnd.Until)
						if err := write([]store.Store{a, b}[w%2], own, w*each+n); err != nil {
							return err
						}
						mu.Lock()
						acknowledged = append(acknowledged, name(own))
						mu.Unlock()
					}
					return nil
				})...)
			}
			position := store.FeedPosition{}
			for last := false; !last; {
				select {
				case <-done: // everything is acknowledged: one more query must return the rest
					last = true
				default:
				}
				mu.Lock()
				before := slices.Clone(acknowledged)
				mu.Unlock()
				list, next, err := a.Revocations.Revocations(t.Context(), position)
				if err != nil || next.At < position.At {
					return fmt.Errorf("the position went from %d to %d (%w)", position.At, next.At, err)
				}
				for _, r := range list {
					if r.ExpiresAt.Before(seen[name(r)].ExpiresAt) {
						return fmt.Errorf("%s came back narrower", name(r))
					}
					seen[name(r)] = r
				}
				position = next
				for _, name := range before {
					if seen[name].ID == "" {
						return fmt.Errorf("%s was acknowledged, and is not among what was read up to %d", name, position.At)
					}
				}
			}
			return nil
		})
		wantSize(t, seen, writers*each+1)
		want := revocation("shared")
		want.ExpiresAt = want.ExpiresAt.AddDate(0, 0, writers*each-1)
		same(t, seen["client shared"], want)
	}},
}
