package store

import (
	"time"
)

// RevocationKind says what kind of thing a revocation's ID names.
type RevocationKind string

// The kinds of revocations.
const (
	RevokeToken        RevocationKind = "jti"
	RevokeFamily       RevocationKind = "family"
	RevokeUser         RevocationKind = "user"
	RevokeClient       RevocationKind = "client"
	RevokeOrganisation RevocationKind = "organisation"
	RevokeKey          RevocationKind = "key"
	// RevokeGenerations ends a family's access tokens that were issued with its refresh tokens up to a generation. IssuedUntil holds that
	// generation as seconds, which makes a later generation the wider revocation.
	RevokeGenerations RevocationKind = "generations"
	// RevokeServerTokens ends the tokens that a client obtained for itself, and none that acts for a user.
	RevokeServerTokens RevocationKind = "server_tokens"
	// RevokeCameOf ends the tokens that other clients obtained by exchanging this client's exchanged tokens (RFC 8693).
	RevokeCameOf RevocationKind = "came_of"
)

// Revocation ends access tokens before they expire. It matches their claims instead of their bytes: an ECDSA signature has a second valid
// form, and a token's bytes therefore do not identify it.
type Revocation struct {
	Kind RevocationKind
	ID   string
	// IssuedUntil limits the revocation to tokens issued in that second or before; zero: no limit.
	IssuedUntil time.Time
	// ExpiresAt is when the last token that it could match has expired.
	ExpiresAt time.Time
}

// RevocationMargin is how much longer a revocation is kept than any token that it matches can be accepted.
const RevocationMargin = time.Minute

// FreeAt returns when the last token that a revocation of a client matches has certainly expired.
func (r Revocation) FreeAt() time.Time { return r.IssuedUntil.Add(MaxLifetime + RevocationMargin) }

// RevocationOfKey revokes everything that a key has signed, for as long as the key is kept.
func RevocationOfKey(id string, now time.Time) Revocation {
	return Revocation{Kind: RevokeKey, ID: id, ExpiresAt: now.Add(KeyRetention)}
}

// KeyRetention is how long a key is kept after its successor began to sign, or after it was revoked: longer than the last token that it
// signed can live, plus a day, because a clock that jumped ahead may be set back.
const KeyRetention = MaxLifetime + 24*time.Hour
