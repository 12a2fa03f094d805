package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var clientOperations = map[Route]operation{
	ListClients:   shows[[]Client]("Lists the clients", bare(listClients)).by(reflect.TypeFor[clientQuery]()),
	AddClient:     adds[Client]("Registers a client", withMembers[newClient](addClient)),
	ShowClient:    shows[Client]("Shows a client", bare(showClient)),
	UpdateClient:  shows[Client]("Changes the given members of a client", withMembers[store.Client](updateClient)),
	RemoveClient:  changes("Deletes a client and revokes its tokens", changeNamed("client removed", "client_id", func(g *people.Registry) func(context.Context, string) error { return g.Clients.RemoveClient })),
	RotateSecret:  shows[RotatedSecret]("Makes a new secret of a client", withBody(rotateSecret)),
	DisableClient: changes("Refuses a client and revokes its tokens", changeNamed("client disabled", "client_id", func(g *people.Registry) func(context.Context, string) error { return g.Clients.DisableClient })),
	EnableClient:  changes("Lets a disabled client in again", changeNamed("client enabled", "client_id", func(g *people.Registry) func(context.Context, string) error { return g.Clients.EnableClient })),
}

// clientQuery is the filter of the list of clients.
type clientQuery struct {
	Search string            `json:"search" help:"Beginning of the id or the name"`
	Origin string            `json:"origin" help:"operator, metadata or registration"`
	State  store.ClientState `json:"state" help:"enabled or disabled"`
	pageQuery
}

// newClient are the members of a new client. OpenID registers an application that signs people in by OpenID Connect.
type newClient struct {
	store.Client
	OpenID bool `json:"openid,omitzero"`
}

// Client is what an operator sees of a client: its id, its members and its state.
type Client struct {
	store.Client
	// AuthMethod is there for a client that has keys.
	AuthMethod string `json:"token_endpoint_auth_method,omitzero"`
	Disabled   bool   `json:"disabled"`
	Source     string `json:"source"`
	// Origin is "metadata" or "registration" for a client that made itself known. LastUsedAt is when such a client got a token, to the day.
	Origin     store.ClientOrigin `json:"origin,omitzero"`
	LastUsedAt time.Time          `json:"last_used_at,omitzero"`
	CreatedAt  time.Time          `json:"created_at,omitzero"`
	Secrets    []ClientSecret     `json:"secrets,omitempty"`
	// Secret is there once: in the answer to the request that made it.
	Secret string `json:"client_secret,omitzero"`
	// Provider is what the application has to know of the issuer. It is there in the answer to a registration for OpenID Connect, and where
	// one client is shown.
	Provider *OpenIDProvider `json:"provider,omitzero"`
	// Warning is there in the answer to a change that was made and does not work yet.
	Warning string `json:"warning,omitzero"`
}

