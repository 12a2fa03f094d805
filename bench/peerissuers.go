package main

import (
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
)

// nodeProvider runs node oidc-provider.
//
//go:embed peerissuers.mjs
var nodeProvider string

// nodeModules is where `make test` has installed what the tests of the wire need, oidc-provider among it.
const nodeModules = "caddymodule/testdata/npm/node_modules/oidc-provider"

// peerIssuers hold the tokens that another issuer gives beside ours: client_credentials, ES256.
func (b *bench) peerIssuers() error {
	ours, err := b.ours(setup{})
	if err != nil {
		return err
	}
	const base = "Gatehouse, client_credentials, ES256"
	sides := []side{
		{name: base, on: ours, load: clientCredentials(ours.Issuer)},
		{name: base + " again (control)", against: base, on: ours, load: clientCredentials(ours.Issuer)},
	}
	node, err := b.startNodeProvider()
	if err != nil {
		b.report.Note("node oidc-provider is left out: %v", err)
	} else {
		sides = append(sides, side{name: "node oidc-provider, in memory, client_credentials, ES256", against: base, on: node,
			load: nodeTokens(node), requests: max(100, b.requests/4)})
	}
	_, err = b.compare(sides...)
	return err
}

// startNodeProvider starts it and waits until it gives a token.
func (b *bench) startNodeProvider() (*server, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, err
	}
	modules, err := filepath.Abs(nodeModules)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(modules); err != nil {
		return nil, fmt.Errorf("%w (`make test` installs it)", err)
	}
	srv, err := b.newServer(node, 0)
	if err != nil {
		return nil, err
	}
	srv.Admin = ""
	script := filepath.Join(srv.dir, "provider.mjs")
	if err := os.WriteFile(script, []byte(nodeProvider), 0o600); err != nil {
		return nil, err
	}
	_, port, _ := strings.Cut(srv.Bare, ":")
	if err := srv.execute(b.ctx, srv.Bare, script, modules, port, clientID, clientSecret); err != nil {
		return nil, err
	}
	b.cleanup = append(b.cleanup, srv.Stop)
	return srv, b.awaitToken(srv)
}

func (b *bench) awaitToken(srv *server) error {
	err := errors.New("interrupted")
	l := nodeTokens(srv)
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline) && b.ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		if _, err = l.Send(b.ctx, 1, 1); err == nil {
			return nil
		}
	}
	return fmt.Errorf("it gives no token: %w%s", err, lastLines(srv.log()))
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
