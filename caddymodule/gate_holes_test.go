package caddymodule

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// The tests of this file each tell of a hole that a review found, and hold it shut.

// TestG84AnErrorRouteBehindTheGateEnds: a protect within handle_errors led back into the error routes without end, and
// one request without a token ended the process.
func TestG84AnErrorRouteBehindTheGateEnds(t *testing.T) {
	for _, inside := range []string{"protect", "protect {\n optional\n}"} {
		g := startBoth(t, siteWith("", gated("/x/*")+
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

// TestG65RulesOnAQueryThatMatchersCannotRead: Caddy takes a malformed query for one that does not match.
func TestG65RulesOnAQueryThatMatchersCannotRead(t *testing.T) {
	g := startBoth(t, siteWith("", `	@admin query admin=1
	@plain {
		path /pub/*
		not query admin=1
	}
`+
		gated("", "require @admin scope trusted", "anonymous @plain")))
	token := g.server("public")
	for target, want := range map[string]int{
		"/x?a=1": 200, "/x?admin=1": 403, "/x?admin=1&%zz": 403, "/x?admin=1;": 403, "/x?%zz": 403,
	} {
		if status, _, body := g.asked(t, g.request("GET", target, bearer(token))); status != want {
			t.Errorf("%s: %d %s, want %d", target, status, body, want)
		}
	}
	for target, want := range map[string]int{"/pub/x?a=1": 200, "/pub/x?admin=1": 401, "/pub/x?admin=1&%zz": 401} {
		if status, _, body := g.asked(t, g.request("GET", target)); status != want {
			t.Errorf("%s without a token: %d %s, want %d", target, status, body, want)
		}
	}
	g.upstream.seen()
}

// TestG64RulesOnPathsWithAndWithoutASlash: an absolute-form target without a path is "/" to the upstream, and many
// upstreams take a path with a slash at its end for the one without.
func TestG64RulesOnPathsWithAndWithoutASlash(t *testing.T) {
	g := startBoth(t, siteWith("", gated("", "require / scope trusted", "require /orders/export scope trusted", "require /orders/admin/* scope trusted")))
	token := g.server("public")
	for _, target := range []string{
		"/", "http://" + g.addr, "http://" + g.addr + "?x", "/orders/export", "/orders/export/", "/orders/admin", "/orders/admin/",
		"/orders/admin/x", "/orders%2fexport/", "/orders/ad%6Din",
	} {
		if status, _, body := g.asked(t, g.request("GET", target, bearer(token))); status != http.StatusForbidden {
			t.Errorf("%s: %d %s, want 403", target, status, body)
		}
	}
	g.upstream.none(t)
	for _, target := range []string{"/orders", "/orders/exports", "/orders/administration"} {
		if status, _, body := g.asked(t, g.request("GET", target, bearer(token))); status != http.StatusOK {
			t.Errorf("%s: %d %s, want 200", target, status, body)
		}
	}
}

// TestG64ATargetWithoutAPathIsTheRoot: what needs no token at "/" needs none without a path either, and what needs one
// does.
func TestG64ATargetWithoutAPathIsTheRoot(t *testing.T) {
	g := startBoth(t, siteWith("", gated("", "anonymous /")))
	for target, want := range map[string]int{"/": 200, "http://" + g.addr: 200, "http://" + g.addr + "?x": 200, "/x": 401} {
		if status, _, body := g.asked(t, g.request("GET", target)); status != want {
			t.Errorf("%s: %d %s, want %d", target, status, body, want)
		}
	}
	g.upstream.seen()
}

// TestT16TokensOfTheMomentAfterDisabling: another node remembers a client for a second after it was disabled, and what
// it issues then must not live on for hours.
func TestT16TokensOfTheMomentAfterDisabling(t *testing.T) {
	c := setClock(t)
	g := startGate(t, siteWith("", gated("")))
	registry := g.app().registry
	client, _, err := registry.AddClient(t.Context(), store.Client{ID: "late"})
	if err != nil {
		t.Fatal(err)
	}
	issue := func() string { return g.issue(tokenissuer.Grant{Client: client, Scopes: oauth.Scopes{"public"}}) }
	if err := registry.DisableClient(t.Context(), client.ID); err != nil {
		t.Fatal(err)
	}
	c.advance(2 * time.Second)
	if status, _, body := g.raw(g.request("GET", "/x", bearer(issue()))); status != http.StatusUnauthorized {
		t.Errorf("issued two seconds later: %d %s", status, body)
	}
	g.upstream.none(t)
	if err := registry.EnableClient(t.Context(), client.ID); err != nil {
		t.Fatal(err)
	}
	c.advance(10 * time.Second)
	if err := g.app().node.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, _, body := g.raw(g.request("GET", "/x", bearer(issue()))); status != http.StatusOK {
		t.Errorf("issued after it was enabled: %d %s", status, body)
	}
	g.upstream.seen()
}

// TestG57CredentialsKeptBackFromErrorRoutes: when the upstream of an anonymous request fails, error routes got the
// request with everything that had been kept back from the upstream, and the error log got the query.
func TestG57CredentialsKeptBackFromErrorRoutes(t *testing.T) {
	g := startBoth(t, siteWith("", gatedDown("/pub/*", "anonymous /pub/*")+errorsProxied))
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

// TestF17AClockThatJumpsAheadRevivesNothing: a look at the clock an hour ahead deleted revocations for good.
func TestF17AClockThatJumpsAheadRevivesNothing(t *testing.T) {
	c := setClock(t)
	g := startGate(t, siteWith("", gated("")))
	token := g.server("public")
	status, _, body := g.do(http.MethodPost, "/oauth/revoke", "token="+token+"&client_id=conf&client_secret="+confSecret,
		"Content-Type", "application/x-www-form-urlencoded")
	if status != http.StatusOK {
		t.Fatalf("revoke: %d %s", status, body)
	}
	c.advance(3 * time.Hour)
	if err := g.app().node.KeepHouse(t.Context()); err != nil { // as once a minute
		t.Fatal(err)
	}
	c.advance(-3 * time.Hour)
	if err := g.app().node.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, _, body := g.raw(g.request("GET", "/x", bearer(token))); status != http.StatusUnauthorized {
		t.Errorf("the revoked token: %d %s", status, body)
	}
	g.upstream.none(t)
}

// TestT95RevocationAsksForNoAudience: after the audience was changed, revoke said 200 and revoked nothing, while a route
// for the old audience went on to accept the token.
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

// TestG78AnonymousForEverythingIsRefused: `anonymous *` was refused, what means the same was not.
func TestG78AnonymousForEverythingIsRefused(t *testing.T) {
	for _, matcher := range []string{"@open {\n}", "@open path *", "@open path /*", "@open path /a /*"} {
		g := &gatehouse{t: t, vars: strings.NewReplacer("ADDR", freeAddr(t), "ADMIN", freeAddr(t), "UPSTREAM", "127.0.0.1:1",
			"SECRET", confSecret, "LOG", t.TempDir()+"/log", "DIR", t.TempDir())}
		err := g.tryReload(siteWith("", matcher+"\n"+gated("", "anonymous @open")))
		if err == nil || !strings.Contains(err.Error(), "would protect nothing") {
			t.Errorf("%q: %v", matcher, err)
		}
	}
}

// TestG64NotAnonymousInAnyReading: what `not` keeps from being anonymous was anonymous with or without the slash at its end, and
// by HEAD.
func TestG64NotAnonymousInAnyReading(t *testing.T) {
	g := startGate(t, siteWith("", `	@most not path /admin/* /exact
	@plain {
		path /health /pub/*
		not method GET
		not header X-Key *
	}
`+
		gated("", "anonymous @most")+gatedBelow("/two/*", "anonymous @plain")))
	for request, want := range map[string]int{
		"GET /": 200, "GET /orders/": 200, "GET /administrator": 200, "HEAD /orders": 200,
		"GET /admin/": 401, "GET /admin/x": 401, "GET /admin": 401, "HEAD /admin": 401, "GET /Admin": 401, "GET /exact": 401, "GET /exact/": 401,
		"POST /two/health": 200, "POST /two/pub/x": 200, "POST /two/pub/": 200, "GET /two/pub/x": 401, "HEAD /two/pub/x": 401, "POST /two/other": 401,
	} {
		method, path, _ := strings.Cut(request, " ")
		if status, _, _ := g.do(method, path, ""); status != want {
			t.Errorf("%s: %d, want %d", request, status, want)
		}
	}
}
