package clientmetadata

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// keysAskedAgain is how old keys are at least when an assertion names one that is not among them and they are fetched again.
const keysAskedAgain = 30 * time.Second

// Key returns the key at the jwks_uri of a client that made itself known, with that kid for that algorithm. The keys are fetched with every
// bound that holds for documents. A client with a document is known, since a user has let it in. The error is an *oauth.Error: invalid_token,
// or temporarily_unavailable if that cannot be decided now.
func (d *Documents) Key(ctx context.Context, c *store.Client, source, kid string, algorithm oauth.Algorithm) (*keys.VerificationKey, error) {
	u, err := d.settings.keyURL(c.JWKSURI)
	if err != nil {
		return nil, oauth.NewError(oauth.InvalidToken, "jwks_uri_refused").WithCause(err)
	}
	q := question{url: c.JWKSURI, host: u.Host, source: source, known: c.Origin == store.FromMetadata, keys: true}
	r, err := d.find(ctx, &q)
	if err != nil {
		return nil, forKeys(err)
	}
	key, reason := r.keys.Find(kid, algorithm)
	if key == nil && reason == keys.ReasonKeyUnknown && d.settings.Now().Sub(r.at) >= keysAskedAgain {
		q.after = r.at
		if r, err = d.find(ctx, &q); err != nil {
			return nil, forKeys(err)
		}
		key, reason = r.keys.Find(kid, algorithm)
	}
	if key == nil {
		return nil, oauth.NewError(oauth.InvalidToken, reason)
	}
	return key, nil
}

// forKeys turns the error of a document that cannot be used into that of keys which cannot.
func forKeys(err error) error {
	if e := oauth.AsError(err); e.Code != oauth.TemporarilyUnavailable {
		return oauth.NewError(oauth.InvalidToken, "client_keys_unusable").WithCause(errors.Unwrap(e))
	}
	return err
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
