package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

var keyChecks = []check{
	{"KeysNoneAtFirst", keysNoneAtFirst},
	{"KeysReadBack", keysReadBack},
	{"KeysFirstOfAnAlgorithmStays", keysFirstOfAnAlgorithmStays},
	{"KeysFirstInARace", keysFirstInARace},
	{"KeysAreNotTheArgument", keysAreNotTheArgument},
	{"KeysSealAsTheCallerBelieves", keysSealAsTheCallerBelieves},
	{"K1KeysAfterTheFirst", keysAfterTheFirst},
	{"KeysThatAreActivated", keysThatAreActivated},
	{"K2KeysAddedInARace", keysAddedInARace},
	{"K9KeysRevoked", keysRevoked},
	{"K9KeysFirstAfterTheLastWasRevoked", keysFirstAfterTheLastWasRevoked},
	{"KeysDropped", keysDropped},
	{"KeysVersionMoves", keysVersionMoves},
}

// key returns a stored key with every byte value in its private part.
func key(id string, algorithm tokenissuer.Algorithm, created time.Time) tokenissuer.StoredKey {
	private := []byte(id)
	for i := range 256 {
		private = append(private, byte(i))
	}
	return tokenissuer.StoredKey{ID: id, Algorithm: algorithm, Private: private, CreatedAt: created}
}

func keyRevocation(id string) tokenissuer.Revocation {
	return tokenissuer.Revocation{Kind: tokenissuer.RevokeKey, ID: id, ExpiresAt: now.AddDate(0, 0, 1)}
}

func storedKeys(t *testing.T, s tokenissuer.KeyStore) []tokenissuer.StoredKey {
	t.Helper()
	keys, err := s.SigningKeys(t.Context())
	must(t, err)
	return keys
}

func sameKeys(t *testing.T, got []tokenissuer.StoredKey, want ...tokenissuer.StoredKey) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d keys are stored, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if g.ID != w.ID || g.Algorithm != w.Algorithm || g.SealedWith != w.SealedWith ||
			!bytes.Equal(g.Private, w.Private) || !sameTime(g.CreatedAt, w.CreatedAt) ||
			!sameTime(g.ActiveFrom, w.ActiveFrom) || !sameTime(g.RevokedAt, w.RevokedAt) {
			t.Errorf("key %d is\n%+v, want\n%+v", i, g, w)
		}
	}
}

func keysNoneAtFirst(t *testing.T, s tokenissuer.Store) { sameKeys(t, storedKeys(t, s)) }

// keysReadBack: keys of several algorithms come back in full, oldest first, whatever the order they came in.
func keysReadBack(t *testing.T, s tokenissuer.Store) {
	youngest, oldest := key("es", tokenissuer.ES256, now.Add(time.Hour)), key("rs", tokenissuer.RS256, now.Add(-time.Hour))
	sealed := key("ed", tokenissuer.EdDSA, now)
	sealed.SealedWith = "kek 1"
	for _, k := range []tokenissuer.StoredKey{youngest, sealed, oldest} {
		must(t, s.AddFirstSigningKey(t.Context(), k))
	}
	sameKeys(t, storedKeys(t, s), oldest, sealed, youngest)
}

// keysFirstOfAnAlgorithmStays: a second key of an algorithm changes nothing and is no error.
func keysFirstOfAnAlgorithmStays(t *testing.T, s tokenissuer.Store) {
	first := key("first", tokenissuer.ES256, now)
	must(t, s.AddFirstSigningKey(t.Context(), first))
	must(t, s.AddFirstSigningKey(t.Context(), key("second", tokenissuer.ES256, now.Add(-time.Hour))))
	must(t, s.AddFirstSigningKey(t.Context(), first))
	sameKeys(t, storedKeys(t, s), first)
}

