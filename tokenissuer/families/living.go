package families

import (
	"context"
	"errors"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// Stored returns the family of that id, whatever its state; nil when there is none.
func (fs *Families) Stored(ctx context.Context, id string) (*store.TokenFamily, error) {
	f, err := fs.Store.Family(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return f, nil
}

// Living returns the family of that id; nil when there is none or it has been ended.
func (fs *Families) Living(ctx context.Context, id string) (*store.TokenFamily, error) {
	f, err := fs.Stored(ctx, id)
	if f == nil || err != nil || !f.RevokedAt.IsZero() {
		return nil, err
	}
	return f, nil
}

// OfToken returns the family of an access token, whatever its state. It is nil when the token has outlived the family's record, and for a
// token without a jti, which stands for a refresh token whose family has just been read.
func (fs *Families) OfToken(ctx context.Context, t *token.AccessToken) (*store.TokenFamily, error) {
	if t.ID == "" {
		return nil, nil
	}
	return fs.Stored(ctx, t.FamilyID)
}

// Recall returns a family and its user as they were last seen; nil when nothing is remembered, or when something remembered has been
// revoked since.
func (fs *Families) Recall(id string) (*store.TokenFamily, *store.User) {
	f, user, ok := fs.Remembered.Get(id)
	if !ok || fs.Revocations.RevokedFamily(f, user.Organisation) {
		return nil, nil
	}
	return f, user
}

// LivingUser returns the family's user if tokens may still act for the user: the user is active, in the same state as when the family was
// created, and nothing was revoked meanwhile. Otherwise it returns nil.
func (fs *Families) LivingUser(ctx context.Context, f *store.TokenFamily) (*store.User, error) {
	user, err := fs.Directory.User(ctx, f.User.ID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case !user.IsActive(), user.Version != f.User.Version, user.Declared != f.User.Declared:
		return nil, nil
	case fs.Revocations.RevokedFamily(f, user.Organisation), !fs.suffices(f, user):
		return nil, nil
	}
	return user, nil
}

func (fs *Families) suffices(f *store.TokenFamily, user *store.User) bool {
	return fs.Suffices == nil || fs.Suffices(f, user)
}

// RequireUser returns the user who was remembered with a family, or else the LivingUser. It is invalid_grant when there is none. A family
// with requested claims always asks the directory, because its ID tokens tell what can change without ending anything.
func (fs *Families) RequireUser(ctx context.Context, f *store.TokenFamily, remembered *store.User) (*store.User, error) {
	if remembered != nil && f.Claims == "" && fs.suffices(f, remembered) {
		return remembered, nil
	}
	user, err := fs.LivingUser(ctx, f)
	if err == nil && user == nil {
		err = oauth.NewError(oauth.InvalidGrant, "user_changed")
	}
	return user, err
}
