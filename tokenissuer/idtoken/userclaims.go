package idtoken

import (
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// userClaim is a claim about a user, and the scope that asks for it (OpenID Connect Core §5.4).
type userClaim struct {
	name, scope string
}

// userClaims are all claims about users, beside sub.
var userClaims = []userClaim{
	{"name", oauth.ScopeProfile},
	{"given_name", oauth.ScopeProfile},
	{"family_name", oauth.ScopeProfile},
	{"preferred_username", oauth.ScopeProfile},
	{"locale", oauth.ScopeProfile},
	{"zoneinfo", oauth.ScopeProfile},
	{"picture", oauth.ScopeProfile},
	{"updated_at", oauth.ScopeProfile},
	{"email", oauth.ScopeEmail},
	{"email_verified", oauth.ScopeEmail},
	{"phone_number", oauth.ScopePhone},
	{"phone_number_verified", oauth.ScopePhone},
	{"address", oauth.ScopeAddress},
	{"groups", oauth.ScopeGroups},
}

// UserClaimNames returns the names of the claims about users, beside sub.
func UserClaimNames() (names []string) {
	for _, claim := range userClaims {
		names = append(names, claim.name)
	}
	return names
}

// scopeOf returns the scope that asks for a claim; "" for a claim that no user has.
func scopeOf(name string) string {
	i := slices.IndexFunc(userClaims, func(c userClaim) bool { return c.name == name })
	if i < 0 {
		return ""
	}
	return userClaims[i].scope
}
