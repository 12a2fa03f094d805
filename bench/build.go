package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
)

// bareFlags are those of xcaddy.sh, without the name of the build.
var bareFlags = []string{"-trimpath", "-tags=nobadger,nomysql,nopgx", "-ldflags=-w -s"}

// build builds what the flags do not name, from this checkout: ./caddy as everybody does, and a Caddy without Gatehouse.
func build(ctx context.Context, o *options) error {
	if o.caddy == "" {
		o.caddy = "./caddy"
		if err := command(ctx, nil, "./xcaddy.sh"); err != nil {
			return fmt.Errorf("building ./caddy (run this from the root of the checkout): %w", err)
		}
	}
	if o.bare != "" || o.check {
		return nil
	}
	name, err := bareName(ctx)
	if err != nil {
		return err
	}
	if o.bare, err = filepath.Abs(filepath.Join("dist", "bench", name)); err != nil {
		return err
	}
	if _, err := os.Stat(o.bare); err == nil {
		return nil
	}
	if err := command(ctx, []string{"CGO_ENABLED=0", "GOWORK=off"}, "go", slices.Concat([]string{"build", "-C", "bench"}, bareFlags, []string{"-o", o.bare, "./internal/barecaddy"})...); err != nil {
		return fmt.Errorf("building a bare Caddy: %w", err)
	}
	return nil
}

// bareName is the name of the file of a bare Caddy: what it is made of. So another version is another file.
func bareName(ctx context.Context) (string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-C", "bench", "-m", "-f", "{{.Version}}", "github.com/caddyserver/caddy/v2")
	list.Stderr = os.Stderr
	version, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("asking for the version of Caddy (run this from the root of the checkout): %w", err)
	}
	sums, err := os.ReadFile("bench/go.sum")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("caddy-%s-%s-%.4x", bytes.TrimSpace(version), runtime.Version(), sha256.Sum256(sums)), nil
}

func command(ctx context.Context, environment []string, name string, arguments ...string) error {
	cmd := exec.CommandContext(ctx, name, arguments...) //nolint:gosec // this checkout's own script, and go
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}
