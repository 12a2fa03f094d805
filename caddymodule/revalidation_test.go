package caddymodule

import (
	"net/http"
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
