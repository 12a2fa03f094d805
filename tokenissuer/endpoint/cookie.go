package endpoint

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// accessTokenCookie holds the user token of a browser that is signed in.
const accessTokenCookie = "accessToken"

// cookies are the names of ours, and whether they are for https alone. Browsers keep a name with the prefix __Host- to
// the host that set it, over https; on plain-HTTP loopback they would refuse it.
type cookies struct {
	session string
	// token names the session that accessToken is of, for as long as accessToken lives. Other hosts of the same domain can set
	// accessToken, and not this one.
	token string
	// browser recognises a browser before anybody has signed in: forms and pending requests belong to it.
	browser string
	// device recognises a browser after: see tokenissuer.Issuer.Device.
	device string
	secure bool
}

func newCookies(issuerURL string) cookies {
	if strings.HasPrefix(issuerURL, "http://") {
		return cookies{session: "session", token: "gatehouse_token", browser: "gatehouse_browser", device: "gatehouse_device"}
	}
	return cookies{
		session: "__Host-session", token: "__Host-gatehouse-token", browser: "__Host-gatehouse-browser",
		device: "__Host-gatehouse-device", secure: true,
	}
}

// CookieNames lists the cookies of an issuer's own, which no upstream sees or sets.
func CookieNames(issuerURL string) []string {
	c := newCookies(issuerURL)
	return []string{accessTokenCookie, c.session, c.token, c.browser, c.device}
}

const (
	maxCookie    = 4096
	deviceMaxAge = 400 * 24 * time.Hour // the longest that browsers keep one
)

// readCookie returns the value of the one cookie of that name. Two of a name are none: somebody else may have set one of
// them, and nobody knows which (RFC 6265 §5.4 gives no order to rely on).
func readCookie(r *http.Request, name string) oauth.Secret {
	found := readCookies(r, name)
	if len(found) != 1 {
		return oauth.Secret{}
	}
	return found[0]
}

// maxCookies is how many cookies of one name are looked at.
const maxCookies = 8

// readCookies returns the values of the first cookies of that name, those that are too long left out.
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

// sessionCookie returns the session cookie of a request. Of several it is the one that is ours, and of several of ours the one
// whose access token the browser has: on plain-HTTP loopback other applications of the same host may set one too.
func (h *Handler) sessionCookie(r *http.Request) oauth.Secret {
	var ours []oauth.Secret
	for _, cookie := range readCookies(r, h.cookies.session) {
		if h.issuer.SessionID(cookie) != "" {
			ours = append(ours, cookie)
		}
	}
	if len(ours) > 1 {
		named := readCookie(r, h.cookies.token).Reveal()
		ours = slices.DeleteFunc(ours, func(cookie oauth.Secret) bool { return h.issuer.SessionID(cookie) != named })
	}
	if len(ours) == 0 {
		return oauth.Secret{}
	}
	return ours[0]
}

// setCookie sets one of our cookies. A maxAge of 0 ends with the browser, a negative one at once.
func (c cookies) set(w http.ResponseWriter, name string, value oauth.Secret, maxAge time.Duration) {
	cookie := http.Cookie{ //nolint:gosec // Secure but with a plain-HTTP issuer, which is on loopback
		Name: name, Value: value.Reveal(), Path: "/", MaxAge: int(maxAge / time.Second),
		HttpOnly: true, Secure: c.secure, SameSite: http.SameSiteLaxMode,
	}
	w.Header().Add("Set-Cookie", cookie.String())
}

// setToken sets the access token of a session, and the cookie that says whose it is.
func (c cookies) setToken(w http.ResponseWriter, s *tokenissuer.Session, t tokenissuer.Tokens) {
	c.set(w, accessTokenCookie, t.AccessToken, t.ExpiresIn)
	c.set(w, c.token, oauth.NewSecret(s.Family.ID), t.ExpiresIn)
}

// end makes a browser forget that somebody was signed in.
func (c cookies) end(w http.ResponseWriter) {
	for _, name := range []string{c.session, accessTokenCookie, c.token} {
		c.set(w, name, oauth.Secret{}, -time.Second)
	}
}
