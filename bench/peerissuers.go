package main

import (
	_ "embed"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
)

// nodeProvider runs node oidc-provider.
//
//go:embed peerissuers.mjs
var nodeProvider string

// nodeModules is where `make test` installs the packages for the interoperability tests, oidc-provider among them.
const nodeModules = "caddymodule/testdata/npm/node_modules/oidc-provider"

// peerIssuers compares issuing tokens with another issuer: client_credentials, ES256.
func (b *bench) peerIssuers() {
	ours := b.ours(setup{})
	base := side{name: "Gatehouse, client_credentials, ES256", on: ours, load: clientCredentials(ours.Issuer)}
	sides := []side{base, base.again()}
	b.unlessLeftOut("node oidc-provider", func() {
		node := b.startNodeProvider()
		sides = append(sides, side{name: "node oidc-provider, in memory, client_credentials, ES256", against: base.name, on: node,
			load: nodeTokens(node), requests: max(100, b.requests/4)})
	})
	b.compare(sides...)
}

// startNodeProvider starts node oidc-provider and waits until it issues a token.
func (b *bench) startNodeProvider() *server {
	srv := b.newServer(must(exec.LookPath("node")), 0)
	modules := must(filepath.Abs(nodeModules))
	must(os.Stat(modules)) // `make test` installs it
	srv.Admin = ""
	script := filepath.Join(srv.program.Dir, "provider.mjs")
	check(os.WriteFile(script, []byte(nodeProvider), 0o600))
	_, port, _ := strings.Cut(srv.Bare, ":")
	check(srv.launch(b.ctx, srv.Bare, script, modules, port, clientID, clientSecret))
	check(srv.awaitAnswer(b.ctx, nodeTokens(srv)))
	return srv
}

// nodeTokens requests tokens for a resource. The provider issues them as JWTs, as Gatehouse does.
func nodeTokens(srv *server) load.Load {
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {"public"}, "resource": {externalAudience}}
	return load.Load{
		Addr: srv.Bare, Status: 200, Request: load.Constant(post(srv.Bare, "/token", clientID, form.Encode())),
		Response: func(_ int, r *load.Response) error {
			_, err := readTokens(r.Body)
			return err
		},
	}
}
