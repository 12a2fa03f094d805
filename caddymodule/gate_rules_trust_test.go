package caddymodule

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
)

// TestG42RolesOfAnotherIssuer: its tokens may name several roles, and say how their user has signed in; those for which no
// user has signed in pass no rule about that.
func TestG42RolesOfAnotherIssuer(t *testing.T) {
	setClock(t)
	p := startProvider(t)
	globals, _, _ := strings.Cut(trustSite, "\nhttp://ADDR {")
	g := startTrustGate(t, p, globals+"\nhttp://ADDR {\n"+gated("", "issuer corp", "require /role/* role admin", "require /acr/* acr phr", "require /fresh/* max_age 1m",
		`require /claim/* expression "oauth_claim('role', 'admin') && oauth_claim('groups', '/staff')"`)+"}\n")
	f := g.forger()
	of := func(claims map[string]any) string {
		for name, value := range map[string]any{"client_id": "app", "sub": "u-1"} {
			if _, set := claims[name]; !set {
				claims[name] = value
			}
		}
		return g.watched(f.claiming(claims))
	}
	for name, test := range map[string]struct {
		target string
		claims map[string]any
		status int
		reason string
	}{
		"one role":                {"/role/x", map[string]any{"role": "admin"}, 200, ""},
		"several roles":           {"/role/x", map[string]any{"role": []string{"member", "admin"}}, 200, ""},
		"other roles":             {"/role/x", map[string]any{"role": []string{"member", "Admin"}}, 403, "role_missing"},
		"no role":                 {"/role/x", map[string]any{"role": []string{}}, 403, "role_missing"},
		"a role for a program":    {"/role/x", map[string]any{"sub": "app", "role": []string{"admin"}}, 200, ""},
		"both lists":              {"/claim/x", map[string]any{"role": []string{"member", "admin"}, "groups": []string{"/staff", "/all"}}, 200, ""},
		"one list":                {"/claim/x", map[string]any{"role": []string{"member", "admin"}, "groups": []string{"/all"}}, 403, "expression_false"},
		"acr":                     {"/acr/x", map[string]any{"acr": "phr"}, 200, ""},
		"no acr":                  {"/acr/x", map[string]any{}, 401, "acr_insufficient"},
		"acr of a program":        {"/acr/x", map[string]any{"sub": "app", "acr": "phr"}, 401, "acr_insufficient"},
		"fresh":                   {"/fresh/x", map[string]any{"auth_time": node.Clock().Unix()}, 200, ""},
		"within the wider leeway": {"/fresh/x", map[string]any{"auth_time": node.Clock().Add(-70 * time.Second).Unix()}, 200, ""},
		"too old":                 {"/fresh/x", map[string]any{"auth_time": node.Clock().Add(-100 * time.Second).Unix()}, 401, "sign_in_too_old"},
		"never":                   {"/fresh/x", map[string]any{}, 401, "sign_in_too_old"},
	} {
		t.Run(name, func(t *testing.T) {
			request := g.request("GET", test.target, bearer(of(test.claims)))
			if test.status == http.StatusOK {
				g.passed(t, request)
				return
			}
			g.because(t, request, test.status, test.reason)
		})
	}
}
