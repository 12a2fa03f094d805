package store

import (
	"context"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// KeyStore keeps the signing keys, and beside them the issuer's master key, whose algorithm is none that signs.
type KeyStore interface {
	// KeysVersion returns a number that every change of the keys makes greater. It costs little to ask.
	KeysVersion(ctx context.Context) (int64, error)
	// SigningKeys lists every key, oldest first.
	SigningKeys(ctx context.Context) ([]StoredKey, error)
	// BindKeys has every later change of the keys store what bind returns of it, in the same step, in the place of the stored key of that id. An
	// error of bind fails the change. bind may be called several times for one change, and must not use the store.
	BindKeys(bind func(KeyStep) (StoredKey, error))
	// AddFirstSigningKey stores the key unless there is one of the same algorithm already that was not revoked: then it
	// adds nothing and returns nil. Callers read SigningKeys afterwards to learn who won.
	AddFirstSigningKey(ctx context.Context, key StoredKey) error
	// AddSigningKey stores a further key. ErrTaken when there is one of that id.
	AddSigningKey(ctx context.Context, key StoredKey) error
	// ReplaceSigningKeys replaces Private and SealedWith of the keys, all in one step, and reports whether it did: it changes
	// nothing unless every key is still there, not revoked, with Private and SealedWith as Was has them. What was replaced
	// leaves the store's files. It is an error to replace a sealed key by one that is not.
	ReplaceSigningKeys(ctx context.Context, changes ...KeyChange) (bool, error)
	// RevokeSigningKey sets RevokedAt, unless it is set, forgets the private part for good and records the revocation of
	// the key's tokens, in one step. ErrNotFound when there is no such key.
	RevokeSigningKey(ctx context.Context, id string, at time.Time, tokens Revocation) error
	// DropSigningKey forgets a key. Nothing happens when there is none of that id.
	DropSigningKey(ctx context.Context, id string) error
}

// StoredKey is a signing key as a store keeps it.
type StoredKey struct {
	ID        string // the RFC 7638 thumbprint
	Algorithm oauth.Algorithm
	// Private is the PKCS #8 key, or its sealed form when SealedWith is set. A revoked key has none.
	Private []byte
	// SealedWith names the key-encryption key; empty: not sealed.
	SealedWith string
	CreatedAt  time.Time
	// ActiveFrom is when the key begins to sign.
	ActiveFrom time.Time
	// RevokedAt is when the key was revoked; zero: it was not.
	RevokedAt time.Time
}

// KeyStep is a change of the keys that is about to be made durable.
type KeyStep struct {
	// Identity is what the store calls its database, if it has one, and Version what KeysVersion will return.
	Identity string
	Version  int64
	// Before and After are every key.
	Before, After []StoredKey
}

// KeyChange is a stored key before and after a change of its form.
type KeyChange struct{ Was, Becomes StoredKey }
