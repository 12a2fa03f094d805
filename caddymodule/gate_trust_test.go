package caddymodule

import (
	"encoding/json"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
)

// Tokens of other issuers. A different verifier checks them, so these tests show again, through a whole Caddy, that it is as strict.

// TestTrustedTokensPass checks trusted tokens with and without an issuer of our own. Package trust tests every algorithm.
func TestTrustedTokensPass(t *testing.T) {
	for kind, site := range map[string]string{"beside our own issuer": trustSite, "gate only": gateOnly(trustSite)} {
		t.Run(kind, func(t *testing.T) {
			p := startProvider(t)
			g := startTrustGate(t, p, site)
			token := g.watched(g.forger().claiming(map[string]any{
				"sub": "ada", "client_id": "app", "scope": "orders.read", "role": []string{"boss", "clerk"}, "department": "sales",
			}))
			seen := g.passed(t, g.request("GET", "/any/x", bearer(token), "X-Auth-Issuer: http://evil", "x_auth_issuer: http://evil"))
			seen.has(t, "X-Auth-Subject", "ada").has(t, "X-Auth-Client", "app").has(t, "X-Auth-Scope", "orders.read").has(t, "X-Auth-Role", "boss clerk")
			seen.has(t, "X-Auth-Issuer", p.url).has(t, "Authorization")
		})
	}
}

// TestG87NoIssuersKeySignsForAnother: a token signed with issuer A's key whose iss is B → 401, for all pairs.
func TestG87NoIssuersKeySignsForAnother(t *testing.T) {
	p := startProvider(t)
	other := startProvider(t)
	g := startTrustGate(t, p, strings.Replace(trustSite, "\t}\n}\n\nhttp://ADDR {",
		"\t\ttrust partner "+other.url+" {\n\t\t\taudience http://ADDR\n\t\t\tallow_private_network\n\t\t}\n\t}\n}\n\nhttp://ADDR {\n"+
			"\thandle /all/* {\n\t\tprotect {\n\t\t\tissuer self corp partner\n\t\t}\n\t\treverse_proxy UPSTREAM\n\t}", 1))
	signers := map[string]*forger{"self": g.gateway.forger(), "corp": g.forger(), "partner": other.signer()}
	for _, f := range signers {
		f.audience = g.url
	}
	for who, f := range signers {
		g.passed(t, g.request("GET", "/all/x", bearer(g.watched(f.good()))))
		for claimed, c := range signers {
			if claimed == who {
				continue
			}
			t.Run(who+" as "+claimed, func(t *testing.T) {
				forged := *f
				forged.issuer = c.issuer
				g.refused(t, g.request("GET", "/all/x", bearer(g.watched(forged.good()))), 401)
				forged.kid = c.kid // the key is looked up among the issuer's own
				g.refused(t, g.request("GET", "/all/x", bearer(g.watched(forged.good()))), 401)
			})
		}
	}
	t.Run("issuers of other routes", func(t *testing.T) {
		for path, f := range map[string]*forger{"/any/x": signers["partner"], "/both/x": signers["partner"], "/own/x": signers["corp"]} {
			g.refused(t, g.request("GET", path, bearer(g.watched(f.good()))), 401)
		}
		g.refused(t, g.request("GET", "/any/x", bearer(g.watched(signers["self"].good()))), 401)
		g.passed(t, g.request("GET", "/both/x", bearer(g.watched(signers["self"].good()))))
		g.passed(t, g.request("GET", "/both/x", bearer(g.watched(signers["corp"].good()))))
	})
}

// TestG13To40OfATrustedIssuer: the forgeries of G13 to G40 with another issuer's keys → 401. Package token tests each.
func TestG13To40OfATrustedIssuer(t *testing.T) {
	setClock(t)
	p := startProvider(t)
	g := startTrustGate(t, p, trustSite)
	f := g.forger()
	g.refused(t, g.request("GET", "/any/x", bearer(g.watched(f.with(map[string]any{"alg": "none", "jku": p.url + "/evil"})))), 401)
	if got := p.count("/evil"); got != 0 {
		t.Errorf("a reference in a token was followed %d times", got)
	}
	t.Run("G39 audience of the route", func(t *testing.T) {
		g.refused(t, g.request("GET", "/other/x", bearer(g.watched(f.good()))), 401)
		token := g.watched(f.claiming(map[string]any{"aud": []string{"x", "https://other.example"}}))
		g.passed(t, g.request("GET", "/other/x", bearer(token)))
		g.refused(t, g.request("GET", "/any/x", bearer(token)), 401) // cached, and decided again
	})
}

