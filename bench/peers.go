package main

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
)

// peer is another project's way to admit requests with an issuer's tokens.
type peer struct {
	name string
	// module is the module to build; one without a path is a bare Caddy.
	module module
	// algorithms are those that the peer verifies in this configuration.
	algorithms []string
	// files are the peer's files, templates for peerWords.
	files map[string]string
	// arguments are its command-line arguments.
	arguments []string
	// asks means that it calls the small verifier for each request.
	asks bool
}

// peerWords are the parameters of a peer's files and arguments.
type peerWords struct {
	Dir, Admin, Addr, API, Upstream, Helper string
	Host, Port, APIPort                     string
	Issuer, Audience, Algorithm, KeyFile    string
}

// peers compares other projects with a bare Caddy and with ours. All of them verify the same tokens of the same
// issuer.
func (b *bench) peers() {
	p := b.startProvider(0)
	bare, ours := b.bareCaddy(0), b.ours(trusting(p))
	var sides []side
	for _, algorithm := range []string{"ES256", "RS256"} {
		sides = append(sides, b.peerSides(algorithm, bare, ours, p)...)
	}
	b.compare(sides...)
	b.report.Note("All take the tokens of the same issuer: %d in turn, or new ones, each once. None has an access log.", min(1000, b.tokens))
	b.peerIssuers()
}

// peerSides returns the sides for one algorithm. A peer that cannot be built or refuses a good token is left out, and
// the report says why.
func (b *bench) peerSides(algorithm string, bare, ours *server, p *provider) []side {
	tokens := p.tokens(algorithm, min(1000, b.tokens))
	base := side{name: "bare Caddy, " + algorithm, on: bare, load: orders(bare.Bare, tokens), requests: max(100, b.requests/2)}
	sides := []side{base, base.again()}
	add := func(name string, on *server, site string) {
		warm := side{name: name + ", " + algorithm, against: base.name, on: on, load: orders(site, tokens), requests: base.requests}
		first := side{name: warm.name + ", each token once", against: base.name, on: on, requests: max(100, base.requests/4)}
		first.prepare = func(count int) load.Load { return orders(site, p.tokens(algorithm, count)) }
		sides = append(sides, warm, first)
	}
	add("Gatehouse", ours, ours.ProtectedExternal)
	for _, one := range gatePeers {
		if !slices.Contains(one.algorithms, algorithm) {
			continue
		}
		b.unlessLeftOut(one.name+", "+algorithm, func() {
			srv := b.startPeer(one, algorithm, p, tokens[0])
			add(strings.TrimSpace(one.name+" "+one.module.version), srv, srv.Bare)
		})
	}
	return sides
}

// unlessLeftOut adds a peer to a comparison. If add fails, it reports why instead.
func (b *bench) unlessLeftOut(name string, add func()) {
	if err := attempt(add); err != nil {
		b.report.Note("%s, is left out: %v", name, err)
	}
}

// startPeer builds and starts a peer, and waits until it admits a good token. It fails if the peer admits a bad one.
func (b *bench) startPeer(one peer, algorithm string, p *provider, token string) *server {
	program := b.bare
	if one.module.path != "" {
		program = must(one.module.program(b.ctx))
	}
	srv := b.newServer(program, 0)
	w := b.peerWords(srv, algorithm, p)
	if one.asks {
		verifier := b.program(must(os.Executable()))
		verifier.Dir = must(os.MkdirTemp(srv.program.Dir, "verifier-"))
		srv.helper = must(verifier.Start(b.ctx, w.Helper, verifierCommand, w.Helper, w.KeyFile, w.Issuer, w.Algorithm))
		b.cleanup = append(b.cleanup, srv.helper.Stop)
	}
	for name, text := range one.files {
		check(os.WriteFile(filepath.Join(srv.program.Dir, name), []byte(w.in(text)), 0o600))
	}
	arguments := make([]string, len(one.arguments))
	for i, text := range one.arguments {
		arguments[i] = w.in(text)
	}
	check(srv.launch(b.ctx, srv.Bare, arguments...))
	if one.module.path != "" && !strings.Contains(one.module.path, "caddy") {
		srv.Admin = "" // only Caddy has one
	}
	check(srv.awaitAnswer(b.ctx, orders(srv.Bare, []string{token})))
	b.refusesForged(srv, token)
	return srv
}

// peerWords returns the parameters of a peer that accepts the provider's tokens. Its only site is Bare.
func (b *bench) peerWords(srv *server, algorithm string, p *provider) peerWords {
	w := peerWords{
		Dir: srv.program.Dir, Admin: srv.Admin, Addr: srv.Bare, API: srv.Issuer, Upstream: b.upstream.Addr, Helper: srv.Silent,
		Issuer: p.issuer, Audience: externalAudience, Algorithm: algorithm, KeyFile: filepath.Join(srv.program.Dir, "key.pem"),
	}
	w.Host, w.Port, _ = strings.Cut(w.Addr, ":")
	_, w.APIPort, _ = strings.Cut(w.API, ":")
	der := must(x509.MarshalPKIXPublicKey(p.keys[algorithm].key))
	check(os.WriteFile(w.KeyFile, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600))
	return w
}

// refusesForged checks that the server refuses a changed token.
func (b *bench) refusesForged(srv *server, token string) {
	bad := newForger(token).changedSignature("forged", token).requests(srv.Bare)
	bad.Status = 0
	bad.Response = func(_ int, r *load.Response) error {
		if r.Status < http.StatusMultipleChoices {
			return fmt.Errorf("a forged token passes with status %d", r.Status)
		}
		return nil
	}
	must(bad.Send(b.ctx, 1, 1))
}

// in executes a template with the words.
func (w peerWords) in(text string) string {
	var filled strings.Builder
	check(template.Must(template.New("").Parse(text)).Execute(&filled, w))
	return filled.String()
}
