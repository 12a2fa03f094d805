package keys

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// ErrRefused is wrapped by errors about stored keys that the Sealer does not open. Anybody with write access to the store
// may have put them there, so they are not used. They do not prevent the use of other keys.
var ErrRefused = errors.New("the key is refused")

// ErrInClear wraps ErrRefused: the key is stored in the clear, and a key-encryption key is configured.
var ErrInClear = fmt.Errorf("%w: it is not encrypted", ErrRefused)

// Sealing is the result of Seal.
type Sealing struct {
	// InClear counts the keys that were stored in the clear, and are sealed now.
	InClear int
	// Refused has an ErrRefused for each unrevoked key that was not sealed.
	Refused []error
}

// maxSealTries is how often Seal retries after concurrent changes by other nodes.
const maxSealTries = 10

// Seal seals the stored keys under the current key-encryption key, in one step. It seals keys in the clear only while no
// row says that it is sealed: then a key-encryption key was added to a store that had none. Otherwise write access to the
// store would be enough to add a key. Settled reports that the keys are known to be sealed, which a store that has lost
// them cannot show. Seal does nothing if sealer is nil.
func Seal(ctx context.Context, st store.KeyStore, sealer *Sealer, settled bool) (Sealing, error) {
	if sealer == nil {
		return Sealing{}, nil
	}
	for range maxSealTries {
		set, err := readSet(ctx, st, sealer)
		if err != nil {
			return Sealing{}, err
		}
		found, changes := sealer.changes(set.keys, settled)
		found.Refused = append(found.Refused, set.refused()...)
		if len(changes) == 0 {
			return found, nil
		}
		err = st.ChangeKeys(ctx, store.ReplaceKeys(changes...))
		switch {
		case err == nil:
			return found, nil
		case !errors.Is(err, store.ErrNotFound):
			return Sealing{}, err
		}
	}
	return Sealing{}, errors.New("sealing the stored keys: others change them again and again")
}

// changes returns the rows to replace, and the result of Seal.
func (s *Sealer) changes(stored []store.StoredKey, settled bool) (found Sealing, changes []store.KeyReplacement) {
	settled = settled || slices.ContainsFunc(stored, func(k store.StoredKey) bool { return k.SealedWith != "" })
	for _, k := range unrevoked(stored) {
		plain, err := s.open(k)
		switch {
		case errors.Is(err, ErrInClear) && !settled:
			plain = k.Private
			found.InClear++
		case err != nil:
			found.Refused = append(found.Refused, fmt.Errorf("stored key %s: %w", k.ID, err))
			continue
		case k.SealedWith == s.ID:
			continue
		}
		changes = append(changes, store.KeyReplacement{Was: k, Becomes: s.seal(k, plain)})
	}
	return found, changes
}
