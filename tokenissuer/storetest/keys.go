package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// key returns a stored key with every byte value in its private part.
func key(id string, algorithm oauth.Algorithm, created time.Time) store.StoredKey {
	private := []byte(id)
	for i := range 256 {
		private = append(private, byte(i))
	}
	return store.StoredKey{ID: id, Algorithm: algorithm, Private: private, CreatedAt: created}
}

func keyRevocation(id string) store.Revocation {
	return store.Revocation{Kind: store.RevokeKey, ID: id, ExpiresAt: now.AddDate(0, 0, 1)}
}

func storedKeys(t *testing.T, s store.KeyStore) []store.StoredKey {
	t.Helper()
	return ok(s.SigningKeys(t.Context()))(t)
}

func sameKeys(t *testing.T, got []store.StoredKey, want ...store.StoredKey) {
	t.Helper()
	same(t, got, want)
}

func change(was, becomes store.StoredKey) store.KeyReplacement {
	return store.KeyReplacement{Was: was, Becomes: becomes}
}

// replaces requests the replacements and checks whether they were made.
func replaces(t *testing.T, s store.KeyStore, want bool, changes ...store.KeyReplacement) {
	t.Helper()
	err := s.ChangeKeys(t.Context(), store.ReplaceKeys(changes...))
	if want {
		must(t, err)
		return
	}
	mustBe(t, err, store.ErrNotFound)
}

