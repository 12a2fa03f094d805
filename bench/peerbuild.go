package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// module is a program of somebody else's: which version, and which package of it.
type module struct{ path, version, pkg string }

// program builds what its authors have released, with the versions of everything that they have chosen, and returns its file in
// dist/bench. What was built once is not built again.
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
	build := exec.CommandContext(ctx, "go", slices.Concat([]string{"build"}, bareFlags, []string{"-o", file, m.pkg})...) //nolint:gosec // go
	build.Dir, build.Stdout, build.Stderr = source, os.Stderr, os.Stderr
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("building %s: %w", m.path, err)
	}
	return file, nil
}

// source downloads the module, whose sum the go command checks, and returns its directory.
func (m module) source(ctx context.Context) (string, error) {
	download := exec.CommandContext(ctx, "go", "mod", "download", "-json", m.path+"@"+m.version) //nolint:gosec // go
	// Outside of this module: what somebody else needs is no dependency of ours.
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
