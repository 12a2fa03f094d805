package signin

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Authenticator is what a user enters into an authenticator to add it: a secret, as text and as a picture.
type Authenticator struct {
	// Secret is in groups of four characters.
	Secret string
	// Picture is a QR picture, as PNG.
	Picture []byte
}

// NewSecret returns a secret for an authenticator that a user is about to add.
func NewSecret() string { return newTOTPSecret() }

// AuthenticatorOf returns what the user enters for a secret of NewSecret.
func (fa *Factors) AuthenticatorOf(user *store.User, secret string) (Authenticator, error) {
	picture, err := totpPicture(totpURI(secret, fa.Name, cmp.Or(user.Email, user.ID)))
	if err != nil {
		return Authenticator{}, oauth.AsError(err)
	}
	var groups []string
	for rest := secret; rest != ""; rest = rest[min(4, len(rest)):] {
		groups = append(groups, rest[:min(4, len(rest))])
	}
	return Authenticator{Secret: strings.Join(groups, " "), Picture: picture}, nil
}

// ErrEnrolled is the error of AddAuthenticator when the user has one.
var ErrEnrolled = oauth.NewError(oauth.InvalidRequest, "factor_taken")

// AddAuthenticator adds an authenticator with a secret of NewSecret, once the user has typed a code of it, and completes the sign-in with it.
// It returns new recovery codes, which are shown once. The error is that of Prove, or ErrEnrolled.
func (fa *Factors) AddAuthenticator(ctx context.Context, who *SignedIn, secret, name string, typed oauth.Secret) ([]oauth.Secret, error) {
	now, user := fa.Families.Now(), who.User
	f := &store.Factor{ID: oauth.NewID(), UserID: user.ID, DeclaredEmail: user.DeclaredEmail(), Kind: store.TOTP, Name: name, CreatedAt: now, LastUsedAt: now}
	err := fa.attempt(ctx, user.ID, now, func() error {
		return fa.matchOnce(ctx, f.ID, secret, strings.ReplaceAll(typed.Reveal(), " ", ""), now)
	})
	if err != nil {
		return nil, err
	}
	sealed, err := keys.Wrap(fa.Families.Master.Factors, ownerOf(f), secret, now)
	if err != nil {
		return nil, err
	}
	f.Data = []byte(sealed.Reveal())
	if err := fa.add(ctx, f, user); err != nil {
		return nil, err
	}
	who.complete(now, amrOTP)
	return fa.ReplaceRecoveryCodes(ctx, user)
}

// ReplaceRecoveryCodes gives the user new recovery codes. The earlier ones are void.
func (fa *Factors) ReplaceRecoveryCodes(ctx context.Context, user *store.User) ([]oauth.Secret, error) {
	codes, digests, err := newRecoveryCodes()
	if err != nil {
		return nil, oauth.AsError(err)
	}
	f := &store.Factor{
		ID: oauth.NewID(), UserID: user.ID, DeclaredEmail: user.DeclaredEmail(), Kind: store.RecoveryCodes, Data: digests, CreatedAt: fa.Families.Now(),
	}
	return codes, fa.add(ctx, f, user)
}

func (fa *Factors) add(ctx context.Context, f *store.Factor, user *store.User) error {
	switch err := fa.Families.Store.AddFactor(ctx, f, user.Version); {
	case errors.Is(err, store.ErrTaken):
		return ErrEnrolled
	case errors.Is(err, store.ErrNotFound):
		return oauth.NewError(oauth.InvalidGrant, "user_changed")
	default:
		return err
	}
}

// Remove removes a factor of the user. With the last one, the recovery codes are removed too. It returns ErrNotFound when the user has no
// factor with that id.
func (fa *Factors) Remove(ctx context.Context, user *store.User, id string) error {
	own, err := fa.Of(ctx, user)
	if err != nil {
		return err
	}
	left, found := 0, false
	for _, f := range own {
		switch {
		case f.ID == id:
			found = true
		case f.IsSecond():
			left++
		}
	}
	if !found {
		return store.ErrNotFound
	}
	which := store.FactorFilter{UserID: user.ID, ID: id}
	if left == 0 {
		which.ID = ""
	}
	return fa.Families.Store.RemoveFactors(ctx, which)
}

// RemoveAll removes all factors of the user. It returns ErrNotFound when the user has none.
func (fa *Factors) RemoveAll(ctx context.Context, user *store.User) error {
	return fa.Families.Store.RemoveFactors(ctx, store.FactorFilter{UserID: user.ID})
}
