package caddymodule

import (
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
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
		return oauth.PKCERequired
	}
	return ""
}

func listClients(t *Target, r *http.Request) (int, any, error) {
	clients, err := t.Registry.Clients(r.Context())
	views := make([]clientView, 0, len(clients))
	for _, c := range clients {
		views = append(views, viewOf(c))
	}
	return http.StatusOK, views, err
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
	Tokens         jsontext.Value    `json:"tokens,omitzero"`
}

func addClient(t *Target, r *http.Request) (int, any, error) {
	var n newClient
	if err := readAdmin(r, &n); err != nil {
		return 0, nil, err
	}
	if err := oauth.CheckPKCE(n.PKCE); err != nil {
		return 0, nil, tokenissuer.InvalidInput(err)
	}
	lifetimes, err := t.lifetimes(n.Tokens)
	if err != nil {
		return 0, nil, err
	}
	client, secret, err := t.Registry.AddClient(r.Context(), store.Client{
		ID: n.ID, Name: n.Name, Type: n.Type, Grants: n.Grants, Scopes: n.Scopes,
		RedirectURIs: n.RedirectURIs, CORSOrigins: n.CORSOrigins, FirstParty: n.FirstParty, PKCERequired: n.PKCE == oauth.PKCERequired,
		RevokePrevious: n.RevokePrevious, Lifetimes: lifetimes,
	})
	if err != nil {
		return 0, nil, err
	}
	t.record("client added", zap.String("client_id", client.ID))
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
	Tokens         jsontext.Value     `json:"tokens"`
}

// change is the core's form of the update, with the names of its members.
func (u *clientUpdate) change(t *Target) (change store.ClientChange, names []string, err error) {
	change = store.ClientChange{
		Name: u.Name, Type: u.Type, Grants: u.Grants, Scopes: (*oauth.Scopes)(u.Scopes), RedirectURIs: u.RedirectURIs,
		CORSOrigins: u.CORSOrigins, FirstParty: u.FirstParty, RevokePrevious: u.RevokePrevious,
	}
	if u.PKCE != nil {
		if err := oauth.CheckPKCE(*u.PKCE); err != nil {
			return change, nil, tokenissuer.InvalidInput(err)
		}
		required := *u.PKCE == oauth.PKCERequired
		change.PKCERequired = &required
	}
	if isGiven(u.Tokens) {
		lifetimes, err := t.lifetimes(u.Tokens)
		if err != nil {
			return change, nil, err
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
		{"tokens", isGiven(u.Tokens)},
	} {
		if member.given {
			names = append(names, member.name)
		}
	}
	return change, names, nil
}

// isGiven reports whether a member of a request is there; null is like none.
func isGiven(member jsontext.Value) bool { return len(member) > 0 && member.Kind() != 'n' }

// lifetimes reads the lifetimes of a client, if any are given.
func (t *Target) lifetimes(member jsontext.Value) (l store.Lifetimes, err error) {
	if isGiven(member) {
		l, err = t.ReadLifetimes(member)
	}
	if err != nil {
		return l, tokenissuer.InvalidInput(err)
	}
	return l, nil
}

func updateClient(t *Target, r *http.Request) (int, any, error) {
	var u clientUpdate
	if err := readAdmin(r, &u); err != nil {
		return 0, nil, err
	}
	change, names, err := u.change(t)
	if err != nil {
		return 0, nil, err
	}
	client, err := t.Registry.UpdateClient(r.Context(), r.PathValue("id"), change)
	if err != nil {
		return 0, nil, err
	}
	t.record("client updated", zap.String("client_id", client.ID), zap.Strings("changed", names))
	return http.StatusOK, viewOf(client), nil
}

func removeClient(t *Target, r *http.Request) (int, any, error) {
	return t.changeClient(r, "client removed", t.Registry.RemoveClient(r.Context(), r.PathValue("id")))
}

func disableClient(t *Target, r *http.Request) (int, any, error) {
	return t.changeClient(r, "client disabled", t.Registry.DisableClient(r.Context(), r.PathValue("id")))
}

func enableClient(t *Target, r *http.Request) (int, any, error) {
	return t.changeClient(r, "client enabled", t.Registry.EnableClient(r.Context(), r.PathValue("id")))
}

// changeClient records a change that went well.
func (t *Target) changeClient(r *http.Request, what string, err error) (int, any, error) {
	if err == nil {
		t.record(what, zap.String("client_id", r.PathValue("id")))
	}
	return http.StatusNoContent, nil, err
}

func rotateSecret(t *Target, r *http.Request) (int, any, error) {
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
	secret, err := t.Registry.RotateSecret(r.Context(), id, overlap)
	if err != nil {
		return 0, nil, err
	}
	t.record("client secret rotated", zap.String("client_id", id))
	return http.StatusOK, clientSecret{id, secret.Reveal()}, nil
}

type clientSecret struct {
	ID     string `json:"id"`
	Secret string `json:"client_secret"`
}
