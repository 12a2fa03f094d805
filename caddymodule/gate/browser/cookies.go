package browser

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

// cookies are the names of our cookies at a host. Browsers bind those with the prefix __Host- to the host and to https; on
// plain-HTTP loopback they would refuse them.
type cookies struct {
	session string
	// browser identifies a browser while it signs in.
	browser string
	// signedOut holds the path to which the browser goes when it comes back from signing out elsewhere.
	signedOut string
	// refused holds the explanation of an answer that is not used.
	refused string
}

var (
	secureCookies = cookies{"__Host-gatehouse-session", signin.HostBrowserCookie("https"), "__Host-gatehouse-signed-out", "__Host-gatehouse-refused"}
	plainCookies  = cookies{"gatehouse_session", signin.HostBrowserCookie("http"), "gatehouse_signed_out", "gatehouse_refused"}
)

func cookiesOf(host oauth.Host) cookies {
	if host.Scheme == "http" {
		return plainCookies
	}
	return secureCookies
}

// CookieNames returns the names of the cookies at hosts, which upstreams neither see nor set.
func CookieNames() []string {
	var names []string
	for _, c := range []cookies{secureCookies, plainCookies} {
		names = append(names, c.session, c.browser, c.signedOut, c.refused)
	}
	return names
}

// maxCookies is the maximum number of different cookies of one name that find returns.
const maxCookies = 2

// find puts the different values of a cookie into room and returns how many there are; one more than fit means too many. It does not
// allocate.
func find(h http.Header, name string, room *[maxCookies]string) (n int) {
	for _, line := range h["Cookie"] {
		for line != "" {
			var pair string
			pair, line, _ = strings.Cut(line, ";")
			value, ok := strings.CutPrefix(strings.TrimLeft(pair, " \t"), name)
			if !ok || !strings.HasPrefix(value, "=") {
				continue
			}
			value = strings.Trim(value[1:], " \t\"")
			switch {
			case value == "" || slices.Contains(room[:n], value):
			case n == maxCookies:
				return n + 1
			default:
				room[n] = value
				n++
			}
		}
	}
	return n
}

// set sets a cookie of the host until the browser closes; without a value it deletes the cookie.
func set(w http.ResponseWriter, host oauth.Host, name string, value oauth.Secret) {
	cookie := http.Cookie{ //lint:ignore gosec not Secure only on plain-HTTP loopback
		Name: name, Value: value.Reveal(), Path: "/", HttpOnly: true, Secure: host.Scheme != "http", SameSite: http.SameSiteLaxMode,
	}
	if value.IsEmpty() {
		cookie.MaxAge, cookie.Expires = -1, time.Unix(1, 0)
	}
	w.Header().Add("Set-Cookie", cookie.String())
}

// forget deletes a cookie of the host, and its partitioned variant.
func forget(w http.ResponseWriter, host oauth.Host, name string) {
	set(w, host, name, oauth.Secret{})
	if lines := w.Header()["Set-Cookie"]; host.Scheme != "http" {
		w.Header().Add("Set-Cookie", lines[len(lines)-1]+"; Partitioned")
	}
}

// begin sets the cookie of a session, and deletes what an earlier sign-out left.
func begin(w http.ResponseWriter, r *http.Request, host oauth.Host, session oauth.Secret) {
	names := cookiesOf(host)
	set(w, host, names.session, session)
	var room [maxCookies]string
	if find(r.Header, names.signedOut, &room) > 0 {
		set(w, host, names.signedOut, oauth.Secret{})
	}
}

// browser returns the secret that identifies a browser while it signs in; empty: it has none.
func browser(r *http.Request, host oauth.Host) oauth.Secret {
	var room [maxCookies]string
	if n := find(r.Header, cookiesOf(host).browser, &room); n != 1 || len(room[0]) != oauth.IDLength {
		return oauth.Secret{}
	}
	return oauth.NewSecret(room[0])
}
