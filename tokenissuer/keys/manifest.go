package keys

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// manifestAlgorithm marks the manifest among the stored keys. A store has one, with this as its id too.
const manifestAlgorithm oauth.Algorithm = "manifest"

// manifestVersion begins the authenticated data of a manifest. Change it with its members.
const manifestVersion = "gatehouse key manifest 1"

// ErrOldSet wraps ErrRefused: the stored keys are sealed, and no manifest of this key-encryption key confirms that they are the current ones.
var ErrOldSet = fmt.Errorf("%w: the manifest of the stored keys is missing or was changed", ErrRefused)

// Manifest lists the signing keys of a store. It is encrypted and authenticated under the key-encryption key, so that write access to the store is
// not enough to restore the row of a key that was revoked or dropped.
type Manifest struct {
	// Counter grows with every change of the keys, so that an older set is recognised.
	Counter int64 `json:"counter"`
	// Identity is that of the database.
	Identity string `json:"identity"`
	// Revoked reports for the id of each signing key whether it was revoked.
	Revoked map[string]bool `json:"revoked"`
}

func (s *Sealer) aboutManifest() []byte {
	return append(binary.BigEndian.AppendUint64([]byte(manifestVersion), uint64(len(s.issuer))), s.issuer...)
}

// Expect makes s refuse manifests with a lower counter. A machine that has recorded the counter of its store calls it before the first write,
// which would otherwise confirm an old manifest.
func (s *Sealer) Expect(counter int64) {
	for s != nil {
		if least := s.least.Load(); counter <= least || s.least.CompareAndSwap(least, counter) {
			return
		}
	}
}

// manifestIn returns the manifest among the stored rows, whose counter is no lower than least. Its error wraps ErrOldSet, unless the manifest is
// of an unknown key-encryption key: then it is an ErrRefused, and the configuration is to blame.
func (s *Sealer) manifestIn(rows []store.StoredKey, least int64) (m Manifest, err error) {
	for _, row := range rows {
		if row.Algorithm != manifestAlgorithm {
			continue
		}
		key, err := s.keyFor(row)
		if err != nil {
			return Manifest{}, err
		}
		plain, err := key.decrypt(row.Private, s.aboutManifest())
		if err == nil {
			err = json.Unmarshal(plain, &m)
		}
		if err != nil || m.Counter < least {
			return Manifest{}, ErrOldSet
		}
		return m, nil
	}
	return Manifest{}, ErrOldSet
}

// bindSet returns the manifest after a step. It lists what the step has added or changed, and what the manifest before it listed. Without a good
// manifest before it, one of this database that is no older than those that were seen, the step must have written every key that counts after it.
func (s *Sealer) bindSet(step store.KeyStep) (store.StoredKey, error) {
	least := s.least.Load() // the step holds the version of the keys, so no newer manifest has been seen
	old, invalid := s.manifestIn(step.Before, least)
	if invalid == nil && old.Identity != step.Identity {
		old, invalid = Manifest{Counter: old.Counter}, ErrOldSet
	}
	if invalid != nil && !errors.Is(invalid, ErrOldSet) {
		return store.StoredKey{}, invalid
	}
	before := make(map[string]store.StoredKey, len(step.Before))
	for _, row := range step.Before {
		before[row.ID] = row
	}
	m := Manifest{Counter: max(old.Counter+1, least+1, step.Version), Identity: step.Identity, Revoked: make(map[string]bool)}
	for _, row := range onlySigning(step.After) {
		was, stood := before[row.ID]
		wasRevoked, listed := old.Revoked[row.ID]
		switch isRevoked := !row.RevokedAt.IsZero(); {
		case !stood || !isSameRow(was, row):
			m.Revoked[row.ID] = isRevoked
		case listed:
			m.Revoked[row.ID] = wasRevoked || isRevoked
		case invalid != nil && !isRevoked && !s.refuses(row):
			return store.StoredKey{}, invalid
		}
	}
	plain, err := json.Marshal(m, json.Deterministic(true))
	if err != nil {
		return store.StoredKey{}, err
	}
	return store.StoredKey{
		ID: string(manifestAlgorithm), Algorithm: manifestAlgorithm, Private: s.encrypt(plain, s.aboutManifest()), SealedWith: s.ID,
	}, nil
}

func isSameRow(a, b store.StoredKey) bool {
	return a.Algorithm == b.Algorithm && bytes.Equal(a.Private, b.Private) && a.SealedWith == b.SealedWith &&
		a.CreatedAt.Equal(b.CreatedAt) && a.ActiveFrom.Equal(b.ActiveFrom) && a.RevokedAt.Equal(b.RevokedAt)
}

// storedSet are the rows of a store.
type storedSet struct {
	// keys are the keys that the manifest lists as they are, and the master key. Without a sealer they are all.
	keys []store.StoredKey
	// strange are the signing keys that the manifest does not list, or lists as revoked.
	strange []store.StoredKey
	// missing are the ids of the keys that the manifest lists, and that are not there or were marked as revoked.
	missing  []string
	manifest Manifest
}

// refused returns an error for each key that is not as the manifest has it.
func (s storedSet) refused() (errs []error) {
	for _, k := range s.strange {
		errs = append(errs, fmt.Errorf("stored key %s: %w: it was revoked or dropped, or never added, and somebody has put it there", k.ID, ErrRefused))
	}
	for _, id := range s.missing {
		errs = append(errs, fmt.Errorf("stored key %s: %w: somebody has taken it out or marked it as revoked", id, ErrRefused))
	}
	return errs
}

// readSet reads the keys, and has the store keep their manifest from now on if there is a sealer. With an error that wraps ErrOldSet, every
// signing key is strange.
func readSet(ctx context.Context, st store.KeyStore, sealer *Sealer) (set storedSet, err error) {
	if sealer != nil {
		st.BindKeys(sealer.bindSet)
	}
	var least int64
	if sealer != nil {
		least = sealer.least.Load() // before the rows are read: another reading may see a newer manifest meanwhile
	}
	rows, err := st.SigningKeys(ctx)
	if err != nil {
		return set, err
	}
	all := keysWhere(rows, func(s store.StoredKey) bool { return s.Algorithm != manifestAlgorithm })
	if sealer == nil {
		return storedSet{keys: all}, nil
	}
	manifest, err := sealer.manifestIn(rows, least)
	if err != nil {
		if len(sealer.accepts(unrevoked(onlySigning(all)))) == 0 { // nothing that a manifest could be about; what is wrong with the rows is said of each
			return storedSet{keys: all}, nil
		}
		set.strange = onlySigning(all)
		return set, err
	}
	sealer.Expect(manifest.Counter)
	set.manifest = manifest
	found := make(map[string]bool)
	for _, k := range all {
		wasRevoked, listed := manifest.Revoked[k.ID]
		isRevoked := !k.RevokedAt.IsZero()
		found[k.ID] = listed && isRevoked == wasRevoked
		if k.Algorithm == masterAlgorithm || isRevoked || listed && !wasRevoked || sealer.refuses(k) {
			set.keys = append(set.keys, k)
		} else {
			set.strange = append(set.strange, k)
		}
	}
	for id, wasRevoked := range manifest.Revoked {
		if !wasRevoked && !found[id] {
			set.missing = append(set.missing, id)
		}
	}
	return set, nil
}

// ReadManifest returns the manifest of the stored keys. It is zero without a sealer, and while there is no key that one could be about.
func ReadManifest(ctx context.Context, st store.KeyStore, sealer *Sealer) (Manifest, error) {
	set, err := readSet(ctx, st, sealer)
	return set.manifest, err
}
