package grants

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

// maxIdentityGrant bounds how far in the future the exp of an identity assertion may be, because its jti is stored until then.
const maxIdentityGrant = time.Hour

// grantForPerson returns the grant for an identity assertion (draft-ietf-oauth-identity-assertion-authz-grant, "ID-JAG"). In it, a trusted
// issuer states that a person may use a client here. Only the authenticated client can use the assertion, and only once.
func (g *jwtBearer) grantForPerson(ctx context.Context, asked *assertedRequest) (issuer.Grant, error) {
	t, client, now := asked.token, asked.client, g.families.Now()
	// 1. The client.
	switch {
	case client == nil || client.IsPublic():
		return issuer.Grant{}, oauth.NewError(oauth.InvalidClient, "client_authentication_missing")
	case !client.MayUse(oauth.JWTBearer):
		return issuer.Grant{}, oauth.NewError(oauth.UnauthorizedClient, "grant_not_allowed")
	case t.ClientID != client.ID:
		return issuer.Grant{}, oauth.NewError(oauth.InvalidGrant, "assertion_of_another_client")
	case t.ID == "":
		return issuer.Grant{}, oauth.NewError(oauth.InvalidGrant, "assertion_jti_missing")
	case t.ExpiresAt.Sub(now) > maxIdentityGrant:
		return issuer.Grant{}, oauth.NewError(oauth.InvalidGrant, "assertion_lives_too_long")
	}
	// 2. The resources and scopes named by both the assertion and the request.
	if err := checkBounds(asked); err != nil {
		return issuer.Grant{}, err
	}
	granted, err := g.resources.Audience(t.Claim("resource"), nil)
	if err != nil {
		return issuer.Grant{}, err
	}
	audience, err := g.resources.Audience(asked.Resources, granted)
	if err != nil {
		return issuer.Grant{}, err
	}
	scopes, err := g.scopesForPerson(asked)
	if err != nil {
		return issuer.Grant{}, err
	}
	// 3. The user.
	user, err := g.accepted.People.Person(ctx, asked.rule, t)
	if err != nil {
		if e := oauth.AsError(err); e.Code == oauth.AccessDenied {
			return issuer.Grant{}, oauth.NewError(oauth.InvalidGrant, e.Reason)
		}
		return issuer.Grant{}, err
	}
	// 4. The assertion was not used before. This check comes last so that a client can correct a failed request and repeat it.
	fresh, err := g.families.UseOnce(ctx, "identity assertion", t.Issuer, t.ID, t.ExpiresAt.Add(time.Minute))
	if err != nil {
		return issuer.Grant{}, err
	}
	if !fresh {
		return issuer.Grant{}, oauth.NewError(oauth.InvalidGrant, "assertion_used")
	}
	// 5. The token, in a family that ends like any other. There is no refresh token, because the other issuer decides each time.
	authTime := t.AuthTime
	if authTime.After(now) {
		authTime = now
	}
	f := g.families.New(user, client, oauth.AuthorizationCode, authTime)
	f.Scopes, f.Audience, f.Note, f.ExpiresAt = scopes, audience, asked.rule.Trust, now.Add(g.families.LifetimesOf(client).AuthorizationCode)
	return g.minter.GrantOf(f, client, user, issuer.Once(func() error { return g.families.Add(ctx, f, user) })), nil
}

// checkBounds refuses an assertion with a scope or a resource in which none can be read, as in a list of scopes. Without it, such an assertion would
// bound as little as one that names none.
func checkBounds(asked *assertedRequest) error {
	parts := strings.SplitN(asked.Assertion.Reveal(), ".", 3) // it is verified
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return oauth.NewError(oauth.InvalidGrant, "assertion_bound_unusable")
	}
	members, err := strictjson.Members(payload)
	_, hasScope := members["scope"]
	_, hasResource := members["resource"]
	if err != nil || hasScope && len(asked.token.Scopes) == 0 || hasResource && len(asked.token.Claim("resource")) == 0 {
		return oauth.NewError(oauth.InvalidGrant, "assertion_bound_unusable")
	}
	return nil
}

// acceptsPeople reports whether a rule accepts assertions that identify a person.
func (g *jwtBearer) acceptsPeople() bool {
	return slices.ContainsFunc(g.rules, func(r clients.AcceptRule) bool { return r.People })
}

// scopesForPerson returns the requested scopes, or all scopes common to the assertion, the client and the rule. If the assertion names no
// scopes, the rule's scopes stand in for them, or public if the rule has none.
func (g *jwtBearer) scopesForPerson(asked *assertedRequest) (oauth.Scopes, error) {
	said := asked.token.Scopes
	if len(said) == 0 {
		if said = asked.rule.Scopes; len(said) == 0 {
			said = oauth.Scopes{oauth.ScopePublic}
		}
	}
	ceiling := make(oauth.Scopes, 0, len(said))
	for _, name := range issuer.Intersection(issuer.Intersection(asked.client.Scopes, said), asked.rule.Scopes) {
		if _, known := g.scopes.Find(name); known && !oauth.AsksForRefresh(name) && name != oauth.ScopeOpenID {
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
	return g.scopes.Grantable(scope, ceiling, oauth.AnyScope)
}