// TestG89TheProviderIsAway: a provider's outage: known keys → served, our own tokens too; a cold start with a snapshot → served. Package trust
// tests keys that were never seen and keys that are stale.
func TestG89TheProviderIsAway(t *testing.T) {
	p := startProvider(t)
	g := startTrustGate(t, p, trustSite, "max_stale 1h")
	known := g.watched(g.forger().claiming(map[string]any{"exp": node.Clock().Unix() + 36000}))
	g.passed(t, g.request("GET", "/any/x", bearer(known)))
	g.eventually("the keys are kept for a start without the provider", func() bool {
		kept, _ := filepath.Glob(filepath.Join(filepath.Dir(g.logFile), "storage", "*", "*"))
		return slices.ContainsFunc(kept, func(file string) bool { // a file that is being written has a number as its name
			_, err := strconv.Atoi(filepath.Base(file))
			return err != nil
		})
	})
	p.stop()
	t.Run("our own tokens and other sites", func(t *testing.T) {
		g.passed(t, g.request("GET", "/own/x", bearer(g.watched(g.token()))))
		g.passed(t, g.request("GET", "/both/x", bearer(g.watched(g.token()))))
		answerOf(g.get("/nothing", "")).is(t, http.StatusNotFound, "another route")
	})
	t.Run("cold start with a snapshot", func(t *testing.T) {
		g.restart(trusting(p, trustSite, "max_stale 1h"))
		g.passed(t, g.request("GET", "/any/x", bearer(known)))
	})
}

func TestG90OpaqueTokens(t *testing.T) {
	setClock(t)
	p := startProvider(t)
	site := strings.Replace(trustSite, "protect trusted {\n\t\t\tissuer self corp", "protect trusted {\n\t\t\tissuer corp", 1)
	g := startTrustGate(t, p, site, "introspection "+p.url+"/introspect {", "\tclient gateway gateway-secret", "\tcache 10s", "}")
	said := func(changes map[string]any) map[string]any {
		members := make(map[string]any)
		text := changed(map[string]any{
			"active": true, "sub": "ada", "client_id": "app", "aud": g.url, "scope": "public", "token_type": "Bearer", "exp": node.Clock().Unix() + 3600, "department": "sales",
		}, changes)
		check(t, json.Unmarshal([]byte(text), &members))
		return members
	}
	opaque := g.watched(p.knows("opaque-8f14e45fceea167a5a36dedd4bea2543", said(nil)))
	for _, path := range []string{"/any/x", "/both/x"} {
		g.passed(t, g.request("GET", path, bearer(opaque))).has(t, "X-Auth-Subject", "ada").has(t, "X-Auth-Issuer", p.url)
	}
	if asked := p.count(providerIntrospect); asked != 1 {
		t.Errorf("asked %d times, want once", asked)
	}
	t.Run("decided again on every hit", func(t *testing.T) {
		g.refused(t, g.request("GET", "/trusted/x", bearer(opaque)), 403)
		g.refused(t, g.request("GET", "/other/x", bearer(opaque)), 401)
	})
	inactive := g.watched(p.knows("opaque-c9f0f895fb98ab9159f51fd0297e236d", said(map[string]any{"active": false})))
	g.refused(t, g.request("GET", "/any/x", bearer(inactive)), 401)
	g.refused(t, g.request("GET", "/own/x", bearer(opaque)), 401)
}

// TestStatusOfAGateThatIssuesNothing checks that the gate is ready even if a trusted issuer is down, that the status reports it, and that commands about
// clients, keys and users say why there are none.
func TestStatusOfAGateThatIssuesNothing(t *testing.T) {
	p := startProvider(t)
	g := startTrustGate(t, p, gateOnly(trustSite))
	g.awaitKeys()
	answerOf(g.operate(http.MethodGet, "/oauth/ready", "")).is(t, http.StatusOK, "ready")
	if s := toldStatus(t, g.ok("status", "--json")); !s.Ready || s.Own != nil || s.Trust["corp"] != "" || len(s.Trust) != 1 {
		t.Errorf("status: %+v", s)
	}
	if out := g.ok("status"); !regexp.MustCompile(`(?m)^trust corp +good$`).MatchString(out) {
		t.Errorf("status:\n%s", out)
	}
	p.says(providerJWKS, func(w http.ResponseWriter, _ *http.Request) {
		unfit := maps.Clone(p.jwks()[0])
		unfit["kid"], unfit["use"], unfit["x"], unfit["y"] = "odd\x1b[31m", "enc", "", ""
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": append(p.jwks(), unfit)})
	})
	g.restart(trusting(p, gateOnly(trustSite)))
	g.eventually("the keys are known", func() bool {
		keys := toldStatus(t, g.ok("status", "--json")).TrustKeys["corp"]
		return keys.JWKSURI == p.url+providerJWKS && len(keys.Keys) == 2 && keys.Keys[0].Unusable == "" && keys.Keys[1].Unusable != ""
	})
	if out := g.ok("status"); !regexp.MustCompile(`(?m)^trust corp key key-0-\w+ +EC P-256 for ES256$`).MatchString(out) ||
		!regexp.MustCompile(`(?m)^trust corp key odd\\u001b\[31m +unusable: the key's use is "enc", not sig$`).MatchString(out) {
		t.Errorf("status:\n%s", out)
	}
	if _, _, text := g.operate(http.MethodGet, "/metrics", ""); !strings.Contains(text, `gatehouse_trusted_issuer_up{trust="corp"} 1`) ||
		strings.Contains(text, "gatehouse_store_up") {
		t.Errorf("metrics:\n%s", text)
	}
	for _, args := range [][]string{
		{"client", "list"}, {"client", "show", "x"}, {"client", "add", "--name", "x"}, {"user", "list"}, {"org", "list"},
		{"keys", "list"}, {"keys", "rotate"}, {"token", "mint", "--client", "x"}, {"token", "revoke", "--jti", "x"},
		{"backup", g.vars.Replace("DIR/backup.db")},
	} {
		out, err := g.run("", args...)
		if err == nil || out != "" || !strings.HasPrefix(err.Error(), "this Caddy has no issuer of its own") {
			t.Errorf("%v: %v %s", args, err, out)
		}
	}
	g.must(http.StatusConflict, http.MethodGet, "/oauth/clients", ``)
	answerOf(g.operateAs("text/plain", http.MethodPost, "/oauth/tokens/explain", `{"token":"x"}`)).is(t, http.StatusUnsupportedMediaType, "from a web page")
	g.must(http.StatusBadRequest, http.MethodPost, "/oauth/tokens/explain", `{"tokn":"x"}`)
}

