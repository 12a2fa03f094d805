package gate

import (
	"strings"
	"testing"
)

// TestG50ProtocolsInWhichHTTPGoesOn cannot be allowed on any route.
func TestG50ProtocolsInWhichHTTPGoesOn(t *testing.T) {
	for _, protocol := range []string{"h2c", "H2C", "h2", "h2c-14", "h3", "HTTP/2.0", "http", "TLS/1.2", "spdy/3", "h2c/1"} {
		if err := checkUpgrades([]string{"tcp", protocol}); err == nil || !strings.Contains(err.Error(), "further requests past the gate") {
			t.Errorf("%s: %v", protocol, err)
		}
	}
	if err := checkUpgrades([]string{"tcp", "WebSocket", "IRC/6.9", "connect-udp"}); err != nil {
		t.Error(err)
	}
}
