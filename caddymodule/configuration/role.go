package configuration

import (
	"slices"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// parseRole reads `role <name> [<words>] [manages <role>...]`. readRoles checks that the managed roles are declared.
func parseRole(d *caddyfile.Dispenser, roles *[]store.RoleDeclaration, at *Sources) error {
	args := d.RemainingArgs()
	if len(args) == 0 {
		return d.ArgErr()
	}
	role := store.RoleDeclaration{Name: store.Role(args[0])}
	taken := slices.ContainsFunc(*roles, func(other store.RoleDeclaration) bool { return other.Name == role.Name })
	if err := setting.Once(d, "role "+args[0], taken); err != nil {
		return err
	}
	rest := args[1:]
	if len(rest) > 0 && rest[0] != "manages" {
		if role.Words, rest = rest[0], rest[1:]; role.Words == "" {
			return d.Errf("role %s: the words are empty; is a variable unset?", role.Name)
		}
	}
	if err := (store.RoleCatalogue{}).Validate(role); err != nil {
		return d.Errf("%v", err)
	}
	if len(rest) > 0 {
		if rest[0] != "manages" || len(rest) == 1 {
			return d.Errf(`write a role as role <name> ["<words>"] [manages <role>...]`)
		}
		for _, name := range rest[1:] {
			role.Manages = append(role.Manages, store.Role(name))
		}
	}
	at.note(d, "role", args[0])
	*roles = append(*roles, role)
	return nil
}

// readRoles reads the declared roles.
func readRoles(roles []store.RoleDeclaration, s *Settings, at *Sources) error {
	s.Issuer.Roles = store.NewRoleCatalogue(roles...)
	for _, role := range roles {
		if err := s.Issuer.Roles.Validate(role); err != nil {
			return at.At(err, "role", string(role.Name))
		}
	}
	return nil
}
