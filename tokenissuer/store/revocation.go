package store

import (
	"time"
)

// RevocationKind says what a revocation's id names.
type RevocationKind string

// What can be revoked.
const (
	RevokeToken        RevocationKind = "jti"
	RevokeFamily       RevocationKind = "family"
	RevokeUser         RevocationKind = "user"
	RevokeClient       RevocationKind = "client"
	RevokeOrganisation RevocationKind = "organisation"
	RevokeKey          RevocationKind = "key"
	// RevokeGenerations ends the access tokens of a family that came with its refresh tokens up to a generation. That stands
	// in IssuedUntil, in seconds, so that a later one is wider.
	RevokeGenerations RevocationKind = "generations"
	// RevokeServerTokens ends the tokens that a client got for itself, and none of a user.
	RevokeServerTokens RevocationKind = "server_tokens"
	// RevokeCameOf ends the tokens that others made of those that a client got by exchanges (RFC 8693).
	RevokeCameOf RevocationKind = "came_of"
)

// Revocation ends access tokens before they expire. It names what they carry, never their bytes: an ECDSA signature
// has a second valid form, so a token's bytes are not its identity.
type Revocation struct {
	Kind RevocationKind
	ID   string
	// IssuedUntil limits the revocation to tokens issued up to and in that second; zero: whenever they were issued.
	IssuedUntil time.Time
	// ExpiresAt is when the last token that it could hit has expired.
	ExpiresAt time.Time
}

// RevocationMargin keeps a revocation a little longer than any token that it hits can be accepted.
const RevocationMargin = time.Minute

// FreeAt is when the last token that a revocation of a client hits has expired for certain.
func (r Revocation) FreeAt() time.Time { return r.IssuedUntil.Add(MaxLifetime + RevocationMargin) }

// RevocationOfKey revokes whatever a key has signed, for as long as the key is remembered.
func RevocationOfKey(id string, now time.Time) Revocation {
	return Revocation{Kind: RevokeKey, ID: id, ExpiresAt: now.Add(KeyRetention)}
}

// KeyRetention is how long a key is kept after the next one began to sign, or after it was revoked: longer than the
// last token that it signed can live, and a day more, because a clock that jumped ahead may come back.
const KeyRetention = MaxLifetime + 24*time.Hour
