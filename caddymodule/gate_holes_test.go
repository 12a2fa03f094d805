package caddymodule

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Regression tests for holes that reviews found. Each comment describes the hole.

// TestG84AnErrorRouteBehindTheGateEnds: a `protect` within handle_errors → its refusal ends there, without a loop. Such a refusal used to
// enter the error routes again without end. One request without a token crashed the process.
func TestG84AnErrorRouteBehindTheGateEnds(t *testing.T) {
	for _, inside := range []string{"protect", "protect {\n optional\n}"} {
		g := startGate(t, siteWith("", gated("/x/*")+
			`	handle_errors {
		`+inside+`
		reverse_proxy UPSTREAM
	}
`))
		for _, target := range []string{"/x/1", "/x//1"} {
			if status, _, body := g.asked(t, g.request("GET", target, bearer("bad"))); status == 0 {
				t.Errorf("%s, %s: no answer (%s)", inside, target, body)
			}
		}
		g.upstream.seen()
	}
}

// TestT16TokensOfTheMomentAfterDisabling checks tokens of a node that still caches a client for a second after it was disabled. Such tokens
// must not stay valid for hours.
func TestT16TokensOfTheMomentAfterDisabling(t *testing.T) {
	c := setClock(t)
	g := startGate(t, siteWith("", gated("")))
	registry := g.app().registry
	client, _, err := registry.Clients.AddClient(t.Context(), store.Client{ID: "late"})
	check(t, err)
	issue := func() string { return g.issue(issuer.Grant{Client: client, Scopes: oauth.Scopes{"public"}}) }
	check(t, registry.Clients.DisableClient(t.Context(), client.ID))
	c.advance(2 * time.Second)
	if status, _, body := g.raw(g.request("GET", "/x", bearer(issue()))); status != http.StatusUnauthorized {
		t.Errorf("issued two seconds later: %d %s", status, body)
	}
	g.upstream.none(t)
	check(t, registry.Clients.EnableClient(t.Context(), client.ID))
	c.advance(10 * time.Second)
	check(t, g.app().node.Refresh(t.Context()))
	if status, _, body := g.raw(g.request("GET", "/x", bearer(issue()))); status != http.StatusOK {
		t.Errorf("issued after it was enabled: %d %s", status, body)
	}
	g.upstream.seen()
}

// TestG57CredentialsKeptBackFromErrorRoutes checks error routes after the upstream of an anonymous request has failed. They used to get the
// credentials that had been withheld from the upstream, and the error log got the query.
func TestG57CredentialsKeptBackFromErrorRoutes(t *testing.T) {
	g := startGate(t, siteWith("", gatedDown("/pub/*", "anonymous /pub/*")+errorsProxied))
	const forged, secret = "forged.by.nobody", "QUERYSECRET"
	for _, target := range []string{"/pub/x", "/pub/x?access_token=" + secret} {
		status, _, _ := g.asked(t, g.request("GET", target, bearer(forged), "Cookie: accessToken="+secret+"; theme=dark"))
		if status != http.StatusOK {
			t.Fatalf("%s: %d from the error route", target, status)
		}
		if raw := g.upstream.one(t).Raw; strings.Contains(raw, forged) || strings.Contains(raw, secret) || !strings.Contains(raw, "theme=dark") {
			t.Errorf("%s: the error route sent\n%s", target, raw)
		}
	}
	if logs := g.logs(); strings.Contains(logs, secret) {
		t.Errorf("the query is in the log:\n%s", logs)
	}
}

// TestT95RevocationAsksForNoAudience checks revocation after the audience was changed. The endpoint used to answer 200 without revoking
// anything, and a route for the old audience still accepted the token.
func TestT95RevocationAsksForNoAudience(t *testing.T) {
	audience := func(name string) string {
		return strings.Replace(siteWith("", gated("", "audience https://old.example")), "oauth {\n", fmt.Sprintf("oauth {\n\t\taudience https://%s.example\n", name), 1)
	}
	g := startGate(t, audience("old"))
	token := g.server("public")
	g.reload(audience("new"))
	if status, _, body := g.raw(g.request("GET", "/x", bearer(token))); status != http.StatusOK {
		t.Fatalf("before: %d %s", status, body)
	}
	g.upstream.seen()
	status, _, body := g.do(http.MethodPost, "/oauth/revoke", "token="+token+"&client_id=conf&client_secret="+confSecret,
		"Content-Type", "application/x-www-form-urlencoded")
	if status != http.StatusOK {
		t.Fatalf("revoke: %d %s", status, body)
	}
	if status, _, body := g.raw(g.request("GET", "/x", bearer(token))); status != http.StatusUnauthorized {
		t.Errorf("after: %d %s", status, body)
	}
	g.upstream.none(t)
}
