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

// server is a running Caddy with the addresses of its sites.
type server struct {
	*proc.Process
	sites
	program proc.Program
	// helper is a process that the server calls for each request; nil: none. Its cost counts as the server's.
	helper *proc.Process
}

// setup configures a server of ours. The zero value means the defaults.
type setup struct {
	// algorithm signs its tokens; "": ES256.
	algorithm string
	// store is the argument of `store`; "": SQLite in the server's directory.
	store string
	// issuer is the URL of the issuer; "": the server's own.
	issuer string
	// trusted are other issuers. The site ProtectedExternal accepts the tokens of the first; Mixed accepts those of
	// all and our own.
	trusted []*provider
	// openID makes it an OpenID provider that signs ID tokens with the same algorithm.
	openID bool
	// personal enables personal access tokens.
	personal bool
	// gogc is GOGC; 0: the value of the flag.
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

// settings returns the parameters of the Caddyfile of a server of ours.
func (b *bench) settings(srv *server, s setup) words {
	w := b.words(srv)
	w.Store, w.OpenID, w.Personal, w.ExternalAudience = s.store, s.openID, s.personal, externalAudience
	w.IssuerURL, w.Algorithm = cmp.Or(s.issuer, "http://"+srv.Issuer), cmp.Or(s.algorithm, "ES256")
	for _, p := range s.trusted {
		w.Trusted = append(w.Trusted, p.issuer)
	}
	return w
}

// reload loads another configuration into a server of ours while it serves.
func (b *bench) reload(srv *server, s setup) {
	srv.configure(oursCaddyfile, b.settings(srv, s))
	text := must(os.ReadFile(srv.config()))
	if err := proc.Tell(b.ctx, srv.Admin, "/load", "text/caddyfile", text); err != nil {
		check(fmt.Errorf("reloading: %w%s", err, srv.program.LastLines()))
	}
}

// signWith makes a server of ours sign with another algorithm. Tokens that it has signed before remain valid.
func (b *bench) signWith(srv *server, s setup, algorithm string) {
	s.algorithm = algorithm
	b.reload(srv, s)
	check(proc.Tell(b.ctx, srv.Admin, "/oauth/keys/rotate", "application/json", []byte(`{"now":true}`)))
}

// bareCaddy starts a Caddy without Gatehouse for the scenario. A gogc of 0 means the value of the flag.
func (b *bench) bareCaddy(gogc int) *server {
	srv := b.newServer(b.bare, gogc)
	srv.configure(bareCaddyfile, b.words(srv))
	check(srv.launch(b.ctx, srv.Respond))
	return srv
}

// newServer prepares a server in its own directory. Both are removed when the scenario ends.
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

// program returns a server's program with the settings of the flags.
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

// launch starts the process and waits until it serves a site. An issuer is ready a moment after Caddy listens. The
// arguments are for programs other than Caddy.
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

// CPU returns the processor time of the server and of its helper.
func (s *server) CPU() (time.Duration, error) {
	sum, err := s.Process.CPU()
	if err != nil || s.helper == nil {
		return sum, err
	}
	other, err := s.helper.CPU()
	return sum + other, err
}

// Resident returns the memory of the server and of its helper.
func (s *server) Resident() (int64, error) {
	sum, err := s.Process.Resident()
	if err != nil || s.helper == nil {
		return sum, err
	}
	other, err := s.helper.Resident()
	return sum + other, err
}

// heap returns the counters of the Go runtime, of a server that publishes them.
func (s *server) heap(ctx context.Context) (proc.Heap, error) {
	if s.Admin == "" {
		return proc.Heap{}, nil
	}
	return proc.ReadHeap(ctx, s.Admin)
}

// liveHeap returns the size of a server's heap after a garbage collection. Requesting the heap profile runs the
// collection.
func (s *server) liveHeap(ctx context.Context) (int64, error) {
	if err := proc.Admin(ctx, s.Admin, "/debug/pprof/heap?gc=1", func(body io.Reader) error {
		_, err := io.Copy(io.Discard, body)
		return err
	}); err != nil {
		return 0, err
	}
	heap, err := proc.ReadHeap(ctx, s.Admin)
	return int64(heap.HeapAlloc), err //lint:ignore gosec less than the machine has
}

// fill writes a file from a template.
func fill(file string, t *template.Template, w any) {
	out := must(os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600))
	defer func() { _ = out.Close() }()
	check(t.Execute(out, w))
}
