package tokenissuer

import "context"

// ownClient may hold what acts for a user and what the operator adds. Other scopes are for the clients that have them.
func (is *Issuer) ownClient() *Client {
	scopes := Scopes{ScopeTrusted, ScopePublic}
	for _, name := range is.SessionScopes {
		if !scopes.Has(name) && !asksForRefresh(name) {
			scopes = append(scopes, name)
		}
	}
	return &Client{ID: OwnClientID, Name: "Gatehouse", Type: PublicClient, Scopes: scopes, Declared: true}
}

// client returns a client that may be our own. ErrNotFound when there is none.
func (is *Issuer) client(ctx context.Context, id string) (*Client, error) {
	if id == OwnClientID {
		return is.ownClient(), nil
	}
	return is.Directory.Client(ctx, id)
}
