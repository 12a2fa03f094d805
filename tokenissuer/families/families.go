package families

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// Families are the token families of an issuer, with the users whom they act for. All parts of an issuer share one. Its fields are set
// before use, but for Opened.
type Families struct {
	// Opened is set when the store has opened, before the first request.
	Opened
	// Remembered holds the families that were used lately; nil: the store is asked each time.
	Remembered *token.FamilyCache
	// Imported finds what another server has issued; nil: nothing is looked for.
	Imported *Imported
	// Revocations holds what has been revoked. This process's own revocations are added at once.
	Revocations *token.RevocationSet
	// Refresh brings Revocations up to what the store holds now; nil: they always are.
	Refresh func(context.Context) error
	// Now is the clock by which families, codes and sign-ins are judged. It is the same on every node.
	Now func() time.Time
	// NodeNow is the clock of this node, by which access tokens are verified.
	NodeNow func() time.Time
	// Lifetimes apply to clients that have none of their own.
	Lifetimes store.Lifetimes
	// Suffices reports whether the user of a family has signed in as the rules now require; nil: there are none.
	Suffices func(f *store.TokenFamily, user *store.User) bool
	// Limits bound how many families a user gets.
	Limits *attempts.Limits
}

// Opened is what an issuer has once its store is open.
type Opened struct {
	Store Store
	// Imports stores what another server has issued.
	Imports ImportStore
	// Devices stores device authorizations.
	Devices store.DeviceStore
	// Directory finds clients, users and organisations.
	Directory store.Directory
	// Master makes codes, refresh tokens and cookies, and seals what travels through browsers.
	Master *keys.MasterKey
	// JTIMAC signs access tokens with a MAC in their jti.
	JTIMAC *token.JTIMAC
}

// Store is what an issuer asks of a store.
type Store interface {
	FamilyStore
	ConsentStore
	PasswordStore
	ClientStore
	RevocationStore
	LogoutStore
	store.FactorStore
	store.AttemptStore
}

// StoreOf returns the parts of s that an issuer needs.
func StoreOf(s store.Store) Store {
	return struct {
		FamilyStore
		ConsentStore
		PasswordStore
		ClientStore
		RevocationStore
		LogoutStore
		store.FactorStore
		store.AttemptStore
	}{s.Families, s.Families, s.Users, s.Clients, s.Revocations, s.Logouts, s.Factors, s.Attempts}
}

// FamilyStore is the part of a store.FamilyStore for codes, refresh tokens and sessions.
type FamilyStore interface {
	AddFamily(ctx context.Context, family *store.TokenFamily) (store.Outcome, error)
	Family(ctx context.Context, id string) (*store.TokenFamily, error)
	RedeemCode(ctx context.Context, id string, r store.Redemption) (store.Outcome, *store.TokenFamily, error)
	CountCodeFailure(ctx context.Context, id string) error
	RotateRefreshToken(ctx context.Context, id string, generation int64, r store.Rotation) (store.Outcome, *store.TokenFamily, error)
	TouchFamily(ctx context.Context, id string, at time.Time) (store.Outcome, error)
	EndFamilies(ctx context.Context, which store.FamilyFilter, end store.Ending) ([]store.Revocation, error)
	FamiliesOf(ctx context.Context, userID string, expireAfter time.Time) ([]*store.TokenFamily, error)
	FindFamilies(ctx context.Context, which store.FamilyQuery) (store.FamilyPage, error)
}

// ConsentStore is the part of a store.FamilyStore for authorization requests.
type ConsentStore interface {
	DecideRequest(ctx context.Context, requestID string, expires time.Time) (store.Outcome, error)
	Consent(ctx context.Context, userID, clientID string) (oauth.Scopes, error)
	PutConsent(ctx context.Context, userID, clientID string, scopes oauth.Scopes, at time.Time) error
}

// ClientStore is the part of a store.ClientStore for clients that make themselves known.
type ClientStore interface {
	AddClient(ctx context.Context, client *store.Client) error
	ChangeClient(ctx context.Context, clientID string, change store.ClientChange) error
}

// PasswordStore is the part of a store.UserStore for sign-ins.
type PasswordStore interface {
	RehashPassword(ctx context.Context, userID string, old, hash oauth.Secret) error
	PasswordSchemes(ctx context.Context) ([]string, error)
}

// RevocationStore is the part of a store.RevocationStore for revoking.
type RevocationStore interface {
	Revoke(ctx context.Context, revocations ...store.Revocation) error
}

// ImportStore is the part of a store.ImportStore for tokens that clients present.
type ImportStore interface {
	Imported(ctx context.Context, digest [sha256.Size]byte) (*store.ImportedToken, error)
	HasImported(ctx context.Context) (bool, error)
}

// LogoutStore is the part of a store.LogoutStore for sessions.
type LogoutStore interface {
	SessionClients(ctx context.Context, sessionIDs ...string) (map[string][]string, error)
}

// LifetimesOf returns the client's own lifetimes, completed by the issuer's.
func (fs *Families) LifetimesOf(client *store.Client) store.Lifetimes {
	return client.Lifetimes.Or(fs.Lifetimes)
}

// TokenLifetime returns the lifetime of the family's access tokens. It never exceeds the lifetime that the family was created with,
// because a revocation of the family is kept only as long as those tokens.
func (fs *Families) TokenLifetime(f *store.TokenFamily, client *store.Client) time.Duration {
	return min(fs.LifetimesOf(client).For(f.Origin), f.TokenLifetime)
}

// IssueTime returns the iat of a token that is issued now, in whole seconds: by Now or NodeNow, whichever is earlier. A revocation of
// everything issued until now, by either clock, must cover the token, and this node must not refuse it as one from the future.
func (fs *Families) IssueTime() time.Time {
	now := fs.Now()
	if here := fs.NodeNow(); here.Before(now) {
		now = here
	}
	return now.Truncate(time.Second)
}
