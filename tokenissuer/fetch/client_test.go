package fetch

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
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/gatehouse-auth/gatehouse/internal/issuertest"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestG88WhatMayBeDialled: private, loopback, link-local and metadata addresses → not dialled. A guard that knew 127.0.0.1 and not
// ::ffff:127.0.0.1 has been the hole of many a server.
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
			ip := netip.MustParseAddr(address)
			for _, reach := range []Reach{Internet, Loopback, PrivateNetwork} {
				g := addressGuard{reach}
				err := g.control(withScheme(t.Context(), "https"), "tcp", netip.AddrPortFrom(ip, 443).String(), nil)
				ours := reach == PrivateNetwork || reach == Loopback && (ip.Unmap().IsLoopback() || address == "64:ff9b::127.0.0.1")
				if want := when == always || when == inner && ours; want != (err == nil) {
					t.Errorf("reach %d: %v", reach, err)
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

// TestG88ANameThatChangesItsMind: a name that resolves to an inside address at the dial → refused. Whoever looks the name up, judges it
// and then dials the name has lost.
func TestG88ANameThatChangesItsMind(t *testing.T) {
	p := issuertest.NewProvider(t)
	_, port, _ := net.SplitHostPort(p.Listener.Addr().String())
	c := patient(PrivateNetwork)
	c.dialer.Resolver = nameserver(t, "127.0.0.1", "169.254.169.254")
	address := "http://idp.example:" + port + issuertest.OAuthPath
	if _, err := c.Get(t.Context(), address, "application/json"); err != nil {
		t.Fatalf("the name server does not work: %v", err)
	}
	c.transport.CloseIdleConnections()
	if _, err := c.Get(t.Context(), address, "application/json"); !errors.Is(err, errAddress) {
		t.Errorf("the second answer: %v", err)
	}
	for _, inside := range []string{"127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1", "192.168.0.1"} {
		c := patient(Internet)
		c.dialer.Resolver = nameserver(t, inside)
		if _, err := c.Get(t.Context(), "https://idp.example:"+port+"/", "application/json"); !errors.Is(err, errAddress) {
			t.Errorf("%s: %v", inside, err)
		}
	}
	if n := p.Count(issuertest.OAuthPath); n != 1 || p.Count("/") != 0 {
		t.Errorf("%d questions arrived", n)
	}
}

// TestG88Answers: a provider's metadata or keys that redirect, are too large, slow, without https or of another issuer → refused. None
// loads a key, each leaves the keys that there are, and the operator hears of it.
func TestG88Answers(t *testing.T) {
	key, other := issuertest.NewSigner("k"), issuertest.NewSigner("other")
	stranger := issuertest.NewProvider(t, other)
	stranger.Answer(issuertest.OAuthPath, nil)
	padded := func(n int) string {
		document := issuertest.JWKS(other.JWK())
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
		answer func(p *issuertest.Provider) http.HandlerFunc
		warned string
	}{
		"redirect to another host": {func(*issuertest.Provider) http.HandlerFunc { return redirect(stranger.URL + issuertest.KeysPath) }, "redirected from"},
		"redirect to another port": {func(p *issuertest.Provider) http.HandlerFunc {
			return redirect("http://127.0.0.1:1" + issuertest.KeysPath)
		}, "redirected from"},
		"redirect to another name": {func(p *issuertest.Provider) http.HandlerFunc {
			return redirect(strings.Replace(p.URL, "127.0.0.1", "localhost", 1) + issuertest.KeysPath)
		}, "redirected from"},
		"redirect to another scheme": {func(p *issuertest.Provider) http.HandlerFunc {
			return redirect("https" + strings.TrimPrefix(p.URL, "http") + issuertest.KeysPath)
		}, "redirected from"},
		"redirect to a file":  {func(*issuertest.Provider) http.HandlerFunc { return redirect("file:///etc/passwd") }, "redirected from"},
		"redirect for ever":   {func(*issuertest.Provider) http.HandlerFunc { return redirect(issuertest.KeysPath) }, "more than 3 redirects"},
		"1 MiB and a byte":    {func(*issuertest.Provider) http.HandlerFunc { return issuertest.Text(padded(DefaultMaxBytes + 1)) }, "longer than"},
		"compressed, unasked": {func(*issuertest.Provider) http.HandlerFunc { return zipped }, "encoding"},
		"status 404":          {func(*issuertest.Provider) http.HandlerFunc { return http.NotFound }, "status 404"},
		"status 201 with keys": {func(*issuertest.Provider) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusCreated)
				_, _ = w.Write([]byte(issuertest.JWKS(other.JWK())))
			}
		}, "status 201"},
		"half an answer": {func(*issuertest.Provider) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "100000")
				_, _ = w.Write([]byte(issuertest.JWKS(other.JWK())))
			}
		}, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			p := issuertest.NewProvider(t, key)
			g := newGate(t, p)
			g.accepts(t, key)
			p.Answer(issuertest.KeysPath, test.answer(p))
			g.fetchNow()
			if !g.warned(test.warned) {
				t.Errorf("warned of %q", g.warnings)
			}
			g.accepts(t, key)
			g.refuses(t, other, oauth.TemporarilyUnavailable, reasonStale)
		})
	}
	t.Run("1 MiB", func(t *testing.T) {
		p := issuertest.NewProvider(t)
		p.Answer(issuertest.KeysPath, issuertest.Text(padded(DefaultMaxBytes)))
		newGate(t, p).accepts(t, other)
	})
	t.Run("three redirects on the host", func(t *testing.T) {
		p := issuertest.NewProvider(t)
		p.Answer(issuertest.KeysPath, redirect("/1"))
		p.Answer("/1", redirect("/2"))
		p.Answer("/2", redirect(p.URL+"/3"))
		p.Answer("/3", issuertest.Text(issuertest.JWKS(other.JWK())))
		newGate(t, p).accepts(t, other)
	})
	if n := stranger.Fetches(); n != 0 {
		t.Errorf("the stranger was asked %d times", n)
	}
}

