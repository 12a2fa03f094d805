package tokenissuer

import (
	"context"
	"errors"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// PasswordDirectory is a directory elsewhere, in which people prove with a password who they are.
type PasswordDirectory interface {
	// Provider is its name, which the sign-ins that come of it have.
	Provider() string
	// TakesUsernames reports whether people can sign in with something that is no e-mail address.
	TakesUsernames() bool
	// SignIn returns the user, and the directory's permanent identifier, of whoever has that name and password there. It returns store.ErrNotFound if the directory knows nobody
	// of that name, an invalid_grant if the password is wrong, an access_denied if it is right and nobody here may be that person, and a
	// temporarily_unavailable if it cannot be asked.
	SignIn(ctx context.Context, a DirectoryAttempt) (SignedIn, error)
}

// DirectoryAttempt is what somebody presents who has no password of ours.
type DirectoryAttempt struct {
	// Login is a canonical e-mail address or username.
	Login    string
	Password oauth.Secret
	// Address is where the attempt comes from.
	Address string
	// Admit is called with the directory's permanent identifier of the person before the password is looked at. Its error, an
	// invalid_grant, ends the attempt as a wrong password does: too many have failed for this person, whatever names they used.
	Admit func(subject string) error
}

// DirectoryError adds to an error the name of the directory that it is about, and whose account there, for the audit log.
type DirectoryError struct {
	error
	Provider string
	// Account is the address or username that was typed; empty: the directory has not found it, so it may be a password.
	Account string
}

// Unwrap returns the error without them.
func (e DirectoryError) Unwrap() error { return e.error }

// TakesUsernames reports whether people can sign in with something that is no e-mail address.
func (is *Issuer) TakesUsernames() bool {
	for _, d := range is.PasswordDirectories {
		if d.TakesUsernames() {
			return true
		}
	}
	return false
}

// canonicalLogin returns the one form in which a typed address or username is looked up and counted; "" when it is neither.
func (is *Issuer) canonicalLogin(typed string) (login string, isEmail bool) {
	if email, err := store.CanonicalEmail(typed); err == nil {
		return email, true
	}
	if !is.TakesUsernames() {
		return "", false
	}
	return store.CanonicalUsername(typed), false
}

// askDirectories asks them in their order, until one knows the name. That one decides: the same name may be somebody else's in the next. While
// one cannot be asked, a name that no other knows may be one of its own.
func (is *Issuer) askDirectories(ctx context.Context, a DirectoryAttempt, admit func(name, subject string) error) (SignedIn, error) {
	var unavailable error
	for _, d := range is.PasswordDirectories {
		a.Admit = func(subject string) error { return admit(d.Provider(), subject) }
		who, err := d.SignIn(ctx, a)
		switch {
		case err == nil:
			return who, nil
		case errors.Is(err, store.ErrNotFound):
		case oauth.AsError(err).Code == oauth.TemporarilyUnavailable:
			unavailable = errors.Join(unavailable, DirectoryError{err, d.Provider(), ""})
		default:
			return SignedIn{Provider: d.Provider()}, DirectoryError{err, d.Provider(), a.Login}
		}
	}
	if unavailable != nil {
		return SignedIn{}, unavailable
	}
	return SignedIn{}, oauth.NewError(oauth.InvalidGrant, "sign_in_failed")
}
