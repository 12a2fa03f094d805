package admin

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/registry"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var clientOperations = map[string]operation{
	"GET /oauth/clients":                     listClients,
	"POST /oauth/clients":                    withBody(addClient),
	"GET /oauth/clients/{id}":                showClient,
	"PATCH /oauth/clients/{id}":              withBody(updateClient),
	"DELETE /oauth/clients/{id}":             changeNamed("client removed", "client_id", (*registry.Registry).RemoveClient),
	"POST /oauth/clients/{id}/rotate-secret": withBody(rotateSecret),
	"POST /oauth/clients/{id}/disable":       changeNamed("client disabled", "client_id", (*registry.Registry).DisableClient),
	"POST /oauth/clients/{id}/enable":        changeNamed("client enabled", "client_id", (*registry.Registry).EnableClient),
}

// Client is what an operator sees of a client.
type Client struct {
	ID             string               `json:"id"`
	Name           string               `json:"name"`
	Type           store.ClientType     `json:"type"`
	Grants         []oauth.GrantType    `json:"grants"`
	Scopes         []string             `json:"scopes"`
	RedirectURIs   []string             `json:"redirect_uris,omitempty"`
	CORSOrigins    []string             `json:"cors_origins,omitempty"`
	FirstParty     bool                 `json:"first_party,omitzero"`
	PKCE           string               `json:"pkce,omitzero"`
	RevokePrevious bool                 `json:"revoke_previous_access_token,omitzero"`
	MayExchange    []store.ExchangeRule `json:"may_exchange,omitempty"`
	Tokens         map[string]string    `json:"tokens,omitempty"`
	clientOpenID
	clientKeys
	Disabled bool   `json:"disabled"`
	Source   string `json:"source"`
	// Origin is "metadata" or "registration" for a client that made itself known. LastUsedAt is when such a client got a token, to the day.
	Origin     store.ClientOrigin `json:"origin,omitzero"`
	LastUsedAt time.Time          `json:"last_used_at,omitzero"`
	CreatedAt  time.Time          `json:"created_at,omitzero"`
	Secrets    []ClientSecret     `json:"secrets,omitempty"`
	// Secret is there once: in the answer to the request that made it.
	Secret string `json:"client_secret,omitzero"`
	// Provider is there in the answer to a registration for OpenID Connect.
	Provider *OpenIDProvider `json:"provider,omitzero"`
	// Warning is there in the answer to a change that was made and does not work yet.
	Warning string `json:"warning,omitzero"`
}

