package caddymodule

import (
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
)

// TestG71AStreamWhoseIssuerIsAway: a stream ends with its token although the issuer cannot be asked.
func TestG71AStreamWhoseIssuerIsAway(t *testing.T) {
	c := runningClock(t)
	p := startProvider(t)
	g := startTrustGate(t, p, trustSite, "introspection "+p.url+providerIntrospect+" {", "\tclient gateway gateway-secret", "\tcache 1s", "}")
	g.streams()
	open := func(token string, until int64) *wire {
		members := map[string]any{"active": true, "sub": "ada", "aud": g.url, "token_type": "Bearer", "exp": until}
		w := g.dial(t, g.request("GET", "/any/x", append([]string{bearer(g.watched(p.knows(token, members)))}, webSocket...)...))
		w.echoes(t)
		return w
	}
	brief := open("opaque-c4ca4238a0b923820dcc509a6f75849b", node.Clock().Unix()+60)
	long := open("opaque-c81e728d9d4c2f636f067f89cc14862c", node.Clock().Unix()+3600)
	p.stop()
	c.advance(time.Minute + 2*time.Second) // and no leeway
	brief.closed(t)
	if line := g.awaitAudit(t, "stream closed at the gate"); line["reason"] != "token_expired" {
		t.Errorf("audit line: %v", line)
	}
	long.echoes(t)
}

// TestG71StreamsEndWithTheTrustInTheirIssuer: streams end when a reload trusts their issuer no longer, or with other settings. A
// configuration that changes nothing about it ends no stream.
func TestG71StreamsEndWithTheTrustInTheirIssuer(t *testing.T) {
	site := strings.ReplaceAll(gateOnly(trustSite), "reverse_proxy UPSTREAM", "reverse_proxy UPSTREAM {\n\t\t\tstream_close_delay 1h\n\t\t}")
	p := startProvider(t)
	g := startTrustGate(t, p, site)
	g.streams()
	for _, change := range [][2]string{
		{"allow_private_network", "allow_private_network\n\t\t\tmax_stale 1h"}, {"trust corp PROVIDER", "trust corp https://other.example"},
	} {
		check(t, g.tryReload(trusting(p, site)))
		g.awaitKeys()
		w := g.dial(t, g.request("GET", "/any/x", append([]string{bearer(g.watched(g.forger().good()))}, webSocket...)...))
		w.echoes(t)
		check(t, g.tryReload(trusting(p, strings.Replace(site, "level DEBUG", "level INFO", 1))))
		w.echoes(t)
		check(t, g.tryReload(trusting(p, strings.Replace(site, change[0], change[1], 1))))
		w.closed(t)
	}
}
