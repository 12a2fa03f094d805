package federation

import (
	"context"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

// Directory signs people in with a password that is kept in a directory elsewhere. It is a tokenissuer.PasswordDirectory.
type Directory struct {
	// Name is the provider's.
	Name string
	// People are those of the directory.
	People   People
	Accounts Accounts
	Rules    Rules
}

// People are whom a directory knows. Package ldap has one.
type People interface {
	// Authenticate returns the account of whoever has that name and password. Its errors are those of tokenissuer.PasswordDirectory.
	Authenticate(ctx context.Context, a tokenissuer.DirectoryAttempt) (Account, error)
	TakesUsernames() bool
}

// Provider returns the provider's name.
func (d *Directory) Provider() string { return d.Name }

// TakesUsernames reports whether people can sign in with something that is no e-mail address.
func (d *Directory) TakesUsernames() bool { return d.People.TakesUsernames() }

// SignIn returns the user to whom the account belongs that a login and a password have.
func (d *Directory) SignIn(ctx context.Context, a tokenissuer.DirectoryAttempt) (tokenissuer.SignedIn, error) {
	account, err := d.People.Authenticate(ctx, a)
	if err != nil {
		return tokenissuer.SignedIn{}, err
	}
	user, err := d.Accounts.User(ctx, account, d.Rules)
	if err != nil {
		return tokenissuer.SignedIn{}, err
	}
	return tokenissuer.SignedIn{User: user, Provider: d.Name, Subject: account.Subject}, nil // with a password that was typed here: SignIn says so
}
