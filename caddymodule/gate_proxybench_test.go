package caddymodule

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

func init() { caddy.RegisterModule(cannedTransport{}) }

// cannedTransport answers in the place of an upstream, without a connection: what is left is what Caddy and the gate do.
type cannedTransport struct{}

func (cannedTransport) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.reverse_proxy.transport.canned", New: func() caddy.Module { return new(cannedTransport) }}
}

func (cannedTransport) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	return nil
}

// RoundTrip writes the request, as http.Transport does, to nowhere.
func (cannedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context()) // as http.Transport does
	defer cancel(nil)
	_ = ctx.Done()
	if err := r.Write(io.Discard); err != nil {
		return nil, err
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: 2,
		Header: http.Header{"Content-Length": {"2"}, "Content-Type": {"text/plain"}}, Body: io.NopCloser(strings.NewReader("ok")), Request: r,
	}, nil
}

const proxied = `{
	admin off
	log {
		output discard
	}
	oauth {
		issuer http://ADDR
		store memory
		client conf SECRET {
			scopes public
		}
	}
}

http://ADDR {
	handle /bare/* {
		reverse_proxy 127.0.0.1:1 {
			transport canned
		}
	}
	handle /gate/* {
		protect
		reverse_proxy 127.0.0.1:1 {
			transport canned
		}
	}
	handle /off/* {
		protect {
			forward off
		}
		reverse_proxy 127.0.0.1:1 {
			transport canned
		}
	}
}
`

// BenchmarkReverseProxy compares a whole Caddy with a gate on the way and without, but for the connections.
func BenchmarkReverseProxy(b *testing.B) {
	dir := b.TempDir()
	b.Setenv("XDG_DATA_HOME", dir)
	b.Setenv("XDG_CONFIG_HOME", dir)
	autosave := caddy.ConfigAutosavePath
	caddy.ConfigAutosavePath = filepath.Join(dir, "autosave.json")
	b.Cleanup(func() { caddy.ConfigAutosavePath = autosave })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	addr := listener.Addr().String()
	_ = listener.Close()
	config, err := adapt(strings.NewReplacer("ADDR", addr, "SECRET", confSecret).Replace(proxied))
	if err != nil {
		b.Fatal(err)
	}
	if err := caddy.Load(config, true); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = caddy.Stop() })
	app, err := caddy.ActiveContext().App("http")
	if err != nil {
		b.Fatal(err)
	}
	server := app.(*caddyhttp.App).Servers["srv0"]
	oauthApp, err := caddy.ActiveContext().App("oauth")
	if err != nil {
		b.Fatal(err)
	}
	issuer := oauthApp.(*App).issuer
	for _, path := range []string{"bare", "gate", "off"} {
		for _, count := range []int{1, 20_000} {
			b.Run(fmt.Sprintf("%s/%d", path, count), func(b *testing.B) { benchmarkServer(b, server, issuer, addr, "/"+path+"/x", count) })
		}
	}
}

func benchmarkServer(b *testing.B, server *caddyhttp.Server, issuer *tokenissuer.Issuer, addr, path string, count int) {
	requests := make([]*http.Request, count)
	for i := range requests {
		tokens, err := issuer.Issue(tokenissuer.Grant{
			Type: oauth.ClientCredentials, Client: &store.Client{ID: "conf"}, Scopes: oauth.Scopes{"public"},
		})
		if err != nil {
			b.Fatal(err)
		}
		head := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench/1\r\nAccept: application/json\r\nAccept-Encoding: gzip\r\nAuthorization: Bearer %s\r\n\r\n",
			path, addr, tokens.AccessToken.Reveal())
		if requests[i], err = http.ReadRequest(bufio.NewReader(strings.NewReader(head))); err != nil {
			b.Fatal(err)
		}
		requests[i].RemoteAddr = "127.0.0.1:1234"
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context()) // as http.Server does
		r := requests[i].WithContext(ctx)
		r.Header = r.Header.Clone()
		w := &notedStatus{header: make(http.Header)}
		server.ServeHTTP(w, r)
		cancel()
		if w.status != http.StatusOK {
			b.Fatal(w.status)
		}
		if i++; i == count {
			i = 0
		}
	}
}

// notedStatus remembers how it was answered.
type notedStatus struct {
	header http.Header
	status int
}

func (n *notedStatus) Header() http.Header { return n.header }

func (*notedStatus) Write(b []byte) (int, error) { return len(b), nil }

func (n *notedStatus) WriteHeader(status int) { n.status = status }
