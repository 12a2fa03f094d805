package tokenissuer

import (
	"context"
	"slices"
)

// OwnClientID is the client of tokens that belong to no application: those of a browser's session, and those of the
// password grant without a client. No other client and no user can have it, and nobody can authenticate as it.
const OwnClientID = "gatehouse"

// ownClient may hold every scope but those that ask for a refresh token.
func (is *Issuer) ownClient() *Client {
	scopes := Scopes(slices.DeleteFunc(is.Scopes.Names(), asksForRefresh))
	return &Client{ID: OwnClientID, Name: "Gatehouse", Type: PublicClient, Scopes: scopes, Declared: true}
}

// client returns a client that may be our own. ErrNotFound when there is none.
func (is *Issuer) client(ctx context.Context, id string) (*Client, error) {
	if id == OwnClientID {
		return is.ownClient(), nil
	}
	return is.Directory.Client(ctx, id)
}
