package trust

import (
	"compress/gzip"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestG88WhatMayBeDialled goes through the ranges with their edges. A guard that knew 127.0.0.1 and not ::ffff:127.0.0.1 has
// been the hole of many a server.
func TestG88WhatMayBeDialled(t *testing.T) {
	const never, inner, always = 0, 1, 2 // is dialled; inner: only with allow_private_network
	for address, when := range map[string]int{
		"127.0.0.1": inner, "127.255.255.255": inner, "::1": inner, "::ffff:127.0.0.1": inner, "64:ff9b::127.0.0.1": inner,
		"10.0.0.1": inner, "172.16.0.1": inner, "172.31.255.255": inner, "192.168.1.1": inner, "::ffff:10.0.0.1": inner, "64:ff9b::a00:1": inner,
		"100.64.0.1": inner, "100.127.255.255": inner, "169.254.0.1": inner, "fe80::1": inner, "fe80::1%eth0": inner, "fc00::1": inner, "fdff::1": inner,
		"198.18.0.1": inner, "198.19.255.255": inner, "192.0.2.1": inner, "198.51.100.1": inner, "203.0.113.1": inner, "2001:db8::1": inner, "3fff::1": inner,
		"169.254.169.254": never, "::ffff:169.254.169.254": never, "64:ff9b::169.254.169.254": never, "fd00:ec2::254": never, "fd00:ec2::23": never,
		"169.254.170.2": never, "169.254.170.23": never, "fd20:ce::254": never, "100.100.100.200": never, "168.63.129.16": never,
		"0.0.0.0": never, "0.1.2.3": never, "::": never, "::ffff:0.0.0.0": never, "224.0.0.1": never, "239.255.255.255": never, "255.255.255.255": never, "240.0.0.1": never,
		"192.0.0.192": never, "192.88.99.1": never, "ff02::1": never, "ff0e::1": never, "fec0::1": never, "2002:7f00:1::1": never, "2001::1": never, "2001:20::1": never,
		"::7f00:1": never, "64:ff9b:1::a00:1": never, "100::1": never, "5f00::1": never, "4000::1": never,
		"1.1.1.1": always, "8.8.8.8": always, "172.15.255.255": always, "172.32.0.1": always, "100.63.255.255": always, "100.128.0.1": always, "128.0.0.1": always, "126.255.255.255": always,
		"192.167.255.255": always, "11.0.0.1": always, "2606:4700::1111": always, "2a00:1450::1": always, "64:ff9b::8.8.8.8": always, "::ffff:8.8.8.8": always, "223.255.255.255": always,
	} {
		t.Run(address, func(t *testing.T) {
			for _, private := range []bool{false, true} {
				g := addressGuard{private: private}
				err := g.control(withScheme(t.Context(), "https"), "tcp", netip.AddrPortFrom(netip.MustParseAddr(address), 443).String(), nil)
				if want := when == always || when == inner && private; want != (err == nil) {
					t.Errorf("private %t: %v", private, err)
				}
				if err != nil && !errors.Is(err, errAddress) {
					t.Errorf("not our error: %v", err)
				}
			}
		})
	}
}

// nameserver answers every question with the next of the addresses, and the last one for ever.
func nameserver(t *testing.T, addresses ...string) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	var served atomic.Int64
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, peer, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buffer[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			m.Response, m.Additionals = true, nil
			if q.Type == dnsmessage.TypeA {
				address := addresses[min(int(served.Add(1)), len(addresses))-1]
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
					Body:   &dnsmessage.AResource{A: netip.MustParseAddr(address).As4()},
				}}
			}
			if answer, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(answer, peer)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// TestG88ANameThatChangesItsMind: the first answer is an address that may be dialled, the second one the inside. Whoever
// looks the name up, judges it and then dials the name has lost.
func TestG88ANameThatChangesItsMind(t *testing.T) {
	p := newProvider(t)
	_, port, _ := net.SplitHostPort(p.Listener.Addr().String())
	c := newClient(true).bearWithMachine()
	c.dialer.Resolver = nameserver(t, "127.0.0.1", "169.254.169.254")
	address := "http://idp.example:" + port + oauthPath
	if _, _, err := c.get(t.Context(), address, "application/json"); err != nil {
		t.Fatalf("the name server does not work: %v", err)
	}
	c.transport.CloseIdleConnections()
	if _, _, err := c.get(t.Context(), address, "application/json"); !errors.Is(err, errAddress) {
		t.Errorf("the second answer: %v", err)
	}
	for _, inside := range []string{"127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1", "192.168.0.1"} {
		c := newClient(false).bearWithMachine()
		c.dialer.Resolver = nameserver(t, inside)
		if _, _, err := c.get(t.Context(), "https://idp.example:"+port+"/", "application/json"); !errors.Is(err, errAddress) {
			t.Errorf("%s: %v", inside, err)
		}
	}
	if n := p.count(oauthPath); n != 1 || p.count("/") != 0 {
		t.Errorf("%d questions arrived", n)
	}
}

