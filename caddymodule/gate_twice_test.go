package caddymodule

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
)

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
