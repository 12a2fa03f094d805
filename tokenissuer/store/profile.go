package store

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Profile is what applications may learn about a user besides the name and the e-mail address (OpenID Connect Core 1.0 §5.1). Every
// member is optional. Its JSON form is that of the standard claims. Callers must not change a Profile that a directory returned.
type Profile struct {
	GivenName         string `json:"given_name,omitempty" help:"Given name"`
	FamilyName        string `json:"family_name,omitempty" help:"Family name"`
	PreferredUsername string `json:"preferred_username,omitempty" help:"Name by which the user wants to be addressed"`
	// Locale is a language tag, such as de or en-GB (BCP 47).
	Locale string `json:"locale,omitempty" help:"Language tag, such as de or en-GB"`
	// Zoneinfo is the name of a time zone, such as Europe/Berlin.
	Zoneinfo string `json:"zoneinfo,omitempty" help:"Time zone, such as Europe/Berlin"`
	// Picture is an https URL.
	Picture string `json:"picture,omitempty" help:"https URL of a picture"`
	Phone   string `json:"phone_number,omitempty" word:"phone" help:"Phone number, such as +49 30 123456"`
	// PhoneVerified says that Phone is verified to belong to the user.
	PhoneVerified bool    `json:"phone_number_verified,omitzero" word:"phone_verified" help:"The phone number is known to be the user's own"`
	Address       Address `json:"address,omitzero" help:"Postal address"`
}

// Address is a postal address (OpenID Connect Core 1.0 §5.1.1).
type Address struct {
	// Formatted is the complete address as written on a letter. It and StreetAddress may have several lines.
	Formatted     string `json:"formatted,omitempty" help:"Postal address as on a letter"`
	StreetAddress string `json:"street_address,omitempty" flag:"street" help:"Street and number"`
	Locality      string `json:"locality,omitempty" help:"City"`
	Region        string `json:"region,omitempty" help:"State or region"`
	PostalCode    string `json:"postal_code,omitempty" help:"Postal code"`
	Country       string `json:"country,omitempty" help:"Country"`
}

// IsZero reports whether all members are empty.
func (a Address) IsZero() bool { return a == Address{} }

// IsZero reports whether p is nil or all members are empty.
func (p *Profile) IsZero() bool { return p == nil || *p == Profile{} }

const (
	maxPictureURL = 2048 // bytes
	maxAddress    = 1024 // bytes of a member that may have several lines
)

var (
	// languageTag is the syntax of a tag (RFC 5646 §2.1). The list of registered subtags changes over the years.
	languageTag = regexp.MustCompile(`^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$`)
	// zoneName is the syntax of names in the IANA time zone database, which not every machine has.
	zoneName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}$`)
)

// Validate returns an error that names the first invalid member. A nil Profile is valid.
func (p *Profile) Validate() error {
	if p == nil {
		return nil
	}
	for _, member := range []struct {
		name, value string
		lines       bool
	}{
		{name: "given_name", value: p.GivenName},
		{name: "family_name", value: p.FamilyName},
		{name: "preferred_username", value: p.PreferredUsername},
		{name: "locale", value: p.Locale},
		{name: "zoneinfo", value: p.Zoneinfo},
		{name: "phone_number", value: p.Phone},
		{name: "address formatted", value: p.Address.Formatted, lines: true},
		{name: "address street_address", value: p.Address.StreetAddress, lines: true},
		{name: "address locality", value: p.Address.Locality},
		{name: "address region", value: p.Address.Region},
		{name: "address postal_code", value: p.Address.PostalCode},
		{name: "address country", value: p.Address.Country},
	} {
		validate := validateName
		if member.lines {
			validate = validateLines
		}
		if err := validate(member.value); err != nil {
			return fmt.Errorf("%s: %w", member.name, err)
		}
	}
	switch {
	case p.Locale != "" && !languageTag.MatchString(p.Locale):
		return fmt.Errorf("locale %q: write a language tag like de or en-GB", p.Locale)
	case p.Zoneinfo != "" && !zoneName.MatchString(p.Zoneinfo):
		return fmt.Errorf("zoneinfo %q: write the name of a time zone like Europe/Berlin", p.Zoneinfo)
	case p.PhoneVerified && p.Phone == "":
		return errors.New("phone_number_verified needs a phone_number")
	}
	return validatePicture(p.Picture)
}

// validateLines is validateName for text that may have several lines.
func validateLines(text string) error {
	control := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\r' }
	if len(text) > maxAddress || strings.ContainsFunc(text, control) || !utf8.ValidString(text) {
		return fmt.Errorf("use at most %d bytes of text without control characters", maxAddress)
	}
	if text != "" && strings.TrimSpace(text) == "" {
		return errors.New("write more than spaces, or leave it out")
	}
	return nil
}

// validatePicture returns an error for a URL that a page of an application could not show, or should not request.
func validatePicture(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || len(text) > maxPictureURL {
		return fmt.Errorf("picture %.64q: write an https URL of at most %d bytes, without credentials", text, maxPictureURL)
	}
	return nil
}
