package caddymodule

import (
	"fmt"
	"os"
	"testing"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/caddyserver/certmagic"

	"github.com/gatehouse-auth/gatehouse/internal/machine"
)

// nodeName is the environment variable that makes the test binary run as a Caddy with Gatehouse, for tests that need
// one in another process.
const nodeName = "GATEHOUSE_TEST_NODE"

func TestMain(m *testing.M) {
	if os.Getenv(nodeName) != "" {
		caddycmd.Main()
		return
	}
	machine.Watch()
	os.Exit(run(m))
}

// testsHome is the data directory of the tests, which is removed after them. A node records there how far its
// database had come.
var testsHome string

// run creates testsHome and runs the tests.
func run(m *testing.M) int {
	home, err := os.MkdirTemp("", "gatehouse-home-")
	if err == nil {
		testsHome = home
		defer func() { _ = os.RemoveAll(home) }()
		err = os.Setenv("XDG_DATA_HOME", home)
		caddy.DefaultStorage = &certmagic.FileStorage{Path: home} // the default was computed when the process started
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
