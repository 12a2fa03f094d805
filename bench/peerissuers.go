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

// nodeModules is where `make test` has installed what the tests of the wire need, oidc-provider among it.
const nodeModules = "caddymodule/testdata/npm/node_modules/oidc-provider"

// peerIssuers hold the tokens that another issuer gives beside ours: client_credentials, ES256.
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

// startNodeProvider starts it and waits until it gives a token.
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

// nodeTokens ask for tokens for a resource, which are JWTs as ours are.
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
