package caddymodule

import (
	"net/http"
	"strings"
	"testing"
)

// TestT174TheKeySetIsPreparedAnewWithEveryChange: JWKS with If-None-Match → 304 while nothing changed, else 200 with the new set.
func TestT174TheKeySetIsPreparedAnewWithEveryChange(t *testing.T) {
	g := startGate(t, strings.Replace(siteWith("", assertingRoutes), "issuer http", "openid\n\t\tissuer http", 1))
	for _, path := range []string{"/oauth/jwks", "/.well-known/oauth-authorization-server", wellKnown} {
		status, header, body := g.get(path, "")
		tag := header.Get("ETag")
		if status != http.StatusOK || tag == "" || header.Get("Cache-Control") != "public, max-age=300" || body == "" {
			t.Fatalf("%s: %d %v %s", path, status, header, body)
		}
		status, header, body = g.do(http.MethodGet, path, "", "If-None-Match", `"another", `+tag)
		if status != http.StatusNotModified || header.Get("ETag") != tag || header.Get("Cache-Control") != "public, max-age=300" || body != "" {
			t.Errorf("%s, still the same: %d %v %s", path, status, header, body)
		}
		if status, header, _ = g.do(http.MethodHead, path, ""); status != http.StatusOK || header.Get("ETag") != tag {
			t.Errorf("HEAD %s: %d %v", path, status, header)
		}
	}
	_, header, _ := g.get("/oauth/jwks", "")
	tag := header.Get("ETag")
	for _, algorithm := range []string{"ES256", "EdDSA"} {
		key := decoded[keyView](t, g.ok("keys", "rotate", "--algorithm", algorithm, "--json"))
		status, header, body := g.do(http.MethodGet, "/oauth/jwks", "", "If-None-Match", tag)
		if status != http.StatusOK || header.Get("ETag") == tag || !strings.Contains(body, `"alg":"`+algorithm+`","kid":"`+key.ID+`"`) {
			t.Errorf("after %s: %d %v %s", algorithm, status, header, body)
		}
		tag = header.Get("ETag")
		g.ok("keys", "revoke", key.ID)
		status, header, body = g.do(http.MethodGet, "/oauth/jwks", "", "If-None-Match", tag)
		if status != http.StatusOK || strings.Contains(body, key.ID) {
			t.Errorf("%s revoked: %d %s", algorithm, status, body)
		}
		tag = header.Get("ETag")
	}
}