// ClientSecret is a secret as an operator sees it: how long it is good, and nothing of it.
type ClientSecret struct {
	CreatedAt time.Time `json:"created_at,omitzero"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

func viewOf(c *store.Client) Client {
	view := Client{
		ID: c.ID, Name: c.Name, Type: c.Type, Grants: c.Grants, Scopes: c.Scopes, RedirectURIs: c.RedirectURIs,
		CORSOrigins: c.CORSOrigins, FirstParty: c.FirstParty, PKCE: pkceOf(c), RevokePrevious: c.RevokePrevious, MayExchange: c.Exchange, Tokens: c.Lifetimes.Words(), clientOpenID: clientOpenID(c.OpenID), clientKeys: keysOf(c), Disabled: c.Disabled,
		Source: source(c.Declared), Origin: c.Origin, LastUsedAt: c.LastUsedAt, CreatedAt: c.CreatedAt,
	}
	for _, s := range c.Secrets {
		view.Secrets = append(view.Secrets, ClientSecret{s.CreatedAt, s.ExpiresAt})
	}
	return view
}

// pkceOf is what the client's `pkce` setting is in effect: clients without a secret always need PKCE.
func pkceOf(c *store.Client) string {
	switch {
	case c.IsPublic(), c.PKCERequired:
		return oauth.PKCERequired
	case c.PKCEOptional:
		return oauth.PKCEOptional
	}
	return ""
}

func listClients(t *Target, r *http.Request) (int, any, error) {
	clients, err := t.Registry.Clients(r.Context())
	if query := r.URL.Query(); err == nil && query.Has("origin") {
		wanted, err := parseOrigin(query.Get("origin"))
		if err != nil {
			return 0, nil, err
		}
		clients = slices.DeleteFunc(clients, func(c *store.Client) bool { return c.Origin != wanted })
	}
	return listed(clients, err, viewOf)
}

// parseOrigin reads the origin of clients that are asked for.
func parseOrigin(text string) (store.ClientOrigin, error) {
	switch origin := store.ClientOrigin(text); {
	case text == "operator":
		return store.FromOperator, nil
	case origin == store.FromMetadata, origin == store.FromRegistration:
		return origin, nil
	}
	return "", registry.InvalidInput(fmt.Errorf("unknown origin %q: use operator, metadata or registration", text))
}

func showClient(t *Target, r *http.Request) (int, any, error) {
	client, err := t.Registry.Client(r.Context(), r.PathValue("id"))
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, viewOf(client), nil
}

// newClient is the request to add a client.
type newClient struct {
	ID string `json:"id"`
	// OpenID registers an application that signs people in by OpenID Connect: the scopes and grants that it needs are then added.
	OpenID bool `json:"openid"`
	clientMembers
}

// clientMembers are what an operator can set of a client: the members that are there. In an update a list replaces the
// former one, and tokens all of the client's own lifetimes.
type clientMembers struct {
	Name           *string               `json:"name"`
	Type           *store.ClientType     `json:"type"`
	Grants         *[]oauth.GrantType    `json:"grants"`
	Scopes         *[]string             `json:"scopes"`
	RedirectURIs   *[]string             `json:"redirect_uris"`
	CORSOrigins    *[]string             `json:"cors_origins"`
	FirstParty     *bool                 `json:"first_party"`
	PKCE           *string               `json:"pkce"`
	RevokePrevious *bool                 `json:"revoke_previous_access_token"`
	MayExchange    *[]store.ExchangeRule `json:"may_exchange"`
	Tokens         jsontext.Value        `json:"tokens"`
	JWKS           jsontext.Value        `json:"jwks"`
	JWKSURI        *string               `json:"jwks_uri"`

	IDTokenAlgorithm                 *oauth.Algorithm `json:"id_token_signed_response_alg"`
	PostLogoutRedirectURIs           *[]string        `json:"post_logout_redirect_uris"`
	BackchannelLogoutURI             *string          `json:"backchannel_logout_uri"`
	BackchannelLogoutSessionRequired *bool            `json:"backchannel_logout_session_required"`
}

// hasTokens reports whether there are lifetimes; null is like none.
func (m *clientMembers) hasTokens() bool { return len(m.Tokens) > 0 && m.Tokens.Kind() != 'n' }

// change is the core's form of the members. Before is how the client has taken part in OpenID Connect: a change of that replaces the whole.
func (m *clientMembers) change(t *Target, before store.ClientOpenID) (store.ClientChange, error) {
	change := store.ClientChange{
		Name: m.Name, Type: m.Type, Grants: m.Grants, Scopes: (*oauth.Scopes)(m.Scopes), RedirectURIs: m.RedirectURIs,
		CORSOrigins: m.CORSOrigins, FirstParty: m.FirstParty, RevokePrevious: m.RevokePrevious, Exchange: m.MayExchange,
	}
	if m.PKCE != nil {
		if err := oauth.CheckClientPKCE(*m.PKCE); err != nil {
			return change, registry.InvalidInput(err)
		}
		required, optional := *m.PKCE == oauth.PKCERequired, *m.PKCE == oauth.PKCEOptional
		change.PKCERequired, change.PKCEOptional = &required, &optional
	}
	change.OpenID, change.Keys = m.openID(before), m.keys()
	if m.hasTokens() {
		lifetimes, err := t.ReadLifetimes(m.Tokens)
		if err != nil {
			return change, registry.InvalidInput(err)
		}
		change.Lifetimes = &lifetimes
	}
	return change, nil
}

func addClient(t *Target, r *http.Request, n newClient) (int, any, error) {
	if n.OpenID {
		if err := n.suitOpenID(t); err != nil {
			return 0, nil, err
		}
	}
	change, err := n.change(t, store.ClientOpenID{})
	if err != nil {
		return 0, nil, err
	}
	asked := store.Client{ID: n.ID}
	change.Apply(&asked)
	client, secret, err := t.Registry.AddClient(r.Context(), asked)
	if err != nil {
		return 0, nil, err
	}
	t.record("client added", zap.String("client_id", client.ID))
	view := viewOf(client)
	view.Secret, view.Warning = secret.Reveal(), t.logoutWarning(r.Context(), client)
	if n.OpenID {
		view.Provider, err = t.provider()
	}
	return http.StatusCreated, view, err
}

func updateClient(t *Target, r *http.Request, m clientMembers) (int, any, error) {
	before, err := t.Registry.Client(r.Context(), r.PathValue("id"))
	if err != nil {
		return 0, nil, err
	}
	change, err := m.change(t, before.OpenID)
	if err != nil {
		return 0, nil, err
	}
	client, err := t.Registry.UpdateClient(r.Context(), r.PathValue("id"), change)
	if err != nil {
		return 0, nil, err
	}
	t.record("client updated", zap.String("client_id", client.ID), zap.Strings("changed", given([]namedMember{
		{"name", m.Name != nil}, {"type", m.Type != nil}, {"grants", m.Grants != nil}, {"scopes", m.Scopes != nil},
		{"redirect_uris", m.RedirectURIs != nil}, {"cors_origins", m.CORSOrigins != nil}, {"first_party", m.FirstParty != nil},
		{"pkce", m.PKCE != nil}, {"revoke_previous_access_token", m.RevokePrevious != nil}, {"may_exchange", m.MayExchange != nil}, {"tokens", m.hasTokens()},
		{"id_token_signed_response_alg", m.IDTokenAlgorithm != nil}, {"post_logout_redirect_uris", m.PostLogoutRedirectURIs != nil},
		{"jwks", len(m.JWKS) > 0}, {"jwks_uri", m.JWKSURI != nil},
		{"backchannel_logout_uri", m.BackchannelLogoutURI != nil}, {"backchannel_logout_session_required", m.BackchannelLogoutSessionRequired != nil},
	})))
	view := viewOf(client)
	if m.BackchannelLogoutURI != nil {
		view.Warning = t.logoutWarning(r.Context(), client)
	}
	return http.StatusOK, view, nil
}

// resolveTimeout is how long an answer waits to find out where a backchannel_logout_uri leads.
const resolveTimeout = 2 * time.Second

// logoutWarning says why a client will not be told of sign-outs; empty: nothing is known against it.
func (t *Target) logoutWarning(ctx context.Context, client *store.Client) string {
	if t.LogoutsToPrivate || client.OpenID.BackchannelLogoutURI == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	if err := fetch.CheckPublic(ctx, client.OpenID.BackchannelLogoutURI); err != nil {
		return "the application will not be told of sign-outs: backchannel_logout_uri: " + err.Error() + ". Write `openid { allow_private_network }` in the oauth block"
	}
	return ""
}

// rotation is the request to give a client another secret.
type rotation struct {
	Overlap string `json:"overlap"` // how long the old ones stay good; empty: they end
}

func rotateSecret(t *Target, r *http.Request, asked rotation) (int, any, error) {
	overlap, err := optionalDuration(asked.Overlap)
	if err != nil {
		return 0, nil, err
	}
	id := r.PathValue("id")
	secret, err := t.Registry.RotateSecret(r.Context(), id, overlap)
	if err != nil {
		return 0, nil, err
	}
	t.record("client secret rotated", zap.String("client_id", id))
	return http.StatusOK, RotatedSecret{id, secret.Reveal()}, nil
}

// RotatedSecret is the answer with a new secret, which is shown once.
type RotatedSecret struct {
	ID     string `json:"id"`
	Secret string `json:"client_secret"`
}
