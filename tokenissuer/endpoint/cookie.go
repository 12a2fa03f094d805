package endpoint

import (
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

// accessTokenCookie holds the user token of a browser that is signed in.
const accessTokenCookie = "accessToken"

// cookies are the names of ours, and whether they are for https alone. Browsers keep a name with the prefix __Host- to
// the host that set it, over https; on plain-HTTP loopback they would refuse it.
type cookies struct {
	session string
	// browser recognises a browser before anybody has signed in: forms and pending requests belong to it.
	browser string
	// device recognises a browser after: see tokenissuer.Issuer.Device.
	device string
	secure bool
}

func newCookies(issuerURL string) cookies {
	if strings.HasPrefix(issuerURL, "http://") {
		return cookies{session: "session", browser: "gatehouse_browser", device: "gatehouse_device"}
	}
	return cookies{
		session: "__Host-session", browser: "__Host-gatehouse-browser", device: "__Host-gatehouse-device", secure: true,
	}
}

// CookieNames lists the cookies of an issuer's own, which no upstream sees or sets.
func CookieNames(issuerURL string) []string {
	c := newCookies(issuerURL)
	return []string{accessTokenCookie, c.session, c.browser, c.device}
}

const (
	maxCookie    = 4096
	deviceMaxAge = 400 * 24 * time.Hour // the longest that browsers keep one
)

// readCookie returns the value of the one cookie of that name. Two of a name are none: somebody else may have set one of
// them, and nobody knows which (RFC 6265 §5.4 gives no order to rely on).
func readCookie(r *http.Request, name string) tokenissuer.Secret {
	var found []string
	for _, line := range r.Header["Cookie"] {
		for pair := range strings.SplitSeq(line, ";") {
			if value, ok := strings.CutPrefix(strings.TrimLeft(pair, " \t"), name+"="); ok {
				found = append(found, strings.TrimRight(value, " \t"))
			}
		}
	}
	if len(found) != 1 || len(found[0]) > maxCookie {
		return tokenissuer.Secret{}
	}
	return tokenissuer.NewSecret(strings.Trim(found[0], `"`))
}

// setCookie sets one of our cookies. A maxAge of 0 ends with the browser, a negative one at once.
func (c cookies) set(w http.ResponseWriter, name string, value tokenissuer.Secret, maxAge time.Duration) {
	cookie := http.Cookie{ //nolint:gosec // Secure but with a plain-HTTP issuer, which is on loopback
		Name: name, Value: value.Reveal(), Path: "/", MaxAge: int(maxAge / time.Second),
		HttpOnly: true, Secure: c.secure, SameSite: http.SameSiteLaxMode,
	}
	w.Header().Add("Set-Cookie", cookie.String())
}

// end makes a browser forget that somebody was signed in.
func (c cookies) end(w http.ResponseWriter) {
	for _, name := range []string{c.session, accessTokenCookie} {
		c.set(w, name, tokenissuer.Secret{}, -time.Second)
	}
}
