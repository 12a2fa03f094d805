package keys

import (
	"context"
	"errors"
	"fmt"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// ErrRefused is wrapped by errors about stored keys that are not bound to the key-encryption key. Anybody with write
// access to the store may have put them there, so they are not used. They do not prevent the use of other keys.
var ErrRefused = errors.New("the key is refused")

// ErrUnbound wraps ErrRefused: the key has no binding, as those that builds before bindings stored.
var ErrUnbound = fmt.Errorf("%w: it is not bound to its row", ErrRefused)

// keyForm is how a key is stored. Only a bound key cannot have been written or changed without the key-encryption key.
type keyForm int

const (
	keyInClear keyForm = iota
	keySealed          // by builds without bindings
	keyBound
)

func formOf(k store.StoredKey) keyForm {
	switch {
	case k.SealedWith == "":
		return keyInClear
	case len(k.Binding) == 0:
		return keySealed
	}
	return keyBound
}

// Sealing is the result of Seal.
type Sealing struct {
	// InClear counts the keys that were stored in the clear, and Rebound those sealed without a binding. Both are now
	// sealed and bound.
	InClear, Rebound int
	// Refused has an ErrRefused for each unrevoked key that could not be bound.
	Refused []error
}

// maxSealTries is how often Seal retries after concurrent changes by other nodes.
const maxSealTries = 10

// Seal seals and binds the stored keys under the current key-encryption key, in one step. It trusts a weaker form only
// while there is no stronger one: keys in the clear while none is sealed, and unbound keys while none is bound. So write
// access to the store is not enough to add a key in a weaker form. Settled reports that the keys are already known to be
// bound, which a store that has lost them cannot show. Seal does nothing if sealer is nil.
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
		done, err := st.ReplaceSigningKeys(ctx, changes...)
		if err != nil {
			return Sealing{}, oauth.Unavailable("keys_unwritable", err)
		}
		if done {
			return found, nil
		}
	}
	return Sealing{}, errors.New("sealing the stored keys: others change them again and again")
}

// changes returns the rows to replace, and the result of Seal.
func (s *Sealer) changes(stored []store.StoredKey, settled bool) (found Sealing, changes []store.KeyChange) {
	least := keyInClear
	for _, k := range stored {
		form := formOf(k)
		if _, err := s.open(k); err != nil {
			form = min(form, keySealed) // an unverified binding proves nothing
		}
		least = max(least, form)
	}
	if settled {
		least = keyBound
	}
	for _, k := range unrevoked(stored) {
		plain, err := s.plain(k, least)
		switch {
		case err != nil:
			found.Refused = append(found.Refused, fmt.Errorf("stored key %s: %w", k.ID, err))
			continue
		case formOf(k) == keyBound && k.SealedWith == s.ID:
			continue
		case formOf(k) == keyInClear:
			found.InClear++
		case formOf(k) == keySealed:
			found.Rebound++
		}
		changes = append(changes, store.KeyChange{Was: k, Becomes: s.seal(k, plain)})
	}
	return found, changes
}

// plain returns the private part of a key whose form must be at least this one.
func (s *Sealer) plain(stored store.StoredKey, least keyForm) ([]byte, error) {
	switch form := formOf(stored); {
	case form < least:
	case form == keyInClear:
		return stored.Private, nil
	case form == keySealed:
		key, err := s.keyFor(stored)
		if err != nil {
			return nil, err
		}
		return key.private(stored)
	}
	return s.open(stored)
}
