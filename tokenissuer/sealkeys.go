package tokenissuer

import (
	"context"
	"errors"
	"fmt"
)

// ErrKeyRefused is wrapped by the errors about stored keys that are not bound to the key-encryption key. Anybody who can
// write to the store may have put them there, so nothing is signed, verified or derived with them.
var ErrKeyRefused = errors.New("the key is refused")

// keyForm is how a key is stored. Whatever is not bound could have been written, or changed, without the key-encryption key.
type keyForm int

const (
	keyInClear keyForm = iota
	keySealed          // as builds did that knew of no Binding
	keyBound
)

func (k StoredKey) form() keyForm {
	switch {
	case k.SealedWith == "":
		return keyInClear
	case len(k.Binding) == 0:
		return keySealed
	}
	return keyBound
}

// KeyChange is a stored key before and after a change of its form or its time.
type KeyChange struct{ Was, Becomes StoredKey }

// Sealing is what SealKeys has found and done.
type Sealing struct {
	// InClear and Rebound are how many keys were sealed that were stored in the clear, and bound that builds before bindings had sealed.
	InClear, Rebound int
	// Refused has an error, which is an ErrKeyRefused, for each key that is not revoked and not bound.
	Refused []error
}

// maxSealTries is how often SealKeys begins again because other nodes have changed the keys meanwhile.
const maxSealTries = 10

// SealKeys brings the stored keys into the form of today, sealed and bound under the sealer's key-encryption key of now, all in
// one step. A form is only taken while none better has been seen: keys in the clear while none is sealed, keys that are
// sealed and not bound while none is bound. So whoever can write to the store cannot add a key in a form that needs no
// key-encryption key. settled says that this sealer's keys are known to be bound, which a store that has lost them all cannot
// say. It does nothing when sealer is nil.
func SealKeys(ctx context.Context, store KeyStore, sealer *KeySealer, settled bool) (Sealing, error) {
	if sealer == nil {
		return Sealing{}, nil
	}
	for range maxSealTries {
		stored, err := store.SigningKeys(ctx)
		if err != nil {
			return Sealing{}, Unavailable("keys_unreadable", err)
		}
		found, changes, err := sealer.changes(stored, settled)
		if err != nil || len(changes) == 0 {
			return found, err
		}
		done, err := store.ReplaceSigningKeys(ctx, changes...)
		if err != nil {
			return Sealing{}, Unavailable("keys_unwritable", err)
		}
		if done {
			return found, nil
		}
	}
	return Sealing{}, errors.New("sealing the stored keys: others change them again and again")
}

// changes returns what becomes of the stored keys. The error is about those that should open and do not.
func (s *KeySealer) changes(stored []StoredKey, settled bool) (found Sealing, changes []KeyChange, err error) {
	least := keyInClear
	for _, k := range stored {
		least = max(least, k.form())
	}
	if settled {
		least = keyBound
	}
	for _, k := range alive(stored) {
		form := k.form()
		switch {
		case form < least:
			_, err := s.open(k)
			found.Refused = append(found.Refused, fmt.Errorf("stored key %s: %w", k.ID, err))
			continue
		case form == keyBound && k.SealedWith == s.ID:
			continue
		case form == keyInClear:
			found.InClear++
		case form == keySealed:
			found.Rebound++
		}
		plain, failure := s.plain(k)
		if failure != nil {
			err = errors.Join(err, fmt.Errorf("opening stored key %s: %w", k.ID, failure))
			continue
		}
		changes = append(changes, KeyChange{k, s.seal(k, plain)})
	}
	return found, changes, err
}

// plain returns the private part of a key whose form has been accepted.
func (s *KeySealer) plain(stored StoredKey) ([]byte, error) {
	switch stored.form() {
	case keyInClear:
		return stored.Private, nil
	case keySealed:
		key, err := s.keyFor(stored)
		if err != nil {
			return nil, err
		}
		return key.private(stored)
	}
	return s.open(stored)
}