// ClientSecret is the validity of a secret. It does not hold the secret.
type ClientSecret struct {
	CreatedAt time.Time `json:"created_at,omitzero"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

func viewOf(c *store.Client) Client {
	view := Client{
		Client: *c, Disabled: c.Disabled, Source: source(c.Declared), Origin: c.Origin, LastUsedAt: c.LastUsedAt, CreatedAt: c.CreatedAt,
	}
	if c.IsPublic() { // without a secret PKCE is always needed
		view.PKCE = oauth.PKCERequired
	}
	if c.SignsAssertions() {
		view.AuthMethod = store.PrivateKeyJWT
	}
	for _, s := range c.Secrets {
		view.Secrets = append(view.Secrets, ClientSecret{s.CreatedAt, s.ExpiresAt})
	}
	return view
}

func listClients(t *Target, r *http.Request) (int, any, error) {
	asked, err := queryOf[clientQuery](r)
	if err != nil {
		return 0, nil, err
	}
	q := store.ClientQuery{Search: asked.Search, State: asked.State}
	if asked.Origin != "" {
		origin, err := parseOrigin(asked.Origin)
		if err != nil {
			return 0, nil, err
		}
		q.Origin = &origin
	}
	if q.State != "" {
		if err := q.State.Validate(); err != nil {
			return 0, nil, store.InvalidInput(err)
		}
	}
	if err := asked.read(&q.After, &q.Limit); err != nil {
		return 0, nil, err
	}
	found, err := t.Registry.Clients.FindClients(r.Context(), q)
	status, clients, err := listed(found.Clients, err, viewOf)
	return status, page{clients, next(r, found.Next)}, err
}

// parseOrigin reads the filter of the list of clients by origin.
func parseOrigin(text string) (store.ClientOrigin, error) {
	switch origin := store.ClientOrigin(text); {
	case text == "operator":
		return store.FromOperator, nil
	case origin == store.FromMetadata, origin == store.FromRegistration:
		return origin, nil
	}
	return "", store.InvalidInput(fmt.Errorf("unknown origin %q: use operator, metadata or registration", text))
}

func showClient(t *Target, r *http.Request) (int, any, error) {
	client, err := t.Registry.Clients.Client(r.Context(), r.PathValue("id"))
	if err != nil {
		return 0, nil, err
	}
	view := viewOf(client)
	view.Provider, err = t.provider()
	return http.StatusOK, versioned{view, versionOfClient(client)}, err
}

// addClient takes the members of a client, its id, and openid: that registers an application that signs people in by OpenID Connect, and adds
// the scopes and grants that it needs.
func addClient(t *Target, r *http.Request, p store.Patch) (int, any, error) {
	var asked store.Client
	var openID bool
	if err := errors.Join(p.Take("id", &asked.ID), p.Take("openid", &openID), p.Apply(&asked)); err != nil {
		return 0, nil, malformed(err)
	}
	if openID {
		if err := t.suitOpenID(&asked); err != nil {
			return 0, nil, err
		}
	}
	client, secret, err := t.Registry.Clients.AddClient(r.Context(), asked)
	if err != nil {
		return 0, nil, err
	}
	t.record(r.Context(), "client added", zap.String("client_id", client.ID))
	view := viewOf(client)
	view.Secret, view.Warning = secret.Reveal(), t.logoutWarning(r.Context(), client)
	if openID {
		view.Provider, err = t.provider()
	}
	return http.StatusCreated, view, err
}

// updateClient merges the members of the request into the client.
func updateClient(t *Target, r *http.Request, p store.Patch) (int, any, error) {
	client, err := t.Registry.Clients.UpdateClient(r.Context(), r.PathValue("id"), func(c *store.Client) error {
		if err := checkVersion(r, versionOfClient(c)); err != nil {
			return err
		}
		if len(p) == 0 {
			return errors.New("name what is to change")
		}
		if err := c.Merge(p); err != nil {
			return malformed(err)
		}
		return nil
	})
	if err != nil {
		return 0, nil, err
	}
	t.record(r.Context(), "client updated", zap.String("client_id", client.ID), zap.Strings("changed", p.Names(client)))
	view := viewOf(client)
	if p.Has("backchannel_logout_uri") {
		view.Warning = t.logoutWarning(r.Context(), client)
	}
	return http.StatusOK, versioned{view, versionOfClient(client)}, nil
}

// resolveTimeout is how long an answer waits to find out where a backchannel_logout_uri leads.
const resolveTimeout = 2 * time.Second

// logoutWarning returns the reason why logout tokens will not reach a client; empty: none is known.
func (t *Target) logoutWarning(ctx context.Context, client *store.Client) string {
	if t.LogoutsToPrivate || client.BackchannelLogoutURI == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	if err := fetch.CheckPublic(ctx, client.BackchannelLogoutURI); err != nil {
		return "the application will not be told of sign-outs: backchannel_logout_uri: " + err.Error() + ". Add `allow_private_network` in an `openid` block of the oauth block"
	}
	return ""
}

// rotation is the request for a new client secret.
type rotation struct {
	Overlap string `json:"overlap"` // how long the old ones stay good; empty: they end
}

func rotateSecret(t *Target, r *http.Request, asked rotation) (int, any, error) {
	overlap, err := optionalDuration(asked.Overlap)
	if err != nil {
		return 0, nil, err
	}
	id := r.PathValue("id")
	secret, err := t.Registry.Clients.RotateSecret(r.Context(), id, overlap, func(c *store.Client) error { return checkVersion(r, versionOfClient(c)) })
	if err != nil {
		return 0, nil, err
	}
	t.record(r.Context(), "client secret rotated", zap.String("client_id", id))
	return http.StatusOK, RotatedSecret{id, secret.Reveal()}, nil
}

// RotatedSecret is the answer with a new secret, which is shown once.
type RotatedSecret struct {
	ID     string `json:"id"`
	Secret string `json:"client_secret"`
}
