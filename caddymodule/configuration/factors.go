package configuration

import (
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// SecondFactor says who needs a second factor to sign in. Members add up.
type SecondFactor struct {
	// Everybody requires it of all users.
	Everybody bool `json:"everybody,omitempty"`
	// Roles, Groups and Organisations require it of their users.
	Roles         []string `json:"roles,omitempty"`
	Groups        []string `json:"groups,omitempty"`
	Organisations []string `json:"organisations,omitempty"`
}

// parseSecondFactor reads one line:
//
//	second_factor required role <role>... | group <group>... | organisation <id>... | everybody
func parseSecondFactor(d *caddyfile.Dispenser, rule **SecondFactor, at *Sources) error {
	const usage = "write it as `second_factor required role <role>...`, or with group, organisation or everybody in place of role"
	at.note(d, "second_factor")
	args := d.RemainingArgs()
	if len(args) < 2 || args[0] != "required" {
		return d.Errf("%s", usage)
	}
	c := orNew(rule)
	names := args[2:]
	switch kind := args[1]; {
	case kind == "everybody" && len(names) == 0:
		c.Everybody = true
	case len(names) == 0:
		return d.Errf("%s", usage)
	case kind == "role":
		c.Roles = append(c.Roles, names...)
	case kind == "group":
		c.Groups = append(c.Groups, names...)
	case kind == "organisation":
		c.Organisations = append(c.Organisations, names...)
	default:
		return d.Errf("%s", usage)
	}
	return nil
}

// readFactors checks which second factors there are and who needs one.
func readFactors(b *Block, s *Settings, at *Sources) error {
	policy := &s.Issuer.Factors
	policy.TOTP, policy.Name = b.TOTP, s.Pages.Brand()
	if b.SignIn != nil {
		for _, p := range b.SignIn.Providers {
			if p.TrustFactors && p.Kind == kindLDAP {
				return at.At(fmt.Errorf("provider %s: a directory verifies passwords alone: leave trust_factors out", p.Name), "provider", p.Name)
			}
			if p.TrustFactors {
				policy.TrustedProviders = append(policy.TrustedProviders, p.Name)
			}
		}
	}
	if err := b.Passkeys.read(s, at); err != nil {
		return err
	}
	c := b.SecondFactor
	if c == nil {
		return nil
	}
	if !policy.CanAdd() {
		return at.At(errors.New("second_factor: there is none that people could add: write `totp`"), "second_factor")
	}
	for _, role := range c.Roles {
		if !s.Issuer.Roles.Has(store.Role(role)) {
			return at.At(fmt.Errorf("second_factor: role %q is not declared", role), "second_factor")
		}
	}
	for _, group := range c.Groups { // a name that no group can have, such as that of an unset variable, would cover no user
		if err := checkGroup(group); err != nil {
			return at.At(fmt.Errorf("second_factor: %w", err), "second_factor")
		}
	}
	for _, id := range c.Organisations {
		if err := store.ValidateID(id); err != nil {
			return at.At(fmt.Errorf("second_factor: organisation id: %w", err), "second_factor")
		}
	}
	policy.Required = signin.FactorRule{Everybody: c.Everybody, Roles: c.Roles, Groups: c.Groups, Organisations: c.Organisations}
	if policy.Required.IsZero() {
		return at.At(errors.New("second_factor: nobody needs one: name roles, groups or organisations, or everybody"), "second_factor")
	}
	return nil
}
