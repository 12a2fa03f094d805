package main

import (
	"maps"
	"os/exec"
	"strings"
	"testing"
)

// TestBareCaddyHasTheSameDependencies: Gatehouse is built with the versions in its own go.mod, and the bare Caddy
// with those in bench's. Where the versions differ, a comparison would measure the dependency instead of Gatehouse.
func TestBareCaddyHasTheSameDependencies(t *testing.T) {
	theirs, ours := modules(t, "."), modules(t, "..")
	maps.DeleteFunc(theirs, func(path, _ string) bool { return ours[path] == "" }) // only the benchmark needs them
	for path, version := range theirs {
		if version != ours[path] && path != "github.com/gatehouse-auth/gatehouse" {
			t.Errorf("%s is %s in bench and %s in Gatehouse", path, version, ours[path])
		}
	}
	if theirs["github.com/caddyserver/caddy/v2"] == "" {
		t.Error("bench has no Caddy")
	}
}

// modules returns the versions of the modules that provide the packages of the module in dir.
func modules(t *testing.T, dir string) map[string]string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-C", dir, "-deps", "-f", "{{with .Module}}{{.Path}} {{.Version}}{{end}}", "./...")
	list.Stderr = t.Output()
	text, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	versions := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		path, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		versions[path] = version
	}
	return versions
}