// TestG88PlainHTTP: only to loopback, and only where private addresses are allowed. The name of the host proves nothing.
func TestG88PlainHTTP(t *testing.T) {
	p := newProvider(t)
	if _, err := New(Settings{Issuer: "http://idp.example"}, Options{}); err == nil {
		t.Error("an issuer without TLS was taken")
	}
	for _, settings := range []Settings{
		{Issuer: "https://idp.example", JWKSURI: p.URL}, {Issuer: "https://idp.example", Introspection: &Introspection{Endpoint: p.URL}},
		{Issuer: "ftp://idp.example", AllowPrivateNetwork: true}, {Issuer: "https://user:word@idp.example"}, {Issuer: "idp.example"}, {Issuer: ""},
	} {
		if _, err := New(settings, Options{}); err == nil {
			t.Errorf("%+v was taken", settings)
		}
	}
	if _, _, err := newClient(false).get(t.Context(), p.URL, ""); err == nil || !strings.Contains(err.Error(), "must be https") {
		t.Errorf("without allow_private_network: %v", err)
	}
	c := newClient(true).bearWithMachine()
	c.dialer.Resolver = nameserver(t, "10.0.0.1")
	if _, _, err := c.get(t.Context(), "http://localhost.example/", ""); !errors.Is(err, errAddress) {
		t.Errorf("a private address without TLS: %v", err)
	}
}

// TestG88TLSIsVerified with the roots of the system; a test has its own.
func TestG88TLSIsVerified(t *testing.T) {
	key := newSigner("k")
	p := unstarted(key)
	p.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.StartTLS()
	t.Cleanup(p.Close)
	p.answer(oidcPath, text(p.metadata()))
	g := newGate(t, p)
	g.refuses(t, key.token(p.URL, nil), oauth.TemporarilyUnavailable, reasonNotLoaded)
	if !g.warned("certificate") {
		t.Errorf("warned of %v", g.warnings)
	}
	g = newGate(t, p)
	roots := x509.NewCertPool()
	roots.AddCert(p.Certificate())
	g.keys.client.transport.TLSClientConfig.RootCAs = roots
	g.accepts(t, key.token(p.URL, nil))
	private, err := New(Settings{Issuer: p.URL}, Options{Now: g.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	private.keys.client.transport.TLSClientConfig.RootCAs = roots
	_, err = private.Verify(t.Context(), key.token(p.URL, nil), []string{ourAudience})
	if !errors.Is(err, errAddress) {
		t.Errorf("a loopback address: %v", err)
	}
}

// TestG88NoProxyOfTheEnvironment: a proxy would dial for us, and nobody would look at the address.
func TestG88NoProxyOfTheEnvironment(t *testing.T) {
	if newClient(false).transport.Proxy != nil {
		t.Error("there is a proxy")
	}
}

// TestG88Answers are what a provider can answer with instead of its keys. None loads a key, each leaves the keys that there
// are, and the operator hears of it.
func TestG88Answers(t *testing.T) {
	key, other := newSigner("k"), newSigner("other")
	stranger := newProvider(t, other)
	stranger.answer(oauthPath, nil)
	padded := func(n int) string {
		document := jwks(other.jwk())
		return document + strings.Repeat(" ", n-len(document))
	}
	redirect := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
	}
	zipped := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = z.Write([]byte(padded(2 << 20)))
		_ = z.Close()
	}
	for name, test := range map[string]struct {
		answer func(p *provider) http.HandlerFunc
		warned string
	}{
		"redirect to another host": {func(*provider) http.HandlerFunc { return redirect(stranger.URL + keysPath) }, "redirected from"},
		"redirect to another port": {func(p *provider) http.HandlerFunc { return redirect("http://127.0.0.1:1" + keysPath) }, "redirected from"},
		"redirect to another name": {func(p *provider) http.HandlerFunc {
			return redirect(strings.Replace(p.URL, "127.0.0.1", "localhost", 1) + keysPath)
		}, "redirected from"},
		"redirect to another scheme": {func(p *provider) http.HandlerFunc {
			return redirect("https" + strings.TrimPrefix(p.URL, "http") + keysPath)
		}, "redirected from"},
		"redirect to a file":  {func(*provider) http.HandlerFunc { return redirect("file:///etc/passwd") }, "redirected from"},
		"redirect for ever":   {func(*provider) http.HandlerFunc { return redirect(keysPath) }, "more than 3 redirects"},
		"1 MiB and a byte":    {func(*provider) http.HandlerFunc { return text(padded(maxAnswer + 1)) }, "longer than"},
		"compressed, unasked": {func(*provider) http.HandlerFunc { return zipped }, "encoding"},
		"status 404":          {func(*provider) http.HandlerFunc { return http.NotFound }, "status 404"},
		"status 201 with keys": {func(*provider) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusCreated)
				_, _ = w.Write([]byte(jwks(other.jwk())))
			}
		}, "status 201"},
		"half an answer": {func(*provider) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "100000")
				_, _ = w.Write([]byte(jwks(other.jwk())))
			}
		}, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t, key)
			g := newGate(t, p)
			g.accepts(t, key.token(p.URL, nil))
			p.answer(keysPath, test.answer(p))
			g.fetchNow()
			if !g.warned(test.warned) {
				t.Errorf("warned of %q", g.warnings)
			}
			g.accepts(t, key.token(p.URL, map[string]any{"jti": "2"}))
			g.refuses(t, other.token(p.URL, nil), oauth.TemporarilyUnavailable, reasonStale)
		})
	}
	t.Run("1 MiB", func(t *testing.T) {
		p := newProvider(t)
		p.answer(keysPath, text(padded(maxAnswer)))
		newGate(t, p).accepts(t, other.token(p.URL, nil))
	})
	t.Run("three redirects on the host", func(t *testing.T) {
		p := newProvider(t)
		p.answer(keysPath, redirect("/1"))
		p.answer("/1", redirect("/2"))
		p.answer("/2", redirect(p.URL+"/3"))
		p.answer("/3", text(jwks(other.jwk())))
		newGate(t, p).accepts(t, other.token(p.URL, nil))
	})
	if n := stranger.fetches(); n != 0 {
		t.Errorf("the stranger was asked %d times", n)
	}
}

