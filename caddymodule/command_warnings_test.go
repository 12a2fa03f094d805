package caddymodule

import (
	"strings"
	"testing"
)

// TestClientAddWarnsOfAPrivateLogoutURI checks the warning about a private address, which is absent if such addresses are allowed or the
// address is public.
func TestClientAddWarnsOfAPrivateLogoutURI(t *testing.T) {
	for allowed, openID := range map[bool]string{false: "openid", true: "openid {\n\t\tallow_private_network\n\t}"} {
		g := startGatehouse(t, strings.Replace(strings.ReplaceAll(patSite, "HASH", peopleHash()), "\t\topenid\n", "\t\t"+openID+"\n", 1))
		for uri, private := range map[string]bool{
			"https://127.0.0.1/logout": true, "https://10.0.0.7/logout": true, "https://[::1]/logout": true, "https://[fd00::1]/logout": true,
			"https://localhost/logout": true, "https://192.168.1.2:8443/logout": true, "https://1.1.1.1/logout": false,
		} {
			body := g.must(201, "POST", "/oauth/clients", `{"name":"x","openid":true,"redirect_uris":["https://x.example/cb"],"backchannel_logout_uri":"`+uri+`"}`)
			if warned := strings.Contains(body, "will not be told of sign-outs"); warned != (private && !allowed) {
				t.Errorf("allowed %t, %s: %s", allowed, uri, body)
			}
		}
	}
}
