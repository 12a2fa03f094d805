package caddymodule

import "testing"

// These tests run third-party clients for Node.js. The scripts in testdata/npm contain the checks.

func TestInteropNodeOpenIDClient(t *testing.T) {
	_, given := startInterop(t, interopSite)
	runScript(t, "openid-client.mjs", given)
}

func TestInteropNodeOAuth4WebAPI(t *testing.T) {
	_, given := startInterop(t, interopSite)
	runScript(t, "oauth4webapi.mjs", given)
}

func TestInteropNodeSimpleOAuth2(t *testing.T) {
	_, given := startInterop(t, interopSite)
	runScript(t, "simple-oauth2.mjs", given)
}

func TestInteropNodePassportOAuth2(t *testing.T) {
	_, given := startInterop(t, interopSite)
	runScript(t, "passport-oauth2.mjs", given)
}

// TestInteropNodeQ161TokenExchange: a client library of another language exchanges a token → its checks pass.
func TestInteropNodeQ161TokenExchange(t *testing.T) {
	s := startExchange(t)
	runScript(t, "exchange.mjs", map[string]any{
		"issuer": s.url, "token": s.signIn("read").AccessToken, "secret": s.secretOf("orders"), "audience": "https://stock.internal",
	})
}
