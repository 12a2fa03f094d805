package store

import (
	"context"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// FamilyStore keeps the token families: codes, refresh tokens and sessions are their states. A step that is not Done has changed
// nothing, and an error comes with the zero Outcome.
type FamilyStore interface {
	// AddFamily stores a family. Revoked when Preconditions name a session that was ended or is none; else UserChanged unless the
	// user is declared or is stored, active and of the family's UserVersion, and so is the actor whom Preconditions name, and the
	// identity that Preconditions name is the user's. Once a user, a
	// session or an admin has been ended, or an identity unlinked, AddFamily fails for it. Replayed when Code.RequestID is not
	// empty and was decided before; else it is decided now, and stays so for an hour beyond the family's ExpiresAt.
	AddFamily(ctx context.Context, family *TokenFamily) (Outcome, error)
	// Family returns a family, whatever its state, as it was after some step that was acknowledged before the call or
	// runs beside it. ErrNotFound when there is none. Its timing does not reveal which.
	Family(ctx context.Context, id string) (*TokenFamily, error)
	// RedeemCode spends the family's code: it sets Code.SpentAt and RotatedAt to r.At, Generation and ExpiresAt. Of concurrent calls
	// exactly one is Done. Any other outcome is that of TokenFamily.Redeemable, or UserChanged for a family that may be redeemed
	// but for its user, who is neither declared nor stored, active and of its UserVersion; and it comes with the family as
	// it is, nil when there is none.
	RedeemCode(ctx context.Context, id string, r Redemption) (Outcome, *TokenFamily, error)
	// CountCodeFailure adds one to Code.Failures. Nothing happens when there is no such family.
	CountCodeFailure(ctx context.Context, id string) error
	// RotateRefreshToken moves Generation from generation to the next, sets RotatedAt and RotatedBy, and records r.Ended, in one
	// step. Of concurrent calls with one generation exactly one is Done. Any other outcome is that of TokenFamily.Rotatable, or
	// UserChanged, and comes with the family, as with RedeemCode.
	RotateRefreshToken(ctx context.Context, id string, generation int64, r Rotation) (Outcome, *TokenFamily, error)
	// TouchFamily sets RotatedAt of a family, and never moves it back. Revoked when it was ended or there is no such family. Of a
	// touch and an end beside it one is first: an end that comes after the touch keeps its revocation for as long as the tokens
	// live that may be issued because of it.
	TouchFamily(ctx context.Context, id string, at time.Time) (Outcome, error)
	// EndFamilies revokes the families that match and records a revocation of each, in one step, and returns those
	// revocations. Families that were revoked before keep their time and are not among them, except that of which.ID: its
	// revocation is recorded and returned whatever its state, and also when there is no such family. A family of that id
	// which does not match the other members is left alone. When a BrowserSession ends, in this step or in one that ends a user's
	// families, the host sessions that came of it end in the same step, and their revocations are among those returned.
	EndFamilies(ctx context.Context, which FamilyFilter, end Ending) ([]Revocation, error)
	// FamiliesOf lists the user's families that are not revoked and expire after that time, newest first.
	FamiliesOf(ctx context.Context, userID string, expireAfter time.Time) ([]*TokenFamily, error)
	// DecideRequest records that an authorization request was decided. Replayed when it was before.
	DecideRequest(ctx context.Context, requestID string, expires time.Time) (Outcome, error)
	// Consent returns what a user has allowed a client; ErrNotFound when nothing.
	Consent(ctx context.Context, userID, clientID string) (oauth.Scopes, error)
	// PutConsent replaces what a user has allowed a client.
	PutConsent(ctx context.Context, userID, clientID string, scopes oauth.Scopes, at time.Time) error
	// DropConsent forgets what a user has allowed a client.
	DropConsent(ctx context.Context, userID, clientID string) error
}

// FamilyFilter says which families are meant: those that match every member that is set. Without ID, UserID, ClientID, ActorID
// and SessionID none match, so that a forgotten id ends no families.
type FamilyFilter struct {
	ID       string
	UserID   string
	ClientID string
	// ActorID is the Subject of the family's Actor.
	ActorID string
	// SessionID means the host sessions that came of that sign-in, and no other family.
	SessionID string
	// UserVersion, when it is not empty, is the only one meant.
	UserVersion string
	// Provider, when it is not empty, is the only one meant.
	Provider string
	// ExceptSession is a sign-in that is not meant, nor are the host sessions that came of it; empty: there is none.
	ExceptSession string
	// ExceptScopes are scopes of which a family that is meant has none.
	ExceptScopes oauth.Scopes
	// Origins, when there are some, are the only ones meant.
	Origins []oauth.GrantType
}
