package command

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// profileFlags are the flags of a command for what applications of OpenID Connect are told of a user.
type profileFlags struct {
	store.Profile
	emailVerified bool
	texts         []profileText
}

// profileText is a flag for one member, which begins with "address." when it is one of the address.
type profileText struct {
	name, member string
	value        *string
	help         string
}

func addProfileFlags(cmd *cobra.Command) *profileFlags {
	p := new(profileFlags)
	p.texts = []profileText{
		{"given-name", "given_name", &p.GivenName, "Given name"},
		{"family-name", "family_name", &p.FamilyName, "Family name"},
		{"preferred-username", "preferred_username", &p.PreferredUsername, "Name by which the user wants to be addressed"},
		{"locale", "locale", &p.Locale, "Language tag, such as de or en-GB"},
		{"zoneinfo", "zoneinfo", &p.Zoneinfo, "Time zone, such as Europe/Berlin"},
		{"picture", "picture", &p.Picture, "https URL of a picture"},
		{"phone", "phone_number", &p.Phone, "Phone number, such as +49 30 123456"},
		{"address-formatted", "address.formatted", &p.Address.Formatted, "Postal address as on a letter"},
		{"address-street", "address.street_address", &p.Address.StreetAddress, "Street and number"},
		{"address-locality", "address.locality", &p.Address.Locality, "City"},
		{"address-region", "address.region", &p.Address.Region, "State or region"},
		{"address-postal-code", "address.postal_code", &p.Address.PostalCode, "Postal code"},
		{"address-country", "address.country", &p.Address.Country, "Country"},
	}
	for _, text := range p.texts {
		cmd.Flags().StringVar(text.value, text.name, "", text.help)
	}
	cmd.Flags().BoolVar(&p.emailVerified, "email-verified", false, "The e-mail address is known to be the user's own")
	cmd.Flags().BoolVar(&p.PhoneVerified, "phone-verified", false, "The phone number is known to be the user's own")
	return p
}

// addChanged adds the members whose flags were given to a request.
func (p *profileFlags) addChanged(cmd *cobra.Command, request map[string]any) {
	for _, text := range p.texts {
		switch {
		case !cmd.Flags().Changed(text.name):
		case strings.HasPrefix(text.member, "address."):
			request["address"] = p.Address
		default:
			request[text.member] = *text.value
		}
	}
	if cmd.Flags().Changed("email-verified") {
		request["email_verified"] = p.emailVerified
	}
	if cmd.Flags().Changed("phone-verified") {
		request["phone_number_verified"] = p.PhoneVerified
	}
}
