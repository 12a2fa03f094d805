package store

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// PersonalToken is a personal access token: an opaque, named credential with which a user or a service account calls APIs outside a
// browser. Stores keep only a digest of the token.
type PersonalToken struct {
	// ID identifies the token in lists and in the audit log.
	ID string
	// Digest is the SHA-256 digest of the token.
	Digest [sha256.Size]byte
	// UserID is the owner. UserDeclared reports that the owner is declared in the configuration.
	UserID       string
	UserDeclared bool
	// Name is the name that the owner gave it.
	Name   string
	Scopes oauth.Scopes
	// Audience lists the resources it is for (RFC 8707); empty: the issuer's own audience.
	Audience  []string
	CreatedAt time.Time
	ExpiresAt time.Time
	// LastUsedAt is the beginning of the day, in UTC, of the last use; zero: it was not used.
	LastUsedAt time.Time
	// ChangedAt is when the owner last changed in a way that ends families, and at least a second after the change before; zero: not
	// since CreatedAt.
	ChangedAt time.Time
}

// IssuedAt returns the time to compare with revocations: what was cached about the token up to then describes an older state of its
// owner. It is the whole second after ChangedAt, because the revocation of that change must not match what is read after it.
func (t *PersonalToken) IssuedAt() time.Time {
	if t.ChangedAt.IsZero() {
		return t.CreatedAt.Truncate(time.Second)
	}
	return t.ChangedAt.Truncate(time.Second).Add(time.Second)
}

// NextChange returns the ChangedAt of a change that is made at the given time.
func (t *PersonalToken) NextChange(at time.Time) time.Time {
	if least := t.ChangedAt.Add(time.Second); !t.ChangedAt.IsZero() && least.After(at) {
		return least
	}
	return at
}

// PersonalTokenStore stores personal access tokens. ChangeUser ends the tokens of a user who is not active afterwards; of any other user
// it sets ChangedAt to NextChange, unless the change KeepsTokens. RemoveUser ends them, and AddUser deletes those of a former owner of
// the id. Each records a RevokeToken of every token that it ends or changes, in the same step. For tokens that stay valid, the revocation
// covers the time up to ChangedAt.
type PersonalTokenStore interface {
	// AddPersonalToken stores a token. It returns ErrNotFound unless the owner is declared, or is stored, active and in that version, and
	// ErrTaken when a token has the ID or the digest.
	AddPersonalToken(ctx context.Context, token *PersonalToken, userVersion string) error
	// PersonalToken returns the token with a digest, expired or not, or ErrNotFound.
	PersonalToken(ctx context.Context, digest [sha256.Size]byte) (*PersonalToken, error)
	// PersonalTokens lists the tokens of a user, or of all users if the id is empty, newest first.
	PersonalTokens(ctx context.Context, userID string) ([]*PersonalToken, error)
	// TouchPersonalToken sets LastUsedAt, unless it is later already. It returns nil when the token does not exist.
	TouchPersonalToken(ctx context.Context, id string, day time.Time) error
	// EndPersonalTokens deletes the tokens that match and returns the revocations that it recorded, in one step.
	EndPersonalTokens(ctx context.Context, which PersonalTokenFilter, end Ending) ([]Revocation, error)
}

// PersonalTokenFilter matches tokens by every member that is set. The zero value matches none.
type PersonalTokenFilter struct{ ID, UserID string }

// RevocationOfPersonalToken returns the revocation of a token. A non-zero until only revokes what was cached up to then; the token stays
// valid.
func RevocationOfPersonalToken(id string, until time.Time, end Ending) Revocation {
	return Revocation{Kind: RevokeToken, ID: id, IssuedUntil: until, ExpiresAt: end.Until}
}
