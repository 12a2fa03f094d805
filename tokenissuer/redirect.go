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
	// takesForms: the answer may travel in a form, and formPost: it does.
	takesForms, formPost bool
}

// Answer is what the authorization endpoint answers to a client through the browser.
type Answer struct {
	// Location is where the browser is redirected, with the parameters; empty: a form takes them to URI.
	Location string
	// URI is the redirect URI alone, and Parameters are in their order.
	URI        string
	Parameters []AnswerParameter
}

// AnswerParameter is a parameter of an answer.
type AnswerParameter struct{ Name, Value string }

// ResolveRedirect returns the client of an authorization request and where its answer goes. An unknown or disabled
// client, and a redirect URI that is not exactly one of the client's, are errors that must be shown on a page and never
// redirected. The URI may be left out when the client has only one. Source is where the request comes from; empty: from one of our pages.
func (is *Issuer) ResolveRedirect(ctx context.Context, clientID, redirectURI, source string) (*store.Client, RedirectTarget, error) {
	if clientID == "" {
		return nil, RedirectTarget{}, oauth.NewError(oauth.InvalidRequest, "client_id_missing").WithDescription("Missing required parameter: client_id.")
	}
	if clientID == store.BuiltInClientID {
		return is.resolveHost(redirectURI)
	}
	client, err := is.visiting(ctx, clientID, source)
	if errors.Is(err, store.ErrNotFound) || err == nil && client.Disabled {
		return nil, RedirectTarget{}, oauth.NewError(oauth.InvalidRequest, "client_unknown").WithDescription("The client is unknown.")
	}
	if own := (*oauth.Error)(nil); errors.As(err, &own) {
		return nil, RedirectTarget{}, own
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
		return client, RedirectTarget{}, redirectUnregistered
	}
	return client, RedirectTarget{uri: redirectURI, issuer: is.URL, takesForms: is.OpenID && isWebURL(redirectURI)}, nil
}

var redirectUnregistered = oauth.NewError(oauth.InvalidRequest, "redirect_uri_unregistered").
	WithDescription("The redirect_uri is not one that is registered for the client.")

// WithState returns the target with the state that every answer repeats.
func (t RedirectTarget) WithState(state string) RedirectTarget {
	t.state = state
	return t
}

// WithResponseMode returns the target with the response_mode of every answer. Only form_post is another than the default, and only
// where a form can be sent to: a URL of the web, for an issuer that is an OpenID provider.
func (t RedirectTarget) WithResponseMode(mode string) RedirectTarget {
	t.formPost = t.takesForms && mode == responseModeFormPost
	return t
}

// Code is the answer with an authorization code (RFC 6749 §4.1.2, RFC 9207 §2).
func (t RedirectTarget) Code(code oauth.Secret) Answer {
	return t.answer(AnswerParameter{"code", code.Reveal()})
}

// Error is the answer with an error (RFC 6749 §4.1.2.1). Name is the error's on the wire.
func (t RedirectTarget) Error(name, description string) Answer {
	return t.answer(AnswerParameter{"error", name}, AnswerParameter{"error_description", description})
}

// answer is the one with these parameters, state and iss last.
func (t RedirectTarget) answer(parameters ...AnswerParameter) Answer {
	if t.state != "" {
		parameters = append(parameters, AnswerParameter{"state", t.state})
	}
	parameters = append(parameters, AnswerParameter{"iss", t.issuer})
	if t.formPost {
		return Answer{URI: t.uri, Parameters: parameters}
	}
	return Answer{Location: withQuery(t.uri, parameters...), URI: t.uri, Parameters: parameters}
}

// withQuery appends parameters to a URI. What it has already stays as it is.
func withQuery(uri string, parameters ...AnswerParameter) string {
	location := []byte(uri)
	separator := byte('?')
	if _, query, found := strings.Cut(uri, "?"); found {
		separator = '&'
		if query == "" {
			separator = 0
		}
	}
	for _, p := range parameters {
		if separator != 0 {
			location = append(location, separator)
		}
		separator = '&'
		location = append(append(append(location, p.Name...), '='), encodeQuery(p.Value)...)
	}
	return string(location)
}

// isWebURL reports whether a URI is of http or https.
func isWebURL(uri string) bool {
	u, err := url.Parse(uri)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// encodeQuery writes a space as %20, which every reader takes for one; a plus sign is for forms alone.
func encodeQuery(value string) string { return strings.ReplaceAll(url.QueryEscape(value), "+", "%20") }

// Host is what a person is told of where the answer goes: the host with its port, or the scheme of a native application, which does not
// belong to the host that may stand behind it.
func (t RedirectTarget) Host() string {
	if u, err := url.Parse(t.uri); err == nil && u.Host != "" && isWebURL(t.uri) {
		return u.Host
	}
	scheme, _, _ := strings.Cut(t.uri, ":")
	return scheme
}

// IsOnDevice reports whether the answer goes to a program on the user's device: on loopback, or by a scheme of its own.
func (t RedirectTarget) IsOnDevice() bool {
	u, err := url.Parse(t.uri)
	return err != nil || !isWebURL(t.uri) || oauth.IsLoopback(u.Hostname())
}

// Origin is what a content security policy calls where the answer goes: an origin, or the scheme of a native application
// with its colon.
func (t RedirectTarget) Origin() string {
	u, err := url.Parse(t.uri)
	if err == nil && isWebURL(t.uri) {
		return u.Scheme + "://" + u.Host
	}
	scheme, _, _ := strings.Cut(t.uri, ":")
	return scheme + ":"
}
