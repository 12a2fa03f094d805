package store

import (
	"context"
	"slices"
	"time"
)

// Identity is an account at an external identity provider. It belongs to one user, who may have any number.
type Identity struct {
	// Provider is the name of the provider in the configuration, and Subject is how the provider names the account, byte for byte.
	Provider, Subject string
	UserID            string
	// DeclaredEmail is the address that the configuration gave the user when the identity was linked; empty: the user is stored. A
	// user who is declared by the same id with another address is another person.
	DeclaredEmail string
	// Source is what stood behind the provider's name when the identity was linked or used last, as "openid https://login.example.com".
	Source string
	// LinkedAt is when the identity was linked, or when an operator last said that all identities of the user are one person's.
	LinkedAt time.Time
	// LastUsedAt is when the user signed in with it last.
	LastUsedAt time.Time
	// Created: the user was made for it.
	Created bool
	// Vouches: the provider was one by whose word accounts are linked when the user signed in with it last, and vouched for the user's
	// address. A change of the address takes it from all identities of the user, and the word of an operator for the address gives it to all.
	Vouches bool
}

// IsOf reports whether the identity leads to a user: one who has its UserID, and is the person to whom it was linked.
func (i Identity) IsOf(u *User) bool { return i.UserID == u.ID && i.DeclaredEmail == u.DeclaredEmail() }

// Unlinking is an identity that is taken from its user, and on which condition.
type Unlinking struct {
	Provider, Subject, UserID string
	// MayBeLast: the user has another way in than identities.
	MayBeLast bool
	// WaysIn are the providers at which people can sign in. Unless MayBeLast the user must have another identity of one of them.
	WaysIn []string
	// KeepSession is a sign-in that goes on; empty: none does.
	KeepSession string
}

// Check says whether the identity may be taken from its user, who has these: ErrNotFound when it is none of them, ErrLastWayIn when it
// is the last way in. Stores ask within the step.
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

// Ends returns which families end with the identity.
func (u Unlinking) Ends() FamilyFilter {
	return FamilyFilter{UserID: u.UserID, Provider: u.Provider, ExceptSession: u.KeepSession}
}

// IdentityStore keeps the identities. They go with their user: RemoveUser deletes those of the user, and AddUser those that a
// former owner of the id has left.
type IdentityStore interface {
	// UserByIdentity returns the identity of that name; ErrNotFound when there is none. Its user may be stored, declared, or
	// gone.
	UserByIdentity(ctx context.Context, provider, subject string) (Identity, error)
	// Identities lists the identities of a user, by provider and subject.
	Identities(ctx context.Context, userID string) ([]Identity, error)
	// LinkIdentity gives an identity to a user and makes a stored user External, in one step. When the user has it already, only
	// LastUsedAt, DeclaredEmail, Source and Vouches change. ErrTaken when another user has it, ErrNotFound when the user is not stored and
	// DeclaredEmail is empty. Of concurrent calls for several users exactly one succeeds.
	LinkIdentity(ctx context.Context, identity Identity) error
	// TouchIdentity sets LastUsedAt, Source and Vouches. ErrNotFound when there is no such identity, or another user has it.
	TouchIdentity(ctx context.Context, identity Identity) error
	// IdentitySources lists the distinct sources of the identities of a provider, in no order.
	IdentitySources(ctx context.Context, provider string) ([]string, error)
	// UnlinkIdentity deletes an identity and ends every family of its user whose Provider is the identity's, but KeepSession and the
	// host sessions that came of it, in one step, and returns the revocations that it recorded. A stored user who has no other
	// identity is no longer External, and what the provider has said of the user goes, as User.Unlink has it. If that were groups, the
	// user's version moves on, and every family ends, as with ChangeUser. ErrNotFound when the user has no such identity; ErrLastWayIn when nothing may be deleted.
	// Of concurrent calls that would leave a user without a way in together, one is refused. No family whose Preconditions name the
	// identity is born afterwards.
	UnlinkIdentity(ctx context.Context, u Unlinking, end Ending) ([]Revocation, error)
}
