package configuration

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
)

// profileOptions are the lines of a user for claims of OpenID Connect. All are optional.
func (c *User) profileOptions() options {
	p := &c.Profile
	return options{
		"email_verified":     flag(&c.EmailVerified),
		"given_name":         c.profileText(&p.GivenName),
		"family_name":        c.profileText(&p.FamilyName),
		"preferred_username": c.profileText(&p.PreferredUsername),
		"locale":             c.profileText(&p.Locale),
		"zoneinfo":           c.profileText(&p.Zoneinfo),
		"picture":            c.profileText(&p.Picture),
		"phone":              c.profileText(&p.Phone),
		"phone_verified":     flag(&p.PhoneVerified),
		"address":            c.parseAddress,
	}
}

// profileText is the option for a member of the profile.
func (c *User) profileText(value *string) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		if err := setting.Text(d, value); err != nil {
			return err
		}
		soFar := c.Profile
		soFar.PhoneVerified = false // the number may stand in a later line
		if err := soFar.Validate(); err != nil {
			return d.Errf("user %s: %v", c.ID, err)
		}
		return nil
	}
}

// parseAddress reads:
//
//	address {
//		formatted | street_address | locality | region | postal_code | country <text>
//	}
func (c *User) parseAddress(d *caddyfile.Dispenser) error {
	if err := setting.Once(d, "address", !c.Address.IsZero()); err != nil {
		return err
	}
	address := &c.Address
	return options{
		"formatted":      c.profileText(&address.Formatted),
		"street_address": c.profileText(&address.StreetAddress),
		"locality":       c.profileText(&address.Locality),
		"region":         c.profileText(&address.Region),
		"postal_code":    c.profileText(&address.PostalCode),
		"country":        c.profileText(&address.Country),
	}.parseAlone(d, "unknown address option %q")
}
