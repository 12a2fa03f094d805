package caddymodule

import (
	"os"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
)

// nodeName is the environment variable that makes the test binary a Caddy with Gatehouse in it, for tests that need one
// in a process of its own.
const nodeName = "GATEHOUSE_TEST_NODE"

func TestMain(m *testing.M) {
	if os.Getenv(nodeName) != "" {
		caddycmd.Main()
		return
	}
	os.Exit(m.Run())
}
