package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// bareFlags are the flags of xcaddy.sh, without the name of the build.
var bareFlags = []string{"-trimpath", "-tags=nobadger,nomysql,nopgx", "-ldflags=-w -s"}

// build builds the programs that the flags do not name, from this checkout: ./caddy as users build it, and a Caddy
// without Gatehouse.
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

// bareName returns the file name of a bare Caddy. It encodes the versions it is built from, so another version is
// another file.
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
	cmd := exec.CommandContext(ctx, name, arguments...)
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}

// module is a package of another project at a version.
type module struct{ path, version, pkg string }

// program builds the package as its authors have released it, with the versions of the dependencies that they have
// chosen, and returns its file in dist/bench. It does not build a package twice.
func (m module) program(ctx context.Context) (string, error) {
	name := fmt.Sprintf("%s-%s-%s", strings.ReplaceAll(strings.TrimPrefix(m.path, "github.com/"), "/", "-"), m.version, runtime.Version())
	file, err := filepath.Abs(filepath.Join("dist", "bench", name))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	source, err := m.source(ctx)
	if err != nil {
		return "", err
	}
	build := exec.CommandContext(ctx, "go", slices.Concat([]string{"build"}, bareFlags, []string{"-o", file, m.pkg})...) //lint:ignore gosec go
	build.Dir, build.Stdout, build.Stderr = source, os.Stderr, os.Stderr
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("building %s: %w", m.path, err)
	}
	return file, nil
}

// source downloads the module and returns its directory. The go command verifies its checksum.
func (m module) source(ctx context.Context) (string, error) {
	download := exec.CommandContext(ctx, "go", "mod", "download", "-json", m.path+"@"+m.version) //lint:ignore gosec go
	// The build runs outside this module, which keeps a peer's dependencies out of ours.
	download.Dir, download.Env = os.TempDir(), append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	text, err := download.Output()
	var answer struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(text, &answer); jsonErr == nil && answer.Error != "" {
		return "", fmt.Errorf("downloading %s: %s", m.path, answer.Error)
	}
	if err != nil || answer.Dir == "" {
		return "", fmt.Errorf("downloading %s: %w", m.path, err)
	}
	return answer.Dir, nil
}
