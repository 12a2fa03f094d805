package gate

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"golang.org/x/net/http/httpguts"

	"github.com/gatehouse-auth/gatehouse/caddymodule/identity"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// credential is the one token that a request shows.
type credential struct {
	token oauth.Secret
	// cookie: it came in a cookie, which browsers send along whoever made them send the request.
	cookie bool
}

// checkTokenCookie refuses names that no cookie can have, or that mean something else.
func checkTokenCookie(name string) error {
	switch {
	case !httpguts.ValidHeaderFieldName(name): // both are a token of RFC 9110 §5.6.2
		return fmt.Errorf("token_from cookie %q: a cookie cannot have this name", name)
	case slices.Contains(append(endpoint.CookieNames("https://"), endpoint.CookieNames("http://")...), name) && name != sessionTokenCookie:
		return fmt.Errorf("token_from cookie %s: this cookie of the issuer's holds no access token: use %s", name, sessionTokenCookie)
	}
	return nil
}

// credential returns the token of a request: that of the Authorization header or, where the route takes one, of the
// cookie. Without either it is unauthorized. Two tokens are an invalid_request, and so are two cookies of the name: one of
// them may come from another host of the same site, and nobody knows which. Of the issuer's own cookie it is known: the one of
// the browser's session counts, and the others are none. A cookie without a value is none.
func (p *Protect) credential(r *http.Request) (credential, error) {
	if p.TokenCookie == "" {
		token, err := endpoint.Credential(r)
		return credential{token: token}, err
	}
	header, present, err := endpoint.BearerToken(r)
	if err != nil {
		return credential{}, err
	}
	cookies := identity.CookieValues(r.Header, p.TokenCookie)
	if len(cookies) == 1 && cookies[0] == "" {
		cookies = nil
	}
	if p.takesSessions() && (len(cookies) > 1 || present && len(cookies) == 1 && isBrowser(r)) {
		cookies = p.ownCookie(r, cookies)
	}
	switch {
	case len(cookies) > 1:
		return credential{}, oauth.NewError(oauth.InvalidRequest, "cookie_twice")
	case present && len(cookies) == 1 && cookies[0] != header.Reveal():
		return credential{}, tokenTwice
	case !present && len(cookies) == 0:
		return credential{}, tokenMissing
	case endpoint.QueryCarriesToken(r.URL.RawQuery):
		return credential{}, tokenTwice
	case present: // whoever can set the header needs no cookie to be believed
		return credential{token: header}, nil
	}
	return credential{token: oauth.NewSecret(cookies[0]), cookie: true}, nil
}

var (
	tokenTwice   = oauth.NewError(oauth.InvalidRequest, "token_twice")
	tokenMissing = oauth.NewError(oauth.Unauthorized, "token_missing")
)

// checkOrigin refuses a token in a cookie where another site could have made the browser send it along and gain from it:
// with a method that changes something, and with an upgrade, whose answer no same-origin policy keeps from that site.
// SameSite=Lax is not enough, because every host of the same domain is the same site.
func (p *Protect) checkOrigin(r *http.Request, shown credential) error {
	if !shown.cookie || isSafe(r) || p.isOwnPage(r) {
		return nil
	}
	return oauth.NewError(oauth.AccessDenied, "origin_unproven").
		WithDescription("With an access token in a cookie, this request must come from a page of the same origin.")
}

// isSafe reports whether a request changes nothing (RFC 9110 §9.2.1) and opens no connection that outlives it.
func isSafe(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return !isUpgrade(r)
	}
	return false
}

// isUpgrade reports whether a request asks for another protocol, in any version of HTTP.
func isUpgrade(r *http.Request) bool {
	return len(r.Header["Upgrade"]) > 0 || r.Method == http.MethodConnect
}

// isOwnPage reports whether the browser says that a page of this origin made it send the request. A page of another site
// cannot change what browsers say. Silence proves nothing, and of two statements that contradict each other neither does.
// The origin of a page with the policy no-referrer is null, for which Sec-Fetch-Site has to speak.
func (p *Protect) isOwnPage(r *http.Request) bool {
	site, origin := r.Header["Sec-Fetch-Site"], r.Header["Origin"]
	if len(site) > 1 || len(origin) > 1 {
		return false
	}
	sameOrigin := len(site) == 1 && site[0] == "same-origin"
	switch {
	case len(site) == 1 && !sameOrigin:
		return false
	case len(origin) == 0 || origin[0] == "null":
		return sameOrigin
	}
	return p.origin.includes(r.Host, origin[0])
}

// ownOrigin is where the issuer's own pages are.
type ownOrigin struct {
	scheme, origin string
}

func newOwnOrigin(issuer string) (ownOrigin, error) {
	u, err := url.Parse(issuer)
	if err != nil {
		return ownOrigin{}, err
	}
	return ownOrigin{u.Scheme, oauth.OriginOf(u)}, nil
}

// originAt is the origin of a host, which may have a port.
func originAt(scheme, host string) string {
	return oauth.OriginOf(&url.URL{Scheme: scheme, Host: host})
}

// includes reports whether an origin is the issuer's or that of a request's own host. Plain HTTP is an origin of ours on
// loopback alone.
func (o ownOrigin) includes(host, origin string) bool {
	if origin == o.origin || origin == originAt("https", host) {
		return true
	}
	return o.scheme == "http" && origin == originAt("http", host)
}

// isHost reports whether a request's host is the issuer's.
func (o ownOrigin) isHost(host string) bool { return originAt(o.scheme, host) == o.origin }
