package caddymodule

import (
	"context"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
)

// Browsers at hosts behind the gate. The issuer is at auth.localhost, and two applications are at app.localhost and wiki.localhost.

// hostsSite has the issuer and both applications. The applications are behind gates, except for /public of the first. ROUTES are further
// routes of the first.
var hostsSite = `{
	admin ADMIN
	log {
		output file LOG
		level DEBUG
	}
	oauth {
		issuer http://auth.localhost:TCPPORT
		store memory
		limits {
			login off
			grants off
		}
		organisation acme "Acme Ltd"
		user u-ada {
			email ada@acme.example
			name "Ada Admin"
			password HASH
			organisation acme
			role admin
			groups engineering "Web Team"
		}
		user u-ben {
			email ben@acme.example
			password HASH
			organisation acme
			role member
		}
	}
}
http://auth.localhost:TCPPORT {
	oauth_server
` +
	handled("handle", "respond 404") + `}
http://app.localhost:TCPPORT {
	log
	ROUTES
` +
	handled("handle /public/*", "reverse_proxy UPSTREAM") +
	gated("/api/*") +
	gated("", "challenge browser") + `}
http://wiki.localhost:TCPPORT {
` +
	gated("/pages/*", "challenge browser", "forward + X-Name name", "forward + X-Email email") +
	handled("handle", "respond 404") + `}
`

// hostsGate is a running hostsSite.
type hostsGate struct{ *gatehouse }

// startHosts serves hostsSite; changes are replacements in it.
func startHosts(t *testing.T, changes ...string) *hostsGate {
	t.Helper()
	return &hostsGate{startGatehouse(t, hostsCaddyfile(changes...))}
}

func hostsCaddyfile(changes ...string) string {
	site := strings.NewReplacer(changes...).Replace(hostsSite)
	return strings.NewReplacer("ROUTES", "", "HASH", peopleHash()).Replace(site)
}

// visitorOfHosts is a browser that visits several hosts.
type visitorOfHosts struct {
	t      *testing.T
	gate   *hostsGate
	client *http.Client
	jar    *cookiejar.Jar
}

func (g *hostsGate) visitor(t *testing.T) *visitorOfHosts {
	t.Helper()
	jar, err := cookiejar.New(nil)
	check(t, err)
	dialer := new(net.Dialer)
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		_, port, _ := net.SplitHostPort(address)
		return dialer.DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
	}}
	return &visitorOfHosts{t: t, gate: g, jar: jar, client: &http.Client{Transport: transport, Jar: jar, CheckRedirect: stays, Timeout: patience}}
}

// at returns the URL of a path at a host, which is given by its first label.
func (g *hostsGate) at(host, path string) string { return g.origin(host) + path }

func (g *hostsGate) origin(host string) string {
	_, port, _ := net.SplitHostPort(g.addr)
	scheme, _, _ := strings.Cut(g.url, "://")
	return scheme + "://" + host + ".localhost:" + port
}

// send sends a request and does not follow redirects.
func (v *visitorOfHosts) send(method, target, body string, headers ...string) answer {
	v.t.Helper()
	return sentBy(v.t, v.client, method, target, body, headers...)
}

// navigate opens a page as a browser does and does not follow redirects.
func (v *visitorOfHosts) navigate(target string) answer {
	v.t.Helper()
	return v.send(http.MethodGet, target, "", navigation...)
}

// walk opens a page and follows redirects, and signs in with the address if asked to. It returns the last answer and its URL.
func (v *visitorOfHosts) walk(target, email string) (answer, string) {
	v.t.Helper()
	a := v.navigate(target)
	for range 12 {
		switch {
		case a.status == http.StatusSeeOther || a.status == http.StatusFound:
			next, err := url.Parse(target)
			check(v.t, err)
			next, err = next.Parse(a.header.Get("Location"))
			check(v.t, err)
			target = next.String()
			a = v.navigate(target)
		case email != "" && strings.Contains(a.body, `name="password"`):
			action, fields := formIn(v.t, page(a))
			fields.Set("email", email)
			fields.Set("password", peoplePassword)
			next, err := url.Parse(target)
			check(v.t, err)
			next, err = next.Parse(action)
			check(v.t, err)
			target, email = next.String(), ""
			a = v.send(http.MethodPost, target, fields.Encode(), "Content-Type", urlEncoded, "Sec-Fetch-Site", "same-origin")
		default:
			return a, target
		}
	}
	v.t.Fatalf("%s: round in circles", target)
	return a, target
}

// arrives walks to a page and checks that it is shown.
func (v *visitorOfHosts) arrives(t *testing.T, target, email string) {
	t.Helper()
	v.ends(t, target, email, target)
}

// ends walks and checks that the page at an address is shown.
func (v *visitorOfHosts) ends(t *testing.T, from, email, want string) {
	t.Helper()
	if a, at := v.walk(from, email); a.status != http.StatusOK || at != want {
		t.Errorf("%d at %s, want %s: %s", a.status, at, want, a.body)
	}
}

// signedIn returns a browser that has opened the application.
func (g *hostsGate) signedIn(t *testing.T, email string) *visitorOfHosts {
	t.Helper()
	v := g.visitor(t)
	if a, at := v.walk(g.at("app", "/"), email); a.status != http.StatusOK || at != g.at("app", "/") {
		t.Fatalf("signing in: %d at %s: %s", a.status, at, a.body)
	}
	g.upstream.seen()
	return v
}

// cookie returns the value of a cookie at a host, or "" without one.
func (v *visitorOfHosts) cookie(host, name string) string {
	site, _ := url.Parse(v.gate.at(host, "/"))
	for _, c := range v.jar.Cookies(site) {
		if c.Name == name {
			return c.Value
		}
	}
	return ""
}

func (v *visitorOfHosts) give(host string, c *http.Cookie) {
	site, _ := url.Parse(v.gate.at(host, "/"))
	c.Path = "/"
	v.jar.SetCookies(site, []*http.Cookie{c})
}

const hostCookie = "gatehouse_session"
