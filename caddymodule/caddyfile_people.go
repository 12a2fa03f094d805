package caddymodule

import (
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// refuseTaken refuses an id that a client or a user has already. The two must not share one: a token whose subject is
// its client acts for no user.
func (a *App) refuseTaken(d *caddyfile.Dispenser, kind, id string) error {
	taken := map[string]bool{
		"client": slices.ContainsFunc(a.Clients, func(c ClientConfig) bool { return c.ID == id }),
		"user":   slices.ContainsFunc(a.Users, func(u UserConfig) bool { return u.ID == id }),
	}
	if err := once(d, kind+" "+id, taken[kind]); err != nil {
		return err
	}
	if taken["client"] || taken["user"] {
		return d.Errf("%s %s: a client and a user cannot have the same id", kind, id)
	}
	return nil
}

func (a *App) parseOrganisation(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) == 0 || len(args) > 2 {
		return d.ArgErr()
	}
	organisation := OrganisationConfig{ID: args[0]}
	for _, other := range a.Organisations {
		if err := once(d, "organisation "+other.ID, other.ID == organisation.ID); err != nil {
			return err
		}
	}
	if len(args) == 2 {
		if organisation.Name = args[1]; organisation.Name == "" {
			return d.Errf("organisation %s: the name is empty; is a variable unset?", organisation.ID)
		}
	}
	if err := organisation.read().Validate(); err != nil {
		return d.Errf("organisation %s: %v", organisation.ID, err)
	}
	a.Organisations = append(a.Organisations, organisation)
	return nil
}

// parseUser reads a user; what can be said of it without starting the server is said here, with its line. Whether its
// organisation and its role are declared is known only when every block has been read.
func (a *App) parseUser(d *caddyfile.Dispenser) error {
	var id string
	if !d.AllArgs(&id) {
		return d.ArgErr()
	}
	if err := a.refuseTaken(d, "user", id); err != nil {
		return err
	}
	user, first := UserConfig{ID: id}, *d
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if option := d.Val(); option == "organisation" || option == "password" || option == "role" {
			a.note(d, option, "of user", id)
		}
		if err := user.parseOption(d); err != nil {
			return err
		}
	}
	read := user
	if isReference(read.PasswordHash) { // known only when the server starts; any hash will do for the check
		read.PasswordHash = "$2a$10$" + strings.Repeat("a", 53)
	}
	if _, err := read.read(store.RoleCatalogue{}); err != nil { // of the user as a whole: the line is its first
		return first.Errf("user %s: %v", id, err)
	}
	for _, other := range a.Users {
		if other.Email == user.Email {
			return first.Errf("user %s: user %s has the same e-mail address", id, other.ID)
		}
	}
	a.Users = append(a.Users, user)
	return nil
}

func (c *UserConfig) parseOption(d *caddyfile.Dispenser) error {
	switch d.Val() {
	case "email":
		return c.parseEmail(d)
	case "name":
		return text(d, &c.Name)
	case "password":
		return c.parsePassword(d)
	case "organisation":
		return text(d, &c.Organisation)
	case "role":
		return text(d, &c.Role)
	case "groups":
		return c.parseGroups(d)
	}
	return d.Errf("unknown user option %q", d.Val())
}

// parseGroups reads `groups <group>...`. Several lines add up.
func (c *UserConfig) parseGroups(d *caddyfile.Dispenser) error {
	names := d.RemainingArgs()
	if len(names) == 0 {
		return d.ArgErr()
	}
	c.Groups = append(c.Groups, names...)
	if err := store.ValidateGroups(c.Groups); err != nil {
		return d.Errf("user %s: %v", c.ID, err)
	}
	return nil
}

// parseEmail asks for the one spelling in which an address is looked up, so that the configuration shows what is used.
func (c *UserConfig) parseEmail(d *caddyfile.Dispenser) error {
	if err := text(d, &c.Email); err != nil {
		return err
	}
	canonical, err := store.CanonicalEmail(c.Email)
	if err != nil {
		return d.Errf("user %s: %v", c.ID, err)
	}
	if canonical != c.Email {
		return d.Errf("user %s: e-mail address %q: write it as %q", c.ID, c.Email, canonical)
	}
	return nil
}

// parsePassword keeps a reference as it is, for Provision to resolve, and a hash too. A password that is written out is
// refused, and not repeated.
func (c *UserConfig) parsePassword(d *caddyfile.Dispenser) error {
	if err := text(d, &c.PasswordHash); err != nil {
		return err
	}
	owner := "user " + c.ID
	reference, err := parseReference(d, owner, "password", c.PasswordHash)
	if reference || err != nil {
		return err
	}
	if err := passwords.ValidateHash(oauth.NewSecret(c.PasswordHash)); err != nil {
		return d.Errf("%s: %v", owner, err)
	}
	return nil
}
