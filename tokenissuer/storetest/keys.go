package storetest

import (
	"bytes"
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
	{"KeysSealOnce", keysSealOnce},
}

// key returns a stored key with every byte value in its private part.
func key(id string, algorithm tokenissuer.Algorithm, created time.Time) tokenissuer.StoredKey {
	private := []byte(id)
	for i := range 256 {
		private = append(private, byte(i))
	}
	return tokenissuer.StoredKey{ID: id, Algorithm: algorithm, Private: private, CreatedAt: created}
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
			!bytes.Equal(g.Private, w.Private) || !sameTime(g.CreatedAt, w.CreatedAt) {
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
	must(t, s.SealSigningKey(t.Context(), sealed))
	clear(sealed.Private)
	if got := storedKeys(t, s)[0]; string(got.Private) != "sealed" {
		t.Errorf("the sealed key became %q", got.Private)
	}
}

// keysSealOnce: sealing replaces the private part and its mark alone; a sealed key stays as it is; a key is never
// replaced by one that is not sealed; a key that is not there does not appear.
func keysSealOnce(t *testing.T, s tokenissuer.Store) {
	plain := key("k", tokenissuer.ES256, now)
	other := key("other", tokenissuer.RS256, now.Add(time.Hour))
	must(t, s.AddFirstSigningKey(t.Context(), plain))
	must(t, s.AddFirstSigningKey(t.Context(), other))
	sealed := plain
	sealed.Private, sealed.SealedWith = []byte("sealed \x00\xff"), "kek 1"

	unsealed := plain
	unsealed.Private = []byte("not sealed")
	if err := s.SealSigningKey(t.Context(), unsealed); err == nil {
		t.Error("a key was replaced by one that is not sealed")
	}
	sameKeys(t, storedKeys(t, s), plain, other)

	must(t, s.SealSigningKey(t.Context(), sealed))
	sameKeys(t, storedKeys(t, s), sealed, other)

	again := sealed
	again.Private, again.SealedWith = []byte("again"), "kek 2"
	must(t, s.SealSigningKey(t.Context(), again))
	sameKeys(t, storedKeys(t, s), sealed, other)

	again.ID = "nobody"
	mustBe(t, s.SealSigningKey(t.Context(), again), tokenissuer.ErrNotFound)
	sameKeys(t, storedKeys(t, s), sealed, other)
}
