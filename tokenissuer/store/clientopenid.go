package store

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// ResponseModes are the response modes of an issuer that is an OpenID provider.
var ResponseModes = []string{"query", "form_post"}

// ClientOpenID is how a client takes part in OpenID Connect. The zero value is a client with RS256 ID tokens that neither requests nor is
// notified of sign-outs. Its JSON form is that of client metadata.
type ClientOpenID struct {
	// IDTokenAlgorithm is one of oauth.OwnAlgorithms; empty: RS256 (OpenID Connect Core 1.0 §2).
	IDTokenAlgorithm oauth.Algorithm `json:"id_token_signed_response_alg,omitzero" word:"id_token_alg" help:"Algorithm of the client's ID tokens: RS256 (default), ES256 or EdDSA"`
	// PostLogoutRedirectURIs are compared byte for byte (OpenID Connect RP-Initiated Logout 1.0 §3).
	PostLogoutRedirectURIs []string `json:"post_logout_redirect_uris,omitempty" help:"Where a sign-out that the client asks for may lead; repeat it for more"`
	// BackchannelLogoutURI receives a logout token when a session ends in which the client obtained an ID token (OpenID Connect
	// Back-Channel Logout 1.0 §2.2); empty: the client is not notified.
	BackchannelLogoutURI string `json:"backchannel_logout_uri,omitzero" help:"Where the client is told that a session has ended"`
	// BackchannelLogoutSessionRequired says that the client needs sid in logout tokens, which always contain it.
	BackchannelLogoutSessionRequired bool `json:"backchannel_logout_session_required,omitzero" help:"The client needs the session's id in what it is told"`
	// ResponseModes are those that the client may use; empty: all.
	ResponseModes []string `json:"response_modes,omitempty" help:"How answers may reach the client, query or form_post; repeat it for more (default: both)"`
	// DefaultMaxAge is the max_age, in seconds, of requests without one; nil: none.
	DefaultMaxAge *int64 `json:"default_max_age,omitzero" help:"Seconds since the sign-in after which a request without max_age asks for another"`
}

// Algorithm returns the algorithm of the client's ID tokens.
func (o *ClientOpenID) Algorithm() oauth.Algorithm {
	if o.IDTokenAlgorithm == "" {
		return oauth.RS256
	}
	return o.IDTokenAlgorithm
}

// CheckWithoutOpenID returns an error for settings that have no effect unless the issuer is an OpenID provider.
func (c *Client) CheckWithoutOpenID() error {
	for _, set := range []struct {
		name string
		is   bool
	}{
		{"id_token_alg", c.IDTokenAlgorithm != ""}, {"post_logout_redirect_uris", len(c.PostLogoutRedirectURIs) > 0},
		{"backchannel_logout_uri", c.BackchannelLogoutURI != ""},
		{"response_modes", len(c.ResponseModes) > 0}, {"default_max_age", c.DefaultMaxAge != nil}, {"pkce optional", c.PKCE == oauth.PKCEOptional},
	} {
		if set.is {
			return fmt.Errorf("%s is for OpenID Connect: add `openid` to the oauth block", set.name)
		}
	}
	return nil
}

func checkAlgorithm(c *Client) error {
	if c.IDTokenAlgorithm == "" {
		return nil
	}
	_, err := oauth.ParseAlgorithm(string(c.IDTokenAlgorithm))
	return within("id_token_signed_response_alg", err)
}

func checkPostLogoutURI(uri string) error {
	return within(fmt.Sprintf("post-logout redirect URI %q", uri), oauth.CheckRedirectURI(uri))
}

func checkResponseMode(mode string) error {
	if slices.Contains(ResponseModes, mode) {
		return nil
	}
	return fmt.Errorf("response_modes: unknown mode %q: use query or form_post", mode)
}

func checkMaxAge(c *Client) error {
	if c.DefaultMaxAge != nil && *c.DefaultMaxAge < 0 {
		return errors.New("default_max_age: use a number of seconds")
	}
	return nil
}

// checkBackchannelURI returns an error for a URI that cannot be called safely (OpenID Connect Back-Channel Logout 1.0 §2.2). The
// addresses of the host are checked at the call.
func checkBackchannelURI(uri string) error {
	if uri == "" {
		return nil
	}
	fail := func(why string) error { return fmt.Errorf("backchannel_logout_uri %q: %s", uri, why) }
	u, err := url.Parse(uri)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return fail("use an absolute URL")
	case u.User != nil || strings.Contains(uri, "#"):
		return fail("credentials and fragments are not allowed")
	case u.Scheme == "https", u.Scheme == "http" && oauth.IsLoopback(u.Hostname()):
		return nil
	}
	return fail("use https, or http on loopback")
}
