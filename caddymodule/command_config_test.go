package caddymodule

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// TestCommandFindsTheAdminEndpoint checks that the command finds the endpoint as `caddy reload` does, without Caddy's log messages about
// it.
func TestCommandFindsTheAdminEndpoint(t *testing.T) {
	g := startGatehouse(t, durableSite)
	dir := t.TempDir()
	t.Chdir(dir)
	write := func(name, content string) {
		t.Helper()
		check(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	finds := func(name string, args ...string) {
		t.Helper()
		out, err := runCommand("", append([]string{"client", "list"}, args...)...)
		if err != nil || !strings.Contains(out, "confidential") {
			t.Errorf("%s: %v, it printed %q", name, err, out)
		}
	}
	if _, err := runCommand("", "client", "list", "--config", "missing"); err == nil || !strings.Contains(err.Error(), "give it with --address") {
		t.Errorf("a configuration that is not there: %v", err)
	}
	text := g.vars.Replace(durableSite)
	write("Caddyfile", text)
	finds("a Caddyfile in the working directory")
	write("other.caddyfile", text)
	write("odd.txt", text)
	write("config.json", `{"admin":{"listen":"`+g.admin+`"}}`)
	write("Caddyfile", "{\n\tadmin 127.0.0.1:1\n}\n")
	finds("--config by its extension", "--config", "other.caddyfile")
	finds("--config with --adapter", "--config", "odd.txt", "--adapter", "caddyfile")
	finds("--config of JSON", "--config", "config.json")
	finds("--address alone", "--address", g.admin)
	finds("--address before --config", "--address", g.admin, "--config", "Caddyfile")
	write("Caddyfile", "{\n\tnonsense\n}\n")
	if _, err := runCommand("", "client", "list"); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("a broken Caddyfile: %v", err)
	}
	// In this process Caddy's own log goes to the server's file.
	for _, words := range []string{"using config from file", "using adjacent Caddyfile", "adapted config", "not formatted"} {
		if strings.Contains(g.logs(), words) {
			t.Errorf("it logged: %s", words)
		}
	}
	caddy.Log().Info("this is the usual log")
	if !strings.Contains(g.logs(), "this is the usual log") {
		t.Error("Caddy's own log is not what it was")
	}
}

// TestCommandHelpPointsToOurDocumentation checks that every help text ends with a link to our documentation instead of Caddy's.
func TestCommandHelpPointsToOurDocumentation(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"client", "--help"}, {"client", "update", "--help"}, {"token", "explain", "--help"}, {"status", "-h"}} {
		out, err := runCommand("", args...)
		if err != nil || !strings.HasSuffix(out, "\nhttps://github.com/gatehouse-auth/gatehouse/blob/main/docs/operations.md#the-command-line\n") || strings.Contains(out, "caddyserver.com") {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
}
