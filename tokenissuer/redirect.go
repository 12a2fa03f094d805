package tokenissuer

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// RedirectTarget is a redirect URI that belongs to the client which named it. Only ResolveRedirect makes one, and only
// with one can an answer of the authorization endpoint leave the server (RFC 9700 §4.11).
type RedirectTarget struct {
	uri    string
	issuer string
	state  string
}

// ResolveRedirect returns the client of an authorization request and where its answer goes. An unknown or disabled
// client, and a redirect URI that is not exactly one of the client's, are errors that must be shown on a page and never
// redirected. The URI may be left out when the client has only one.
func (is *Issuer) ResolveRedirect(ctx context.Context, clientID, redirectURI string) (*store.Client, RedirectTarget, error) {
	if clientID == "" {
		return nil, RedirectTarget{}, oauth.NewError(oauth.InvalidRequest, "client_id_missing").WithDescription("Missing required parameter: client_id.")
	}
	client, err := is.Directory.Client(ctx, clientID)
	if errors.Is(err, store.ErrNotFound) || err == nil && client.Disabled {
		return nil, RedirectTarget{}, oauth.NewError(oauth.InvalidRequest, "client_unknown").WithDescription("The client is unknown.")
	}
	if err != nil {
		return nil, RedirectTarget{}, oauth.Unavailable("directory_unavailable", err)
	}
	switch {
	case redirectURI == "" && len(client.RedirectURIs) == 1:
		redirectURI = client.RedirectURIs[0]
	case redirectURI == "":
		return client, RedirectTarget{}, oauth.NewError(oauth.InvalidRequest, "redirect_uri_missing").WithDescription("Missing required parameter: redirect_uri.")
	case !client.HasRedirectURI(redirectURI):
		return client, RedirectTarget{}, oauth.NewError(oauth.InvalidRequest, "redirect_uri_unregistered").
			WithDescription("The redirect_uri is not one that is registered for the client.")
	}
	return client, RedirectTarget{uri: redirectURI, issuer: is.URL}, nil
}

// WithState returns the target with the state that every answer repeats.
func (t RedirectTarget) WithState(state string) RedirectTarget {
	t.state = state
	return t
}

// Code is where the browser is sent with an authorization code (RFC 6749 §4.1.2, RFC 9207 §2).
func (t RedirectTarget) Code(code oauth.Secret) string { return t.answer("code", code.Reveal()) }

// Error is where the browser is sent with an error (RFC 6749 §4.1.2.1). Name is the error's on the wire.
func (t RedirectTarget) Error(name, description string) string {
	return t.answer("error", name, "error_description", description)
}

// answer appends parameters to the URI, state and iss last. What the URI has already stays as it is.
func (t RedirectTarget) answer(pairs ...string) string {
	if t.state != "" {
		pairs = append(pairs, "state", t.state)
	}
	pairs = append(pairs, "iss", t.issuer)
	location := []byte(t.uri)
	separator := byte('?')
	if _, query, found := strings.Cut(t.uri, "?"); found {
		separator = '&'
		if query == "" {
			separator = 0
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		if separator != 0 {
			location = append(location, separator)
		}
		separator = '&'
		location = append(append(append(location, pairs[i]...), '='), encodeQuery(pairs[i+1])...)
	}
	return string(location)
}

// encodeQuery writes a space as %20, which every reader takes for one; a plus sign is for forms alone.
func encodeQuery(value string) string { return strings.ReplaceAll(url.QueryEscape(value), "+", "%20") }

// Host is what a person is told of where the answer goes: the host with its port, or the scheme of a native application.
func (t RedirectTarget) Host() string {
	if u, err := url.Parse(t.uri); err == nil && u.Host != "" {
		return u.Host
	}
	scheme, _, _ := strings.Cut(t.uri, ":")
	return scheme
}

// Origin is what a content security policy calls where the answer goes: an origin, or the scheme of a native application
// with its colon.
func (t RedirectTarget) Origin() string {
	u, err := url.Parse(t.uri)
	if err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") {
		return u.Scheme + "://" + u.Host
	}
	scheme, _, _ := strings.Cut(t.uri, ":")
	return scheme + ":"
}
