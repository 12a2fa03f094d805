package caddymodule

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
	"github.com/gatehouse-auth/gatehouse/internal/faultproxy"
	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Tokens for upstreams in place of the client's token, through a real reverse_proxy.

const ordersAudience = "https://orders.example"

var swappingRoutes = gated("/any/*", "upstream_token swap https://orders.example", "anonymous /any/pub/*", "token_from cookie app") +
	gated("/optional/*", "upstream_token swap https://stock.example", "optional") +
	gated("/strip/*", "upstream_token strip") +
	handled("handle /retried/*", protect("upstream_token swap https://orders.example"), "reverse_proxy 127.0.0.1:1 UPSTREAM {\nlb_policy first\nlb_retries 3\nfail_duration 30s\n}") +
	gatedDown("/down/*", "upstream_token swap https://orders.example") +
	gatedDown("/down-strip/*", "upstream_token strip") + gated("/orders/*", "audience https://orders.example") +
	gated("/behind/*", "audience https://orders.example", "upstream_token swap https://behind.example") + gated("") +
	errorsProxied

// swapped checks that a token of ours for the audience is the only credential of an upstream's request, and returns it.
func (g *gateway) swapped(t *testing.T, r *recorded, original, audience string) (string, jwt.MapClaims) {
	t.Helper()
	if strings.Contains(r.Raw, original) {
		t.Fatalf("the client's token reached the upstream:\n%s", r.Raw)
	}
	if n := strings.Count(strings.ToLower(r.Raw), "\r\nauthorization:"); n != 1 {
		t.Fatalf("%d Authorization headers:\n%s", n, r.Raw)
	}
	token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !found {
		t.Fatalf("no bearer token:\n%s", r.Raw)
	}
	claims, err := g.readJWT(t, token, "at+jwt", audience)
	check(t, err)
	if life := claims["exp"].(float64) - claims["iat"].(float64); life > 300 || claims["aud"] != audience {
		t.Errorf("it lives for %v seconds and is for %v", life, claims["aud"])
	}
	return g.watched(token), claims
}

// TestG57SwappedToken: `upstream_token exchange` → the upstream gets a token that is accepted for it alone.
func TestG57SwappedToken(t *testing.T) {
	g := startGate(t, siteWith("", swappingRoutes))
	token := g.user("u-ada", "acme", "admin", "public", "trusted")
	first, claims := g.swapped(t, g.passed(t, g.request("GET", "/any/x", bearer(token))), token, ordersAudience)
	for name, want := range map[string]any{
		"sub": "u-ada", "client_id": "conf", "scope": "public trusted", "org": "acme", "role": "admin", "sid": "family-of-u-ada", "token_iss": g.url,
	} {
		if claims[name] != want {
			t.Errorf("%s: %v, want %v", name, claims[name], want)
		}
	}
	if act := fmt.Sprint(claims["act"]); act != "map[client_id:gatehouse sub:gatehouse]" {
		t.Errorf("act %s", act)
	}
	for name, lines := range map[string][]string{
		"again": {bearer(token)}, "lower case": {"authorization: bearer " + token}, "named by Connection": {bearer(token), "Connection: Authorization"},
		"in a cookie": {"Cookie: a=1; app=" + token},
	} {
		if again, _ := g.swapped(t, g.passed(t, g.request("GET", "/any/y", lines...)), token, ordersAudience); again != first {
			t.Errorf("%s: another token was signed", name)
		}
	}
	g.passed(t, g.request("GET", "/any/x", bearer(token))).has(t, identity.Subject, "u-ada")
	if other, _ := g.swapped(t, g.passed(t, g.request("GET", "/optional/x", bearer(token))), token, "https://stock.example"); other == first {
		t.Error("two upstreams got one token")
	}
	server := g.server("public")
	if _, claims := g.swapped(t, g.passed(t, g.request("GET", "/any/x", bearer(server))), server, ordersAudience); claims["sub"] != "conf" || claims["client_id"] != "conf" || claims["sid"] != nil {
		t.Errorf("a server token became %v", claims)
	}
}

