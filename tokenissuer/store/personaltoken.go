package store

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// PersonalToken is a personal access token: an opaque credential with a name, with which a user, or a service account, calls APIs
// outside a browser. Of the token itself a store keeps the digest alone.
type PersonalToken struct {
	// ID names the token in lists and in the audit log.
	ID string
	// Digest is the SHA-256 digest of the token.
	Digest [sha256.Size]byte
	// UserID is the owner, and UserDeclared says that the owner stands in the configuration.
	UserID       string
	UserDeclared bool
	// Name is what the owner calls it.
	Name   string
	Scopes oauth.Scopes
	// Audience are the resources that it is for (RFC 8707); empty: the issuer's own audience.
	Audience  []string
	CreatedAt time.Time
	ExpiresAt time.Time
	// LastUsedAt is the beginning of the day, in UTC, on which it was used last; zero: it was not.
	LastUsedAt time.Time
	// ChangedAt is when the owner was changed last in a way that ends families, and at least a second later than the change before; zero:
	// there was none since CreatedAt.
	ChangedAt time.Time
}

// IssuedAt is the moment to hold against revocations: whatever was remembered of the token up to then says an older state of its
// owner. It is a whole second, the one after ChangedAt, so that the revocation of that change does not hit what is read after it.
func (t *PersonalToken) IssuedAt() time.Time {
	if t.ChangedAt.IsZero() {
		return t.CreatedAt.Truncate(time.Second)
	}
	return t.ChangedAt.Truncate(time.Second).Add(time.Second)
}

// NextChange returns the ChangedAt of a change at that time.
func (t *PersonalToken) NextChange(at time.Time) time.Time {
	if least := t.ChangedAt.Add(time.Second); !t.ChangedAt.IsZero() && least.After(at) {
		return least
	}
	return at
}

// PersonalTokenStore keeps the personal access tokens. ChangeUser ends those of a user who is not active afterwards; of any other it sets
// ChangedAt to NextChange, unless the change KeepsTokens. RemoveUser ends them, and AddUser deletes those that an earlier owner of the id has left. Each records
// a RevokeToken of every token that it ends or changes, in the same step: up to ChangedAt for those that go on.
type PersonalTokenStore interface {
	// AddPersonalToken stores a token. ErrNotFound when the owner is not declared and not stored, active and of that version.
	// ErrTaken when there is one of that id or digest.
	AddPersonalToken(ctx context.Context, token *PersonalToken, userVersion string) error
	// PersonalToken returns the token of a digest, whether it has expired or not; ErrNotFound when there is none.
	PersonalToken(ctx context.Context, digest [sha256.Size]byte) (*PersonalToken, error)
	// PersonalTokens lists the tokens of a user, or of everybody when the id is empty: the newest first.
	PersonalTokens(ctx context.Context, userID string) ([]*PersonalToken, error)
	// TouchPersonalToken sets LastUsedAt, and never moves it back. A token that is gone is no error.
	TouchPersonalToken(ctx context.Context, id string, day time.Time) error
	// EndPersonalTokens deletes the tokens that match and returns the revocations that it recorded, in one step.
	EndPersonalTokens(ctx context.Context, which PersonalTokenFilter, end Ending) ([]Revocation, error)
}

// PersonalTokenFilter says which tokens are meant: those that match every member that is set. Without any, none is.
type PersonalTokenFilter struct{ ID, UserID string }

// RevocationOfPersonalToken ends a token. A non-zero until ends what was remembered of it up to then, and it goes on.
func RevocationOfPersonalToken(id string, until time.Time, end Ending) Revocation {
	return Revocation{Kind: RevokeToken, ID: id, IssuedUntil: until, ExpiresAt: end.Until}
}
