package signin

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/mail"
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

// ErrEnrolled is the error for a factor that the user has already, and for one that is added without proving those that the user has.
var ErrEnrolled = oauth.NewError(oauth.InvalidRequest, "factor_taken")

// AddAuthenticator adds an authenticator with a secret of NewSecret, once the user has typed a code of it, and completes the sign-in with it.
// With the user's first factor it returns recovery codes, which are shown once. The error is that of Prove, or ErrEnrolled.
func (fa *Factors) AddAuthenticator(ctx context.Context, who *SignedIn, secret, name string, typed oauth.Secret) ([]oauth.Secret, error) {
	now, user := fa.Families.Now(), who.User
	f := &store.Factor{ID: oauth.NewID(), UserID: user.ID, DeclaredEmail: user.DeclaredEmail(), Kind: store.TOTP, Name: name, CreatedAt: now, LastUsedAt: now}
	err := fa.attempt(ctx, user.ID, now, func() error {
		return fa.matchOnce(ctx, f.ID, secret, strings.ReplaceAll(typed.Reveal(), " ", ""), now)
	})
	if err != nil {
		return nil, err
	}
	if err := SealFactor(fa.Families, f, secret, now); err != nil {
		return nil, err
	}
	return fa.Enrol(ctx, who, f, amrOTP)
}

// Enrol adds a factor that the user of a sign-in has just proved by that method (RFC 8176 §2), and completes the sign-in with it. With the
// user's first factor it returns recovery codes, which are shown once. The error is ErrEnrolled when the user has another second factor,
// which the sign-in did not prove: otherwise a stolen password would do to add one for ten minutes after the user has added the first.
func (fa *Factors) Enrol(ctx context.Context, who *SignedIn, f *store.Factor, method string) ([]oauth.Secret, error) {
	own, err := fa.Of(ctx, who.User)
	if err != nil {
		return nil, err
	}
	if who.Proof.ACR != oauth.TwoFactorACR && slices.ContainsFunc(own, (*store.Factor).IsSecond) {
		return nil, ErrEnrolled
	}
	var codes []oauth.Secret
	added := []*store.Factor{f}
	if !slices.ContainsFunc(own, isRecoveryCodes) {
		var recovery *store.Factor
		if codes, recovery, err = fa.recoveryCodes(who.User); err != nil {
			return nil, err
		}
		added = append(added, recovery)
	}
	if err := fa.add(ctx, who.User, added...); err != nil {
		return nil, err
	}
	fa.Post.Notify(ctx, who.User, mail.FactorAdded, f.Name)
	who.Complete(method, fa.Families.Now())
	return codes, nil
}

func isRecoveryCodes(f *store.Factor) bool { return f.Kind == store.RecoveryCodes }

// ReplaceRecoveryCodes gives the user new recovery codes. The earlier ones are void.
func (fa *Factors) ReplaceRecoveryCodes(ctx context.Context, user *store.User) ([]oauth.Secret, error) {
	codes, f, err := fa.recoveryCodes(user)
	if err == nil {
		err = fa.add(ctx, user, f)
	}
	if err == nil {
		fa.Post.Notify(ctx, user, mail.RecoveryCodesReplaced, "")
	}
	return codes, err
}

// recoveryCodes returns new codes, and the factor that has their digests.
func (fa *Factors) recoveryCodes(user *store.User) ([]oauth.Secret, *store.Factor, error) {
	now := fa.Families.Now()
	f := &store.Factor{ID: oauth.NewID(), UserID: user.ID, DeclaredEmail: user.DeclaredEmail(), Kind: store.RecoveryCodes, CreatedAt: now}
	codes, digests := newRecoveryCodes()
	return codes, f, SealFactor(fa.Families, f, digests, now)
}

// add stores factors of a user in one step.
func (fa *Factors) add(ctx context.Context, user *store.User, added ...*store.Factor) error {
	switch err := fa.Families.Store.AddFactor(ctx, added[0], user.Version, added[1:]...); {
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
	left, found, name := 0, false, ""
	for _, f := range own {
		switch {
		case f.ID == id:
			found, name = true, f.Name
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
	if err := fa.remove(ctx, user, which, name); err != nil || left == 0 {
		return err
	}
	// The others may have been removed meanwhile.
	if own, err = fa.Of(ctx, user); err != nil || slices.ContainsFunc(own, (*store.Factor).IsSecond) {
		return err
	}
	for _, f := range own {
		if err := fa.Families.Store.RemoveFactors(ctx, store.FactorFilter{UserID: user.ID, ID: f.ID}); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return nil
}

// MaxFactorName is how many characters the name of a factor can have.
const MaxFactorName = 60

// Rename names a factor of the user. It returns ErrNotFound when the user has no factor with that id, and invalid_request for a name that is
// empty, too long, or not one line.
func (fa *Factors) Rename(ctx context.Context, user *store.User, id, name string) error {
	if name = strings.TrimSpace(name); !store.FitsLine(name, MaxFactorName) {
		return oauth.NewError(oauth.InvalidRequest, "factor_name_unusable")
	}
	return fa.Families.Store.ChangeFactor(ctx, id, func(f *store.Factor) error {
		if !f.IsOf(user) {
			return store.ErrNotFound
		}
		f.Name = name
		return nil
	})
}

// RemoveAll removes all factors of the user. It returns ErrNotFound when the user has none.
func (fa *Factors) RemoveAll(ctx context.Context, user *store.User) error {
	return fa.remove(ctx, user, store.FactorFilter{UserID: user.ID}, "")
}

// remove removes factors and tells the user. name is that of the factor, if it is one.
func (fa *Factors) remove(ctx context.Context, user *store.User, which store.FactorFilter, name string) error {
	err := fa.Families.Store.RemoveFactors(ctx, which)
	if err == nil {
		fa.Post.Notify(ctx, user, mail.FactorRemoved, name)
	}
	return err
}
