package caddymodule

import (
	"strings"
	"testing"
)

// TestF31APasswordInTheAddressFieldIsNotLogged checks passwords that are typed into the address field, including some that look like
// addresses.
func TestF31APasswordInTheAddressFieldIsNotLogged(t *testing.T) {
	g := startPeople(t)
	b := g.browser()
	p := b.signIn(b.open("/oauth/login"), "Hunter2@Summer-2026!", "x")
	b.signIn(p, "ada@acme.example", "wrong")
	if logs := strings.ToLower(g.logs()); strings.Contains(logs, "hunter2") || !strings.Contains(logs, `"account":"ada@acme.example"`) {
		t.Error("the log holds what was typed, or lacks the account that exists")
	}
}
