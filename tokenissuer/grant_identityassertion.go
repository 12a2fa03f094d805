package tokenissuer

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/assertion"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// maxIdentityGrant is how far ahead the exp of a grant may be that says who somebody is: so long its jti is kept.
const maxIdentityGrant = time.Hour

// grantForPerson makes a user token of an identity assertion authorization grant (draft-ietf-oauth-identity-assertion-authz-grant, "ID-JAG"): an
// issuer that we trust says that somebody may use a client here. It is good once, for the client that has proved who it is.
func (is *Issuer) grantForPerson(ctx context.Context, asked *assertedRequest) (Grant, error) {
	t, client, now := asked.token, asked.client, is.Now()
	// 1. The client.
	switch {
	case client == nil || client.IsPublic():
		return Grant{}, oauth.NewError(oauth.InvalidClient, "client_authentication_missing")
	case !client.MayUse(oauth.JWTBearer):
		return Grant{}, oauth.NewError(oauth.UnauthorizedClient, "grant_not_allowed")
	case t.ClientID != client.ID:
		return Grant{}, oauth.NewError(oauth.InvalidGrant, "assertion_of_another_client")
	case t.ID == "":
		return Grant{}, oauth.NewError(oauth.InvalidGrant, "assertion_jti_missing")
	case t.ExpiresAt.Sub(now) > maxIdentityGrant:
		return Grant{}, oauth.NewError(oauth.InvalidGrant, "assertion_lives_too_long")
	}
	// 2. The resources and scopes: what the grant and the request both name.
	granted, err := is.Resources.Audience(t.Claim("resource"), nil)
	if err != nil {
		return Grant{}, err
	}
	audience, err := is.Resources.Audience(asked.Resources, granted)
	if err != nil {
		return Grant{}, err
	}
	scopes, err := is.scopesForPerson(asked)
	if err != nil {
		return Grant{}, err
	}
	// 3. The user.
	user, err := is.Accepted.People.Person(ctx, asked.rule, t)
	if err != nil {
		if e := oauth.AsError(err); e.Code == oauth.AccessDenied {
			return Grant{}, oauth.NewError(oauth.InvalidGrant, e.Reason)
		}
		return Grant{}, err
	}
	// 4. The grant was not used before. Only now: a request that has failed can be mended and sent again.
	fresh, err := is.UseOnce(ctx, "identity assertion", t.Issuer, t.ID, t.ExpiresAt.Add(time.Minute))
	if err != nil {
		return Grant{}, err
	}
	if !fresh {
		return Grant{}, oauth.NewError(oauth.InvalidGrant, "assertion_used")
	}
	// 5. The token, of a family that ends as any of the client's does: no refresh token, for the issuer decides each time.
	authTime := t.AuthTime
	if authTime.After(now) {
		authTime = now
	}
	f := is.newFamily(user, client, oauth.AuthorizationCode, authTime)
	f.Scopes, f.Audience, f.Note, f.ExpiresAt = scopes, audience, asked.rule.Trust, now.Add(is.lifetimes(client).AuthorizationCode)
	return is.grantOf(f, client, user, func() error { return is.addFamily(ctx, f, user) }), nil
}

// AcceptsPeople reports whether a rule takes grants that say who somebody is.
func (se *Settings) AcceptsPeople() bool {
	return slices.ContainsFunc(se.AcceptRules, func(r assertion.Rule) bool { return r.People })
}

// scopesForPerson returns the scopes that the grant, the client and the rule all have; those of the request, if it names some. A grant
// that names none bounds nothing, and then the rule's count, or public.
func (is *Issuer) scopesForPerson(asked *assertedRequest) (oauth.Scopes, error) {
	said := asked.token.Scopes
	if len(said) == 0 {
		if said = asked.rule.Scopes; len(said) == 0 {
			said = oauth.Scopes{oauth.ScopePublic}
		}
	}
	ceiling := make(oauth.Scopes, 0, len(said))
	for _, name := range intersection(intersection(asked.client.Scopes, said), asked.rule.Scopes) {
		if _, known := is.Scopes.Find(name); known && !oauth.AsksForRefresh(name) && name != oauth.ScopeOpenID {
			ceiling = append(ceiling, strings.Clone(name))
		}
	}
	if len(ceiling) == 0 {
		return nil, oauth.NewError(oauth.InvalidScope, "scopes_disjoint")
	}
	scope := asked.Scope
	if scope == "" {
		scope = ceiling.String()
	}
	return is.Scopes.Grantable(scope, ceiling, oauth.AnyScope)
}