// TestG88ASlowProvider may take its time with the head or the body; it does not get more than the client has.
func TestG88ASlowProvider(t *testing.T) {
	if newClient(false).timeout != 5*time.Second {
		t.Error("the time is not 5 s")
	}
	for name, handler := range map[string]http.HandlerFunc{
		"no answer": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"no end": func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(`{"keys":[`))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
		"drop by drop": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write([]byte(" "))
				_ = http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(10 * time.Millisecond):
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			key := newSigner("k")
			p := newProvider(t, key)
			p.answer(keysPath, handler)
			g := newGate(t, p)
			g.keys.client.timeout = 100 * time.Millisecond
			g.refuses(t, key.token(p.URL, nil), oauth.TemporarilyUnavailable, reasonNotLoaded)
			if !g.warned("deadline exceeded") {
				t.Errorf("warned of %q", g.warnings)
			}
		})
	}
}

// TestG88TheTimeIsForAllOfAFetch: metadata and keys that are each in time, and together are not.
func TestG88TheTimeIsForAllOfAFetch(t *testing.T) {
	for delay, inTime := range map[time.Duration]bool{2 * time.Second: true, 3 * time.Second: false} {
		synctest.Test(t, func(t *testing.T) {
			both := `{"issuer":"https://idp.example","jwks_uri":"https://idp.example/keys",` + jwks(newSigner("k").jwk())[1:]
			s := &scripted{status: http.StatusOK, keys: both, delay: delay}
			i, stop := s.running(t, func(s *Settings) { s.JWKSURI = "" })
			defer stop()
			time.Sleep(6 * time.Second)
			if err := i.Ready(); (err == nil) != inTime {
				t.Errorf("%v each: %v", delay, err)
			}
		})
	}
}

// TestG88NoURLOfATokenIsAsked: kid, jku, x5u and iss name places, and none is visited.
func TestG88NoURLOfATokenIsAsked(t *testing.T) {
	key := newSigner("k")
	trap := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("somebody came") }))
	defer trap.Close()
	p := newProvider(t, key)
	g := newGate(t, p)
	g.accepts(t, key.token(p.URL, nil))
	for _, kid := range []string{trap.URL, trap.URL + "/keys", "../../" + trap.URL} {
		g.refuses(t, newSigner(kid).token(p.URL, nil), oauth.InvalidToken, reasonUnknown)
	}
	g.refuses(t, key.token(trap.URL, nil), oauth.InvalidToken, "issuer_wrong")
	g.refuses(t, newSigner("x").token(trap.URL, nil), oauth.InvalidToken, reasonUnknown)
	g.refuses(t, newSigner(`","jku":"`+trap.URL).token(p.URL, nil), oauth.InvalidToken, "header_unexpected")
}

// TestTheClientSaysWhoItIs and asks for nothing that it would not read.
func TestTheClientSaysWhoItIs(t *testing.T) {
	p := newProvider(t)
	p.answer("/", func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"User-Agent", "Accept", "Accept-Encoding"} {
			_, _ = fmt.Fprintln(w, r.Header.Get(name))
		}
	})
	_, body, err := newClient(true).bearWithMachine().get(t.Context(), p.URL+"/", "application/json")
	if want := UserAgent + "\napplication/json\nidentity\n"; err != nil || string(body) != want {
		t.Errorf("%q, %v", body, err)
	}
}
