package admin

import "github.com/gatehouse-auth/gatehouse/tokenissuer/store"

// profileMembers are the members of a profile in a request: an absent member stays, and an empty text removes it. The address changes as a
// whole.
type profileMembers struct {
	GivenName         *string        `json:"given_name,omitzero"`
	FamilyName        *string        `json:"family_name,omitzero"`
	PreferredUsername *string        `json:"preferred_username,omitzero"`
	Locale            *string        `json:"locale,omitzero"`
	Zoneinfo          *string        `json:"zoneinfo,omitzero"`
	Picture           *string        `json:"picture,omitzero"`
	Phone             *string        `json:"phone_number,omitzero"`
	PhoneVerified     *bool          `json:"phone_number_verified,omitzero"`
	Address           *store.Address `json:"address,omitzero"`
}

// members returns the members, and whether the request has them.
func (m *profileMembers) members() []namedMember {
	return []namedMember{
		{"given_name", m.GivenName != nil}, {"family_name", m.FamilyName != nil}, {"preferred_username", m.PreferredUsername != nil},
		{"locale", m.Locale != nil}, {"zoneinfo", m.Zoneinfo != nil}, {"picture", m.Picture != nil}, {"phone_number", m.Phone != nil},
		{"phone_number_verified", m.PhoneVerified != nil}, {"address", m.Address != nil},
	}
}

// profile returns the changed profile; nil: the request changes none. A new number is unverified unless the request says otherwise.
func (m *profileMembers) profile(before *store.Profile) *store.Profile {
	if *m == (profileMembers{}) {
		return nil
	}
	var changed store.Profile
	if before != nil {
		changed = *before
	}
	if m.Phone != nil && *m.Phone != changed.Phone {
		changed.PhoneVerified = false
	}
	setTo(&changed.GivenName, m.GivenName)
	setTo(&changed.FamilyName, m.FamilyName)
	setTo(&changed.PreferredUsername, m.PreferredUsername)
	setTo(&changed.Locale, m.Locale)
	setTo(&changed.Zoneinfo, m.Zoneinfo)
	setTo(&changed.Picture, m.Picture)
	setTo(&changed.Phone, m.Phone)
	setTo(&changed.PhoneVerified, m.PhoneVerified)
	setTo(&changed.Address, m.Address)
	return &changed
}

// setTo sets a member if the request has it.
func setTo[T any](member, value *T) {
	if value != nil {
		*member = *value
	}
}
