package gate

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"golang.org/x/net/http/httpguts"

	"github.com/gatehouse-auth/gatehouse/caddymodule/caller"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/requestpath"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// credential is what a client shows: an access token, or the cookie of its session at a host.
type credential struct {
	token oauth.Secret
	// cookie: it came in a cookie, which browsers also send with requests that another site causes.
	cookie bool
	// host is the host of the session; the zero value: the credential is a token.
	host oauth.Host
}

// credentials finds the credential of a request, and removes credentials before the request goes on.
type credentials struct {
	tokens *tokens
	cookie string // that may hold an access token; empty: none
	// personalHeader is the name of a header that may hold a personal access token, and personalBasic takes one as a password.
	personalHeader string
	personalBasic  bool
	upstreamToken  string // as in Protect
	// hidden are the names of the cookies that upstreams do not see: those of our sign-in, and cookie.
	hidden []string
	origin issuerOrigin
}

// newCredentials checks the settings about credentials.
func newCredentials(p *Protect, t *tokens) (credentials, error) {
	c := credentials{tokens: t, cookie: p.TokenCookie, personalBasic: p.PersonalTokenBasic, upstreamToken: p.UpstreamToken, hidden: t.shared.cookies}
	if p.PersonalTokenHeader != "" || p.PersonalTokenBasic {
		if t.own == nil || t.shared.own.PersonalTokens == nil {
			return c, errors.New("token_from … pat takes personal access tokens of our own issuer: add `personal_tokens` to the oauth block, and `issuer self` here")
		}
		c.personalHeader = http.CanonicalHeaderKey(p.PersonalTokenHeader)
		if err := checkPersonalTokenHeader(c.personalHeader); err != nil {
			return c, err
		}
	}
	if p.TokenCookie != "" {
		c.hidden = append(slices.Clip(c.hidden), p.TokenCookie)
		if err := checkTokenCookie(p.TokenCookie); err != nil {
			return c, err
		}
	}
	var err error
	c.origin, err = newIssuerOrigin(t.shared.issuerURL())
	return c, err
}

// checkTokenCookie refuses invalid cookie names, and names of our cookies other than the access token's.
func checkTokenCookie(name string) error {
	switch {
	case !httpguts.ValidHeaderFieldName(name): // cookie and header names are both tokens (RFC 9110 §5.6.2)
		return fmt.Errorf("token_from cookie %q: a cookie cannot have this name", name)
	case slices.Contains(append(endpoint.CookieNames("https://"), endpoint.CookieNames("http://")...), name) && name != endpoint.AccessTokenCookie:
		return fmt.Errorf("token_from cookie %s: this cookie of the issuer's holds no access token: use %s", name, endpoint.AccessTokenCookie)
	}
	return nil
}

// find returns the token of a request: from the Authorization header or, if configured, from the cookie. Without
// either it returns tokenMissing. Two different tokens are an invalid_request, and so are two cookies of that name,
// because one may have been set by another host of the same site. An empty cookie counts as absent.
func (c *credentials) find(r *http.Request) (credential, error) {
	if c.cookie == "" {
		token, err := requests.Credential(r)
		return credential{token: token}, err
	}
	header, present, err := requests.BearerToken(r)
	if err != nil {
		return credential{}, err
	}
	cookies := identity.CookieValues(r.Header, c.cookie)
	if len(cookies) == 1 && cookies[0] == "" {
		cookies = nil
	}
	switch {
	case len(cookies) > 1:
		return credential{}, oauth.NewError(oauth.InvalidRequest, "cookie_twice")
	case present && len(cookies) == 1 && cookies[0] != header.Reveal():
		return credential{}, tokenTwice
	case !present && len(cookies) == 0:
		return credential{}, tokenMissing
	case requests.QueryCarriesToken(r.URL.RawQuery):
		return credential{}, tokenTwice
	case present: // cross-site requests cannot set the header
		return credential{token: header}, nil
	}
	return credential{token: oauth.NewSecret(cookies[0]), cookie: true}, nil
}

var (
	tokenTwice   = oauth.NewError(oauth.InvalidRequest, "token_twice")
	tokenMissing = oauth.NewError(oauth.Unauthorized, "token_missing")
)

// checkOrigin refuses a token in a cookie if another site could have caused the request and gain from it: a request with
// an unsafe method, or an upgrade, whose answer the same-origin policy does not protect. SameSite=Lax is not enough,
// because all hosts of a domain are the same site.
func (c *credentials) checkOrigin(r *http.Request, shown credential) error {
	if !shown.cookie || isSafe(r) || c.isSameOrigin(r) {
		return nil
	}
	return oauth.NewError(oauth.AccessDenied, "origin_unproven").
		WithDescription("With an access token in a cookie, this request must come from a page of the same origin.")
}

// isSafe reports whether a request changes nothing (RFC 9110 §9.2.1) and asks for no upgrade.
func isSafe(r *http.Request) bool {
	named, several := requestpath.QueryMethod(r)
	return isSafeMethod(r.Method) && (named == "" || isSafeMethod(named)) && !several && !isUpgrade(r)
}

func isSafeMethod(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// isUpgrade reports whether a request asks for another protocol, in any HTTP version.
func isUpgrade(r *http.Request) bool {
	return len(r.Header["Upgrade"]) > 0 || r.Method == http.MethodConnect
}

// isSameOrigin reports whether the request proves that a page of the issuer, or of the host of the request, sent it.
func (c *credentials) isSameOrigin(r *http.Request) bool {
	return requests.ProvesOrigin(r, func(origin string) bool { return c.origin.includes(r.Host, origin) })
}

// issuerOrigin is the origin of the issuer's own pages.
type issuerOrigin struct {
	scheme, origin string
}

func newIssuerOrigin(issuer string) (issuerOrigin, error) {
	u, err := url.Parse(issuer)
	if err != nil {
		return issuerOrigin{}, err
	}
	return issuerOrigin{u.Scheme, oauth.OriginOf(u)}, nil
}

// originAt returns the origin of a host with an optional port.
func originAt(scheme, host string) string {
	return oauth.OriginOf(&url.URL{Scheme: scheme, Host: host})
}

// includes reports whether an origin is the issuer's or that of the request's host. Plain HTTP counts only if the issuer
// itself uses it, on loopback.
func (o issuerOrigin) includes(host, origin string) bool {
	if origin == o.origin || origin == originAt("https", host) {
		return true
	}
	return o.scheme == "http" && origin == originAt("http", host)
}

// strip removes from the request, in place, the credentials that later handlers must not see: our cookies, the
// token unless it is relayed, and an unverified bearer token, which an upstream might trust because it came through the
// gate. It edits in place because error routes receive this request. A nil decision means that the request was refused.
func (c *credentials) strip(r *http.Request, d *decision) {
	verified := d != nil && d.token != nil
	strip := c.upstreamToken == stripToken || c.upstreamToken == swapToken
	switch {
	case strip:
	case verified && !d.shown.cookie: // it came in the header
		strip = c.upstreamToken != relayToken
	default:
		_, strip, _ = requests.BearerToken(r)
		strip = strip || slices.ContainsFunc(r.Header["Authorization"], showsPersonalCredential)
	}
	if strip {
		r.Header.Del("Authorization")
	}
	if strip && verified && !d.shown.cookie && c.upstreamToken != swapToken {
		caller.KeepBearer(r, d.shown.token)
	}
	if verified && d.shown.host.Authority != "" {
		caller.KeepSession(r, d.shown.token)
	}
	identity.WithoutCookies(r.Header, c.hidden...)
}