// TestG88ASlowProvider may take its time with the head or the body; it does not get more than the client has.
func TestG88ASlowProvider(t *testing.T) {
	if NewClient(Limits{}).limits.Timeout != 5*time.Second {
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
			key := issuertest.NewSigner("k")
			p := issuertest.NewProvider(t, key)
			p.Answer(issuertest.KeysPath, handler)
			g := newGate(t, p)
			g.server.client.limits.Timeout = 100 * time.Millisecond
			g.fetchNow()
			if err := g.Usable(); oauth.AsError(err).Reason != reasonNotLoaded || !g.warned("deadline exceeded") {
				t.Errorf("%v, warned of %q", err, g.warnings)
			}
		})
	}
}

// TestTheClientSaysWhoItIs and asks for nothing that it would not read.
func TestTheClientSaysWhoItIs(t *testing.T) {
	p := issuertest.NewProvider(t)
	p.Answer("/", func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"User-Agent", "Accept", "Accept-Encoding"} {
			_, _ = fmt.Fprintln(w, r.Header.Get(name))
		}
	})
	answer, err := patient(PrivateNetwork).Get(t.Context(), p.URL+"/", "application/json")
	if want := userAgent + "\napplication/json\nidentity\n"; err != nil || string(answer.Body) != want {
		t.Errorf("%+v, %v", answer, err)
	}
}

var errNotHere = errors.New("no test dials this")

