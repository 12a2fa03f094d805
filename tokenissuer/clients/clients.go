package clients

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/singleflight"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Policy holds the operator's settings of an issuer that concern its clients.
type Policy struct {
	// URL is the issuer identifier (RFC 8414 §2). It is never taken from a request.
	URL string
	// Audience is the aud of tokens requested without a resource. It is never empty.
	Audience []string
	// Scopes are the known scopes.
	Scopes oauth.ScopeCatalogue
	// SessionScopes are the scopes of sessions, and of the password grant without a client, in addition to trusted and public.
	SessionScopes oauth.Scopes
	// OpenID makes the issuer an OpenID provider (OpenID Connect Core).
	OpenID bool
	// Declared has the clients and users of the configuration. The directory has them too; here a look-up cannot fail.
	Declared store.StaticDirectory
	// StrictAssertions requires the aud of a client's assertion to be the issuer. It refuses the token endpoint.
	StrictAssertions bool
}

// Clients are the clients of an issuer: declared, stored and built-in ones. Its fields are set before use.
type Clients struct {
	Policy
	Families *families.Families
	// Authenticated caches authenticated clients; see Authenticate.
	Authenticated *Cache
	// Keys finds the keys of clients that sign assertions. If it is nil, no client can.
	Keys *AssertionKeys
	// Hasher verifies secrets that other servers have hashed.
	Hasher *passwords.Hasher
	// Limits bound failed authentications.
	Limits *attempts.Limits
	// Open admits clients that make themselves known.
	Open Open
	// Origins are the origins whose pages may read responses. If it is nil, none may.
	Origins *Origins

	// learning has the verifications of hashed secrets that are under way.
	learning singleflight.Group
}

// Find returns a client, possibly the built-in one, or store.ErrNotFound.
func (c *Clients) Find(ctx context.Context, id string) (*store.Client, error) {
	if id == store.BuiltInClientID {
		return c.BuiltIn(), nil
	}
	return c.Families.Directory.Client(ctx, id)
}

// BuiltIn returns the client of sessions, and of the password grant without a client. Its scopes are those that act for a user and those
// that the operator adds. Other scopes belong to the clients that have them.
func (p *Policy) BuiltIn() *store.Client {
	scopes := oauth.Scopes{oauth.ScopeTrusted, oauth.ScopePublic}
	for _, name := range p.SessionScopes {
		if !scopes.Has(name) && !oauth.AsksForRefresh(name) {
			scopes = append(scopes, name)
		}
	}
	return &store.Client{ID: store.BuiltInClientID, Name: "Gatehouse", Type: store.PublicClient, Scopes: scopes, Declared: true}
}

// ForHosts returns the built-in client as used for sign-ins at hosts behind the gate.
func (p *Policy) ForHosts() *store.Client {
	client := p.BuiltIn()
	client.Grants, client.FirstParty, client.PKCE = []oauth.GrantType{oauth.AuthorizationCode}, true, oauth.PKCERequired
	return client
}

// known returns a client that is declared or cached. Otherwise it returns the placeholder nobody.
func (c *Clients) known(id string) *store.Client {
	if declared := c.Declared.LookupClient(id); declared != nil {
		return declared
	}
	if client := c.Authenticated.Recall(id, c.Families.Now()); client != nil {
		return client
	}
	return &nobody
}

// registered returns the current client of an id, or the placeholder nobody. It looks at a metadata document only if a user has approved
// the client before: otherwise the client can have neither a code nor a token.
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
	return &nobody, nil // its document is missing or describes something else
}

// nobody is a placeholder for a nonexistent client. With it, the same work is done.
var nobody = store.Client{Type: store.ConfidentialClient, Disabled: true, Secrets: make([]store.ClientSecret, 1)}

// IsOwnAudience reports whether an audience is the issuer's own. A service with a token for it could act as the caller everywhere.
func (p *Policy) IsOwnAudience(audience string) bool {
	return slices.ContainsFunc(append([]string{p.URL}, p.Audience...), func(own string) bool { return oauth.SameResource(own, audience) })
}
