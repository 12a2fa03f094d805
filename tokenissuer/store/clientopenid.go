package store

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// ResponseModes are those of an issuer that is an OpenID provider.
var ResponseModes = []string{"query", "form_post"}

// ClientOpenID is how a client takes part in OpenID Connect. The zero value is a client with ID tokens in RS256, to which nobody is
// sent after a sign-out, and which is not told of one. Its JSON form is that of client metadata.
type ClientOpenID struct {
	// IDTokenAlgorithm is one of oauth.OwnAlgorithms; empty: RS256 (OpenID Connect Core 1.0 §2).
	IDTokenAlgorithm oauth.Algorithm `json:"id_token_signed_response_alg,omitzero"`
	// PostLogoutRedirectURIs are compared byte for byte (OpenID Connect RP-Initiated Logout 1.0 §3).
	PostLogoutRedirectURIs []string `json:"post_logout_redirect_uris,omitempty"`
	// BackchannelLogoutURI gets a logout token when a session ends in which the client has got an ID token (OpenID Connect
	// Back-Channel Logout 1.0 §2.2); empty: the client is not told.
	BackchannelLogoutURI string `json:"backchannel_logout_uri,omitzero"`
	// BackchannelLogoutSessionRequired says that the client needs the sid in logout tokens. They have it in any case.
	BackchannelLogoutSessionRequired bool `json:"backchannel_logout_session_required,omitzero"`
	// ResponseModes are those that the client may use; empty: all that there are.
	ResponseModes []string `json:"response_modes,omitempty"`
	// DefaultMaxAge is the max_age of requests that have none, in seconds; nil: there is none.
	DefaultMaxAge *int64 `json:"default_max_age,omitzero"`
}

// Algorithm returns the algorithm of the client's ID tokens.
func (o *ClientOpenID) Algorithm() oauth.Algorithm {
	if o.IDTokenAlgorithm == "" {
		return oauth.RS256
	}
	return o.IDTokenAlgorithm
}

// CheckWithoutOpenID refuses what only means something where the issuer is an OpenID provider.
func (c *Client) CheckWithoutOpenID() error {
	for _, set := range []struct {
		name string
		is   bool
	}{
		{"id_token_alg", c.OpenID.IDTokenAlgorithm != ""}, {"post_logout_redirect_uris", len(c.OpenID.PostLogoutRedirectURIs) > 0},
		{"backchannel_logout_uri", c.OpenID.BackchannelLogoutURI != ""},
		{"response_modes", len(c.OpenID.ResponseModes) > 0}, {"default_max_age", c.OpenID.DefaultMaxAge != nil}, {"pkce optional", c.PKCEOptional},
	} {
		if set.is {
			return fmt.Errorf("%s is for OpenID Connect: add `openid` to the oauth block", set.name)
		}
	}
	return nil
}

// Validate says what is wrong with a registration.
func (o *ClientOpenID) Validate() error {
	if o.IDTokenAlgorithm != "" {
		if _, err := oauth.ParseAlgorithm(string(o.IDTokenAlgorithm)); err != nil {
			return fmt.Errorf("id_token_signed_response_alg: %w", err)
		}
	}
	for _, uri := range o.PostLogoutRedirectURIs {
		if err := oauth.CheckRedirectURI(uri); err != nil {
			return fmt.Errorf("post-logout redirect URI %q: %w", uri, err)
		}
	}
	if o.DefaultMaxAge != nil && *o.DefaultMaxAge < 0 {
		return errors.New("default_max_age: use a number of seconds")
	}
	switch {
	case o.BackchannelLogoutURI != "":
		if err := checkBackchannelURI(o.BackchannelLogoutURI); err != nil {
			return fmt.Errorf("backchannel_logout_uri %q: %w", o.BackchannelLogoutURI, err)
		}
	case o.BackchannelLogoutSessionRequired:
		return errors.New("backchannel_logout_session_required needs a backchannel_logout_uri")
	}
	return nil
}

// checkBackchannelURI refuses what could not be called, or not safely (OpenID Connect Back-Channel Logout 1.0 §2.2). Where the
// host leads is looked at when it is called.
func checkBackchannelURI(uri string) error {
	u, err := url.Parse(uri)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return errors.New("use an absolute URL")
	case u.User != nil || strings.Contains(uri, "#"):
		return errors.New("credentials and fragments are not allowed")
	case u.Scheme == "https", u.Scheme == "http" && oauth.IsLoopback(u.Hostname()):
		return nil
	}
	return errors.New("use https, or http on loopback")
}
