package store

import (
	"context"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// FamilyStore stores token families: codes, refresh tokens and sessions are states of a family. A step whose outcome is not Done has
// changed nothing. An error comes with the zero Outcome.
type FamilyStore interface {
	// AddFamily stores a family. It returns Revoked when Preconditions name a session that has ended or does not exist. It returns
	// UserChanged unless the user is declared, or is stored, active and in the family's User.Version. The same holds for the actor that
	// Preconditions name, and the identity that they name must be the user's. Once a user, a session or an admin has been ended, or an
	// identity unlinked, AddFamily fails for it. It returns Replayed when Code.RequestID is not empty and was decided before. Otherwise
	// it records that the request is decided, until an hour after the family's ExpiresAt. The family may have the id of its request.
	AddFamily(ctx context.Context, family *TokenFamily) (Outcome, error)
	// Family returns a family, whatever its state. The result includes every step that was acknowledged before the call, and may include
	// concurrent ones. It returns ErrNotFound when there is none. Its timing does not reveal which.
	Family(ctx context.Context, id string) (*TokenFamily, error)
	// RedeemCode redeems the family's code: it sets Code.SpentAt and Refresh.RotatedAt to r.At, and Refresh.Generation and ExpiresAt. Of concurrent calls
	// exactly one is Done. Any other outcome is that of TokenFamily.Redeemable, or UserChanged when only the user prevents the
	// redemption: it is neither declared, nor stored, active and in the family's User.Version. Such an outcome comes with the family as it
	// is, or nil when there is none.
	RedeemCode(ctx context.Context, id string, r Redemption) (Outcome, *TokenFamily, error)
	// CountCodeFailure adds one to Code.Failures. It does nothing when the family does not exist.
	CountCodeFailure(ctx context.Context, id string) error
	// RotateRefreshToken advances Refresh.Generation from generation to the next, sets RotatedAt and RotatedBy, and records r.Ended, in one step.
	// Of concurrent calls with one generation exactly one is Done. Any other outcome is that of TokenFamily.Rotatable, or UserChanged,
	// and comes with the family, as for RedeemCode.
	RotateRefreshToken(ctx context.Context, id string, generation int64, r Rotation) (Outcome, *TokenFamily, error)
	// TouchFamily sets Refresh.RotatedAt of a family, unless it is later already. It returns Revoked when the family has ended or does not exist.
	// A touch and a concurrent end are serialized: an end after the touch keeps its revocation as long as tokens live that may be issued
	// because of the touch.
	TouchFamily(ctx context.Context, id string, at time.Time) (Outcome, error)
	// EndFamilies revokes the families that match, records a revocation of each, and returns those revocations, in one step. Families
	// that were revoked before keep their RevokedAt and are not included. The exception is which.ID: its revocation is recorded and
	// returned whatever the family's state, also when the family does not exist. A family with that ID that does not match the other
	// members is left alone. When a BrowserSession ends, in this step or in one that ends a user's families, its host sessions end in the
	// same step, and their revocations are among those returned.
	EndFamilies(ctx context.Context, which FamilyFilter, end Ending) ([]Revocation, error)
	// FamiliesOf lists the user's families that are not revoked and expire after the given time, newest first.
	FamiliesOf(ctx context.Context, userID string, expireAfter time.Time) ([]*TokenFamily, error)
	// FindFamilies returns a page of the families that a query selects, in the order of their ids. The work for a page is bounded, except
	// that it considers all families of a UserID.
	FindFamilies(ctx context.Context, which FamilyQuery) (FamilyPage, error)
	// DecideRequest records that an authorization request was decided. It returns Replayed when it was decided before.
	DecideRequest(ctx context.Context, requestID string, expires time.Time) (Outcome, error)
	// Consent returns the scopes that a user has consented to for a client, or ErrNotFound.
	Consent(ctx context.Context, userID, clientID string) (oauth.Scopes, error)
	// PutConsent replaces the consent of a user to a client. It deletes the consent when there are no scopes.
	PutConsent(ctx context.Context, userID, clientID string, scopes oauth.Scopes, at time.Time) error
}

// FamilyQuery selects the families that are not revoked and expire after ExpireAfter, by every other member that is set.
type FamilyQuery struct {
	UserID, ClientID string
	// Host is the authority of a host. It selects host sessions.
	Host        string
	ExpireAfter time.Time
	// After is the Next of the page before.
	After string
	// Limit is the greatest number of families in the page, 1 to MaxPage.
	Limit int
}

// FamilyPage is a page of families.
type FamilyPage struct {
	Families []*TokenFamily
	// Next is where the next page begins; empty: there is none. A page with a Next may have few families or none.
	Next string
}

// FamilyFilter matches families by every member that is set. Without ID, UserID, ClientID, ActorID and SessionID it matches none: a
// forgotten id ends no families.
type FamilyFilter struct {
	ID       string
	UserID   string
	ClientID string
	// ActorID matches the Subject of the family's Actor.
	ActorID string
	// SessionID matches only the host sessions of that sign-in.
	SessionID string
	// UserVersion, if not empty, restricts the match to families of that version.
	UserVersion string
	// Provider, if not empty, restricts the match to families of that provider.
	Provider string
	// ExceptSession, if not empty, excludes a sign-in and its host sessions.
	ExceptSession string
	// ExceptScopes excludes families that have any of these scopes.
	ExceptScopes oauth.Scopes
	// Origins, if not empty, restricts the match to families of these origins.
	Origins []oauth.GrantType
}
