package grants

import (
	"context"
	"errors"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/tracing"
)

// Request is a request to the token endpoint (RFC 6749 §3.2). Parameters unknown to its grant type are ignored.
type Request struct {
	GrantType oauth.GrantType
	Client    clients.Authentication
	// Scope is the parameter as received. Each grant type parses it.
	Scope string
	// Resources are the values of resource as received (RFC 8707 §2.2).
	Resources []string

	Code CodeParameters
	// DeviceCode is that of RFC 8628 §3.4.
	DeviceCode oauth.Secret
	Refresh    RefreshParameters
	Login      PasswordParameters
	// Assertion is that of RFC 7523 §2.1.
	Assertion oauth.Secret
	Exchange  ExchangeParameters
}

// grant is a grant type. It checks its parameters and returns what they prove.
type grant interface {
	exchange(ctx context.Context, client *store.Client, r Request) (issuer.Grant, error)
}

// Grants is the token endpoint.
type Grants struct {
	clients   *clients.Clients
	families  *families.Families
	minter    *issuer.Minter
	byType    map[oauth.GrantType]grant
	assertion *jwtBearer // nil if disabled
}

// New returns the token endpoint of an issuer with the grant types that its settings enable. accepted is what the AcceptRules need.
func New(p *issuer.Parts, accepted Accepted) *Grants {
	rights, codes := rights{scopes: p.Scopes, resources: p.Resources}, codes{p.Families, p.Minter, p.Resources}
	g := &Grants{clients: p.Clients, families: p.Families, minter: p.Minter, byType: map[oauth.GrantType]grant{
		oauth.ClientCredentials: &clientCredentials{rights},
		oauth.AuthorizationCode: &authorizationCode{codes},
		oauth.DeviceCode:        &deviceCode{codes},
		oauth.RefreshTokenGrant: &refreshToken{p.Families, p.Minter, p.Resources},
		oauth.TokenExchange:     &tokenExchange{p.Families, p.Clients, p.Issued, p.Resources},
	}}
	if p.PasswordGrant != nil {
		g.byType[oauth.PasswordGrant] = &password{rights, p.Families, p.Minter, p.SignIns, *p.PasswordGrant}
	}
	if len(p.AcceptRules) > 0 {
		g.assertion = &jwtBearer{rights: rights, clients: p.Clients, families: p.Families, minter: p.Minter, accepted: accepted, rules: p.AcceptRules}
	}
	return g
}

// rights determines which scopes and resources a token may have.
type rights struct {
	scopes    oauth.ScopeCatalogue
	resources *oauth.Resources
}

// Served lists the grant types of the token endpoint, for the metadata (RFC 8414 §2).
func (g *Grants) Served() []oauth.GrantType {
	var served []oauth.GrantType
	for _, t := range oauth.KnownGrants {
		if g.serves(t) {
			served = append(served, t)
		}
	}
	return served
}

func (g *Grants) serves(t oauth.GrantType) bool {
	if t == oauth.JWTBearer {
		return g.assertion != nil
	}
	return g.byType[t] != nil
}

// AcceptsPeople reports whether a rule accepts assertions that identify a person.
func (g *Grants) AcceptsPeople() bool {
	return g.assertion != nil && g.assertion.acceptsPeople()
}

// Exchange serves a token request. The order is a safeguard: nothing about a grant is revealed before its client has authenticated.
func (g *Grants) Exchange(ctx context.Context, r Request) (tokens issuer.Tokens, client *store.Client, err error) {
	// 1. The grant type is present and known.
	if r.GrantType == "" {
		return issuer.Tokens{}, nil, oauth.MissingParameter("grant_type")
	}
	if !g.serves(r.GrantType) {
		return issuer.Tokens{}, nil, oauth.NewError(oauth.UnsupportedGrantType, "grant_type_unknown")
	}
	ctx, span := tracing.Start(ctx, "grant", string(r.GrantType))
	defer func() {
		if client != nil {
			span.Set(tracing.ClientID, client.ID)
		}
		span.End(err)
	}()
	if r.GrantType == oauth.JWTBearer {
		return g.assertion.exchange(ctx, r)
	}
	// 2. The client authenticates.
	if client, err = g.clientOf(ctx, r); err != nil {
		return issuer.Tokens{}, nil, err
	}
	// 3. The client may use the grant.
	if !mayUse(client, r.GrantType) {
		return issuer.Tokens{}, client, oauth.NewError(oauth.UnauthorizedClient, "grant_not_allowed")
	}
	// 4. The grant: its parameters, what it proves, and its scopes.
	_, proving := tracing.Start(ctx, "grant", "proof")
	grant, err := g.byType[r.GrantType].exchange(ctx, client, r) // not in the span's context: grant.Consume uses it later
	proving.End(err)
	if err != nil {
		return issuer.Tokens{}, client, err
	}
	// 5. The tokens.
	_, issuing := tracing.Start(ctx, "grant", "tokens")
	tokens, err = g.minter.Issue(grant)
	issuing.End(err)
	if err == nil {
		g.clients.NoteUse(ctx, client)
	}
	if grant.Exchanged != nil {
		tokens.IssuedType = r.Exchange.issuedType()
	}
	return tokens, client, err
}

// clientOf returns the client of a request. The password grant needs none, and neither does refreshing a token that was issued without one.
// A client that the request names must still authenticate.
func (g *Grants) clientOf(ctx context.Context, r Request) (client *store.Client, err error) {
	ctx, span := tracing.Start(ctx, "client", "authentication")
	defer func() { span.End(err) }()
	client, err = g.clients.Authenticate(ctx, r.Client)
	if !errors.Is(err, clients.ErrMissing) {
		return client, err
	}
	switch r.GrantType {
	case oauth.PasswordGrant:
		return g.clients.BuiltIn(), nil
	case oauth.RefreshTokenGrant:
		id, _, genuine, storeErr := g.families.ReadRefreshToken(ctx, r.Refresh.Token)
		if storeErr != nil {
			return nil, storeErr
		}
		if !genuine {
			return nil, err
		}
		f, _ := g.families.Recall(id) // a family's client never changes
		if f == nil {
			if f, storeErr = g.families.Stored(ctx, id); storeErr != nil {
				return nil, storeErr
			}
		}
		if f != nil && f.ClientID == store.BuiltInClientID && (f.Origin != oauth.PasswordGrant || g.serves(oauth.PasswordGrant)) {
			return g.clients.BuiltIn(), nil
		}
	}
	return nil, err
}

// mayUse reports whether the client may use the grant type. The built-in client reaches this check only with grant types that it may use.
func mayUse(client *store.Client, t oauth.GrantType) bool {
	if client.ID == store.BuiltInClientID {
		return true
	}
	if t == oauth.TokenExchange {
		return client.MayExchange()
	}
	return client.MayUse(t) || t == oauth.RefreshTokenGrant && client.MayRefresh()
}
