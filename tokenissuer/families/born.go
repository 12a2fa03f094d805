package families

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// New returns a new family of a user who signed in at authTime. A zero authTime means that the time is unknown.
func (fs *Families) New(user *store.User, client *store.Client, origin oauth.GrantType, authTime time.Time) *store.TokenFamily {
	now := fs.Now()
	return &store.TokenFamily{
		ID:       oauth.NewID(),
		User:     store.FamilyUser{ID: user.ID, Version: user.Version, Declared: user.Declared},
		Grant:    store.Grant{ClientID: client.ID, Origin: origin},
		SignIn:   store.SignIn{Time: authTime},
		Validity: store.Validity{CreatedAt: now, TokenLifetime: fs.LifetimesOf(client).For(origin)},
		Refresh:  store.RefreshState{RotatedAt: now},
	}
}

// NewSignIn is New for a user who has just signed in. No earlier revocation ends the family. Tokens have times in whole seconds, and a
// revocation ends everything up to and including its own second. A sign-in in that second is therefore dated to the next one. No token of
// a family is dated before the family.
func (fs *Families) NewSignIn(user *store.User, client *store.Client, origin oauth.GrantType, authTime time.Time) *store.TokenFamily {
	f := fs.New(user, client, origin, authTime)
	f.CreatedAt = fs.Revocations.Passed(f.CreatedAt, user.ID, user.Organisation)
	return f
}

// Add stores a family of a user, as AddUnlimited does. It returns a rate_limited error when the user, or the admin who creates the
// family, has created too many.
func (fs *Families) Add(ctx context.Context, f *store.TokenFamily, user *store.User) error {
	if err := fs.Limits.ReserveGrant(ctx, f.Origin, cmp.Or(f.Actor.Subject, f.User.ID), fs.Now()); err != nil {
		return err
	}
	return fs.AddUnlimited(ctx, f, user)
}

// ErrSessionEnded is the error of Add for a family that depends on a session which has ended.
var ErrSessionEnded = oauth.NewError(oauth.InvalidGrant, "user_changed")

// AddUnlimited stores a family of a user. It returns an invalid_grant error when the user, or what else the family depends on, has
// changed meanwhile, and an invalid_request error when the authorization request was decided before.
func (fs *Families) AddUnlimited(ctx context.Context, f *store.TokenFamily, user *store.User) error {
	switch outcome, err := fs.Store.AddFamily(ctx, f); {
	case err != nil:
		return err
	case outcome == store.Revoked:
		return ErrSessionEnded
	case outcome == store.Replayed:
		return oauth.ErrDecided
	case outcome != store.Done:
		return oauth.NewError(oauth.InvalidGrant, "user_changed")
	}
	fs.Remembered.Put(f, user)
	return nil
}

// UseOnce records durably, for all nodes, that an owner's id of a kind was used, and reports whether it had not been used before. The
// record is kept at least until the given time. Only a digest of owner and id is stored.
func (fs *Families) UseOnce(ctx context.Context, kind, owner, id string, until time.Time) (fresh bool, err error) {
	named := sha256.Sum256([]byte(owner))
	digest := sha256.Sum256([]byte(kind + "\x00" + string(named[:]) + id))
	outcome, err := fs.Store.DecideRequest(ctx, base64.RawURLEncoding.EncodeToString(digest[:]), until.Add(store.RevocationMargin))
	if err != nil {
		return false, err
	}
	return outcome == store.Done, nil
}
