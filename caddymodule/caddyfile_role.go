package caddymodule

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// RoleConfig declares a role.
type RoleConfig struct {
	// Name is what tokens call it (`role`).
	Name string `json:"name"`
	// Words tell a person what the role is called. Default: the name.
	Words string `json:"words,omitempty"`
	// Manages are the roles of those for whom users of this role may create tokens, within their organisation. Default: none.
	Manages []string `json:"manages,omitempty"`
}

// parseRole reads `role <name> [<words>] [manages <role>...]`. Whether the roles that it manages are declared is known only
// when every block has been read.
func (a *App) parseRole(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) == 0 {
		return d.ArgErr()
	}
	role := RoleConfig{Name: args[0]}
	for _, other := range a.Roles {
		if err := once(d, "role "+role.Name, other.Name == role.Name); err != nil {
			return err
		}
	}
	rest := args[1:]
	if len(rest) > 0 && rest[0] != "manages" {
		if role.Words, rest = rest[0], rest[1:]; role.Words == "" {
			return d.Errf("role %s: the words are empty; is a variable unset?", role.Name)
		}
	}
	if len(rest) > 0 {
		if rest[0] != "manages" || len(rest) == 1 {
			return d.Errf(`write a role as role <name> ["<words>"] [manages <role>...]`)
		}
		role.Manages = rest[1:]
	}
	alone := RoleConfig{Name: role.Name, Words: role.Words}
	if err := (store.RoleCatalogue{}).Validate(alone.declaration()); err != nil {
		return d.Errf("%v", err)
	}
	a.note(d, "role", role.Name)
	a.Roles = append(a.Roles, role)
	return nil
}

// declaration is the role as the core has it.
func (c *RoleConfig) declaration() store.RoleDeclaration {
	role := store.RoleDeclaration{Name: store.Role(c.Name), Words: c.Words}
	for _, name := range c.Manages {
		role.Manages = append(role.Manages, store.Role(name))
	}
	return role
}

// declaredRoles are the roles of the oauth block.
func (a *App) declaredRoles() []store.RoleDeclaration {
	var declared []store.RoleDeclaration
	for i := range a.Roles {
		declared = append(declared, a.Roles[i].declaration())
	}
	return declared
}

// readRoles reads which roles there are.
func (a *App) readRoles(s *settings) error {
	declared := a.declaredRoles()
	s.roles = store.NewRoleCatalogue(declared...)
	for _, role := range declared {
		if err := s.roles.Validate(role); err != nil {
			return a.at(err, "role", string(role.Name))
		}
	}
	return nil
}