// TestT205WhatAClientReaches: a client dials what its reach has, whatever name leads there, and nothing else.
func TestT205WhatAClientReaches(t *testing.T) {
	p := issuertest.NewProvider(t)
	_, port, _ := net.SplitHostPort(p.Listener.Addr().String())
	const metadata = "169.254.169.254"
	for _, c := range []struct {
		name, url, address string
		reached            map[Reach]bool
	}{
		{"loopback by address", "http://127.0.0.1:" + port, "", map[Reach]bool{Loopback: true, PrivateNetwork: true}},
		{"a name of loopback", "http://app.example:" + port, "127.0.0.1", map[Reach]bool{Loopback: true, PrivateNetwork: true}},
		{"a name of loopback, https", "https://app.example:" + port, "127.0.0.1", map[Reach]bool{Loopback: true, PrivateNetwork: true}},
		{"localhost that is elsewhere", "https://app.example:" + port, "10.0.0.1", map[Reach]bool{PrivateNetwork: true}},
		{"a private address, http", "http://10.0.0.1:" + port, "", nil},
		{"the metadata of a cloud", "https://" + metadata, "", nil},
		{"a name of the metadata of a cloud", "https://app.example", metadata, nil},
		{"credentials", "https://user:word@app.example:" + port, "127.0.0.1", nil},
	} {
		for _, reach := range []Reach{Internet, Loopback, PrivateNetwork} {
			client := patient(reach)
			if c.address != "" {
				client.dialer.Resolver = nameserver(t, c.address)
			}
			dialled := false
			client.dialer.ControlContext = func(ctx context.Context, network, address string, c syscall.RawConn) error {
				err := client.guard.control(ctx, network, address, c)
				dialled = dialled || err == nil
				if err == nil && !strings.HasPrefix(address, "127.") {
					err = errNotHere // the test leaves the machine alone
				}
				return err
			}
			_, err := client.Get(t.Context(), c.url, "")
			if dialled != c.reached[reach] {
				t.Errorf("%s, reach %d: dialled %t, %v", c.name, reach, dialled, err)
			}
			if !dialled && !errors.Is(err, errAddress) && !strings.Contains(err.Error(), "must be https") && !strings.Contains(err.Error(), "no URL") {
				t.Errorf("%s, reach %d: not our error: %v", c.name, reach, err)
			}
			client.CloseIdleConnections()
		}
	}
	if NewClient(Limits{}).transport.Proxy != nil {
		t.Error("a proxy would dial for us")
	}
}

// deafConn is a connection that has died without a word, as behind a balancer that forgot it.
type deafConn struct {
	net.Conn
	deaf *atomic.Bool
}

func (c deafConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	for err == nil && c.deaf.Load() {
		n, err = c.Conn.Read(b)
	}
	return n, err
}

func (c deafConn) Write(b []byte) (int, error) {
	if c.deaf.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// TestG88AConnectionThatDiesSilently is left for a new one, in HTTP/2 too, where many questions share one.
func TestG88AConnectionThatDiesSilently(t *testing.T) {
	p := issuertest.Unstarted(issuertest.NewSigner("k"))
	p.EnableHTTP2 = true
	p.StartTLS()
	t.Cleanup(p.Close)
	c := NewClient(Limits{Reach: PrivateNetwork, Timeout: 200 * time.Millisecond})
	c.transport.HTTP2.SendPingTimeout, c.transport.HTTP2.PingTimeout = 100*time.Millisecond, 100*time.Millisecond
	c.transport.TLSClientConfig.RootCAs = x509.NewCertPool()
	c.transport.TLSClientConfig.RootCAs.AddCert(p.Certificate())
	t.Cleanup(c.transport.CloseIdleConnections)
	var mu sync.Mutex
	var dead []*atomic.Bool // of every connection: a slow machine dials more than one
	dial := c.transport.DialContext
	c.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		mu.Lock()
		defer mu.Unlock()
		deaf := new(atomic.Bool)
		dead = append(dead, deaf)
		return deafConn{conn, deaf}, err
	}
	ask := func() bool {
		_, err := c.Get(t.Context(), p.URL+issuertest.KeysPath, "")
		return err == nil
	}
	tokentest.Eventually(t, "it answers", ask)
	mu.Lock()
	before := len(dead)
	for _, deaf := range dead {
		deaf.Store(true)
	}
	mu.Unlock()
	tokentest.Eventually(t, "it answers again", ask)
	mu.Lock()
	defer mu.Unlock()
	if len(dead) == before {
		t.Error("it answers by a connection that is dead")
	}
}

