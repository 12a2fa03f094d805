package clientmetadata

import (
	"context"
	"fmt"
	"net/url"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Key returns the key at the jwks_uri of a client that made itself known, with that kid for that algorithm. The keys are fetched with every
// bound that holds for documents. A client with a document is known, since a user has let it in. The error is an *oauth.Error: invalid_token,
// or temporarily_unavailable if that cannot be decided now.
func (d *Documents) Key(ctx context.Context, c *store.Client, source, kid string, algorithm oauth.Algorithm) (*keys.VerificationKey, error) {
	u, err := d.settings.keyURL(c.JWKSURI)
	if err != nil {
		return nil, oauth.NewError(oauth.InvalidToken, "jwks_uri_refused").WithCause(err)
	}
	q := &question{host: u.Host, source: source, known: c.Origin == store.FromMetadata}
	return d.keys.KeyInTurn(ctx, c.JWKSURI, kid, algorithm, fetch.Turn{
		Enter: func(ctx context.Context) (func(), error) { return d.enter(ctx, q) },
		Begin: func(known bool) error {
			q.known = q.known || known
			return d.begin(q)
		},
	})
}

// keyURL refuses a jwks_uri that is not https; plain http is for loopback, where that is allowed.
func (s *Settings) keyURL(uri string) (*url.URL, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "https" && (!s.AllowPrivateNetwork || !oauth.IsLoopback(u.Hostname())) {
		return nil, fmt.Errorf("jwks_uri %.200q: use https", uri)
	}
	return u, nil
}
