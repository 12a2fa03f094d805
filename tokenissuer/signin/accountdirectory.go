package signin

import (
	"context"
)

// Directory signs people in with a password of an external directory. It implements PasswordDirectory.
type Directory struct {
	// Name is the provider's name.
	Name string
	// People authenticates the directory's people.
	People   People
	Accounts Accounts
	Rules    Rules
}

// People authenticates the people of a directory. Package ldap implements it.
type People interface {
	// Authenticate returns the account with that login and password. Its errors are those of PasswordDirectory.
	Authenticate(ctx context.Context, a DirectoryAttempt) (Account, error)
	TakesUsernames() bool
}

// Provider returns the provider's name.
func (d *Directory) Provider() string { return d.Name }

// TakesUsernames reports whether people can sign in with a name that is not an e-mail address.
func (d *Directory) TakesUsernames() bool { return d.People.TakesUsernames() }

// SignIn returns the user of the account with that login and password.
func (d *Directory) SignIn(ctx context.Context, a DirectoryAttempt) (SignedIn, error) {
	account, err := d.People.Authenticate(ctx, a)
	if err != nil {
		return SignedIn{}, err
	}
	user, err := d.Accounts.User(ctx, account, d.Rules)
	if err != nil {
		return SignedIn{}, err
	}
	return SignedIn{User: user, Provider: d.Name, Subject: account.Subject}, nil // SignIns.SignIn adds the rest
}
