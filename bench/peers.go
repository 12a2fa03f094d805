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
	"time"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
)

// peer is somebody else's way to let tokens of an issuer pass to a service.
type peer struct {
	name string
	// module is what is built; one without a path is a bare Caddy.
	module module
	// algorithms are those that it verifies as it is configured here.
	algorithms []string
	// files are what it reads, filled with peerWords.
	files map[string]string
	// arguments start it.
	arguments []string
	// asks: it asks the small verifier about each request.
	asks bool
}

// peerWords are what files and arguments of a peer are filled with.
type peerWords struct {
	Dir, Admin, Addr, API, Upstream, Helper string
	Host, Port, APIPort                     string
	Issuer, Audience, Algorithm, KeyFile    string
}

// peers holds others beside a bare Caddy and ours: the same tokens of the same issuer, which all of them have to verify.
func (b *bench) peers() error {
	p, err := b.startProvider()
	if err != nil {
		return err
	}
	bare, err := b.bareCaddy()
	if err != nil {
		return err
	}
	ours, err := b.ours(setup{external: p})
	if err != nil {
		return err
	}
	var sides []side
	for _, algorithm := range []string{"ES256", "RS256"} {
		some, err := b.peerSides(algorithm, bare, ours, p)
		if err != nil {
			return err
		}
		sides = append(sides, some...)
	}
	if _, err := b.compare(sides...); err != nil {
		return err
	}
	b.report.Note("All take the tokens of the same issuer: %d in turn, or new ones, each once. None has an access log.", min(1000, b.tokens))
	return b.peerIssuers()
}

// peerSides are all sides for one algorithm. A peer that cannot be built or does not let a good token pass is left out, and the report
// says why.
func (b *bench) peerSides(algorithm string, bare, ours *server, p *provider) ([]side, error) {
	tokens, err := p.tokens(algorithm, min(1000, b.tokens))
	if err != nil {
		return nil, err
	}
	base := "bare Caddy, " + algorithm
	requests := max(100, b.requests/2)
	sides := []side{
		{name: base, on: bare, load: orders(bare.Bare, tokens), requests: requests},
		{name: base + " again (control)", against: base, on: bare, load: orders(bare.BareAgain, tokens), requests: requests},
	}
	add := func(name string, on *server, site string) {
		sides = append(sides,
			side{name: name + ", " + algorithm, against: base, on: on, load: orders(site, tokens), requests: requests},
			side{name: name + ", " + algorithm + ", each token once", against: base, on: on, requests: max(100, requests/4), prepare: func(count int) (load.Load, error) {
				fresh, err := p.tokens(algorithm, count)
				return orders(site, fresh), err
			}})
	}
	add("Gatehouse", ours, ours.ProtectedExternal)
	for _, one := range gatePeers {
		if !slices.Contains(one.algorithms, algorithm) {
			continue
		}
		srv, err := b.startPeer(one, algorithm, p, tokens[0])
		if err != nil {
			b.report.Note("%s, %s, is left out: %v", one.name, algorithm, err)
			continue
		}
		add(strings.TrimSpace(one.name+" "+one.module.version), srv, srv.Bare)
	}
	return sides, nil
}

// startPeer builds and starts one, and waits until it lets a good token pass, and a bad one not.
func (b *bench) startPeer(one peer, algorithm string, p *provider, token string) (*server, error) {
	program := b.bare
	if one.module.path != "" {
		var err error
		if program, err = one.module.program(b.ctx); err != nil {
			return nil, err
		}
	}
	srv, err := b.newServer(program, 0)
	if err != nil {
		return nil, err
	}
	w, err := b.peerWords(srv, algorithm, p)
	if err != nil {
		return nil, err
	}
	if one.asks {
		if err := b.startVerifier(srv, w); err != nil {
			return nil, err
		}
	}
	for name, text := range one.files {
		if err := fill(filepath.Join(srv.dir, name), text, w); err != nil {
			return nil, err
		}
	}
	arguments := make([]string, len(one.arguments))
	for i, text := range one.arguments {
		if arguments[i], err = expand(text, w); err != nil {
			return nil, err
		}
	}
	if err := srv.execute(b.ctx, srv.Bare, arguments...); err != nil {
		return nil, err
	}
	b.cleanup = append(b.cleanup, srv.Stop)
	if one.module.path != "" && !strings.Contains(one.module.path, "caddy") {
		srv.Admin = "" // which is Caddy's
	}
	return srv, b.awaitPeer(srv, token)
}

// peerWords are the words for one that takes tokens of the provider. Its only site is Bare.
func (b *bench) peerWords(srv *server, algorithm string, p *provider) (peerWords, error) {
	w := peerWords{
		Dir: srv.dir, Admin: srv.Admin, Addr: srv.Bare, API: srv.Issuer, Upstream: b.upstream.Addr, Helper: srv.Silent,
		Issuer: p.issuer, Audience: externalAudience, Algorithm: algorithm, KeyFile: filepath.Join(srv.dir, "key.pem"),
	}
	w.Host, w.Port, _ = strings.Cut(w.Addr, ":")
	_, w.APIPort, _ = strings.Cut(w.API, ":")
	der, err := x509.MarshalPKIXPublicKey(p.keys[algorithm].key)
	if err != nil {
		return w, err
	}
	return w, os.WriteFile(w.KeyFile, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600)
}

// startVerifier starts this very program as what a Caddy asks by forward_auth.
func (b *bench) startVerifier(srv *server, w peerWords) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	helper := &server{program: self, dir: srv.dir, gogc: srv.gogc, servers: srv.servers, procs: srv.procs}
	if err := helper.execute(b.ctx, w.Helper, verifierCommand, w.Helper, w.KeyFile, w.Issuer, w.Algorithm); err != nil {
		return err
	}
	b.cleanup = append(b.cleanup, helper.Stop)
	srv.helper = helper.Process
	return nil
}

// awaitPeer waits until a good token passes, and then makes sure that a changed one does not.
func (b *bench) awaitPeer(srv *server, token string) error {
	good := orders(srv.Bare, []string{token})
	var err error
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline) && b.ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		if _, err = good.Send(b.ctx, 1, 1); err == nil {
			return b.refusesForged(srv, token)
		}
	}
	return fmt.Errorf("a good token does not pass: %w%s", err, lastLines(srv.log()))
}

func (b *bench) refusesForged(srv *server, token string) error {
	f, err := newForger(token)
	if err != nil {
		return err
	}
	bad := f.changedSignature("forged", token).requests(srv.Bare)
	bad.Status = 0
	bad.Response = func(_ int, r *load.Response) error {
		if r.Status < http.StatusMultipleChoices {
			return fmt.Errorf("a forged token passes with status %d", r.Status)
		}
		return nil
	}
	_, err = bad.Send(b.ctx, 1, 1)
	return err
}

func fill(file, text string, w any) error {
	filled, err := expand(text, w)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(filled), 0o600)
}

func expand(text string, w any) (string, error) {
	t, err := template.New("").Parse(text)
	if err != nil {
		return "", err
	}
	var filled strings.Builder
	err = t.Execute(&filled, w)
	return filled.String(), err
}