// TestG71StreamsOfATrustedIssuer checks that streams end when the token expires, also while the issuer is away, when the key is withdrawn and when
// introspection says inactive. A temporary outage of the issuer ends none.
func TestG71StreamsOfATrustedIssuer(t *testing.T) {
	for _, kind := range []string{"websocket", "events"} {
		t.Run(kind, func(t *testing.T) {
			stream := streamKinds[kind]
			c := runningClock(t) // for the pause after a failed request to the provider
			p := startProvider(t)
			g := startTrustGate(t, p, trustSite, "introspection "+p.url+providerIntrospect+" {", "\tclient gateway gateway-secret", "\tcache 1s", "}")
			g.streams()
			open := func(token string) *wire {
				w := g.dial(t, g.request("GET", "/any/x", append([]string{bearer(g.watched(token))}, stream.lines...)...))
				stream.runs(w, t)
				return w
			}
			ends := func(w *wire, reason string) {
				t.Helper()
				w.closed(t)
				if line := g.awaitAudit(t, "stream closed at the gate"); line["reason"] != reason {
					t.Errorf("audit line: %v, want the reason %s", line, reason)
				}
			}
			f := g.forger()
			brief := open(f.claiming(map[string]any{"exp": node.Clock().Unix() + 30}))
			long := open(f.claiming(map[string]any{"exp": node.Clock().Unix() + 36000}))
			members := func(life int64) map[string]any {
				return map[string]any{"active": true, "sub": "ada", "aud": g.url, "token_type": "Bearer", "exp": node.Clock().Unix() + life}
			}
			opaque := p.knows("opaque-1679091c5a880faf6fb5e6087eb1b2dc", members(36000))
			asked, due := open(opaque), open(p.knows("opaque-c4ca4238a0b923820dcc509a6f75849b", members(120)))
			c.advance(time.Minute + 5*time.Second)
			ends(brief, "token_expired")
			p.stop()
			c.advance(time.Minute)
			ends(due, "token_expired") // without leeway
			if kind == "websocket" {   // other kinds send nothing further by themselves
				asked.echoes(t)
				long.echoes(t)
			}
			p.knows(opaque, nil)
			p.start()
			c.advance(time.Minute)
			ends(asked, "token_inactive")
			p.addKey("ES256")
			p.withdraw()
			c.advance(time.Minute)
			open(g.forger().good())
			ends(long, "key_unknown")
		})
	}
}

// TestG71StreamsEndWithTheTrustInTheirIssuer: streams end when a reload stops trusting their issuer, or trusts it with other settings. A
// configuration with the same trust ends no stream.
func TestG71StreamsEndWithTheTrustInTheirIssuer(t *testing.T) {
	site := strings.ReplaceAll(gateOnly(trustSite), "reverse_proxy UPSTREAM", "reverse_proxy UPSTREAM {\n\t\t\tstream_close_delay 1h\n\t\t}")
	p := startProvider(t)
	g := startTrustGate(t, p, site)
	g.streams()
	for _, change := range [][2]string{
		{"allow_private_network", "allow_private_network\n\t\t\tmax_stale 1h"}, {"trust corp PROVIDER", "trust corp https://other.example"},
	} {
		g.reload(trusting(p, site))
		g.awaitKeys()
		w := g.dial(t, g.request("GET", "/any/x", append([]string{bearer(g.watched(g.forger().good()))}, webSocket...)...))
		w.echoes(t)
		check(t, g.tryReload(trusting(p, strings.Replace(site, "level DEBUG", "level INFO", 1))))
		w.echoes(t)
		check(t, g.tryReload(trusting(p, strings.Replace(site, change[0], change[1], 1))))
		w.closed(t)
	}
}
