package caddymodule

import (
	"net/http"
	"slices"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestT124PagesOfOtherOriginsAtTheIssuer: pages of other origins → metadata and keys for all; token, revocation and
// userinfo for the origins of public clients and `cors_origins`, errors too; the rest for none, and never with
// credentials. No origin may ever send cookies.
func TestT124PagesOfOtherOriginsAtTheIssuer(t *testing.T) {
	g := startPeople(t, "client other other-SECRET {", "client other other-SECRET {\n\t\t\tcors_origins https://named.example http://localhost:3000")
	d := &door{gatehouse: g, client: http.DefaultClient}
	allowed := []string{"https://pub.example", "https://named.example", "http://localhost:3000"}
	others := []string{"https://evil.example", "https://client.example", "https://PUB.example", "https://pub.example:8443", "http://pub.example", "https://pub.example.evil.example", "null", "http://127.0.0.1", ""}
	check := func(t *testing.T, a answer, origin string) {
		t.Helper()
		if got := a.header.Values("Access-Control-Allow-Origin"); origin == "" && got != nil || origin != "" && !slices.Equal(got, []string{origin}) {
			t.Errorf("%d: allowed %q, want %q", a.status, got, origin)
		}
		if got := a.header.Values("Access-Control-Allow-Credentials"); got != nil {
			t.Errorf("credentials: %q", got)
		}
	}
	preflight := func(path, origin, method string) answer {
		return d.send(t, "OPTIONS", path, "", "Origin", origin, "Access-Control-Request-Method", method, "Access-Control-Request-Headers", "authorization, content-type")
	}
	for _, path := range []string{"/oauth/token", "/oauth/revoke"} {
		for _, origin := range allowed {
			a := preflight(path, origin, "POST")
			if check(t, a, origin); a.status != http.StatusNoContent || a.header.Get("Access-Control-Allow-Methods") != "POST" || a.header.Get("Access-Control-Allow-Headers") != "Authorization, *" ||
				!slices.Contains(a.header.Values("Vary"), "Origin") || a.header.Get("Access-Control-Max-Age") == "" {
				t.Errorf("%s for %s: %d %v", path, origin, a.status, a.header)
			}
			a = d.ask(t, path, "grant_type=nonsense&client_id=pub", "Origin", origin)
			if check(t, a, origin); a.status != http.StatusBadRequest || a.header.Get("Access-Control-Expose-Headers") != "WWW-Authenticate, Retry-After" || !slices.Contains(a.header.Values("Vary"), "Origin") {
				t.Errorf("an error of %s for %s: %d %v", path, origin, a.status, a.header)
			}
		}
		for _, origin := range others {
			if a := preflight(path, origin, "POST"); a.status != http.StatusMethodNotAllowed {
				t.Errorf("%s for %q: %d", path, origin, a.status)
			} else {
				check(t, a, "")
			}
			check(t, d.ask(t, path, "grant_type=nonsense&client_id=pub", "Origin", origin), "")
		}
		check(t, d.send(t, "OPTIONS", path, "", "Origin", allowed[0], "Origin", allowed[1], "Access-Control-Request-Method", "POST"), "")
		if a := d.send(t, "OPTIONS", path, "", "Origin", allowed[0]); a.status != http.StatusMethodNotAllowed {
			t.Errorf("no preflight: %d", a.status)
		}
	}
	for _, path := range []string{"/oauth/jwks", "/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/api"} {
		for _, origin := range append(others[:len(others)-1:len(others)-1], allowed...) {
			if a := preflight(path, origin, "GET"); a.status != http.StatusNoContent {
				t.Errorf("%s for %s: %d", path, origin, a.status)
			} else {
				check(t, a, "*")
			}
			if a := d.send(t, "GET", path, "", "Origin", origin); a.status != http.StatusOK {
				t.Errorf("%s: %d", path, a.status)
			} else {
				check(t, a, "*")
			}
		}
	}
	for _, path := range []string{"/oauth/authorize", "/oauth/login", "/oauth/consent", "/oauth/logout", "/oauth/account", "/oauth/introspect", "/oauth/token/info", "/oauth/nothing", "/api/v1/organisations/me/users/u-max/access_tokens"} {
		for _, method := range []string{"OPTIONS", "GET", "POST"} {
			check(t, d.send(t, method, path, "", "Origin", allowed[0], "Access-Control-Request-Method", "POST"), "")
		}
	}
	t.Run("a client that is added and removed", func(t *testing.T) {
		check(t, preflight("/oauth/token", "https://new.example", "POST"), "")
		d.register(t, store.Client{ID: "new", Type: store.PublicClient, RedirectURIs: []string{"https://NEW.example:443/cb"}})
		check(t, preflight("/oauth/token", "https://new.example", "POST"), "https://new.example")
		if err := d.app().registry.Clients.RemoveClient(t.Context(), "new"); err != nil {
			t.Fatal(err)
		}
		check(t, preflight("/oauth/token", "https://new.example", "POST"), "")
	})
}