// TestG57ClientsTokenNeverReachesTheUpstream checks retries, upgrades, error routes and requests without a caller.
func TestG57ClientsTokenNeverReachesTheUpstream(t *testing.T) {
	g := startBoth(t, siteWith("", swappingRoutes))
	token := g.user("u-ada", "acme", "admin", "public")
	g.swapped(t, g.passed(t, g.request("GET", "/retried/x", bearer(token))), token, ordersAudience)
	for _, lines := range [][]string{{bearer(token)}, {"Authorization: Basic Og=="}} {
		g.passed(t, g.request("GET", "/any/pub/x", lines...)).has(t, "Authorization")
	}
	g.passed(t, g.request("GET", "/optional/x", "Authorization: Basic Og==")).has(t, "Authorization")
	g.passed(t, g.request("GET", "/strip/x", bearer(token))).has(t, "Authorization")
	for _, path := range []string{"/down/x", "/down-strip/x", "/any/a;b", "/strip/a;b"} { // all end on the error route
		g.raw(g.request("GET", path, bearer(token)))
		seen := g.upstream.one(t)
		if seen.has(t, "Authorization"); strings.Contains(seen.Raw, token) {
			t.Errorf("%s: the error route has the token:\n%s", path, seen.Raw)
		}
	}
	g.upstream.answer = websocketUpstream
	for path, audience := range map[string]string{"/any/socket": ordersAudience, "/strip/socket": ""} {
		w := g.dial(t, g.request("GET", path, append(slices.Clone(webSocket), bearer(token))...))
		w.echoes(t)
		if seen := g.upstream.one(t); audience == "" {
			seen.has(t, "Authorization")
		} else {
			g.swapped(t, seen, token, audience)
		}
		_ = w.Close()
	}
}

var signingRoutes = gated("/asserted/*", "issuer self corp", "forward assertion X-Gate-Assertion https://orders.example") +
	gated("/swapped/*", "issuer self corp", "upstream_token swap https://orders.example") +
	`	handle /any/* {
`

// TestG57G94NothingPassesWhileNobodyCanSign checks a node that has not read its store yet. It can verify tokens of another issuer but
// cannot sign for the upstream. It must forward neither the client's token nor a request without one.
func TestG57G94NothingPassesWhileNobodyCanSign(t *testing.T) {
	server := pgtest.Shared(t)
	proxy := faultproxy.Start(t, server.Addr())
	p := startProvider(t)
	remote := strings.NewReplacer("store memory", "store postgres "+pgtest.Via(server.Database(t), proxy.Addr()), "	handle /any/* {\n", signingRoutes).Replace(trustSite)
	proxy.Cut()
	g := &trustGate{startGate(t, trusting(p, remote)), p}
	g.awaitKeys()
	token := g.watched(g.forger().good())
	for _, path := range []string{"/asserted/x", "/swapped/x"} {
		header, body := g.refused(t, g.request("GET", path, bearer(token)), http.StatusServiceUnavailable)
		if header.Get("Retry-After") == "" || member(t, body, "error") != "temporarily_unavailable" {
			t.Errorf("%s: %v %s", path, header, body)
		}
	}
	g.passed(t, g.request("GET", "/any/x", bearer(token)))
	proxy.Restore()
	g.awaitServing()
	g.asserts(t, g.passed(t, g.request("GET", "/asserted/x", bearer(token))), ordersAudience)
	g.swapped(t, g.passed(t, g.request("GET", "/swapped/x", bearer(token))), token, ordersAudience)
}