// TestG88PlainHTTP: only to loopback, and only where private addresses are allowed. The name of the host proves nothing.
func TestG88PlainHTTP(t *testing.T) {
	p := issuertest.NewProvider(t)
	for _, source := range []Source{
		{Issuer: "http://idp.example"}, {Issuer: "https://idp.example", JWKSURI: p.URL}, {Issuer: "https://user:word@idp.example"}, {Issuer: "idp.example"}, {Issuer: ""},
	} {
		if _, err := NewKeys(source, NewClient(Limits{}), Options{}); err == nil {
			t.Errorf("%+v was taken", source)
		}
	}
	if _, err := NewKeys(Source{Issuer: "ftp://idp.example"}, patient(PrivateNetwork), Options{}); err == nil {
		t.Error("ftp was taken")
	}
	if _, err := patient(Internet).Get(t.Context(), p.URL+"/?key=in-the-query", ""); err == nil || !strings.Contains(err.Error(), "must be https") || strings.Contains(err.Error(), "in-the-query") {
		t.Errorf("without allow_private_network: %v", err)
	}
	c := patient(PrivateNetwork)
	c.dialer.Resolver = nameserver(t, "10.0.0.1")
	if _, err := c.Get(t.Context(), "http://localhost.example/?key=in-the-query", ""); !errors.Is(err, errAddress) || !errors.Is(err, ErrAway) || strings.Contains(err.Error(), "in-the-query") {
		t.Errorf("a private address without TLS: %v", err)
	}
}

// TestG88TLSIsVerified with the roots of the system; a test has its own.
func TestG88TLSIsVerified(t *testing.T) {
	p := issuertest.Unstarted()
	p.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.StartTLS()
	t.Cleanup(p.Close)
	if _, err := patient(PrivateNetwork).Get(t.Context(), p.URL+issuertest.KeysPath, ""); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown authority: %v", err)
	}
	for reach, good := range map[Reach]bool{PrivateNetwork: true, Loopback: true, Internet: false} {
		c := patient(reach)
		c.transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		c.transport.TLSClientConfig.RootCAs.AddCert(p.Certificate())
		if _, err := c.Get(t.Context(), p.URL+issuertest.KeysPath, ""); good != (err == nil) || err != nil && !errors.Is(err, errAddress) {
			t.Errorf("reach %d: %v", reach, err)
		}
	}
}

// TestLimits: what a user of the client does not want of an answer.
func TestLimits(t *testing.T) {
	p := issuertest.NewProvider(t)
	answer := func(status int, headers ...string) {
		p.Answer("/", func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, strings.Repeat("x", 100))
		})
	}
	const json, html, gzipped, here = "application/json", "text/html", "gzip", "/keys"
	for _, test := range []struct {
		name    string
		limits  Limits
		status  int
		headers []string
		want    string // part of the error; empty: none
		away    bool
	}{
		{"good", Limits{JSON: true, MaxBytes: 100}, 200, []string{"Content-Type", json}, "", false},
		{"+json", Limits{JSON: true}, 200, []string{"Content-Type", "application/jwk-set+json; charset=utf-8"}, "", false},
		{"HTML", Limits{JSON: true}, 200, []string{"Content-Type", html}, "media type", false},
		{"HTML, which is not looked at", Limits{}, 200, []string{"Content-Type", html}, "", false},
		{"a byte too long", Limits{MaxBytes: 99}, 200, nil, "longer than 99", false},
		{"a byte too long, and an outage", Limits{MaxBytes: 99}, 503, nil, "longer than 99", true},
		{"compressed", Limits{}, 200, []string{"Content-Encoding", gzipped}, "encoding", false},
		{"a compressed outage", Limits{}, 502, []string{"Content-Encoding", gzipped}, "encoding", true},
		{"a redirect", Limits{}, 302, []string{"Location", here}, "redirects", false},
		{"not modified", Limits{}, 304, nil, "redirects", false},
		{"not found", Limits{}, 404, nil, "status 404", false},
		{"forbidden", Limits{}, 403, nil, "status 403", false},
		{"an outage", Limits{}, 500, nil, "status 500", true},
		{"throttled", Limits{}, 429, nil, "status 429", true},
		{"slow", Limits{}, 408, nil, "status 408", true},
	} {
		test.limits.Reach, test.limits.Timeout = PrivateNetwork, patience
		answer(test.status, test.headers...)
		before := p.Fetches()
		_, err := NewClient(test.limits).Get(t.Context(), p.URL+"/", "")
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) || errors.Is(err, ErrAway) != test.away || p.Fetches() != before {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	answer(http.StatusOK)
	c := NewClient(Limits{Reach: PrivateNetwork, Timeout: patience, MaxBytes: 10, StatusOnly: true})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Do(request); err != nil || got.Status != http.StatusOK || got.Body != nil {
		t.Errorf("status only: %+v, %v", got, err)
	}
}
