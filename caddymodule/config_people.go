package caddymodule

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// OrganisationConfig declares an organisation.
type OrganisationConfig struct {
	// ID is what tokens name it by (`org`).
	ID string `json:"id"`
	// Name is shown to people. Default: the id.
	Name string `json:"name,omitempty"`
}

// UserConfig declares a user.
type UserConfig struct {
	// ID is what tokens name the user by (`sub`). It must not be a client's.
	ID string `json:"id"`
	// Email is the address to sign in with, in lower case. Required.
	Email string `json:"email"`
	// Name is shown to people. Default: the address.
	Name string `json:"name,omitempty"`
	// PasswordHash is the hash of the password, as `caddy hash-password` prints it (bcrypt or argon2id). Required. One that
	// is written out stands in the running configuration, which Caddy shows to its administrators and saves to disk; a
	// reference, {env.NAME} or {file./path}, keeps it out of both. The password itself is refused.
	PasswordHash string `json:"password_hash"`
	// Organisation is the id of one that is declared too. Default: the user belongs to none.
	Organisation string `json:"organisation,omitempty"`
	// Role is one of the declared ones, or of admin, group_manager, business_manager and member where none is declared.
	// Default: member, where there is such a role.
	Role string `json:"role,omitempty"`
	// Groups are what the user belongs to, at most 100 and together what fits a token. Tokens with the scope groups name them.
	Groups []string `json:"groups,omitempty"`
}

// readDirectory reads who is declared: clients, organisations and users.
func (a *App) readDirectory(s *settings) error {
	var all store.Declarations
	var err error
	if all.Clients, err = a.readClients(s.scopes); err != nil {
		return err
	}
	for _, o := range a.Organisations {
		all.Organisations = append(all.Organisations, o.read())
	}
	for _, u := range a.Users {
		setting := "password"
		user, err := u.read(s.roles)
		switch {
		case err != nil:
		case u.Role != "" && !s.roles.Has(user.Role):
			setting, err = "role", s.roles.Check(user.Role)
		case u.Organisation != "" && !slices.ContainsFunc(a.Organisations, func(o OrganisationConfig) bool { return o.ID == u.Organisation }):
			setting = "organisation"
			err = fmt.Errorf("organisation %q is not declared: add `organisation %s`", u.Organisation, u.Organisation)
		}
		if err != nil {
			return a.at(fmt.Errorf("user %q: %w", u.ID, err), setting, "of user", u.ID)
		}
		all.Users = append(all.Users, user)
		s.schemes = append(s.schemes, passwords.SchemeOf(user.PasswordHash))
	}
	s.declared, err = store.NewStaticDirectory(all)
	return err
}

func (c *OrganisationConfig) read() *store.Organisation {
	organisation := &store.Organisation{ID: c.ID, Name: c.Name}
	if organisation.Name == "" {
		organisation.Name = c.ID
	}
	return organisation
}

// read returns the user, with the hash that is written out or that the reference gives.
func (c *UserConfig) read(roles store.RoleCatalogue) (*store.User, error) {
	user := &store.User{
		ID: c.ID, Email: c.Email, Name: c.Name, Organisation: c.Organisation, Role: store.Role(c.Role), Groups: c.Groups,
	}
	user.SetDefaults(roles)
	hash := c.PasswordHash
	if hash == "" {
		return nil, errNoPassword
	}
	if isReference(hash) {
		var err error
		if hash, err = resolve("password", hash); err != nil {
			return nil, err
		}
	}
	user.PasswordHash = oauth.NewSecret(hash)
	if err := passwords.ValidateHash(user.PasswordHash); err != nil {
		return nil, fmt.Errorf("password: %w", err)
	}
	return user, user.Validate()
}

// errNoPassword: nobody can set the password of a declared user later.
var errNoPassword = errors.New("a declared user needs a password: give the hash that `caddy hash-password` prints")
