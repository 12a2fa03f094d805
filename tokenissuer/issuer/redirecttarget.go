package issuer

import (
	"net/url"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// RedirectTarget is a redirect URI that belongs to the client (RFC 9700 §4.11). Only RedirectTo and RedirectToHost make one. Every answer
// of the authorization endpoint needs one.
type RedirectTarget struct {
	uri    string
	issuer string
	state  string
	// takesForms reports whether form_post is allowed, and formPost whether it is requested.
	takesForms, formPost bool
}

// FormPostMode is the response_mode of an answer in a form (OAuth 2.0 Form Post Response Mode).
const FormPostMode = "form_post"

// RedirectAnswer is an answer of the authorization endpoint to a client, sent through the browser.
type RedirectAnswer struct {
	// Location is the URL, with the parameters, to redirect the browser to. If it is empty, a form sends the parameters to URI.
	Location string
	// URI is the redirect URI alone. Parameters are in order.
	URI        string
	Parameters []RedirectParameter
}

// RedirectParameter is a parameter of an answer.
type RedirectParameter struct{ Name, Value string }

// RedirectTo returns the target for a client's redirect URI. It fails for a URI that is not exactly one of the client's; that error must be
// shown on a page and never redirected. The URI may be empty if the client has only one. takesForms allows answers in a form, to a web URI.
func RedirectTo(client *store.Client, uri, issuer string, takesForms bool) (RedirectTarget, error) {
	switch {
	case uri == "" && len(client.RedirectURIs) == 1:
		uri = client.RedirectURIs[0]
	case uri == "":
		return RedirectTarget{}, oauth.NewError(oauth.InvalidRequest, "redirect_uri_missing").WithDescription("Missing required parameter: redirect_uri.")
	case !client.HasRedirectURI(uri):
		return RedirectTarget{}, errUnregistered
	}
	return RedirectTarget{uri: uri, issuer: issuer, takesForms: takesForms && IsWebURL(uri)}, nil
}

// RedirectToHost is like RedirectTo for the callback of one of the hosts.
func RedirectToHost(hosts *oauth.Hosts, uri, issuer string) (RedirectTarget, error) {
	origin, isCallback := strings.CutSuffix(uri, oauth.CallbackPath)
	if !isCallback || !hosts.Has(origin) {
		return RedirectTarget{}, errUnregistered
	}
	return RedirectTarget{uri: uri, issuer: issuer}, nil
}

var errUnregistered = oauth.NewError(oauth.InvalidRequest, "redirect_uri_unregistered").
	WithDescription("The redirect_uri is not one that is registered for the client.")

// URI returns the redirect URI.
func (t RedirectTarget) URI() string { return t.uri }

// FormPost reports whether the answer travels in a form.
func (t RedirectTarget) FormPost() bool { return t.formPost }

// WithState returns the target with the state that every answer includes.
func (t RedirectTarget) WithState(state string) RedirectTarget {
	t.state = state
	return t
}

// WithResponseMode returns the target with a response_mode. Only form_post differs from the default, and only for a web URI of an OpenID
// provider.
func (t RedirectTarget) WithResponseMode(mode string) RedirectTarget {
	t.formPost = t.takesForms && mode == FormPostMode
	return t
}

// Code returns the answer with an authorization code (RFC 6749 §4.1.2, RFC 9207 §2).
func (t RedirectTarget) Code(code oauth.Secret) RedirectAnswer {
	return t.answer(RedirectParameter{"code", code.Reveal()})
}

// Error returns the answer with an error (RFC 6749 §4.1.2.1). name is the error code of the protocol.
func (t RedirectTarget) Error(name, description string) RedirectAnswer {
	return t.answer(RedirectParameter{"error", name}, RedirectParameter{"error_description", description})
}

// answer returns the answer with these parameters, followed by state and iss.
func (t RedirectTarget) answer(parameters ...RedirectParameter) RedirectAnswer {
	if t.state != "" {
		parameters = append(parameters, RedirectParameter{"state", t.state})
	}
	parameters = append(parameters, RedirectParameter{"iss", t.issuer})
	if t.formPost {
		return RedirectAnswer{URI: t.uri, Parameters: parameters}
	}
	return RedirectAnswer{Location: WithQuery(t.uri, parameters...), URI: t.uri, Parameters: parameters}
}

// WithQuery appends parameters to a URI and leaves its existing query unchanged.
func WithQuery(uri string, parameters ...RedirectParameter) string {
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

// IsWebURL reports whether a URI has the scheme http or https.
func IsWebURL(uri string) bool {
	u, err := url.Parse(uri)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// encodeQuery encodes a space as %20, because a plus sign means a space only in forms.
func encodeQuery(value string) string { return strings.ReplaceAll(url.QueryEscape(value), "+", "%20") }

// Host returns where the answer goes, for display: the host with its port, or the scheme of a native application. A native application's
// URI may name a host that it does not own.
func (t RedirectTarget) Host() string {
	if u, err := url.Parse(t.uri); err == nil && u.Host != "" && IsWebURL(t.uri) {
		return u.Host
	}
	scheme, _, _ := strings.Cut(t.uri, ":")
	return scheme
}

// IsLoopback reports whether the answer goes to a port of the user's device, on which a program listens.
func (t RedirectTarget) IsLoopback() bool {
	u, err := url.Parse(t.uri)
	return err == nil && IsWebURL(t.uri) && oauth.IsLoopback(u.Hostname())
}

// IsOnDevice reports whether the answer goes to a program on the user's device, by loopback or by a private-use scheme.
func (t RedirectTarget) IsOnDevice() bool {
	u, err := url.Parse(t.uri)
	return err != nil || !IsWebURL(t.uri) || oauth.IsLoopback(u.Hostname())
}

// Origin returns OriginOf the redirect URI.
func (t RedirectTarget) Origin() string { return OriginOf(t.uri) }

// OriginOf returns a URI as a source for a content security policy: its origin, or the scheme of a native application with its colon.
func OriginOf(uri string) string {
	u, err := url.Parse(uri)
	if err == nil && IsWebURL(uri) {
		return u.Scheme + "://" + u.Host
	}
	scheme, _, _ := strings.Cut(uri, ":")
	return scheme + ":"
}
