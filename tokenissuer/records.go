package tokenissuer

import (
	"context"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/assertion"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/memory"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Records are what is kept: who exists, which families live and what was revoked.
type Records struct {
	// Directory answers who exists.
	Directory store.Directory
	// Authenticated remembers for a moment which clients have proved who they are; see AuthenticateClient.
	Authenticated *memory.ClientCache
	// ClientKeys are those of clients that sign assertions; nil: no client can.
	ClientKeys *assertion.Keys
	// Usernames remembers for a while what users are called; nil: the directory is asked each time.
	Usernames *token.UsernameCache
	// Store keeps the token families and takes the revocations.
	Store IssuerStore
	// Families remembers those that were seen lately; nil: the store is asked each time.
	Families *token.FamilyCache
	// Revocations learn at once what this process revokes.
	Revocations *token.RevocationSet
	// Refresh brings Revocations up to what the store holds now; nil: they always are.
	Refresh func(context.Context) error
	// Now is the clock by which codes, sign-ins and refresh tokens are judged: the same on every node. Access tokens are
	// judged by the Verifier's, which is this node's, and are born by the earlier of the two.
	Now func() time.Time
}

// IssuerStore is what an issuer asks of a store.
type IssuerStore interface {
	familyStore
	consentStore
	passwordStore
	clientStore
	// Revoke is that of RevocationStore, SessionClients that of LogoutStore.
	Revoke(ctx context.Context, revocations ...store.Revocation) error
	SessionClients(ctx context.Context, sessionIDs ...string) (map[string][]string, error)
}

// familyStore is what codes, refresh tokens and sessions ask of a store.FamilyStore.
type familyStore interface {
	AddFamily(ctx context.Context, family *store.TokenFamily) (store.Outcome, error)
	Family(ctx context.Context, id string) (*store.TokenFamily, error)
	RedeemCode(ctx context.Context, id string, r store.Redemption) (store.Outcome, *store.TokenFamily, error)
	CountCodeFailure(ctx context.Context, id string) error
	RotateRefreshToken(ctx context.Context, id string, generation int64, r store.Rotation) (store.Outcome, *store.TokenFamily, error)
	TouchFamily(ctx context.Context, id string, at time.Time) (store.Outcome, error)
	EndFamilies(ctx context.Context, which store.FamilyFilter, end store.Ending) ([]store.Revocation, error)
	FamiliesOf(ctx context.Context, userID string, expireAfter time.Time) ([]*store.TokenFamily, error)
}

// consentStore is what authorization requests ask of a store.FamilyStore.
type consentStore interface {
	DecideRequest(ctx context.Context, requestID string, expires time.Time) (store.Outcome, error)
	Consent(ctx context.Context, userID, clientID string) (oauth.Scopes, error)
	PutConsent(ctx context.Context, userID, clientID string, scopes oauth.Scopes, at time.Time) error
	DropConsent(ctx context.Context, userID, clientID string) error
}

// clientStore is what clients that make themselves known ask of a store.ClientStore.
type clientStore interface {
	AddClient(ctx context.Context, client *store.Client) error
	ChangeClient(ctx context.Context, clientID string, change func(*store.Client) error) error
	TouchClient(ctx context.Context, clientID string, at time.Time) error
}

// passwordStore is what a sign-in asks of a store.UserStore.
type passwordStore interface {
	RehashPassword(ctx context.Context, userID string, old, hash oauth.Secret) error
	PasswordSchemes(ctx context.Context) ([]string, error)
}
