package caddymodule

import (
	"net/http"
	"strings"
	"testing"
)

// TestPublishedDocumentsAreRevalidated: whoever has a document asks whether it is still the one, and gets it again only when it is another.
func TestPublishedDocumentsAreRevalidated(t *testing.T) {
	g := startGate(t, site)
	tags := make(map[string]string)
	documents := []string{"/oauth/jwks", "/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource"}
	for _, path := range documents {
		status, header, body := g.get(path, "")
		tag := header.Get("ETag")
		if status != http.StatusOK || tag == "" || header.Get("Cache-Control") != "public, max-age=300" || body == "" {
			t.Fatalf("%s: %d %v %s", path, status, header, body)
		}
		tags[path] = tag
		status, header, body = g.do(http.MethodGet, path, "", "If-None-Match", `"another", `+tag)
		if status != http.StatusNotModified || header.Get("ETag") != tag || header.Get("Cache-Control") != "public, max-age=300" || body != "" {
			t.Errorf("%s, still the same: %d %v %s", path, status, header, body)
		}
		if status, header, _ = g.do(http.MethodHead, path, ""); status != http.StatusOK || header.Get("ETag") != tag {
			t.Errorf("HEAD %s: %d %v", path, status, header)
		}
	}
	g.reload(siteWith("", assertingRoutes))
	status, header, body := g.do(http.MethodGet, "/oauth/jwks", "", "If-None-Match", tags["/oauth/jwks"])
	if status != http.StatusOK || header.Get("ETag") == tags["/oauth/jwks"] || body == "" {
		t.Errorf("with other keys: %d %v %s", status, header, body)
	}
}

// TestT174TheKeySetIsPreparedAnewWithEveryChange: JWKS with If-None-Match → 304 while nothing changed, else 200 with the new set.
func TestT174TheKeySetIsPreparedAnewWithEveryChange(t *testing.T) {
	for name, routes := range map[string]string{"T174 with assertions": assertingRoutes, "T174 without": `	respond 200`} {
		t.Run(name, func(t *testing.T) {
			g := startGate(t, strings.Replace(siteWith("", routes), "issuer http", "openid\n\t\tissuer http", 1))
			_, header, _ := g.get("/oauth/jwks", "")
			tag := header.Get("ETag")
			for _, algorithm := range []string{"ES256", "RS256", "EdDSA"} {
				if status, _, _ := g.do(http.MethodGet, "/oauth/jwks", "", "If-None-Match", tag); status != http.StatusNotModified {
					t.Errorf("before: %d", status)
				}
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
		})
	}
}
