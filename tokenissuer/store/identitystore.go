package store

import (
	"context"
	"time"
)

// Identity is an account at an identity provider of somebody else. It belongs to one user of ours, who may have any number.
type Identity struct {
	// Provider is the name of the provider in the configuration, and Subject is how the provider names the account, byte for byte.
	Provider, Subject string
	UserID            string
	// UserDeclared: the user stands in the configuration. LinkIdentity asks about it; stores do not keep it.
	UserDeclared bool
	LinkedAt     time.Time
	// LastUsedAt is when the user signed in with it last.
	LastUsedAt time.Time
}

// IdentityStore keeps the identities. They go with their user: RemoveUser deletes those of the user, and AddUser those that an earlier
// owner of the id has left.
type IdentityStore interface {
	// UserByIdentity returns the identity of that name; ErrNotFound when there is none. Its user may be stored, declared, or neither
	// any more.
	UserByIdentity(ctx context.Context, provider, subject string) (Identity, error)
	// Identities lists the identities of a user, by provider and subject.
	Identities(ctx context.Context, userID string) ([]Identity, error)
	// LinkIdentity gives an identity to a user and makes a stored user External, in one step. When the user has it already, only
	// LastUsedAt changes. ErrTaken when another user has it, ErrNotFound when the user is not stored and not UserDeclared. Of
	// concurrent calls for several users exactly one succeeds.
	LinkIdentity(ctx context.Context, identity Identity) error
	// AddExternalUser registers a user, who is External, with its first identity, in one step; the identity's UserID is the user's.
	// ErrTaken as for AddUser and when somebody has the identity. Otherwise it does what AddUser does.
	AddExternalUser(ctx context.Context, user *User, identity Identity, organisationDeclared bool) error
	// UnlinkIdentity deletes an identity. A stored user who has no other is not External any more, in the same step; callers end what
	// the user was granted. ErrNotFound when there is no such identity.
	UnlinkIdentity(ctx context.Context, provider, subject string) error
}
