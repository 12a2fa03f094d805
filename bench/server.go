package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"text/template"
	"time"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
	"github.com/gatehouse-auth/gatehouse/bench/internal/proc"
)

const startTimeout = time.Minute

// server is a running Caddy with its sites' addresses.
type server struct {
	*proc.Process
	sites
	dir     string // of its files
	program string
	config  string
	gogc    int
	servers proc.CPUs
	procs   int
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
	// oauth are further lines of the oauth block.
	oauth string
	// external is an issuer whose tokens the site ProtectedExternal takes.
	external *provider
	// partners are issuers whose tokens the site Mixed takes, beside those of our own.
	partners []*provider
	// gogc is GOGC; 0: what the flags say.
	gogc int
}

// ours starts a Caddy with Gatehouse, which ends with the scenario.
func (b *bench) ours(s setup) (*server, error) {
	srv, err := b.newServer(b.caddy, s.gogc)
	if err != nil {
		return nil, err
	}
	if err := srv.configure(oursCaddyfile, b.settings(srv, s)); err != nil {
		return nil, err
	}
	return srv, b.begin(srv, srv.Issuer)
}

// settings fill the Caddyfile of a server of ours.
func (b *bench) settings(srv *server, s setup) words {
	w := b.words(srv)
	w.IssuerURL, w.Store, w.OAuth = "http://"+srv.Issuer, s.store, s.oauth
	if s.issuer != "" {
		w.IssuerURL = s.issuer
	}
	if s.algorithm != "" {
		w.Algorithm = s.algorithm
	}
	w.ExternalAudience = externalAudience
	if s.external != nil {
		w.External = s.external.issuer
	}
	for _, p := range s.partners {
		w.Partners = append(w.Partners, p.issuer)
	}
	return w
}

// bareCaddy starts a Caddy without Gatehouse, which ends with the scenario.
func (b *bench) bareCaddy() (*server, error) { return b.bareWith(0) }

func (b *bench) bareWith(gogc int) (*server, error) {
	srv, err := b.newServer(b.bare, gogc)
	if err != nil {
		return nil, err
	}
	if err := srv.configure(bareCaddyfile, b.words(srv)); err != nil {
		return nil, err
	}
	return srv, b.begin(srv, srv.Respond)
}

// newServer prepares a server in a directory of its own.
func (b *bench) newServer(program string, gogc int) (*server, error) {
	dir, err := os.MkdirTemp(b.dir, "gatehouse-bench-")
	if err != nil {
		return nil, err
	}
	if b.dir == "" {
		b.cleanup = append(b.cleanup, func() { _ = os.RemoveAll(dir) })
	}
	if gogc == 0 {
		gogc = b.gogc
	}
	srv := &server{program: program, dir: dir, config: filepath.Join(dir, "Caddyfile"), gogc: gogc, servers: b.servers, procs: b.procs}
	for _, addr := range []*string{
		&srv.Admin, &srv.Bare, &srv.BareAgain, &srv.Respond, &srv.RespondAgain, &srv.SameAnswer,
		&srv.Issuer, &srv.Protected, &srv.Silent, &srv.ProtectedExternal, &srv.Mixed,
	} {
		if *addr, err = proc.FreeAddress(); err != nil {
			return nil, err
		}
	}
	return srv, nil
}

func (b *bench) words(srv *server) words {
	return words{
		sites: srv.sites, Upstream: b.upstream.Addr, Algorithm: "ES256",
		Client: clientID, Portal: portalID, Secret: clientSecret, Callback: callback,
		Email: userEmail, Hash: userHash, QuickEmail: quickEmail, QuickHash: quickHash,
	}
}

func (s *server) configure(t *template.Template, w words) error {
	file, err := os.OpenFile(s.config, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return t.Execute(file, w)
}

// begin starts the process, and stops it when the scenario ends.
func (b *bench) begin(s *server, site string) error {
	if err := s.launch(b.ctx, site); err != nil {
		return err
	}
	b.cleanup = append(b.cleanup, func() {
		if s.Process != nil { // which is another one by then if it was started again
			s.Stop()
		}
	})
	return nil
}

// launch starts the process and waits until it serves: a site, and where that is an issuer, its keys.
func (s *server) launch(ctx context.Context, site string) error {
	return s.execute(ctx, site, "run", "--adapter", "caddyfile", "--config", s.config)
}

// execute starts the program with its arguments.
func (s *server) execute(ctx context.Context, site string, arguments ...string) error {
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()           // the child has its own handle
	cmd := exec.Command(s.program, arguments...) //nolint:gosec // what the flag names, or what was built here
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(s.procs), "GOGC="+strconv.Itoa(s.gogc), "HOME="+s.dir,
		"XDG_DATA_HOME="+filepath.Join(s.dir, "data"), "XDG_CONFIG_HOME="+filepath.Join(s.dir, "config"))
	if s.Process, err = proc.Start(ctx, cmd, site, s.servers); err == nil && site == s.Issuer {
		err = s.awaitReady(ctx)
	}
	if err != nil {
		return fmt.Errorf("starting %s: %w%s", s.program, err, lastLines(s.log()))
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

func (s *server) log() string { return filepath.Join(s.dir, "caddy.log") }

// awaitReady waits until the issuer calls itself ready: Caddy may listen a moment before.
func (s *server) awaitReady(ctx context.Context) error {
	ready := load.Load{Addr: s.Issuer, Status: http.StatusOK, Request: load.Constant(get(s.Issuer, "/oauth/ready", "none"))}
	var err error
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(time.Millisecond) {
		if _, err = ready.Send(ctx, 1, 1); err == nil {
			return nil
		}
	}
	s.Stop()
	return err
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

// lastLines is the end of a log, for the error of a process that did not start.
func lastLines(file string) string {
	text, err := os.ReadFile(file)
	if err != nil || len(text) == 0 {
		return ""
	}
	return "\n" + string(text[max(0, len(text)-2000):])
}
