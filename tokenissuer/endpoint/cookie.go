package endpoint

import (
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// AccessTokenCookie holds the access token of a signed-in browser.
const AccessTokenCookie = "accessToken"

// cookies has the names of our cookies. Browsers bind a cookie with the prefix __Host- to its host and to https. On plain-HTTP loopback
// they would refuse it.
type cookies struct {
	session string
	// browser identifies a browser before the sign-in. Forms and pending requests are bound to it.
	browser string
	// device identifies a browser in which a user has signed in; see signin.Seals.Device.
	device string
	secure bool
}

func newCookies(issuerURL string) cookies {
	if strings.HasPrefix(issuerURL, "http://") {
		return cookies{session: "session", browser: "gatehouse_browser", device: "gatehouse_device"}
	}
	return cookies{session: "__Host-session", browser: "__Host-gatehouse-browser", device: "__Host-gatehouse-device", secure: true}
}

// scheme returns the scheme of the issuer's URL.
func (c cookies) scheme() string {
	if c.secure {
		return "https"
	}
	return "http"
}

// CookieNames returns the names of an issuer's cookies. Upstreams can neither see nor set them.
func CookieNames(issuerURL string) []string {
	c := newCookies(issuerURL)
	return []string{AccessTokenCookie, c.session, c.browser, c.device}
}

const (
	maxCookie    = 4096
	deviceMaxAge = 400 * 24 * time.Hour // the maximum in browsers
)

// readCookie returns the value of the cookie of that name. If there are two, it returns none: one may be from another host, and RFC 6265
// §5.4 defines no usable order.
func readCookie(r *http.Request, name string) oauth.Secret {
	found := readCookies(r, name)
	if len(found) != 1 {
		return oauth.Secret{}
	}
	return found[0]
}

// maxCookies is the maximum number of cookies of one name that are read.
const maxCookies = 8

// readCookies returns the values of the first maxCookies cookies of that name, except overlong ones.
func readCookies(r *http.Request, name string) (found []oauth.Secret) {
	for _, line := range r.Header["Cookie"] {
		for pair := range strings.SplitSeq(line, ";") {
			if value, ok := strings.CutPrefix(strings.TrimLeft(pair, " \t"), name+"="); ok {
				if value = strings.TrimRight(value, " \t"); len(value) <= maxCookie && len(found) < maxCookies {
					found = append(found, oauth.NewSecret(strings.Trim(value, `"`)))
				}
			}
		}
	}
	return found
}

// sessionCookie returns the session cookie of a request. On plain-HTTP loopback, other applications on the host may set it too, so among
// several cookies exactly one must have a valid MAC. With https, a __Host- name occurs once, unless a page of the host has set another with
// Partitioned; several cookies then count as none.
func (b *browser) sessionCookie(r *http.Request) oauth.Secret {
	found := readCookies(r, b.cookies.session)
	if b.cookies.secure && len(found) > 1 {
		return oauth.Secret{}
	}
	var ours []oauth.Secret
	for _, cookie := range found {
		if b.sessions.SessionID(cookie) != "" {
			ours = append(ours, cookie)
		}
	}
	if len(ours) != 1 {
		return oauth.Secret{}
	}
	return ours[0]
}

// set sets one of our cookies. With maxAge 0 it lasts until the browser closes. A negative maxAge deletes it.
func (c cookies) set(w http.ResponseWriter, name string, value oauth.Secret, maxAge time.Duration) {
	cookie := http.Cookie{ //lint:ignore gosec not Secure only for an issuer on plain-HTTP loopback
		Name: name, Value: value.Reveal(), Path: "/", MaxAge: int(maxAge / time.Second),
		HttpOnly: true, Secure: c.secure, SameSite: http.SameSiteLaxMode,
	}
	w.Header().Add("Set-Cookie", cookie.String())
}

// end deletes the cookies of a session.
func (c cookies) end(w http.ResponseWriter) {
	for _, name := range []string{c.session, AccessTokenCookie} {
		c.set(w, name, oauth.Secret{}, -time.Second)
	}
}
