package store

import (
	"context"
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
	// AddFirstSigningKey stores the key unless a key of the same algorithm exists that was not revoked. It then adds nothing and returns
	// nil. Callers read SigningKeys afterwards to learn which key was stored.
	AddFirstSigningKey(ctx context.Context, key StoredKey) error
	// AddSigningKey stores a further key. It returns ErrTaken when a key has that ID.
	AddSigningKey(ctx context.Context, key StoredKey) error
	// ReplaceSigningKeys replaces Private and SealedWith of the keys, all in one step, and reports whether it did. It changes nothing
	// unless every key still exists, is not revoked and has the Private and SealedWith of Was. The replaced bytes are erased from the
	// store's files. Replacing a sealed key with an unsealed one is an error.
	ReplaceSigningKeys(ctx context.Context, changes ...KeyChange) (bool, error)
	// RevokeSigningKey sets RevokedAt unless it is set, deletes the private key for good and records the revocation of the key's tokens,
	// in one step. It returns ErrNotFound when the key does not exist.
	RevokeSigningKey(ctx context.Context, id string, at time.Time, tokens Revocation) error
	// DropSigningKey deletes a key. It does nothing when the key does not exist.
	DropSigningKey(ctx context.Context, id string) error
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

// KeyChange is a stored key before and after it is sealed in another way.
type KeyChange struct{ Was, Becomes StoredKey }
