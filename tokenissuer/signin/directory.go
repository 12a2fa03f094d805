package signin

import (
	"context"
	"errors"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// PasswordDirectory is an external directory that verifies people's passwords.
type PasswordDirectory interface {
	// Provider returns the directory's name, which its sign-ins carry.
	Provider() string
	// TakesUsernames reports whether people can sign in with a name that is not an e-mail address.
	TakesUsernames() bool
	// SignIn returns the user with that login and password in the directory, and the directory's permanent identifier. The error is
	// store.ErrNotFound if the directory does not know the login, invalid_grant if the password is wrong, access_denied if the password is
	// correct but the person may not be a user here, or temporarily_unavailable if the directory cannot be reached.
	SignIn(ctx context.Context, a DirectoryAttempt) (SignedIn, error)
}

// DirectoryAttempt is an attempt to sign in with a password of a directory.
type DirectoryAttempt struct {
	// Login is a canonical e-mail address or username.
	Login    string
	Password oauth.Secret
	// Address is the address that the attempt comes from.
	Address string
	// Admit is called with the directory's permanent identifier of the person before the password is verified. It returns invalid_grant if
	// too many attempts have failed for this person, under any login. That error ends the attempt like a wrong password.
	Admit func(subject string) error
}

// DirectoryError adds the directory, and the account there, to an error, for the audit log.
type DirectoryError struct {
	error
	Provider string
	// Account is the address or username that was typed. It is empty if the directory did not find it, because it may be a password.
	Account string
}

// Unwrap returns the error without the directory.
func (e DirectoryError) Unwrap() error { return e.error }

// TakesUsernames reports whether people can sign in with a name that is not an e-mail address.
func (si *SignIns) TakesUsernames() bool {
	for _, d := range si.Directories {
		if d.TakesUsernames() {
			return true
		}
	}
	return false
}

// canonicalLogin returns the form in which a typed address or username is looked up and counted. It returns "" if it is neither.
func (si *SignIns) canonicalLogin(typed string) (login string, isEmail bool) {
	if email, err := store.CanonicalEmail(typed); err == nil {
		return email, true
	}
	if !si.TakesUsernames() {
		return "", false
	}
	return store.CanonicalUsername(typed), false
}

// askDirectories asks the directories in order until one knows the login. That directory decides, because the same login may be another
// person's in the next. If none knows the login and one cannot be reached, the error is temporarily_unavailable.
func (si *SignIns) askDirectories(ctx context.Context, a DirectoryAttempt, admit func(name, subject string) error) (SignedIn, error) {
	var unavailable error
	for _, d := range si.Directories {
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
