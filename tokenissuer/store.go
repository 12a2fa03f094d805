package tokenissuer

import (
	"context"
	"errors"
	"time"
)

var (
	// ErrNotFound is returned when there is no record of that key.
	ErrNotFound = errors.New("not found")
	// ErrTaken is returned when an id is already in use, by a client or by a user.
	ErrTaken = errors.New("the id is already taken")
)

// Store is what happens: the protocol's steps, each atomic and durable when it returns nil. An error other than the
// sentinels means that the step did not happen, or that nobody knows; no caller treats it as success. Stores keep no
// rule about time: expiry is decided by the core, and eviction of what has expired is the store's housekeeping.
// The package storetest proves the contract of every store.
type Store interface {
	ClientStore
	KeyStore
	RevocationStore
	Housekeeper
	// Ping tells whether the store can be asked now.
	Ping(ctx context.Context) error
	// Close ends the store; a second call does nothing. Calls that are under way may fail.
	Close() error
}

// ClientStore keeps the clients that are registered at run time.
type ClientStore interface {
	Directory
	// Clients lists every stored client, by id.
	Clients(ctx context.Context) ([]*Client, error)
	// AddClient registers a client; Declared is not kept. ErrTaken when the id belongs to a client or a user, or to a
	// client that was removed, whose tokens may still live. Of concurrent calls with one id exactly one succeeds.
	AddClient(ctx context.Context, client *Client) error
	// RotateClientSecret adds a secret and, in the same step, ends every older secret at othersUntil unless it ends
	// before; a zero othersUntil leaves them. Secrets that had ended when the new one was made are dropped. ErrNotFound
	// when there is no such client.
	RotateClientSecret(ctx context.Context, clientID string, secret ClientSecret, othersUntil time.Time) error
	// DisableClient marks the client and records the revocation of its tokens, in one step. ErrNotFound when there is
	// no such client.
	DisableClient(ctx context.Context, clientID string, tokens Revocation) error
	// EnableClient takes the mark away. Tokens stay revoked. ErrNotFound when there is no such client.
	EnableClient(ctx context.Context, clientID string) error
	// RemoveClient deletes the client with its secrets and records the revocation of its tokens, in one step.
	// ErrNotFound when there is no such client.
	RemoveClient(ctx context.Context, clientID string, tokens Revocation) error
}

// KeyStore keeps the signing keys.
type KeyStore interface {
	// SigningKeys lists every key, oldest first.
	SigningKeys(ctx context.Context) ([]StoredKey, error)
	// AddFirstSigningKey stores the key unless there is one of the same algorithm already: then it changes nothing
	// and returns nil. Callers read SigningKeys afterwards to learn who won.
	AddFirstSigningKey(ctx context.Context, key StoredKey) error
	// SealSigningKey replaces the private part of a key that is not sealed yet by its sealed form. A key that is
	// sealed already stays as it is. ErrNotFound when there is no such key.
	SealSigningKey(ctx context.Context, sealed StoredKey) error
}

// StoredKey is a signing key as a store keeps it.
type StoredKey struct {
	ID        string // the RFC 7638 thumbprint
	Algorithm Algorithm
	// Private is the PKCS #8 key, or its sealed form when SealedWith is set.
	Private []byte
	// SealedWith names the key-encryption key; empty: not sealed.
	SealedWith string
	CreatedAt  time.Time
}

// RevocationStore keeps what has been revoked, until the last token that it could hit has expired.
type RevocationStore interface {
	// Revoke records the revocations. Recording one again widens it, and never narrows it.
	Revoke(ctx context.Context, revocations ...Revocation) error
	// Revocations lists what was recorded after position, and the position to ask from next time. Position 0 asks
	// for everything, and so does a position that the store never gave, as after a restore: the position returned may
	// be a smaller one. Nothing that was acknowledged is ever missed by a caller that goes on from the returned position.
	Revocations(ctx context.Context, after int64) (revocations []Revocation, position int64, err error)
}

// Housekeeper takes out what no rule asks for any more.
type Housekeeper interface {
	// DropRevocations deletes those that expired before then. A store may have dropped them already.
	DropRevocations(ctx context.Context, expiredBefore time.Time) error
}

// AttemptCounter counts failed attempts in buckets, each over a window that begins with the first failure. What it
// keeps is bounded, whatever names the buckets have.
type AttemptCounter interface {
	// Failures returns the failures in the bucket's current window and when that window ends.
	Failures(ctx context.Context, bucket string, now time.Time) (n int, until time.Time)
	// Fail counts a failure and returns the same, the failure included.
	Fail(ctx context.Context, bucket string, window time.Duration, now time.Time) (n int, until time.Time)
}