var keyChecks = []check{
	// There are none at first. Keys of several algorithms come back in full, oldest first, in whatever order they were added.
	{name: "KeysReadBack", test: func(t *testing.T, s store.Store) {
		sameKeys(t, storedKeys(t, s.Keys))
		youngest, oldest := key("es", oauth.ES256, now.Add(time.Hour)), key("rs", oauth.RS256, now.Add(-time.Hour))
		sealed := key("ed", oauth.EdDSA, now)
		sealed.SealedWith = "kek 1"
		for _, k := range []store.StoredKey{youngest, sealed, oldest} {
			must(t, s.Keys.ChangeKeys(t.Context(), store.AddFirstKey(k)))
		}
		sameKeys(t, storedKeys(t, s.Keys), oldest, sealed, youngest)
	}},
	// Of concurrent first keys of an algorithm one is stored, and each caller reads that one afterwards.
	{name: "KeysFirstInARace", races: func(t *testing.T, s store.Store) {
		algorithms := []oauth.Algorithm{oauth.ES256, oauth.RS256}
		seen := make([][]store.StoredKey, racers)
		all(t, racers, func(i int) error {
			algorithm := algorithms[i%len(algorithms)]
			err := s.Keys.ChangeKeys(t.Context(), store.AddFirstKey(key(fmt.Sprint("key ", i), algorithm, now.Add(time.Duration(i)*time.Second))))
			if err != nil {
				return err
			}
			seen[i], err = s.Keys.SigningKeys(t.Context())
			return err
		})
		winner := make(map[oauth.Algorithm]string)
		for _, k := range storedKeys(t, s.Keys) {
			if other, twice := winner[k.Algorithm]; twice {
				t.Fatalf("%s and %s are both first keys for %s", other, k.ID, k.Algorithm)
			}
			winner[k.Algorithm] = k.ID
		}
		for i, keys := range seen {
			mine := ""
			for _, k := range keys {
				if k.Algorithm == algorithms[i%len(algorithms)] {
					mine = k.ID
				}
			}
			if want := winner[algorithms[i%len(algorithms)]]; mine != want || want == "" {
				t.Errorf("caller %d read key %q, want %q", i, mine, want)
			}
		}
	}},
	// Sealing replaces the private part and SealedWith, and only of a key that is as the caller has read it: of two nodes that reseal a key
	// concurrently, the second must not undo the first. A sealed key is never replaced by an unsealed one, and a missing key is not created.
	{name: "KeysSealAsTheCallerBelieves", test: func(t *testing.T, s store.Store) {
		plain, other := key("k", oauth.ES256, now), key("other", oauth.RS256, now.Add(time.Hour))
		plain.ActiveFrom = now.Add(time.Minute)
		must(t, s.Keys.ChangeKeys(t.Context(), store.AddFirstKey(plain)))
		must(t, s.Keys.ChangeKeys(t.Context(), store.AddFirstKey(other)))
		sealed := func(with string) store.StoredKey {
			k := plain
			k.Private, k.SealedWith = []byte("sealed \x00\xff with "+with), with
			return k
		}
		otherBytes := sealed("kek 1")
		otherBytes.Private = []byte("sealed too")
		for _, step := range []struct {
			name       string
			was        store.StoredKey
			with       string
			stored     store.StoredKey
			isReplaced bool
		}{
			{"sealed by another before it was", sealed("kek 1"), "kek 2", plain, false},
			{"not sealed", plain, "kek 1", sealed("kek 1"), true},
			{"not sealed any more", plain, "kek 2", sealed("kek 1"), false},
			{"sealed with another", sealed("kek 3"), "kek 2", sealed("kek 1"), false},
			{"sealed another time", otherBytes, "kek 2", sealed("kek 1"), false},
			{"sealed anew", sealed("kek 1"), "kek 2", sealed("kek 2"), true},
			{"late", sealed("kek 1"), "kek 3", sealed("kek 2"), false},
		} {
			t.Log(step.name)
			replaces(t, s.Keys, step.isReplaced, change(step.was, sealed(step.with)))
			sameKeys(t, storedKeys(t, s.Keys), step.stored, other)
		}
		if err := s.Keys.ChangeKeys(t.Context(), store.ReplaceKeys(change(sealed("kek 2"), plain))); err == nil {
			t.Error("a sealed key was replaced by one that is not")
		}
		nobody := sealed("kek 1")
		nobody.ID = "nobody"
		replaces(t, s.Keys, false, change(nobody, nobody))
		sameKeys(t, storedKeys(t, s.Keys), sealed("kek 2"), other)
	}},
	// Further keys of an algorithm are stored with the time from which they sign. An id can be used once.
	{name: "K1KeysAfterTheFirst", test: func(t *testing.T, s store.Store) {
		first, second := key("first", oauth.ES256, now), key("second", oauth.ES256, now.Add(time.Hour))
		second.ActiveFrom = now.Add(25 * time.Hour)
		must(t, s.Keys.ChangeKeys(t.Context(), store.AddFirstKey(first)))
		must(t, s.Keys.ChangeKeys(t.Context(), store.AddKey(second)))
		sameKeys(t, storedKeys(t, s.Keys), first, second)
		again := key("first", oauth.RS256, now)
		mustBe(t, s.Keys.ChangeKeys(t.Context(), store.AddKey(again)), store.ErrTaken)
		sameKeys(t, storedKeys(t, s.Keys), first, second)
	}},
	// All of them or none. A key that cannot be replaced leaves the others and the version unchanged.
	{name: "KeysReplacedTogether", test: func(t *testing.T, s store.Store) {
		first, second := key("first", oauth.ES256, now), key("second", oauth.EdDSA, now.Add(time.Second))
		must(t, s.Keys.ChangeKeys(t.Context(), store.AddFirstKey(first)))
		must(t, s.Keys.ChangeKeys(t.Context(), store.AddFirstKey(second)))
		becomes := func(k store.StoredKey) store.StoredKey {
			k.Private, k.SealedWith = []byte("sealed "+k.ID), "kek"
			return k
		}
		sealed, sealedToo := becomes(second), becomes(first)
		before := ok(s.Keys.KeysVersion(t.Context()))(t)
		replaces(t, s.Keys, false, change(first, sealedToo), change(sealed, sealed))
		sameKeys(t, storedKeys(t, s.Keys), first, second)
		after := ok(s.Keys.KeysVersion(t.Context()))(t)
		if after != before {
			t.Errorf("nothing changed, and the version went from %d to %d", before, after)
		}
		replaces(t, s.Keys, true, change(first, sealedToo), change(second, sealed))
		sameKeys(t, storedKeys(t, s.Keys), sealedToo, sealed)
	}},
	// Every one of them is stored.
	{name: "K2KeysAddedInARace", races: func(t *testing.T, s store.Store) {
		all(t, racers, func(i int) error {
			return s.Keys.ChangeKeys(t.Context(), store.AddKey(key(fmt.Sprint("key ", i), oauth.ES256, now)))
		})
		wantSize(t, storedKeys(t, s.Keys), racers)
	}},
	// The private part is deleted, RevokedAt is set, and the feed has the revocation. Revoking again keeps the time.
	{name: "K9KeysRevoked", test: func(t *testing.T, s store.Store) {
		revoked, other := key("k", oauth.ES256, now), key("other", oauth.ES256, now.Add(time.Hour))
		revoked.SealedWith, revoked.ActiveFrom = "kek", now.Add(time.Minute)
		must(t, s.Keys.ChangeKeys(t.Context(), store.AddKey(revoked)))
		must(t, s.Keys.ChangeKeys(t.Context(), store.AddKey(other)))
		before := revoked
		must(t, s.Keys.ChangeKeys(t.Context(), store.EndKey("k", now.Add(time.Hour), keyRevocation("k"))))
		must(t, s.Keys.ChangeKeys(t.Context(), store.EndKey("k", now.Add(2*time.Hour), keyRevocation("k"))))
		revoked.Private, revoked.SealedWith, revoked.RevokedAt = nil, "", now.Add(time.Hour)
		sameKeys(t, storedKeys(t, s.Keys), revoked, other)
		// A node that had read the key before cannot restore it by sealing it.
		late := key("k", oauth.ES256, now)
		late.SealedWith = "kek 2"
		for _, was := range []store.StoredKey{before, revoked} {
			replaces(t, s.Keys, false, change(was, late))
		}
		sameKeys(t, storedKeys(t, s.Keys), revoked, other)

		mustBe(t, s.Keys.ChangeKeys(t.Context(), store.EndKey("nobody", now, keyRevocation("nobody"))), store.ErrNotFound)
		got := recorded(t, s.Revocations)
		wantSize(t, got, 1)
		same(t, got["key k"], keyRevocation("k"))
	}},
	// A second key of an algorithm changes nothing and is not an error, unless the first one was revoked: a revoked key does not sign, and
	// does not prevent the next.
	{name: "K9KeysFirstOfAnAlgorithm", test: func(t *testing.T, s store.Store) {
		first, second := key("first", oauth.ES256, now), key("second", oauth.ES256, now.Add(time.Hour))
		must(t, s.Keys.ChangeKeys(t.Context(), store.AddFirstKey(first)))
		must(t, s.Keys.ChangeKeys(t.Context(), store.AddFirstKey(key("earlier", oauth.ES256, now.Add(-time.Hour)))))
		must(t, s.Keys.ChangeKeys(t.Context(), store.AddFirstKey(first)))
		sameKeys(t, storedKeys(t, s.Keys), first)
		must(t, s.Keys.ChangeKeys(t.Context(), store.EndKey("first", now, keyRevocation("first"))))
		must(t, s.Keys.ChangeKeys(t.Context(), store.AddFirstKey(second)))
		must(t, s.Keys.ChangeKeys(t.Context(), store.AddFirstKey(key("third", oauth.ES256, now))))
		first.Private, first.RevokedAt = nil, now
		sameKeys(t, storedKeys(t, s.Keys), first, second)
	}},
	// A dropped key does not exist, and dropping it again is not an error, because two nodes may do it concurrently.
	{name: "KeysDropped", test: func(t *testing.T, s store.Store) {
		kept := key("kept", oauth.ES256, now)
		must(t, s.Keys.ChangeKeys(t.Context(), store.AddKey(kept)))
		must(t, s.Keys.ChangeKeys(t.Context(), store.AddKey(key("dropped", oauth.ES256, now))))
		for range 2 {
			must(t, s.Keys.ChangeKeys(t.Context(), store.DropKey("dropped")))
			sameKeys(t, storedKeys(t, s.Keys), kept)
		}
	}},
	// Every change moves the version, and a caller that only reads the version misses none.
	{name: "KeysVersionMoves", test: func(t *testing.T, s store.Store) {
		sealed := key("first", oauth.ES256, now)
		sealed.SealedWith = "kek"
		last := int64(-1)
		for _, change := range []struct {
			name string
			do   func() error
		}{
			{"nothing", func() error { return nil }},
			{"the first key", func() error { return s.Keys.ChangeKeys(t.Context(), store.AddFirstKey(key("first", oauth.ES256, now))) }},
			{"a further key", func() error { return s.Keys.ChangeKeys(t.Context(), store.AddKey(key("second", oauth.ES256, now))) }},
			{"a sealed key", func() error {
				replaces(t, s.Keys, true, change(key("first", oauth.ES256, now), sealed))
				return nil
			}},
			{"a revoked key", func() error {
				return s.Keys.ChangeKeys(t.Context(), store.EndKey("first", now, keyRevocation("first")))
			}},
			{"a dropped key", func() error { return s.Keys.ChangeKeys(t.Context(), store.DropKey("first")) }},
		} {
			must(t, change.do())
			version := ok(s.Keys.KeysVersion(t.Context()))(t)
			if version <= last {
				t.Errorf("after %s the version is %d, and was %d", change.name, version, last)
			}
			if again, err := s.Keys.KeysVersion(t.Context()); err != nil || again != version {
				t.Errorf("asked again, the version is %d, and was %d, %v", again, version, err)
			}
			last = version
		}
	}},
	// The binding key is stored in the step that changes the keys. It covers every other change either before the step or not at all, and an
	// error of bind undoes the change.
	{name: "V9KeysBoundTogether", test: func(t *testing.T, s store.Store) {
		refuse := false
		s.Keys.BindKeys(func(step store.KeyStep) (store.StoredKey, error) {
			if refuse {
				return store.StoredKey{}, errors.New("it is refused")
			}
			var ids []string
			for _, k := range step.After {
				if k.ID != "bound" {
					ids = append(ids, k.ID)
				}
			}
			text := fmt.Sprint(step.Version, len(step.Before), len(step.After), len(ids))
			return store.StoredKey{ID: "bound", Algorithm: "bound", Private: []byte(text), SealedWith: "kek"}, nil
		})
		all(t, racers, func(i int) error {
			return s.Keys.ChangeKeys(t.Context(), store.AddKey(key(fmt.Sprint("key ", i), oauth.ES256, now)))
		})
		version := ok(s.Keys.KeysVersion(t.Context()))(t)
		bound := func() string {
			for _, k := range storedKeys(t, s.Keys) {
				if k.ID == "bound" {
					return string(k.Private)
				}
			}
			return "nothing"
		}
		if want := fmt.Sprint(version, racers, racers+1, racers); bound() != want {
			t.Errorf("bound: %s, want %s", bound(), want)
		}
		refuse = true
		before, stood := bound(), len(storedKeys(t, s.Keys))
		if err := s.Keys.ChangeKeys(t.Context(), store.AddKey(key("refused", oauth.ES256, now))); err == nil {
			t.Error("a change that could not be bound was made")
		}
		if err := s.Keys.ChangeKeys(t.Context(), store.DropKey("key 0")); err == nil {
			t.Error("a key was dropped though that could not be bound")
		}
		after := ok(s.Keys.KeysVersion(t.Context()))(t)
		if bound() != before || len(storedKeys(t, s.Keys)) != stood || after != version {
			t.Errorf("a change that could not be bound left %s, %d keys, version %d", bound(), len(storedKeys(t, s.Keys)), after)
		}
	}},
}
