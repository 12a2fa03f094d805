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

// TestG78AnonymousForEverythingIsRefused checks matchers that match every request. Only `anonymous *` used to be refused, but not its
// equivalents.
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

// TestG64G65InEveryReading checks requests that rules must match in every reading. A malformed query does not match in Caddy. A target in
// absolute form without a path is "/" to the upstream. Many upstreams ignore a slash at the end of a path. They answer HEAD as GET.
func TestG64G65InEveryReading(t *testing.T) {
	for name, test := range map[string]struct {
		routes             string
		withToken, without map[string]int
	}{
		"a query that matchers cannot read": {
			"\t@admin query admin=1\n\t@plain {\n\t\tpath /pub/*\n\t\tnot query admin=1\n\t}\n" + gated("", "require @admin scope trusted", "anonymous @plain"),
			map[string]int{"GET /x?a=1": 200, "GET /x?admin=1": 403, "GET /x?admin=1&%zz": 403, "GET /x?admin=1;": 403, "GET /x?%zz": 403},
			map[string]int{"GET /pub/x?a=1": 200, "GET /pub/x?admin=1": 401, "GET /pub/x?admin=1&%zz": 401},
		},
		"rules on paths with and without a slash": {
			gated("", "require / scope trusted", "require /orders/export scope trusted", "require /orders/admin/* scope trusted"),
			map[string]int{
				"GET /": 403, "GET http://ADDR": 403, "GET http://ADDR?x": 403, "GET /orders/export": 403, "GET /orders/export/": 403, "GET /orders/admin": 403,
				"GET /orders/admin/": 403, "GET /orders/admin/x": 403, "GET /orders%2fexport/": 403, "GET /orders/ad%6Din": 403,
				"GET /orders": 200, "GET /orders/exports": 200, "GET /orders/administration": 200,
			}, nil,
		},
		"a target without a path is the root": {
			gated("", "anonymous /"), nil, map[string]int{"GET /": 200, "GET http://ADDR": 200, "GET http://ADDR?x": 200, "GET /x": 401},
		},
		"what `not` keeps from being anonymous": {
			"\t@most not path /admin/* /exact\n\t@plain {\n\t\tpath /health /pub/*\n\t\tnot method GET\n\t\tnot header X-Key *\n\t}\n" +
				gated("", "anonymous @most") + gatedBelow("/two/*", "anonymous @plain"), nil,
			map[string]int{
				"GET /": 200, "GET /orders/": 200, "GET /administrator": 200, "HEAD /orders": 200, "GET /admin/": 401, "GET /admin/x": 401, "GET /admin": 401,
				"HEAD /admin": 401, "GET /Admin": 401, "GET /%6frders": 401, "GET /x%2fy": 401, "GET /exact": 401, "GET /exact/": 401, "POST /two/health": 200, "POST /two/pub/x": 200,
				"POST /two/pub/": 200, "GET /two/pub/x": 401, "HEAD /two/pub/x": 401, "POST /two/other": 401,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := startGate(t, siteWith("", test.routes))
			g.answersWith(t, test.withToken, bearer(g.server("public")))
			g.answersWith(t, test.without)
		})
	}
}

// answersWith sends a request for each method and target and compares the status.
func (g *gateway) answersWith(t *testing.T, statuses map[string]int, lines ...string) {
	t.Helper()
	for asked, want := range statuses {
		method, target, _ := strings.Cut(strings.ReplaceAll(asked, "ADDR", g.addr), " ")
		all := append([]string{"Connection: close", "Content-Length: 0"}, lines...)
		if status, _, body := g.asked(t, g.request(method, target, all...)); status != want {
			t.Errorf("%s: %d %s, want %d", asked, status, body, want)
		}
	}
	g.upstream.seen()
}