// TestSwapOfAnotherIssuersToken checks that the other issuer's users get a prefix that no local user id can have.
func TestSwapOfAnotherIssuersToken(t *testing.T) {
	p := startProvider(t)
	caddyfile := strings.Replace(trustSite, "\n\toauth_server\n", `
	oauth_server
`+
		gated("/swap/*", "issuer self corp", "upstream_token swap https://orders.example", "forward assertion X-Gate-Assertion https://orders.example")+
		gated("/behind/*", "audience https://orders.example", "upstream_token swap https://behind.example"), 1)
	g := &trustGate{startGate(t, trusting(p, caddyfile)), p}
	g.awaitKeys()
	theirs := g.watched(g.forger().claiming(map[string]any{"sub": "u-ada", "client_id": "conf", "sid": "family-of-u-ada", "org": "acme"}))
	seen := g.passed(t, g.request("GET", "/swap/x", bearer(theirs)))
	swapped, claims := g.swapped(t, seen, theirs, ordersAudience)
	for name, want := range map[string]any{"sub": "corp:u-ada", "client_id": "corp:conf", "org": "corp:acme", "sid": nil, "token_iss": p.url, "iss": g.url} {
		if claims[name] != want {
			t.Errorf("%s: %v, want %v", name, claims[name], want)
		}
	}
	asserted := g.asserts(t, seen, ordersAudience)
	for name, want := range map[string]any{"sub": "u-ada", "token_iss": p.url, "iss": g.url} {
		if asserted[name] != want {
			t.Errorf("asserted %s: %v, want %v", name, asserted[name], want)
		}
	}
	ours := g.user("u-ada", "acme", "admin", "public")
	if _, claims := g.swapped(t, g.passed(t, g.request("GET", "/swap/x", bearer(ours))), ours, ordersAudience); claims["sub"] != "u-ada" {
		t.Errorf("ours became %v", claims["sub"])
	}
	if _, claims := g.swapped(t, g.passed(t, g.request("GET", "/behind/x", bearer(swapped))), swapped, "https://behind.example"); claims["sub"] != "corp:u-ada" || claims["token_iss"] != p.url {
		t.Errorf("swapped again: %v", claims)
	}
	g.refused(t, g.request("GET", "/swap/x", bearer(g.user("corp:u-ada", "acme", "admin", "public"))), http.StatusInternalServerError)
	service := g.watched(g.issue(issuer.Grant{Type: oauth.ClientCredentials, Client: &store.Client{ID: "corp:conf"}}))
	g.refused(t, g.request("GET", "/swap/x", bearer(service)), http.StatusInternalServerError)
	for _, declared := range []string{"client corp:conf SECRET", "client conf SECRET {\n}\nclient corp: SECRET"} {
		err := g.tryReload(trusting(p, strings.Replace(caddyfile, "client conf SECRET", declared, 1)))
		if err == nil || !strings.Contains(err.Error(), "could be taken for one of trust corp") {
			t.Errorf("%s: %v", declared, err)
		}
	}
	for routes, want := range map[string]string{
		"forward assertion X-A":                      "forward assertion needs an issuer of our own",
		"upstream_token swap https://orders.example": "upstream_token swap needs an issuer of our own",
	} {
		err := g.tryReload(trusting(p, strings.Replace(gateOnly(trustSite), "protect {\n", "protect {\n"+routes+"\n", 1)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", routes, err)
		}
	}
}

// TestG149TwoGatesOnAWay: two gates on a route → both verify the token, the second's `upstream_token` counts. A credential that the first
// gate takes, removes or replaces does not reach the second, which refuses.
func TestG149TwoGatesOnAWay(t *testing.T) {
	two := func(path, first, second string) string {
		settings := func(text string) []string { return strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) }
		return inOrder(path, protect(settings(first)...), protect(settings(second)...), "reverse_proxy UPSTREAM")
	}
	const cookies, swaps = "token_from cookie app_token", "upstream_token swap https://orders.example"
	g := startGate(t, siteWith("", two("/relay/*", "", "upstream_token relay")+two("/strip/*", "upstream_token relay", "")+
		two("/optional/*", "optional", "")+two("/anonymous/*", "anonymous /anonymous/*", "")+two("/cookie/*", cookies, cookies)+
		two("/swap/*", swaps, "")+two("/swapped/*", swaps, "audience https://orders.example")))
	token := g.server("public")
	header, cookie := bearer(token), "Cookie: app_token="+token
	for name, test := range map[string]struct {
		target, credential string
		want               int
		relayed            []string
	}{
		"the second relays":                         {"/relay/x", header, 200, []string{"Bearer " + token}},
		"the second strips":                         {"/strip/x", header, 200, nil},
		"the first is optional":                     {"/optional/x", header, 200, nil},
		"the first looks at no token":               {"/anonymous/x", header, 401, nil},
		"the first takes it from a cookie":          {"/cookie/x", cookie, 401, nil},
		"the first could take a cookie":             {"/cookie/x", header, 200, nil},
		"the first swaps":                           {"/swap/x", header, 401, nil},
		"the first swaps for the second's audience": {"/swapped/x", header, 200, nil},
		"a bad token":                               {"/optional/x", bearer("bad"), 401, nil},
		"no token":                                  {"/optional/x", "X-None: 1", 401, nil},
	} {
		t.Run(name, func(t *testing.T) {
			status, _, body := g.raw(g.request("GET", test.target, test.credential))
			if status != test.want {
				t.Fatalf("%d %s, want %d", status, body, test.want)
			}
			if status != http.StatusOK {
				g.upstream.none(t)
				return
			}
			seen := g.upstream.one(t)
			seen.has(t, "Authorization", test.relayed...).has(t, identity.Subject, "conf")
		})
	}
}
