package store

import (
	"context"
	"slices"
	"time"
)

// Identity is an account at an external identity provider. It belongs to one user. A user may have several.
type Identity struct {
	// Provider is the provider's name in the configuration, and Subject is the provider's identifier of the account, compared byte for
	// byte.
	Provider, Subject string
	UserID            string
	// DeclaredEmail is the address of a declared user when the identity was linked; empty: the user is stored. A declared user with the
	// same id and another address is another person.
	DeclaredEmail string
	// Source identifies the provider behind the name when the identity was linked or last used, such as "openid
	// https://login.example.com".
	Source string
	// LinkedAt is when the identity was linked, or when an operator last confirmed that all identities of the user belong to one person.
	LinkedAt time.Time
	// LastUsedAt is when the user last signed in with the identity.
	LastUsedAt time.Time
	// Created reports whether the user was created for the identity.
	Created bool
	// Vouches reports whether, at the user's last sign-in with the identity, the provider was trusted to link accounts and had verified
	// the user's address. A change of the address clears it for all identities of the user, and an operator's verification of the address
	// sets it for all.
	Vouches bool
	// RefreshToken is the newest refresh token of the provider, sealed. It is empty if none is kept.
	RefreshToken string
}

// IsOf reports whether the identity belongs to u: a user with its UserID who is the person it was linked to.
func (i Identity) IsOf(u *User) bool { return i.UserID == u.ID && i.DeclaredEmail == u.DeclaredEmail() }

// Unlinking names an identity to unlink from its user, and the conditions.
type Unlinking struct {
	Provider, Subject, UserID string
	// MayBeLast permits unlinking the last identity, because the user can sign in in another way.
	MayBeLast bool
	// WaysIn are the providers at which people can sign in. Unless MayBeLast, the user must have another identity at one of them.
	WaysIn []string
	// KeepSession is a sign-in that is not ended; empty: none.
	KeepSession string
}

// Check returns an error unless the identity may be unlinked from its user, who has the linked ones: ErrNotFound when it is not among
// them, ErrLastWayIn when the user could not sign in without it. Stores call it within the step.
func (u Unlinking) Check(linked []Identity) error {
	isMeant := func(i Identity) bool { return i.Provider == u.Provider && i.Subject == u.Subject }
	switch {
	case !slices.ContainsFunc(linked, isMeant):
		return ErrNotFound
	case !u.MayBeLast && !slices.ContainsFunc(linked, func(i Identity) bool { return !isMeant(i) && slices.Contains(u.WaysIn, i.Provider) }):
		return ErrLastWayIn
	}
	return nil
}

// Ends returns a filter for the families that end with the identity.
func (u Unlinking) Ends() FamilyFilter {
	return FamilyFilter{UserID: u.UserID, Provider: u.Provider, ExceptSession: u.KeepSession}
}

// IdentityStore stores identities. RemoveUser deletes those of the user, and AddUser deletes those of a former owner of the id.
type IdentityStore interface {
	// UserByIdentity returns an identity, or ErrNotFound. Its user may be stored, declared or gone.
	UserByIdentity(ctx context.Context, provider, subject string) (Identity, error)
	// Identities lists the identities of a user, sorted by provider and subject.
	Identities(ctx context.Context, userID string) ([]Identity, error)
	// LinkIdentity links an identity to a user and makes a stored user External, in one step. When the user has the identity already,
	// only LastUsedAt, DeclaredEmail, Source, Vouches and RefreshToken change. It returns ErrTaken when another user has it, and ErrNotFound when the
	// user is not stored and DeclaredEmail is empty. Of concurrent calls for several users exactly one succeeds.
	LinkIdentity(ctx context.Context, identity Identity) error
	// TouchIdentity sets LastUsedAt, Source and Vouches, and RefreshToken unless it is empty. It returns ErrNotFound when the identity does not exist or another user has it.
	TouchIdentity(ctx context.Context, identity Identity) error
	// IdentitiesInUse lists identities of a provider whose users have a family of that provider or a personal access token, neither
	// revoked nor expired at the given time. They are sorted by subject, in an order of the store's. It returns at most limit, of those
	// after a subject.
	IdentitiesInUse(ctx context.Context, provider, after string, at time.Time, limit int) ([]Identity, error)
	// IdentitySources lists the distinct sources of a provider's identities, in no particular order.
	IdentitySources(ctx context.Context, provider string) ([]string, error)
	// UnlinkIdentity deletes an identity and ends every family of its user whose Provider is the identity's, except KeepSession and its
	// host sessions. It is one step, and returns the revocations that it recorded. A stored user without another identity is no longer
	// External, and loses what the provider said, as User.Unlink describes. If that removes groups, the user gets a new version and every
	// family ends, as with ChangeUser. It returns ErrNotFound when the user does not have the identity, and ErrLastWayIn when the user
	// would have no way to sign in; it then changes nothing. Of concurrent calls that would together leave a user without a way to sign
	// in, one is refused. AddFamily fails afterwards for a family whose Preconditions name the identity.
	UnlinkIdentity(ctx context.Context, u Unlinking, end Ending) ([]Revocation, error)
}
