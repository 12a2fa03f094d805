package storetest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var feedChecks = []check{
	{name: "FeedGoesOn", test: feedGoesOn},
	{name: "FeedCarriesEveryStep", test: feedCarriesEveryStep},
	{name: "FeedOfAnotherStore", test: feedOfAnotherStore},
	{name: "FeedMissesNothingInARace", test: feedMissesNothingInARace},
}

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

// feedGoesOn: from its position a reader gets only what is new. A known revocation comes again when it is wider.
func feedGoesOn(t *testing.T, s store.Store) {
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
	sameRevocation(t, recorded(t, s.Revocations)["client a"], wider)
}

// feedCarriesEveryStep: the feed has the revocations of every step, not only those of Revoke.
func feedCarriesEveryStep(t *testing.T, s store.Store) {
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
}

// feedOfAnotherStore: a position that the store has not reached comes from a later state of it, before a backup was restored or a store
// in memory was lost. Its reader must not wait there while new revocations get lower positions.
func feedOfAnotherStore(t *testing.T, s store.Store) {
	must(t, s.Revocations.Revoke(t.Context(), revocation("a")))
	list, position, err := s.Revocations.Revocations(t.Context(), store.FeedPosition{At: 1 << 40, End: 1 << 40, Tag: 1})
	must(t, err)
	if len(list) != 1 || position.At >= 1<<40 {
		t.Fatalf("a reader from another time got %v and position %d, want everything and the store's own position", list, position.At)
	}
	must(t, s.Revocations.Revoke(t.Context(), revocation("b")))
	got, _ := follow(t, s.Revocations, position)
	sameNames(t, got, "client b")
}

// feedMissesNothingInARace: 16 writers record new names and one that they share, while a reader continues from its position. In the end
// it has everything that was acknowledged, and the last state of each name.
func feedMissesNothingInARace(t *testing.T, s store.Store) {
	const writers, each = 16, 20
	done := make(chan struct{})
	seen := make(map[string]store.Revocation)
	errs := race(2, func(i int) error {
		if i == 0 {
			defer close(done)
			return errors.Join(race(writers, func(w int) error {
				for n := range each {
					shared := revocation("shared")
					shared.ExpiresAt = shared.ExpiresAt.AddDate(0, 0, w*each+n)
					if err := s.Revocations.Revoke(t.Context(), revocation(fmt.Sprint(w, " ", n)), shared); err != nil {
						return err
					}
				}
				return nil
			})...)
		}
		position := store.FeedPosition{}
		for last := false; ; {
			list, next, err := s.Revocations.Revocations(t.Context(), position)
			if err != nil {
				return err
			}
			if next.At < position.At {
				return fmt.Errorf("the position went back from %d to %d", position.At, next.At)
			}
			for _, r := range list {
				if r.ExpiresAt.Before(seen[name(r)].ExpiresAt) {
					return fmt.Errorf("%s came back narrower", name(r))
				}
				seen[name(r)] = r
			}
			position = next
			if last {
				return nil
			}
			select {
			case <-done: // everything is acknowledged: one more read must return the rest
				last = true
			default:
			}
		}
	})
	must(t, errors.Join(errs...))
	for w := range writers {
		for n := range each {
			if _, ok := seen["client "+fmt.Sprint(w, " ", n)]; !ok {
				t.Errorf("the reader missed revocation %d of writer %d", n, w)
			}
		}
	}
	want := revocation("shared")
	want.ExpiresAt = want.ExpiresAt.AddDate(0, 0, writers*each-1)
	sameRevocation(t, seen["client shared"], want)
}
