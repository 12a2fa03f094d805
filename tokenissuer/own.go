package tokenissuer

import (
	"context"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// ownClient may hold what acts for a user and what the operator adds. Other scopes are for the clients that have them.
func (is *Issuer) ownClient() *store.Client {
	scopes := oauth.Scopes{oauth.ScopeTrusted, oauth.ScopePublic}
	for _, name := range is.SessionScopes {
		if !scopes.Has(name) && !oauth.AsksForRefresh(name) {
			scopes = append(scopes, name)
		}
	}
	return &store.Client{ID: store.OwnClientID, Name: "Gatehouse", Type: store.PublicClient, Scopes: scopes, Declared: true}
}

// client returns a client that may be our own. ErrNotFound when there is none.
func (is *Issuer) client(ctx context.Context, id string) (*store.Client, error) {
	if id == store.OwnClientID {
		return is.ownClient(), nil
	}
	return is.Directory.Client(ctx, id)
}
