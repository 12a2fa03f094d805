package signin

import (
	"context"
)

// Directory signs people in with a password of an external directory. It is a signin.PasswordDirectory.
type Directory struct {
	// Name is the provider's.
	Name string
	// People are the people of the directory.
	People   People
	Accounts Accounts
	Rules    Rules
}

// People are the people that a directory knows. Package ldap has one.
type People interface {
	// Authenticate returns the account that has that name and password. Its errors are those of signin.PasswordDirectory.
	Authenticate(ctx context.Context, a DirectoryAttempt) (Account, error)
	TakesUsernames() bool
}

// Provider returns the provider's name.
func (d *Directory) Provider() string { return d.Name }

// TakesUsernames reports whether people can sign in with something that is not an e-mail address.
func (d *Directory) TakesUsernames() bool { return d.People.TakesUsernames() }

// SignIn returns the user of the account that has the login and the password.
func (d *Directory) SignIn(ctx context.Context, a DirectoryAttempt) (SignedIn, error) {
	account, err := d.People.Authenticate(ctx, a)
	if err != nil {
		return SignedIn{}, err
	}
	user, err := d.Accounts.User(ctx, account, d.Rules)
	if err != nil {
		return SignedIn{}, err
	}
	return SignedIn{User: user, Provider: d.Name, Subject: account.Subject}, nil // signin.SignIns adds the rest
}
