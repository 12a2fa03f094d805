package store

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// KeyStore stores the signing keys, and the issuer's master key as a key whose algorithm is not a signing algorithm.
type KeyStore interface {
	// KeysVersion returns a number that increases with every change of the keys. The call is cheap.
	KeysVersion(ctx context.Context) (int64, error)
	// SigningKeys lists all keys, oldest first.
	SigningKeys(ctx context.Context) ([]StoredKey, error)
	// BindKeys registers bind, which every later change of the keys calls. The key that bind returns is stored in the same step,
	// replacing the stored key with that ID. An error of bind fails the change. bind may be called several times for one change and must
	// not use the store.
	BindKeys(bind func(KeyStep) (StoredKey, error))
	// ChangeKeys reads all keys, edits them, stores the result and records the revocations of the change, in one step. Changes run one
	// after the other. The store's files do not keep a private part that a change replaces or deletes. An error of Edit aborts the change
	// and is returned.
	ChangeKeys(ctx context.Context, change KeyChange) error
}

// StoredKey is a signing key as the store holds it.
type StoredKey struct {
	ID        string // the RFC 7638 thumbprint
	Algorithm oauth.Algorithm
	// Private is the PKCS #8 key, sealed if SealedWith is set. A revoked key has none.
	Private []byte
	// SealedWith names the key-encryption key; empty: Private is not sealed.
	SealedWith string
	CreatedAt  time.Time
	// ActiveFrom is when the key begins to sign.
	ActiveFrom time.Time
	// RevokedAt is when the key was revoked; zero: it was not.
	RevokedAt time.Time
}

// KeyStep is a change of the keys that is about to be committed.
type KeyStep struct {
	// Identity is the store's identifier of its database, if it has one. Version is what KeysVersion will return.
	Identity string
	Version  int64
	// Before and After list all keys.
	Before, After []StoredKey
}

// KeyChange is a change of the keys.
type KeyChange struct {
	// Name describes the change in errors and failpoints, such as "adding signing key".
	Name string
	// Edit returns all keys as they are to be stored. It may be called several times, must not use the store, and may change the list in
	// place, but not the bytes in it.
	Edit func(keys []StoredKey) ([]StoredKey, error)
	// Ends are revocations to record.
	Ends []Revocation
}

// AddFirstKey returns the change that adds the key unless a key of the same algorithm exists that was not revoked. The change then succeeds
// and adds nothing: callers read SigningKeys afterwards to learn which key was stored.
func AddFirstKey(key StoredKey) KeyChange {
	isOther := func(k StoredKey) bool { return k.Algorithm == key.Algorithm && k.RevokedAt.IsZero() }
	add := AddKey(key)
	return KeyChange{Name: "adding first signing key", Edit: func(keys []StoredKey) ([]StoredKey, error) {
		if slices.ContainsFunc(keys, isOther) {
			return keys, nil
		}
		return add.Edit(keys)
	}}
}

// AddKey returns the change that adds a further key. The change fails with ErrTaken when a key has that ID.
func AddKey(key StoredKey) KeyChange {
	key.Private = slices.Clone(key.Private)
	return KeyChange{Name: "adding signing key", Edit: func(keys []StoredKey) ([]StoredKey, error) {
		if indexOfKey(keys, key.ID) >= 0 {
			return nil, ErrTaken
		}
		return append(keys, key), nil
	}}
}

// KeyReplacement is a stored key before and after it is sealed in another way.
type KeyReplacement struct{ Was, Becomes StoredKey }

// ReplaceKeys returns the change that replaces Private and SealedWith of the keys. The change fails with ErrNotFound unless every key still
// exists, is not revoked and has the Private and SealedWith of Was. It also fails if it would replace a sealed key with an unsealed one.
func ReplaceKeys(replacements ...KeyReplacement) KeyChange {
	replacements = slices.Clone(replacements)
	for i, r := range replacements {
		replacements[i].Was.Private, replacements[i].Becomes.Private = slices.Clone(r.Was.Private), slices.Clone(r.Becomes.Private)
	}
	return KeyChange{Name: "replacing signing keys", Edit: func(keys []StoredKey) ([]StoredKey, error) {
		for _, r := range replacements {
			if r.Was.SealedWith != "" && r.Becomes.SealedWith == "" {
				return nil, errors.New("the replacement is not sealed")
			}
			i := indexOfKey(keys, r.Was.ID)
			if i < 0 || !keys[i].RevokedAt.IsZero() || keys[i].SealedWith != r.Was.SealedWith || !bytes.Equal(keys[i].Private, r.Was.Private) {
				return nil, ErrNotFound
			}
			keys[i].Private, keys[i].SealedWith = r.Becomes.Private, r.Becomes.SealedWith
		}
		return keys, nil
	}}
}

// EndKey returns the change that revokes a key: it deletes the private part, sets RevokedAt unless it is set, and records the revocation of
// the key's tokens. The change fails with ErrNotFound when the key does not exist.
func EndKey(id string, at time.Time, tokens Revocation) KeyChange {
	return KeyChange{Name: "revoking signing key", Ends: []Revocation{tokens}, Edit: func(keys []StoredKey) ([]StoredKey, error) {
		i := indexOfKey(keys, id)
		if i < 0 {
			return nil, ErrNotFound
		}
		keys[i] = keys[i].Revoked(at)
		return keys, nil
	}}
}

// Revoked returns the key without its private part, revoked at the given time unless it was revoked before.
func (k StoredKey) Revoked(at time.Time) StoredKey {
	k.Private, k.SealedWith = nil, ""
	if k.RevokedAt.IsZero() {
		k.RevokedAt = at
	}
	return k
}

// DropKey returns the change that deletes a key. The change does nothing when the key does not exist.
func DropKey(id string) KeyChange {
	return KeyChange{Name: "dropping signing key", Edit: func(keys []StoredKey) ([]StoredKey, error) {
		return slices.DeleteFunc(keys, func(k StoredKey) bool { return k.ID == id }), nil
	}}
}

func indexOfKey(keys []StoredKey, id string) int {
	return slices.IndexFunc(keys, func(k StoredKey) bool { return k.ID == id })
}