// keysFirstInARace: of concurrent first keys of an algorithm one is stored, and each caller reads that one after.
func keysFirstInARace(t *testing.T, s tokenissuer.Store) {
	algorithms := []tokenissuer.Algorithm{tokenissuer.ES256, tokenissuer.RS256}
	seen := make([][]tokenissuer.StoredKey, racers)
	errs := race(racers, func(i int) error {
		algorithm := algorithms[i%len(algorithms)]
		err := s.AddFirstSigningKey(t.Context(), key(fmt.Sprint("key ", i), algorithm, now.Add(time.Duration(i)*time.Second)))
		if err != nil {
			return err
		}
		seen[i], err = s.SigningKeys(t.Context())
		return err
	})
	for _, err := range errs {
		must(t, err)
	}
	winner := make(map[tokenissuer.Algorithm]string)
	for _, k := range storedKeys(t, s) {
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
}

// keysAreNotTheArgument: bytes that went in or came out belong to the caller.
func keysAreNotTheArgument(t *testing.T, s tokenissuer.Store) {
	mine := key("k", tokenissuer.ES256, now)
	must(t, s.AddFirstSigningKey(t.Context(), mine))
	clear(mine.Private)
	clear(storedKeys(t, s)[0].Private)
	sameKeys(t, storedKeys(t, s), key("k", tokenissuer.ES256, now))

	sealed := tokenissuer.StoredKey{ID: "k", Algorithm: tokenissuer.ES256, Private: []byte("sealed"), SealedWith: "kek"}
	must(t, s.SealSigningKey(t.Context(), sealed, ""))
	clear(sealed.Private)
	if got := storedKeys(t, s)[0]; string(got.Private) != "sealed" {
		t.Errorf("the sealed key became %q", got.Private)
	}
}

// keysSealAsTheCallerBelieves: sealing replaces the private part and its mark alone, and only of a key that is sealed as the
// caller has read it: of two nodes that seal a key anew at once, the second must not undo the first. A key is never replaced
// by one that is not sealed; a key that is not there does not appear.
func keysSealAsTheCallerBelieves(t *testing.T, s tokenissuer.Store) {
	plain, other := key("k", tokenissuer.ES256, now), key("other", tokenissuer.RS256, now.Add(time.Hour))
	plain.ActiveFrom = now.Add(time.Minute)
	must(t, s.AddFirstSigningKey(t.Context(), plain))
	must(t, s.AddFirstSigningKey(t.Context(), other))
	if err := s.SealSigningKey(t.Context(), plain, ""); err == nil {
		t.Error("a key was replaced by one that is not sealed")
	}
	sealed := func(with string) tokenissuer.StoredKey {
		k := plain
		k.Private, k.SealedWith = []byte("sealed \x00\xff with "+with), with
		return k
	}
	for _, step := range []struct {
		name       string
		from, with string
		stored     tokenissuer.StoredKey
	}{
		{"sealed by another before it was", "kek 1", "kek 2", plain},
		{"not sealed", "", "kek 1", sealed("kek 1")},
		{"not sealed any more", "", "kek 2", sealed("kek 1")},
		{"sealed with another", "kek 3", "kek 2", sealed("kek 1")},
		{"sealed anew", "kek 1", "kek 2", sealed("kek 2")},
		{"late", "kek 1", "kek 3", sealed("kek 2")},
	} {
		must(t, s.SealSigningKey(t.Context(), sealed(step.with), step.from))
		t.Log(step.name)
		sameKeys(t, storedKeys(t, s), step.stored, other)
	}
	nobody := sealed("kek 1")
	nobody.ID = "nobody"
	mustBe(t, s.SealSigningKey(t.Context(), nobody, ""), tokenissuer.ErrNotFound)
	sameKeys(t, storedKeys(t, s), sealed("kek 2"), other)
}

// keysThatAreActivated: the first who says from when a key is active is believed.
func keysThatAreActivated(t *testing.T, s tokenissuer.Store) {
	plain, active := key("plain", tokenissuer.ES256, now), key("active", tokenissuer.EdDSA, now.Add(time.Second))
	active.ActiveFrom = now.Add(time.Hour)
	must(t, s.AddFirstSigningKey(t.Context(), plain))
	must(t, s.AddFirstSigningKey(t.Context(), active))
	for i := range 2 {
		must(t, s.ActivateKey(t.Context(), "plain", now.Add(time.Duration(i+1)*time.Minute)))
		must(t, s.ActivateKey(t.Context(), "active", now))
	}
	mustBe(t, s.ActivateKey(t.Context(), "nobody", now), tokenissuer.ErrNotFound)
	plain.ActiveFrom = now.Add(time.Minute)
	sameKeys(t, storedKeys(t, s), plain, active)
}

// keysAfterTheFirst: further keys of an algorithm stand beside the first, with the time from which they sign; an id is
// given once.
func keysAfterTheFirst(t *testing.T, s tokenissuer.Store) {
	first, second := key("first", tokenissuer.ES256, now), key("second", tokenissuer.ES256, now.Add(time.Hour))
	second.ActiveFrom = now.Add(25 * time.Hour)
	must(t, s.AddFirstSigningKey(t.Context(), first))
	must(t, s.AddSigningKey(t.Context(), second))
	sameKeys(t, storedKeys(t, s), first, second)
	again := key("first", tokenissuer.RS256, now)
	mustBe(t, s.AddSigningKey(t.Context(), again), tokenissuer.ErrTaken)
	sameKeys(t, storedKeys(t, s), first, second)
}

// keysAddedInARace: every one of them is stored.
func keysAddedInARace(t *testing.T, s tokenissuer.Store) {
	must(t, errors.Join(race(racers, func(i int) error {
		return s.AddSigningKey(t.Context(), key(fmt.Sprint("key ", i), tokenissuer.ES256, now))
	})...))
	if keys := storedKeys(t, s); len(keys) != racers {
		t.Errorf("%d keys are stored, want %d", len(keys), racers)
	}
}

// keysRevoked: the private part is gone, its mark stays, and the feed has the revocation. To revoke it again keeps the time.
func keysRevoked(t *testing.T, s tokenissuer.Store) {
	revoked, other := key("k", tokenissuer.ES256, now), key("other", tokenissuer.ES256, now.Add(time.Hour))
	revoked.SealedWith, revoked.ActiveFrom = "kek", now.Add(time.Minute)
	must(t, s.AddSigningKey(t.Context(), revoked))
	must(t, s.AddSigningKey(t.Context(), other))
	must(t, s.RevokeSigningKey(t.Context(), "k", now.Add(time.Hour), keyRevocation("k")))
	must(t, s.RevokeSigningKey(t.Context(), "k", now.Add(2*time.Hour), keyRevocation("k")))
	revoked.Private, revoked.SealedWith, revoked.RevokedAt = nil, "", now.Add(time.Hour)
	sameKeys(t, storedKeys(t, s), revoked, other)
	// What is gone is not sealed back to life by a node that had read it before.
	late := key("k", tokenissuer.ES256, now)
	late.SealedWith = "kek 2"
	for _, from := range []string{"", "kek"} {
		must(t, s.SealSigningKey(t.Context(), late, from))
	}
	sameKeys(t, storedKeys(t, s), revoked, other)

	mustBe(t, s.RevokeSigningKey(t.Context(), "nobody", now, keyRevocation("nobody")), tokenissuer.ErrNotFound)
	got := recorded(t, s)
	if len(got) != 1 {
		t.Errorf("%d revocations are recorded, want one", len(got))
	}
	sameRevocation(t, got["key k"], keyRevocation("k"))
}

// keysFirstAfterTheLastWasRevoked: a revoked key is none that signs, and does not stand in the way of the next.
func keysFirstAfterTheLastWasRevoked(t *testing.T, s tokenissuer.Store) {
	first, second := key("first", tokenissuer.ES256, now), key("second", tokenissuer.ES256, now.Add(time.Hour))
	must(t, s.AddFirstSigningKey(t.Context(), first))
	must(t, s.RevokeSigningKey(t.Context(), "first", now, keyRevocation("first")))
	must(t, s.AddFirstSigningKey(t.Context(), second))
	must(t, s.AddFirstSigningKey(t.Context(), key("third", tokenissuer.ES256, now)))
	first.Private, first.RevokedAt = nil, now
	sameKeys(t, storedKeys(t, s), first, second)
}

// keysDropped: a key that is gone is gone, and to drop it again is no error: two nodes may do it at once.
func keysDropped(t *testing.T, s tokenissuer.Store) {
	kept := key("kept", tokenissuer.ES256, now)
	must(t, s.AddSigningKey(t.Context(), kept))
	must(t, s.AddSigningKey(t.Context(), key("dropped", tokenissuer.ES256, now)))
	for range 2 {
		must(t, s.DropSigningKey(t.Context(), "dropped"))
		sameKeys(t, storedKeys(t, s), kept)
	}
}

// keysVersionMoves with every change, so that whoever asks for it alone misses none.
func keysVersionMoves(t *testing.T, s tokenissuer.Store) {
	sealed := key("first", tokenissuer.ES256, now)
	sealed.SealedWith = "kek"
	last := int64(-1)
	for _, change := range []struct {
		name string
		do   func() error
	}{
		{"nothing", func() error { return nil }},
		{"the first key", func() error { return s.AddFirstSigningKey(t.Context(), key("first", tokenissuer.ES256, now)) }},
		{"a further key", func() error { return s.AddSigningKey(t.Context(), key("second", tokenissuer.ES256, now)) }},
		{"a sealed key", func() error { return s.SealSigningKey(t.Context(), sealed, "") }},
		{"a revoked key", func() error { return s.RevokeSigningKey(t.Context(), "first", now, keyRevocation("first")) }},
		{"a dropped key", func() error { return s.DropSigningKey(t.Context(), "first") }},
	} {
		must(t, change.do())
		version, err := s.KeysVersion(t.Context())
		must(t, err)
		if version <= last {
			t.Errorf("after %s the version is %d, and was %d", change.name, version, last)
		}
		if again, err := s.KeysVersion(t.Context()); err != nil || again != version {
			t.Errorf("asked again, the version is %d, and was %d, %v", again, version, err)
		}
		last = version
	}
}
