package issuer

import (
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// NarrowedScopes returns the requested scopes, or all held ones if none are requested. It fails if others are requested. It omits scopes
// that the client may no longer hold.
func NarrowedScopes(held oauth.Scopes, client *store.Client, asked string) (oauth.Scopes, error) {
	allowed := slices.DeleteFunc(slices.Clone(held), func(name string) bool { return !client.Scopes.Has(name) })
	return ChosenScopes(asked, allowed, oauth.InvalidGrant, "scopes_withdrawn")
}

// ChosenScopes returns the requested scopes, or all allowed ones if none are requested. It fails if others are requested. If nothing is
// allowed, none and why are the code and the reason of the error. The returned strings are those of allowed, so the result does not keep
// the request in memory.
func ChosenScopes(asked string, allowed oauth.Scopes, none oauth.ErrorCode, why string) (oauth.Scopes, error) {
	scopes, err := oauth.RequestedScopes(asked)
	switch {
	case err != nil:
		return nil, err
	case len(allowed) == 0:
		return nil, oauth.NewError(none, why)
	case len(scopes) == 0:
		return allowed, nil
	case allowed.Missing(scopes...) != "":
		return nil, oauth.NewError(oauth.InvalidScope, "scope_wider_than_granted")
	}
	for i, name := range scopes {
		scopes[i] = allowed[slices.Index(allowed, name)]
	}
	return scopes, nil
}

// Intersection returns the scopes that are in bound. An empty bound includes all.
func Intersection(scopes, bound oauth.Scopes) oauth.Scopes {
	if len(bound) == 0 {
		return scopes
	}
	return slices.DeleteFunc(slices.Clone(scopes), func(name string) bool { return !bound.Has(name) })
}
