package configuration

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// User declares a user.
type User struct {
	// User has the id, which tokens name the user by (`sub`) and which must not be a client's, and the members. The organisation is one that is
	// declared too. The role is one of the declared ones, or of admin, group_manager, business_manager and member where none is declared.
	store.User
	// PasswordHash is the hash of the password, as `caddy hash-password` prints it (bcrypt or argon2id). It is required unless people can sign in
	// at a provider: a user without one does. A hash that is written out is part of the running configuration, which Caddy shows to its
	// administrators and saves to disk; a reference, {env.NAME} or {file./path}, keeps it out of both. The password itself is refused.
	PasswordHash string `json:"password_hash,omitempty"`
	// EmailVerified says that the address is known to be the user's own.
	EmailVerified bool `json:"email_verified,omitempty"`
}

// refuseTaken refuses an id that a client or a user has already. The two must not share one: a token whose subject is
// its client acts for no user.
func (b *Block) refuseTaken(d *caddyfile.Dispenser, kind, id string) error {
	taken := map[string]bool{
		"client": slices.ContainsFunc(b.Clients, func(c Client) bool { return c.ID == id }),
		"user":   slices.ContainsFunc(b.Users, func(u User) bool { return u.ID == id }),
	}
	if err := setting.Once(d, kind+" "+id, taken[kind]); err != nil {
		return err
	}
	if taken["client"] || taken["user"] {
		return d.Errf("%s %s: a client and a user cannot have the same id", kind, id)
	}
	return nil
}

// parseOrganisation reads `organisation <id> [<name>]`.
func (b *Block) parseOrganisation(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) == 0 || len(args) > 2 {
		return d.ArgErr()
	}
	c := store.Organisation{ID: args[0]}
	if err := setting.Once(d, "organisation "+c.ID, b.hasOrganisation(c.ID)); err != nil {
		return err
	}
	if len(args) == 2 {
		if c.Name = args[1]; c.Name == "" {
			return d.Errf("organisation %s: the name is empty; is a variable unset?", c.ID)
		}
	}
	if err := c.Validate(); err != nil {
		return d.Errf("organisation %s: %v", c.ID, err)
	}
	b.Organisations = append(b.Organisations, c)
	return nil
}

func (b *Block) hasOrganisation(id string) bool {
	return slices.ContainsFunc(b.Organisations, func(c store.Organisation) bool { return c.ID == id })
}

// parseUser reads a user; what can be said of it without starting the server is said here, with its line. Whether its
// organisation and its role are declared is known only when every block has been read.
//
//	user <id> {
//		password <hash> | {env.NAME} | {file./path}
//		email_verified
//		<member> <value>...
//	}
func (b *Block) parseUser(d *caddyfile.Dispenser) error {
	var id string
	if !d.AllArgs(&id) {
		return d.ArgErr()
	}
	if err := b.refuseTaken(d, "user", id); err != nil {
		return err
	}
	c, first := User{User: store.User{ID: id}}, *d
	if store.CheckSubject(id) != nil {
		b.Sources.note(d, "user", id) // of others no warning needs the place
	}
	lines := memberOptions("user "+id, &c.User, c.ValidateMember)
	lines["password"], lines["email_verified"] = c.parsePassword, flag(&c.EmailVerified)
	delete(lines, "status") // a declared user is active
	for _, name := range []string{"password", "organisation", "role"} {
		read := lines[name]
		lines[name] = func(d *caddyfile.Dispenser) error {
			b.Sources.note(d, d.Val(), "of user", id)
			return read(d)
		}
	}
	if err := lines.parse(d, "unknown user option %q"); err != nil {
		return err
	}
	// What a reference gives is known only when the server starts; any hash will do for the check.
	anyHash := func(string, string) (string, error) { return "$2a$10$" + strings.Repeat("a", 53), nil }
	if _, err := c.read(store.RoleCatalogue{}, anyHash); err != nil { // of the user as a whole: the line is its first
		return first.Errf("user %s: %v", id, err)
	}
	if c.PasswordHash == "" { // whether there is a provider is known when every block has been read
		b.Sources.note(&first, "user", id)
	}
	for _, other := range b.Users {
		if other.Email == c.Email {
			return first.Errf("user %s: user %s has the same e-mail address", id, other.ID)
		}
	}
	b.Users = append(b.Users, c)
	return nil
}

// parsePassword keeps a reference as it is, for Provision to resolve, and a hash too. A password that is written out is
// refused, and not repeated.
func (c *User) parsePassword(d *caddyfile.Dispenser) error {
	if err := setting.Text(d, &c.PasswordHash); err != nil {
		return err
	}
	owner := "user " + c.ID
	reference, err := setting.Reference(d, owner, "password", c.PasswordHash)
	if reference || err != nil {
		return err
	}
	if err := passwords.ValidateHash(oauth.NewSecret(c.PasswordHash)); err != nil {
		return d.Errf("%s: %v", owner, err)
	}
	return nil
}

// readDirectory reads who is declared: clients, organisations and users.
func (b *Block) readDirectory(s *Settings) error {
	var all store.Declarations
	var err error
	if all.Clients, err = b.readClients(s); err != nil {
		return err
	}
	for _, c := range b.Organisations {
		c.SetDefaults()
		all.Organisations = append(all.Organisations, &c)
	}
	for _, c := range b.Users {
		concerns := "password"
		user, err := c.read(s.Issuer.Roles, setting.Resolve)
		switch {
		case err != nil:
		case user.External && !b.SignIn.hasProvider():
			concerns, err = "", errNoPassword
		case c.Role != "" && !s.Issuer.Roles.Has(user.Role):
			concerns, err = "role", s.Issuer.Roles.Check(user.Role)
		case c.Organisation != "" && !b.hasOrganisation(c.Organisation):
			concerns, err = "organisation", fmt.Errorf("organisation %q is not declared: add `organisation %s`", c.Organisation, c.Organisation)
		}
		if err != nil {
			return b.Sources.At(b.Sources.At(fmt.Errorf("user %q: %w", c.ID, err), concerns, "of user", c.ID), "user", c.ID)
		}
		all.Users = append(all.Users, user)
		if !user.External {
			s.Issuer.DeclaredSchemes = append(s.Issuer.DeclaredSchemes, passwords.SchemeOf(user.PasswordHash))
		}
	}
	s.Issuer.Declared, err = store.NewStaticDirectory(all)
	return err
}

// errNoPassword: the password of a declared user cannot be set later.
var errNoPassword = errors.New("a declared user needs a password, for no provider is in sign_in: give the hash that `caddy hash-password` prints")

// read returns the user, with the hash that is written out or that the reference gives. One without a hash signs in at a provider.
func (c *User) read(roles store.RoleCatalogue, lookup lookup) (*store.User, error) {
	if c.Status != "" {
		return nil, errors.New("status: a declared user is active")
	}
	user := new(c.User)
	if c.EmailVerified {
		user.EmailVerifiedBy = store.VerifiedByOperator
	}
	user.SetDefaults(roles)
	hash := c.PasswordHash
	if hash == "" {
		user.External = true
		return user, user.Validate()
	}
	if setting.IsReference(hash) {
		var err error
		if hash, err = lookup("password", hash); err != nil {
			return nil, err
		}
	}
	user.PasswordHash = oauth.NewSecret(hash)
	if err := passwords.ValidateHash(user.PasswordHash); err != nil {
		return nil, fmt.Errorf("password: %w", err)
	}
	return user, user.Validate()
}
