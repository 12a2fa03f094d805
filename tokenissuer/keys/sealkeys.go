package keys

import (
	"context"
	"errors"
	"fmt"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// ErrRefused is wrapped by the errors about stored keys that are not bound to the key-encryption key. Anybody who can
// write to the store may have put them there, so nothing is signed, verified or derived with them, and they keep no good key
// from being used.
var ErrRefused = errors.New("the key is refused")

// ErrUnbound is an ErrRefused: the key does not even claim to be bound. So are those that builds before bindings stored.
var ErrUnbound = fmt.Errorf("%w: it is not bound to its row", ErrRefused)

// keyForm is how a key is stored. Whatever is not bound could have been written, or changed, without the key-encryption key.
type keyForm int

const (
	keyInClear keyForm = iota
	keySealed          // as builds did that knew of no Binding
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

// Sealing is what Seal has found and done.
type Sealing struct {
	// InClear and Rebound are how many keys were sealed that were stored in the clear, and bound that builds before bindings had sealed.
	InClear, Rebound int
	// Refused has an ErrRefused for each key that is not revoked and could not be bound.
	Refused []error
}

// maxSealTries is how often Seal begins again because other nodes have changed the keys meanwhile.
const maxSealTries = 10

// Seal brings the stored keys into the form of today, sealed and bound under the sealer's key-encryption key of now, all in
// one step. A form is only taken while none better has been seen: keys in the clear while none is sealed, keys that are
// sealed and not bound while none is bound. So whoever can write to the store cannot add a key in a form that needs no
// key-encryption key. settled says that this sealer's keys are known to be bound, which a store that has lost them all cannot
// say. It does nothing when sealer is nil.
func Seal(ctx context.Context, st store.KeyStore, sealer *Sealer, settled bool) (Sealing, error) {
	if sealer == nil {
		return Sealing{}, nil
	}
	for range maxSealTries {
		stored, err := st.SigningKeys(ctx)
		if err != nil {
			return Sealing{}, oauth.Unavailable("keys_unreadable", err)
		}
		found, changes := sealer.changes(stored, settled)
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

// changes returns the rows to replace, and what Seal reports.
func (s *Sealer) changes(stored []store.StoredKey, settled bool) (found Sealing, changes []store.KeyChange) {
	least := keyInClear
	for _, k := range stored {
		form := formOf(k)
		if _, err := s.open(k); err != nil {
			form = min(form, keySealed) // anybody can claim a binding
		}
		least = max(least, form)
	}
	if settled {
		least = keyBound
	}
	for _, k := range alive(stored) {
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

// plain returns the private part of a key, whose form is at least that one.
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
