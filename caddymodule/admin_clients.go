package caddymodule

import (
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var clientOperations = map[string]operation{
	"GET /oauth/clients":                     listClients,
	"POST /oauth/clients":                    addClient,
	"GET /oauth/clients/{id}":                showClient,
	"PATCH /oauth/clients/{id}":              updateClient,
	"DELETE /oauth/clients/{id}":             removeClient,
	"POST /oauth/clients/{id}/rotate-secret": rotateSecret,
	"POST /oauth/clients/{id}/disable":       disableClient,
	"POST /oauth/clients/{id}/enable":        enableClient,
}

// clientView is what an operator sees of a client.
type clientView struct {
	ID             string            `json:"id"`
	Name           string            `json:"name"`
	Type           store.ClientType  `json:"type"`
	Grants         []oauth.GrantType `json:"grants"`
	Scopes         []string          `json:"scopes"`
	RedirectURIs   []string          `json:"redirect_uris,omitempty"`
	CORSOrigins    []string          `json:"cors_origins,omitempty"`
	FirstParty     bool              `json:"first_party,omitzero"`
	PKCE           string            `json:"pkce,omitzero"`
	RevokePrevious bool              `json:"revoke_previous_access_token,omitzero"`
	Tokens         map[string]string `json:"tokens,omitempty"`
	Disabled       bool              `json:"disabled"`
	Source         string            `json:"source"`
	CreatedAt      time.Time         `json:"created_at,omitzero"`
	Secrets        []secretView      `json:"secrets,omitempty"`
	// Secret is there once: in the answer to the request that made it.
	Secret string `json:"client_secret,omitzero"`
}

type secretView struct {
	CreatedAt time.Time `json:"created_at,omitzero"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

func viewOf(c *store.Client) clientView {
	view := clientView{
		ID: c.ID, Name: c.Name, Type: c.Type, Grants: c.Grants, Scopes: c.Scopes, RedirectURIs: c.RedirectURIs,
		CORSOrigins: c.CORSOrigins, FirstParty: c.FirstParty, PKCE: pkceOf(c), RevokePrevious: c.RevokePrevious, Tokens: c.Lifetimes.Words(), Disabled: c.Disabled,
		Source: source(c.Declared), CreatedAt: c.CreatedAt,
	}
	for _, s := range c.Secrets {
		view.Secrets = append(view.Secrets, secretView{s.CreatedAt, s.ExpiresAt})
	}
	return view
}

// pkceOf is what the client's `pkce` setting is in effect: clients without a secret always need PKCE.
func pkceOf(c *store.Client) string {
	if c.IsPublic() || c.PKCERequired {
		return pkceRequired
	}
	return ""
}

func listClients(app *App, r *http.Request) (int, any, error) {
	clients, err := app.registry.Clients(r.Context())
	views := make([]clientView, 0, len(clients))
	for _, c := range clients {
		views = append(views, viewOf(c))
	}
	return http.StatusOK, views, err
}

func showClient(app *App, r *http.Request) (int, any, error) {
	client, err := app.registry.Client(r.Context(), r.PathValue("id"))
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, viewOf(client), nil
}

// newClient is the request to add a client.
type newClient struct {
	ID             string            `json:"id,omitzero"`
	Name           string            `json:"name,omitzero"`
	Type           store.ClientType  `json:"type,omitzero"`
	Grants         []oauth.GrantType `json:"grants,omitempty"`
	Scopes         []string          `json:"scopes,omitempty"`
	RedirectURIs   []string          `json:"redirect_uris,omitempty"`
	CORSOrigins    []string          `json:"cors_origins,omitempty"`
	FirstParty     bool              `json:"first_party,omitzero"`
	PKCE           string            `json:"pkce,omitzero"`
	RevokePrevious bool              `json:"revoke_previous_access_token,omitzero"`
	Tokens         *TokensConfig     `json:"tokens,omitzero"`
}

func addClient(app *App, r *http.Request) (int, any, error) {
	var n newClient
	if err := readAdmin(r, &n); err != nil {
		return 0, nil, err
	}
	required, err := readPKCE(n.PKCE)
	if err != nil {
		return 0, nil, tokenissuer.InvalidInput(err)
	}
	lifetimes, err := n.Tokens.lifetimes()
	if err != nil {
		return 0, nil, tokenissuer.InvalidInput(err)
	}
	client, secret, err := app.registry.AddClient(r.Context(), store.Client{
		ID: n.ID, Name: n.Name, Type: n.Type, Grants: n.Grants, Scopes: n.Scopes,
		RedirectURIs: n.RedirectURIs, CORSOrigins: n.CORSOrigins, FirstParty: n.FirstParty, PKCERequired: required,
		RevokePrevious: n.RevokePrevious, Lifetimes: lifetimes,
	})
	if err != nil {
		return 0, nil, err
	}
	app.record("client added", zap.String("client_id", client.ID))
	view := viewOf(client)
	view.Secret = secret.Reveal()
	return http.StatusCreated, view, nil
}

// clientUpdate is the request to change a client: the members that are there. A list replaces the former one, and tokens
// all of the client's own lifetimes.
type clientUpdate struct {
	Name           *string            `json:"name"`
	Type           *store.ClientType  `json:"type"`
	Grants         *[]oauth.GrantType `json:"grants"`
	Scopes         *[]string          `json:"scopes"`
	RedirectURIs   *[]string          `json:"redirect_uris"`
	CORSOrigins    *[]string          `json:"cors_origins"`
	FirstParty     *bool              `json:"first_party"`
	PKCE           *string            `json:"pkce"`
	RevokePrevious *bool              `json:"revoke_previous_access_token"`
	Tokens         *TokensConfig      `json:"tokens"`
}

// change is the core's form of the update, with the names of its members.
func (u *clientUpdate) change() (change store.ClientChange, names []string, err error) {
	change = store.ClientChange{
		Name: u.Name, Type: u.Type, Grants: u.Grants, Scopes: (*oauth.Scopes)(u.Scopes), RedirectURIs: u.RedirectURIs,
		CORSOrigins: u.CORSOrigins, FirstParty: u.FirstParty, RevokePrevious: u.RevokePrevious,
	}
	if u.PKCE != nil {
		required, err := readPKCE(*u.PKCE)
		if err != nil {
			return change, nil, tokenissuer.InvalidInput(err)
		}
		change.PKCERequired = &required
	}
	if u.Tokens != nil {
		lifetimes, err := u.Tokens.lifetimes()
		if err != nil {
			return change, nil, tokenissuer.InvalidInput(err)
		}
		change.Lifetimes = &lifetimes
	}
	for _, member := range []struct {
		name  string
		given bool
	}{
		{"name", u.Name != nil}, {"type", u.Type != nil}, {"grants", u.Grants != nil}, {"scopes", u.Scopes != nil},
		{"redirect_uris", u.RedirectURIs != nil}, {"cors_origins", u.CORSOrigins != nil}, {"first_party", u.FirstParty != nil}, {"pkce", u.PKCE != nil},
		{"revoke_previous_access_token", u.RevokePrevious != nil},
		{"tokens", u.Tokens != nil},
	} {
		if member.given {
			names = append(names, member.name)
		}
	}
	return change, names, nil
}

func updateClient(app *App, r *http.Request) (int, any, error) {
	var u clientUpdate
	if err := readAdmin(r, &u); err != nil {
		return 0, nil, err
	}
	change, names, err := u.change()
	if err != nil {
		return 0, nil, err
	}
	client, err := app.registry.UpdateClient(r.Context(), r.PathValue("id"), change)
	if err != nil {
		return 0, nil, err
	}
	app.record("client updated", zap.String("client_id", client.ID), zap.Strings("changed", names))
	return http.StatusOK, viewOf(client), nil
}

func removeClient(app *App, r *http.Request) (int, any, error) {
	return app.changeClient(r, "client removed", app.registry.RemoveClient(r.Context(), r.PathValue("id")))
}

func disableClient(app *App, r *http.Request) (int, any, error) {
	return app.changeClient(r, "client disabled", app.registry.DisableClient(r.Context(), r.PathValue("id")))
}

func enableClient(app *App, r *http.Request) (int, any, error) {
	return app.changeClient(r, "client enabled", app.registry.EnableClient(r.Context(), r.PathValue("id")))
}

// changeClient records a change that went well.
func (a *App) changeClient(r *http.Request, what string, err error) (int, any, error) {
	if err == nil {
		a.record(what, zap.String("client_id", r.PathValue("id")))
	}
	return http.StatusNoContent, nil, err
}

func rotateSecret(app *App, r *http.Request) (int, any, error) {
	var request struct {
		Overlap string `json:"overlap,omitzero"`
	}
	if err := readAdmin(r, &request); err != nil {
		return 0, nil, err
	}
	overlap, err := optionalDuration(request.Overlap)
	if err != nil {
		return 0, nil, err
	}
	id := r.PathValue("id")
	secret, err := app.registry.RotateSecret(r.Context(), id, overlap)
	if err != nil {
		return 0, nil, err
	}
	app.record("client secret rotated", zap.String("client_id", id))
	return http.StatusOK, clientSecret{id, secret.Reveal()}, nil
}

type clientSecret struct {
	ID     string `json:"id"`
	Secret string `json:"client_secret"`
}
