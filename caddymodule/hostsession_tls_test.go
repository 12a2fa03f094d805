package caddymodule

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// startSecureHosts serves hostsSite over https, with certificates of Caddy's own authority.
func startSecureHosts(t *testing.T) *hostsGate {
	t.Helper()
	certificate, key := certificateFiles(t)
	g := startHosts(t, "http://", "https://", "\tadmin ADMIN\n", "\tadmin ADMIN\n\tauto_https disable_redirects\n",
		"TCPPORT {\n", "TCPPORT {\n\ttls "+certificate+" "+key+"\n")
	g.url = "https://" + g.addr
	return g
}

// authority returns a TLS configuration that trusts the tests' certificate.
func (g *hostsGate) authority(t *testing.T) *tls.Config {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(testCertificate()["certificate"])) {
		t.Fatal("the tests' certificate cannot be parsed")
	}
	return &tls.Config{RootCAs: roots}
}

// transports returns the transports over which a browser reaches the hosts by https.
func (g *hostsGate) transports(t *testing.T) map[string]http.RoundTripper {
	t.Helper()
	dialer := new(net.Dialer)
	tcp := func(protocol string) http.RoundTripper {
		config := g.authority(t)
		config.NextProtos = []string{protocol}
		transport := &http.Transport{TLSClientConfig: config, Protocols: new(http.Protocols), DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, g.addr)
		}}
		transport.Protocols.SetHTTP1(protocol == "http/1.1")
		transport.Protocols.SetHTTP2(protocol == "h2")
		t.Cleanup(transport.CloseIdleConnections)
		return transport
	}
	socket, err := net.ListenPacket("udp", ":0")
	check(t, err)
	client := &quic.Transport{Conn: orderedSocket{socket}}
	third := &http3.Transport{TLSClientConfig: g.authority(t), Dial: func(ctx context.Context, _ string, config *tls.Config, settings *quic.Config) (*quic.Conn, error) {
		address, err := net.ResolveUDPAddr("udp", g.addr)
		if err != nil {
			return nil, err
		}
		return client.DialEarly(ctx, address, config, settings)
	}}
	t.Cleanup(func() { _, _, _ = third.Close(), client.Close(), socket.Close() })
	return map[string]http.RoundTripper{"HTTP/1.1": tcp("http/1.1"), "HTTP/2.0": tcp("h2"), "HTTP/3.0": third}
}

// TestS134HostsByHTTPS: hosts by https over HTTP/1.1, 2 and 3 → `__Host-`, Secure, HttpOnly, Lax cookies; a Host other than the
// certificate's → 401.
func TestS134HostsByHTTPS(t *testing.T) {
	g := startSecureHosts(t)
	const session, signIn = "__Host-gatehouse-session", "__Host-gatehouse-sign-in"
	for version, transport := range g.transports(t) {
		t.Run(version, func(t *testing.T) {
			v := g.visitor(t)
			v.client.Transport = transport
			g.upstream.seen()
			deep := g.at("app", "/deep?q=1")
			first := v.navigate(deep)
			if location := first.header.Get("Location"); first.status != http.StatusSeeOther || !strings.HasPrefix(location, g.at("auth", "/oauth/authorize?")) {
				t.Fatalf("%d to %q", first.status, location)
			}
			holdCookies(t, cookiesIn(page(first)), true, map[string]int{signIn: 0})
			v.ends(t, first.header.Get("Location"), "ada@acme.example", deep)
			if seen := g.upstream.one(t); seen.Header.Get("Cookie") != "" || seen.Header.Get("X-Forwarded-Proto") != "https" {
				t.Errorf("the upstream saw %v", seen.Header)
			}
			callback := v.begun("wiki", "/pages/1")
			back := v.navigate(callback.String())
			holdCookies(t, cookiesIn(page(back)), true, map[string]int{session: 0})
			v.navigate(g.at("wiki", "/pages/1")).is(t, http.StatusOK, "the second host")
			cookie := v.cookie("app", session)
			for name, c := range map[string]struct {
				host, target, sent string
				want               int
			}{
				"at its host":                 {"", g.at("app", "/"), session + "=" + cookie, 200},
				"in capitals":                 {strings.ToUpper(strings.TrimPrefix(g.origin("app"), "https://")), g.at("app", "/"), session + "=" + cookie, 200},
				"at another host":             {"", g.at("wiki", "/pages/1"), session + "=" + cookie, 401},
				"under the name of http":      {"", g.at("app", "/"), hostCookie + "=" + cookie, 401},
				"the host without its port":   {"app.localhost", g.at("app", "/"), session + "=" + cookie, 401},
				"another host on the way":     {strings.TrimPrefix(g.origin("wiki"), "https://"), g.at("app", "/pages/1"), session + "=" + cookie, 401},
				"its host, by another's name": {strings.TrimPrefix(g.origin("app"), "https://"), g.at("wiki", "/"), session + "=" + cookie, 200},
			} {
				request, err := http.NewRequest(http.MethodGet, c.target, http.NoBody)
				check(t, err)
				request.Host = c.host
				request.Header.Set("Cookie", c.sent)
				answerTo(t, &http.Client{Transport: transport, CheckRedirect: stays, Timeout: patience}, request).is(t, c.want, "the cookie ", name)
			}
			out := v.send(http.MethodPost, g.at("app", "/oauth/sign_out"), "", "Sec-Fetch-Site", "same-origin", "Origin", g.origin("app"))
			deleted := cookiesIn(page(out))[session]
			if out.status != http.StatusSeeOther || deleted == nil || deleted.MaxAge >= 0 || !deleted.Secure || deleted.Path != "/" || deleted.Domain != "" {
				t.Errorf("%d %v", out.status, out.header)
			}
			for _, target := range []string{g.at("app", "/"), g.at("wiki", "/pages/1")} {
				sentBy(t, &http.Client{Transport: transport, CheckRedirect: stays, Timeout: patience}, http.MethodGet, target, "", "Cookie", session+"="+cookie).is(t, http.StatusUnauthorized, target, " after the sign-out")
			}
			v.send(http.MethodGet, g.at("app", "/public/x"), "").is(t, http.StatusOK)
		})
	}
	sentBy(t, http.DefaultClient, http.MethodGet, "http://"+g.addr+"/", "").is(t, http.StatusBadRequest, "without TLS")
}

