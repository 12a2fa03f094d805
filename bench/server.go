package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
	"github.com/gatehouse-auth/gatehouse/bench/internal/proc"
)

// server is a running Caddy with its sites' addresses.
type server struct {
	*proc.Process
	sites
	program proc.Program
	// helper is a process that the server asks about each request; nil: none. What it takes counts as the server's.
	helper *proc.Process
}

// setup is what a server of ours is told beside the defaults. The zero value works.
type setup struct {
	// algorithm signs its tokens; "": ES256.
	algorithm string
	// store stands behind `store`; "": SQLite in the server's directory.
	store string
	// issuer is the URL of the issuer; "": the server's own.
	issuer string
	// trusted are other issuers: the site ProtectedExternal takes the tokens of the first, Mixed those of all and our own.
	trusted []*provider
	// openID makes it an OpenID provider, whose ID tokens are signed with the same algorithm.
	openID bool
	// personal lets people have personal access tokens.
	personal bool
	// gogc is GOGC; 0: what the flags say.
	gogc int
}

// ours starts a Caddy with Gatehouse for the scenario.
func (b *bench) ours(s setup) *server {
	srv := b.newServer(b.caddy, s.gogc)
	srv.configure(oursCaddyfile, b.settings(srv, s))
	check(srv.launch(b.ctx, srv.Issuer))
	return srv
}

func trusting(p ...*provider) setup { return setup{trusted: p} }

// settings fill the Caddyfile of a server of ours.
func (b *bench) settings(srv *server, s setup) words {
	w := b.words(srv)
	w.Store, w.OpenID, w.Personal, w.ExternalAudience = s.store, s.openID, s.personal, externalAudience
	w.IssuerURL, w.Algorithm = cmp.Or(s.issuer, "http://"+srv.Issuer), cmp.Or(s.algorithm, "ES256")
	for _, p := range s.trusted {
		w.Trusted = append(w.Trusted, p.issuer)
	}
	return w
}

// reload gives a server of ours another configuration, while it serves.
func (b *bench) reload(srv *server, s setup) {
	srv.configure(oursCaddyfile, b.settings(srv, s))
	text := must(os.ReadFile(srv.config()))
	if err := proc.Tell(b.ctx, srv.Admin, "/load", "text/caddyfile", text); err != nil {
		check(fmt.Errorf("reloading: %w%s", err, srv.program.LastLines()))
	}
}

// signWith has a server of ours sign with another algorithm from now on. What it has signed before stays good.
func (b *bench) signWith(srv *server, s setup, algorithm string) {
	s.algorithm = algorithm
	b.reload(srv, s)
	check(proc.Tell(b.ctx, srv.Admin, "/oauth/keys/rotate", "application/json", []byte(`{"now":true}`)))
}

// bareCaddy starts a Caddy without Gatehouse, for the scenario. GOGC 0 is what the flags say.
func (b *bench) bareCaddy(gogc int) *server {
	srv := b.newServer(b.bare, gogc)
	srv.configure(bareCaddyfile, b.words(srv))
	check(srv.launch(b.ctx, srv.Respond))
	return srv
}

// newServer prepares a server in a directory of its own. Both go when the scenario ends.
func (b *bench) newServer(program string, gogc int) *server {
	dir := must(os.MkdirTemp(b.dir, "gatehouse-bench-"))
	srv := &server{program: b.program(program)}
	b.cleanup = append(b.cleanup, func() {
		if srv.Process != nil {
			srv.Stop()
		}
		if b.dir == "" {
			_ = os.RemoveAll(dir)
		}
	})
	srv.program.Dir, srv.program.GOGC = dir, cmp.Or(gogc, b.gogc)
	for _, addr := range []*string{
		&srv.Admin, &srv.Bare, &srv.Told, &srv.Respond, &srv.Answer, &srv.SameAnswer, &srv.Issuer, &srv.Protected, &srv.Silent, &srv.ProtectedExternal, &srv.Mixed, &srv.Web, &srv.Posted, &srv.MCP, &srv.Tools,
	} {
		*addr = must(proc.FreeAddress())
	}
	return srv
}

// program is a server's program as the flags say.
func (m *machine) program(path string) proc.Program {
	return proc.Program{Path: path, CPUs: m.servers, Procs: m.procs, GOGC: m.gogc}
}

func (b *bench) words(srv *server) words {
	return words{
		sites: srv.sites, Upstream: b.upstream.Addr,
		Client: clientID, Portal: portalID, Secret: clientSecret, Callback: callback,
		TokenAnswer: strings.Repeat("x", tokenAnswerBytes),
		Email:       userEmail, Hash: userHash, QuickEmail: quickEmail, QuickHash: quickHash,
	}
}

func (s *server) config() string { return filepath.Join(s.program.Dir, "Caddyfile") }

func (s *server) configure(t *template.Template, w words) { fill(s.config(), t, w) }

// launch starts the process and waits until it serves a site. An issuer is ready a moment after Caddy listens. Arguments are those
// of another program than Caddy.
func (s *server) launch(ctx context.Context, site string, arguments ...string) error {
	if arguments == nil {
		arguments = []string{"run", "--adapter", "caddyfile", "--config", s.config()}
	}
	var err error
	if s.Process, err = s.program.Start(ctx, site, arguments...); err != nil || site != s.Issuer {
		return err
	}
	return s.awaitAnswer(ctx, load.Load{Addr: site, Status: http.StatusOK, Request: load.Constant(get(site, "/oauth/ready", "none"))})
}

// awaitAnswer waits until the answer is as expected.
func (s *server) awaitAnswer(ctx context.Context, l load.Load) error {
	err := s.Await(ctx, func() error {
		_, err := l.Send(ctx, 1, 1)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s does not answer as it should: %w%s", s.program.Path, err, s.program.LastLines())
	}
	return nil
}

// CPU is the processor time of the server and of its helper.
func (s *server) CPU() (time.Duration, error) {
	sum, err := s.Process.CPU()
	if err != nil || s.helper == nil {
		return sum, err
	}
	other, err := s.helper.CPU()
	return sum + other, err
}

// Resident is the memory of the server and of its helper.
func (s *server) Resident() (int64, error) {
	sum, err := s.Process.Resident()
	if err != nil || s.helper == nil {
		return sum, err
	}
	other, err := s.helper.Resident()
	return sum + other, err
}

// heap is what the Go runtime has counted, of a server that tells.
func (s *server) heap(ctx context.Context) (proc.Heap, error) {
	if s.Admin == "" {
		return proc.Heap{}, nil
	}
	return proc.ReadHeap(ctx, s.Admin)
}

// liveHeap is what a server's heap holds once it was collected. The profile of the heap collects first.
func (s *server) liveHeap(ctx context.Context) (int64, error) {
	if err := proc.Admin(ctx, s.Admin, "/debug/pprof/heap?gc=1", func(body io.Reader) error {
		_, err := io.Copy(io.Discard, body)
		return err
	}); err != nil {
		return 0, err
	}
	heap, err := proc.ReadHeap(ctx, s.Admin)
	return int64(heap.HeapAlloc), err //nolint:gosec // less than the machine has
}

// fill writes a file from a template.
func fill(file string, t *template.Template, w any) {
	out := must(os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600))
	defer func() { _ = out.Close() }()
	check(t.Execute(out, w))
}
