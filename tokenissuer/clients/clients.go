package clients

import (
	"context"
	"errors"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Policy is what an operator decides about the issuer for its clients.
type Policy struct {
	// URL is the issuer identifier (RFC 8414 §2). It never comes from a request.
	URL string
	// Audience is the aud of tokens for which no resource was asked; never empty.
	Audience []string
	// Scopes are the scopes that are known.
	Scopes oauth.ScopeCatalogue
	// SessionScopes are the scopes of sessions, and of the password grant without a client, beside trusted and public.
	SessionScopes oauth.Scopes
	// OpenID makes the issuer an OpenID provider (OpenID Connect Core).
	OpenID bool
	// Declared are the clients and users of the configuration. The directory knows them as well; here they are found without an error.
	Declared store.StaticDirectory
	// StrictAssertions requires the aud of a client's assertion to be the issuer, and refuses the token endpoint.
	StrictAssertions bool
}

// Clients are the clients that an issuer knows: declared, stored, and the built-in one. Its fields are set before use.
type Clients struct {
	Policy
	Families *families.Families
	// Authenticated remembers for a moment which clients have authenticated; see Authenticate.
	Authenticated *Cache
	// Keys finds the keys of clients that sign assertions; nil: no client can.
	Keys *AssertionKeys
	// Limits bound failed authentications.
	Limits *attempts.Limits
	// Open are the clients that make themselves known.
	Open Open
	// Origins are the origins whose pages may read answers; nil: none may.
	Origins *Origins
}

// Find returns a client, which may be the built-in one, or store.ErrNotFound.
func (c *Clients) Find(ctx context.Context, id string) (*store.Client, error) {
	if id == store.BuiltInClientID {
		return c.BuiltIn(), nil
	}
	return c.Families.Directory.Client(ctx, id)
}

// BuiltIn returns the client of sessions, and of the password grant without a client. It may hold what acts for a user and what the
// operator adds. Other scopes are for the clients that have them.
func (p *Policy) BuiltIn() *store.Client {
	scopes := oauth.Scopes{oauth.ScopeTrusted, oauth.ScopePublic}
	for _, name := range p.SessionScopes {
		if !scopes.Has(name) && !oauth.AsksForRefresh(name) {
			scopes = append(scopes, name)
		}
	}
	return &store.Client{ID: store.BuiltInClientID, Name: "Gatehouse", Type: store.PublicClient, Scopes: scopes, Declared: true}
}

// ForHosts returns the built-in client as it is when a browser signs in at a host behind the gate.
func (p *Policy) ForHosts() *store.Client {
	client := p.BuiltIn()
	client.Grants, client.FirstParty, client.PKCE = []oauth.GrantType{oauth.AuthorizationCode}, true, oauth.PKCERequired
	return client
}

// known returns a client that can be found without a question to the store, or nobody.
func (c *Clients) known(id string) *store.Client {
	if declared := c.Declared.LookupClient(id); declared != nil {
		return declared
	}
	if client := c.Authenticated.Recall(id, c.Families.Now()); client != nil {
		return client
	}
	return &nobody
}

// registered returns the client of an id as it is now, or nobody. A client with a metadata document is looked at only if a user has
// approved it before, because otherwise it can have neither a code nor a token.
func (c *Clients) registered(ctx context.Context, id, source string) (*store.Client, error) {
	client, err := c.Families.Directory.Client(ctx, id)
	if err == nil && client.Origin != store.FromOperator {
		client, err = c.Open.present(ctx, id, client, source)
	}
	var own *oauth.Error
	switch {
	case err == nil:
		return client, nil
	case errors.Is(err, store.ErrNotFound):
		return &nobody, nil
	case !errors.As(err, &own):
		return nil, err
	case own.Code == oauth.TemporarilyUnavailable:
		return nil, own
	}
	return &nobody, nil // its document is gone, or says something else
}

// nobody stands in for a client that does not exist, so that the same work is done.
var nobody = store.Client{Type: store.ConfidentialClient, Disabled: true, Secrets: make([]store.ClientSecret, 1)}

// IsOwnAudience reports whether an audience is the issuer's own. With a token for it, a service could act as the caller everywhere.
func (p *Policy) IsOwnAudience(audience string) bool {
	return slices.ContainsFunc(append([]string{p.URL}, p.Audience...), func(own string) bool { return oauth.SameResource(own, audience) })
}
