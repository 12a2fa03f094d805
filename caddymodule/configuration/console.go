package configuration

import (
	"errors"
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Console lets people operate the configuration in a browser, where the directive `oauth_console` serves it.
type Console struct {
	// Roles are those whose users see and change everything. Default: operator.
	Roles []string `json:"roles,omitempty"`
	// OrganisationRoles are those whose users see the people of their own organisation, and change those whose role theirs manages.
	// Default: none.
	OrganisationRoles []string `json:"organisation_roles,omitempty"`
}

// Operators are the roles of the console.
type Operators struct {
	// Everywhere are the roles with which people see and change everything, and InOrganisation those with which they see their own
	// organisation.
	Everywhere, InOrganisation []store.Role
}

// defaultOperator is the role of operators for whom none is named.
const defaultOperator = "operator"

// parseConsole reads:
//
//	console {
//		role              <role>...
//		organisation_role <role>...
//	}
func parseConsole(d *caddyfile.Dispenser, configured **Console, at *Sources) error {
	at.note(d, "console")
	c := orNew(configured)
	return options{
		"role":              checkedList(&c.Roles, nil),
		"organisation_role": checkedList(&c.OrganisationRoles, nil),
	}.parseAlone(d, "unknown console option %q")
}

// read checks that the roles are declared, and that their users can prove a second factor.
func (c *Console) read(s *Settings, at *Sources) error {
	if c == nil {
		return nil
	}
	if !s.Issuer.Factors.CanAdd() {
		return at.At(errors.New("console: operators sign in with a second factor, and there is none that they could add: write `totp`"), "console")
	}
	s.Operators = new(Operators)
	for _, of := range []struct {
		names []string
		roles *[]store.Role
	}{{c.everywhere(), &s.Operators.Everywhere}, {c.OrganisationRoles, &s.Operators.InOrganisation}} {
		for _, name := range of.names {
			if !s.Issuer.Roles.Has(store.Role(name)) {
				return at.At(fmt.Errorf("console: role %q is not declared: write `role %s \"…\"` in the oauth block, beside the roles of other users", name, name), "console")
			}
			*of.roles = append(*of.roles, store.Role(name))
		}
	}
	for _, role := range s.Operators.InOrganisation {
		if slices.Contains(s.Operators.Everywhere, role) {
			return at.At(fmt.Errorf("console: role %s is both a role and an organisation_role: take one of them out", role), "console")
		}
		for _, operator := range s.Operators.Everywhere {
			if s.Issuer.Roles.Manages(role, operator) {
				return at.At(fmt.Errorf("console: role %s manages %s, so its users could make operators of everything: take %s out of its `manages`, or %s out of organisation_role",
					role, operator, operator, role), "console")
			}
		}
	}
	return nil
}

// everywhere returns the names of the roles whose users see and change everything.
func (c *Console) everywhere() []string {
	if len(c.Roles) == 0 {
		return []string{defaultOperator}
	}
	return c.Roles
}

// AllRoles returns the names of all roles that open the console.
func (c *Console) AllRoles() []string { return slices.Concat(c.everywhere(), c.OrganisationRoles) }
