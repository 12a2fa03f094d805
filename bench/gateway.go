package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	clientID     = "bench"
	clientSecret = "2f8c0d3e9a7b4c61850f1d2e3c4b5a69788796a5b4c3d2e1"
	startTimeout = 20 * time.Second
	stopTimeout  = 10 * time.Second
)

// caddyfile is what the gateway serves, a site on a port of its own for each thing that is compared. The store and the
// log are the defaults, because they are what people run; the log goes to a file.
const caddyfile = `{
	admin ADMIN
	persist_config off
	auto_https off
	grace_period 1s
	oauth {
		issuer http://ISSUER
		client CLIENT SECRET {
			grants client_credentials password refresh_token
			scopes public
		}
		password_grant {
			refresh_tokens
		}
		limits {
			login off
		}
		organisation acme
		user u-ada {
			email EMAIL
			password HASH
			organisation acme
		}
	}
}
http://ISSUER {
	bind 127.0.0.1
	oauth_server
}
http://BARE {
	bind 127.0.0.1
	reverse_proxy UPSTREAM
}
http://BARE_AGAIN {
	bind 127.0.0.1
	reverse_proxy UPSTREAM
}
http://PROTECTED {
	bind 127.0.0.1
	protect
	reverse_proxy UPSTREAM
}
http://SILENT {
	bind 127.0.0.1
	protect {
		forward off
	}
	reverse_proxy UPSTREAM
}
http://RESPOND {
	bind 127.0.0.1
	respond 401
}
http://RESPOND_AGAIN {
	bind 127.0.0.1
	respond 401
}
http://SAME_ANSWER {
	bind 127.0.0.1
	header {
		Content-Type "application/json; charset=utf-8"
		Cache-Control no-store
		Pragma no-cache
		Vary Accept
		WWW-Authenticate "Bearer realm=\"http://ISSUER\", error=\"invalid_token\", error_description=\"The access token is invalid\", resource_metadata=\"http://ISSUER/.well-known/oauth-protected-resource\""
	}
	respond "{\"error\":\"invalid_token\",\"error_description\":\"The access token is invalid\"}" 401
}
`

// build builds ./caddy from this checkout, as everybody does.
func build(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "./xcaddy.sh")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building ./caddy (run this from the root of the checkout): %w", err)
	}
	return nil
}

// gateway is a running Caddy with its sites' addresses.
type gateway struct {
	process
	dir                                                                           string // of its files
	issuer, bare, bareAgain, protected, silent, respond, respondAgain, sameAnswer string
	admin                                                                         string
}

// startGateway starts Caddy in a directory of its own.
func startGateway(ctx context.Context, o options, gogc int, upstream string) (*gateway, error) {
	dir, temporary := o.dir, o.dir == ""
	if temporary {
		var err error
		if dir, err = os.MkdirTemp("", "gatehouse-bench-"); err != nil {
			return nil, err
		}
	}
	g := &gateway{dir: dir}
	if temporary {
		g.remove = dir
	}
	replacements := []string{"CLIENT", clientID, "SECRET", clientSecret, "EMAIL", userEmail, "HASH", userHash, "UPSTREAM", upstream}
	for _, site := range []struct {
		word string
		addr *string
	}{
		{"ISSUER", &g.issuer}, {"BARE_AGAIN", &g.bareAgain}, {"BARE", &g.bare}, {"PROTECTED", &g.protected}, {"SILENT", &g.silent},
		{"RESPOND_AGAIN", &g.respondAgain}, {"RESPOND", &g.respond}, {"SAME_ANSWER", &g.sameAnswer},
		{"ADMIN", &g.admin},
	} {
		addr, err := freeAddress()
		if err != nil {
			return nil, err
		}
		*site.addr = addr
		replacements = append(replacements, site.word, addr)
	}
	config := filepath.Join(dir, "Caddyfile")
	if err := os.WriteFile(config, []byte(strings.NewReplacer(replacements...).Replace(caddyfile)), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "caddy.log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()                                                // the child has its own handle
	cmd := exec.Command(o.caddy, "run", "--adapter", "caddyfile", "--config", config) //nolint:gosec // what the flag names
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(o.procs), "GOGC="+strconv.Itoa(gogc),
		"XDG_DATA_HOME="+filepath.Join(dir, "data"), "XDG_CONFIG_HOME="+filepath.Join(dir, "config"))
	if err = g.start(ctx, cmd, g.issuer); err == nil {
		err = g.waitReady(ctx)
	}
	if err != nil {
		g.stop()
		return nil, fmt.Errorf("starting %s: %w%s", o.caddy, err, lastLines(log.Name()))
	}
	return g, nil
}

// waitReady waits until the issuer has its keys: Caddy may listen a moment before.
func (g *gateway) waitReady(ctx context.Context) error {
	keys := load{addr: g.issuer, status: http.StatusOK, request: constant(get(g.issuer, "/oauth/jwks", "none"))}
	var err error
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if _, err = keys.send(ctx, 1, 1); err == nil {
			return nil
		}
	}
	return err
}

// lastLines is the end of a log, for the error of a process that did not start.
func lastLines(file string) string {
	text, err := os.ReadFile(file)
	if err != nil || len(text) == 0 {
		return ""
	}
	return "\n" + string(text[max(0, len(text)-2000):])
}

// process is a child that listens.
type process struct {
	addr   string
	cmd    *exec.Cmd
	exited chan struct{}
	remove string // a directory that goes with the process
}

// start starts the command and waits until it listens at addr.
func (p *process) start(ctx context.Context, cmd *exec.Cmd, addr string) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.addr, p.exited = cmd, addr, make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(p.exited)
	}()
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); {
		select {
		case <-p.exited:
			return errors.New("the process ended")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
		if c, err := net.Dial("tcp", addr); err == nil {
			return c.Close()
		}
	}
	return fmt.Errorf("nothing listens at %s", addr)
}

// stop ends the process, and waits until it has.
func (p *process) stop() {
	if p.cmd != nil && p.cmd.Process != nil {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.exited:
		case <-time.After(stopTimeout):
			_ = p.cmd.Process.Kill()
			<-p.exited
		}
	}
	if p.remove != "" {
		_ = os.RemoveAll(p.remove)
	}
}

// startUpstream starts this very program as the upstream.
func startUpstream(ctx context.Context) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, upstreamCommand, addr) //nolint:gosec // this program
	cmd.Stderr = os.Stderr
	p := new(process)
	if err := p.start(ctx, cmd, addr); err != nil {
		p.stop()
		return nil, fmt.Errorf("starting the upstream: %w", err)
	}
	return p, nil
}

// serveUpstream answers every request with the same small body. The smaller the answer, the larger is protect's share.
func serveUpstream(addr string) error {
	body := []byte(`{"orders":[]}`)
	server := &http.Server{
		Addr: addr, ReadHeaderTimeout: startTimeout,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(body)
		}),
	}
	return server.ListenAndServe()
}

// freeAddress is a loopback address that nobody listened at a moment ago.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}