// TestS135EarlyDataAtAHost: a callback, sign-in, sign-out or form in early data → 425; repeated afterwards → the code is still good.
func TestS135EarlyDataAtAHost(t *testing.T) {
	g := &hostsGate{startGatehouseAt(t, freeTLSAddr(t), hostsCaddyfile()+"http://127.0.0.1:TCPPORT {\n\trespond 404\n}\n")}
	v := g.signedIn(t, "ada@acme.example")
	callback := v.begun("wiki", "/pages/1").RequestURI()
	wire := watchedGate(t, g.gatehouse)
	at := func(host, method, path string, further ...string) [][2]string {
		cookies := hostCookie + "=" + v.cookie(host, hostCookie) + "; gatehouse_sign_in=" + v.cookie(host, "gatehouse_sign_in")
		fields := wire.securely(method, path, append(further, "cookie", cookies)...)
		fields[2][1] = strings.TrimPrefix(g.origin(host), "http://")
		return fields
	}
	for name, c := range map[string]struct {
		fields [][2]string
		logged string
		want   int
	}{
		"a callback":    {at("wiki", "GET", callback), `"reason":"early_data"`, 425},
		"a sign-in":     {at("app", "GET", "/oauth/sign_in"), `"reason":"early_data"`, 425},
		"a sign-out":    {at("app", "POST", "/oauth/sign_out", "sec-fetch-site", "same-origin"), `"reason":"early_data"`, 425},
		"a page":        {at("app", "GET", "/page"), "request passed the gate", 200},
		"a form":        {at("app", "POST", "/page", "sec-fetch-site", "same-origin"), `"reason":"early_data"`, 425},
		"a public page": {at("app", "GET", "/public/page"), `"uri":"/public/page"`, 200},
	} {
		t.Run(name, func(t *testing.T) {
			sessions := wire.session(t)
			before := len(g.logs())
			w, stream, release := wire.early(t, sessions, c.fields, "")
			g.eventually("the server has decided", func() bool { return strings.Contains(g.logs()[before:], c.logged) })
			release()
			if answer := stream.answer(); answer.status != c.want || !w.ConnectionState().Used0RTT {
				t.Errorf("%d %s, want %d", answer.status, answer.body, c.want)
			}
			g.upstream.seen()
		})
	}
	v.navigate(g.at("wiki", callback)).leads(t, http.StatusSeeOther, g.at("wiki", "/pages/1"), "the code is gone")
}
