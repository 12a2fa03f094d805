package token

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// idUserClaim is a claim about a user, the scope that asks for it (OpenID Connect Core §5.4), and where it comes from.
type idUserClaim struct {
	name, scope string
	set         func(*claimsOfUser, *store.User, *store.Profile)
}

// idUserClaims are all claims about users, beside sub.
var idUserClaims = []idUserClaim{
	{"name", oauth.ScopeProfile, func(c *claimsOfUser, u *store.User, _ *store.Profile) { c.Name = u.Name }},
	{"given_name", oauth.ScopeProfile, func(c *claimsOfUser, _ *store.User, p *store.Profile) { c.GivenName = p.GivenName }},
	{"family_name", oauth.ScopeProfile, func(c *claimsOfUser, _ *store.User, p *store.Profile) { c.FamilyName = p.FamilyName }},
	{"preferred_username", oauth.ScopeProfile, func(c *claimsOfUser, _ *store.User, p *store.Profile) { c.PreferredUsername = p.PreferredUsername }},
	{"locale", oauth.ScopeProfile, func(c *claimsOfUser, _ *store.User, p *store.Profile) { c.Locale = p.Locale }},
	{"zoneinfo", oauth.ScopeProfile, func(c *claimsOfUser, _ *store.User, p *store.Profile) { c.Zoneinfo = p.Zoneinfo }},
	{"picture", oauth.ScopeProfile, func(c *claimsOfUser, _ *store.User, p *store.Profile) { c.Picture = p.Picture }},
	{"updated_at", oauth.ScopeProfile, func(c *claimsOfUser, u *store.User, _ *store.Profile) { c.UpdatedAt = updatedAt(u) }},
	{"email", oauth.ScopeEmail, func(c *claimsOfUser, u *store.User, _ *store.Profile) { c.Email = u.Email }},
	{"email_verified", oauth.ScopeEmail, func(c *claimsOfUser, u *store.User, _ *store.Profile) {
		if u.Email != "" {
			verified := u.EmailVerified()
			c.EmailVerified = &verified
		}
	}},
	{"phone_number", oauth.ScopePhone, func(c *claimsOfUser, _ *store.User, p *store.Profile) { c.Phone = p.Phone }},
	{"phone_number_verified", oauth.ScopePhone, func(c *claimsOfUser, _ *store.User, p *store.Profile) {
		if p.Phone != "" {
			c.PhoneVerified = &p.PhoneVerified
		}
	}},
	{"address", oauth.ScopeAddress, func(c *claimsOfUser, _ *store.User, p *store.Profile) { c.Address = p.Address }},
	{"groups", oauth.ScopeGroups, func(c *claimsOfUser, u *store.User, _ *store.Profile) { c.Groups = u.AllGroups() }},
}

// claimsOfUser are the claims on the wire (OpenID Connect Core §5.1).
type claimsOfUser struct {
	Name              string        `json:"name,omitzero"`
	GivenName         string        `json:"given_name,omitzero"`
	FamilyName        string        `json:"family_name,omitzero"`
	PreferredUsername string        `json:"preferred_username,omitzero"`
	Locale            string        `json:"locale,omitzero"`
	Zoneinfo          string        `json:"zoneinfo,omitzero"`
	Picture           string        `json:"picture,omitzero"`
	UpdatedAt         int64         `json:"updated_at,omitzero"`
	Email             string        `json:"email,omitzero"`
	EmailVerified     *bool         `json:"email_verified,omitzero"`
	Phone             string        `json:"phone_number,omitzero"`
	PhoneVerified     *bool         `json:"phone_number_verified,omitzero"`
	Address           store.Address `json:"address,omitzero"`
	Groups            []string      `json:"groups,omitempty"`
}

// IDClaims returns the claims about a user that the scopes request, and those that are named, as a JSON object. It omits claims without a
// value, and returns nil if none is left.
func IDClaims(u *store.User, scopes oauth.Scopes, names []string) (jsontext.Value, error) {
	claims, err := json.Marshal(selectClaims(u, scopes, names))
	if err != nil {
		return nil, oauth.AsError(err)
	}
	if string(claims) == "{}" {
		return nil, nil
	}
	return claims, nil
}

func selectClaims(u *store.User, scopes oauth.Scopes, names []string) *claimsOfUser {
	profile := u.Profile
	if profile == nil {
		profile = new(store.Profile)
	}
	claims := new(claimsOfUser)
	for _, claim := range idUserClaims {
		if scopes.Has(claim.scope) || slices.Contains(names, claim.name) {
			claim.set(claims, u, profile)
		}
	}
	return claims
}

// updatedAt returns the time of the user's last change in Unix seconds; 0: unknown.
func updatedAt(u *store.User) int64 {
	if at := u.LastChange(); !at.IsZero() {
		return at.Unix()
	}
	return 0
}

// IDClaimNames returns the names of the claims about users, beside sub.
func IDClaimNames() (names []string) {
	for _, claim := range idUserClaims {
		names = append(names, claim.name)
	}
	return names
}

// scopeOf returns the scope that asks for a claim; "" for a claim that no user has.
func scopeOf(name string) string {
	i := slices.IndexFunc(idUserClaims, func(c idUserClaim) bool { return c.name == name })
	if i < 0 {
		return ""
	}
	return idUserClaims[i].scope
}
