package caddymodule

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
)

const openIDMetadata = "/.well-known/openid-configuration"

// siteWithProvider is a site with a provider at PROVIDER for sign-in. LINES are further lines of the provider.
const siteWithProvider = `{
	admin ADMIN
	log {
		output file LOG
		level DEBUG
	}
	oauth {
		issuer http://ADDR
		store memory
		sign_in {
			password
			provider corp PROVIDER {
				client gatehouse written-out-secret
				create
				allow_private_network
				LINES
			}
			github hub https://127.0.0.1:1 {
				client gatehouse written-out-secret
				link verified_email
				allow_private_network
			}
		}
	}
}
http://ADDR {
	oauth_server
}
`

// writeAnswer answers in JSON.
func writeAnswer(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

// sayOpenID makes the provider publish OpenID Connect metadata and refuse every code.
func (p *provider) sayOpenID() {
	p.says(openIDMetadata, func(w http.ResponseWriter, _ *http.Request) {
		writeAnswer(w, http.StatusOK, map[string]any{
			"issuer": p.url, "authorization_endpoint": p.url + "/authorize", "token_endpoint": p.url + "/token", "jwks_uri": p.url + providerJWKS,
			"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
			"id_token_signing_alg_values_supported": []string{"RS256", "ES256"}, "code_challenge_methods_supported": []string{"S256"},
		})
	})
	p.says("/token", func(w http.ResponseWriter, _ *http.Request) {
		writeAnswer(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
	})
}

func withProvider(p *provider, lines string) string {
	return strings.NewReplacer("PROVIDER", p.url, "LINES", lines).Replace(siteWithProvider)
}

// isGood reports whether `status` shows a provider as working.
func (g *gatehouse) isGood(name string) bool {
	out, _ := g.run("", "status")
	return regexp.MustCompile(`(?m)^provider ` + name + ` +good$`).MatchString(out)
}

// TestP92AProviderThatIsAway: a provider down at start, reload or later → nothing waits, `status` and metrics show it, it recovers by
// itself.
func TestP92AProviderThatIsAway(t *testing.T) {
	p := startProvider(t)
	p.sayOpenID()
	p.says(openIDMetadata, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }) // never answers
	g := startGatehouse(t, withProvider(p, ""))
	begun := time.Now()
	g.reload(withProvider(p, "title Corp"))
	if took := time.Since(begun); took > 4*time.Second { // requests to a provider time out after five seconds
		t.Errorf("the reload took %s", took)
	}
	g.awaitServing()
	p.stop()
	g.eventually("status tells of the provider", func() bool { return !g.isGood("corp") })
	if g.measured()[`gatehouse_provider_up{provider="corp"}`] != 0 {
		t.Error("the metric says that the provider is up")
	}
	p.sayOpenID()
	p.start()
	g.eventually("the provider is found again", func() bool { return g.isGood("corp") })
	if g.measured()[`gatehouse_provider_up{provider="corp"}`] != 1 {
		t.Error("the metric says that the provider is down")
	}
}

// TestP93ProvidersOutliveAReload: a reload with the same provider → what it publishes is kept; with another registration → fetched again;
// without it → nothing keeps running.
func TestP93ProvidersOutliveAReload(t *testing.T) {
	p := startProvider(t)
	p.sayOpenID()
	g := startGatehouse(t, withProvider(p, ""))
	fetched := func() int { return p.count(openIDMetadata) }
	g.eventually("the metadata are fetched", func() bool { return fetched() > 0 && p.count(providerJWKS) > 0 })
	pooled := func() int { return len(providers.All()) }
	for _, lines := range []string{"title Corp", "allow email_domain example.com", "link verified_email", "domains example.com\n\t\t\t\tdefault"} {
		g.reload(withProvider(p, lines))
	}
	if n := pooled(); n != 2 {
		t.Errorf("%d providers are in the pool", n)
	}
	before := fetched()
	g.reload(withProvider(p, "scopes openid groups"))
	g.eventually("another registration is another provider", func() bool { return fetched() > before })
	if n := pooled(); n != 2 {
		t.Errorf("%d providers are in the pool after a change", n)
	}
	check(t, caddy.Stop())
	if n := pooled(); n != 0 {
		t.Errorf("%d providers are in the pool in the end", n)
	}
}

// TestP94ProviderListAndTest: `provider test` → each step with what to do, exit 1 where one fails, no secret shown. `provider list` does
// not show the secret either.
func TestP94ProviderListAndTest(t *testing.T) {
	p := startProvider(t)
	p.sayOpenID()
	g := startGatehouse(t, withProvider(p, "default"))
	list := g.ok("provider", "list")
	for _, want := range []string{"corp  openid", p.url, g.url + "/oauth/callback/corp", "hub   github", "https://127.0.0.1:1", g.url + "/oauth/callback/hub"} {
		if !strings.Contains(list, want) {
			t.Errorf("%q is not in:\n%s", want, list)
		}
	}
	if status := g.ok("status"); !regexp.MustCompile(`(?m)^hub .* not tried yet$`).MatchString(list) || !regexp.MustCompile(`(?m)^provider hub +not tried yet$`).MatchString(status) {
		t.Errorf("nobody has tried hub:\n%s\n%s", list, status)
	}
	found := g.ok("provider", "test", "corp")
	for _, want := range []string{"metadata      passed", "keys          passed", "client        passed", "register this redirect URI at the provider: " + g.url + "/oauth/callback/corp"} {
		if !strings.Contains(found, want) {
			t.Errorf("%q is not in:\n%s", want, found)
		}
	}
	p.says("/token", func(w http.ResponseWriter, _ *http.Request) {
		writeAnswer(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
	})
	for name, args := range map[string][]string{
		"a wrong secret":                {"provider", "test", "corp"},
		"a server that does not answer": {"provider", "test", "hub"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := g.run("", args...)
			if err == nil || !strings.Contains(err.Error(), "people cannot sign in at the provider") || !strings.Contains(out, "failed") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	if _, err := g.run("", "provider", "test", "nobody"); err == nil || !strings.Contains(err.Error(), "there is no such provider") {
		t.Errorf("%v", err)
	}
	if !strings.Contains(g.logs(), `"msg":"provider tested","provider":"corp","by":"operator"`) {
		t.Error("the test is not in the audit log")
	}
	if strings.Contains(g.logs(), "written-out-secret") {
		t.Error("the log has the secret")
	}
}
