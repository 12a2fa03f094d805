package caddymodule

import (
	"net/http"
	"strings"
	"testing"
)

// TestS40UserOfAnAccessTokenOfOurs: `require user` with an id → only that user by that exact id, never a client of that name;
// `email_domain` → 403, our access tokens carry no address.
func TestS40UserOfAnAccessTokenOfOurs(t *testing.T) {
	g := startGate(t, siteWith("", gated("/one/*", "require user u-ada bob@example.com")+gated("/domain/*", "require email_domain example.com")+
		gated("/reading/*", "require /reading/a/* user u-ada")))
	f := g.forger()
	ada, id := g.user("u-ada", "acme", "member", "public"), g.user("bob@example.com", "acme", "member", "public")
	for name, test := range map[string]struct {
		target, token, reason string // no reason: it passes
	}{
		"id":                          {"/one/x", ada, ""},
		"an id that is an address":    {"/one/x", id, ""},
		"another":                     {"/one/x", g.user("u-eve", "acme", "admin", "public"), "user_not_listed"},
		"another case":                {"/one/x", g.user("U-Ada", "acme", "admin", "public"), "user_not_listed"},
		"a client of that id":         {"/one/x", g.watched(f.claiming(map[string]any{"sub": "u-ada", "client_id": "u-ada"})), "user_not_listed"},
		"no address in it":            {"/domain/x", ada, "email_domain_missing"},
		"an id is no address":         {"/domain/x", id, "email_domain_missing"},
		"a rule of another path":      {"/reading/b", g.user("u-eve", "acme", "admin", "public"), ""},
		"an encoded slash":            {"/reading/a%2fb", g.user("u-eve", "acme", "admin", "public"), "user_not_listed"},
		"matched, and the right user": {"/reading/a/b", ada, ""},
	} {
		t.Run(name, func(t *testing.T) {
			request := g.request("GET", test.target, bearer(test.token))
			if test.reason == "" {
				g.passed(t, request)
				return
			}
			if _, body := g.because(t, request, http.StatusForbidden, test.reason); !strings.Contains(body, `"access_denied"`) || strings.Contains(body, "bob") || strings.Contains(body, "example.com") {
				t.Errorf("the refusal says %s", body)
			}
		})
	}
	g.audited()
	g.raw(g.request("GET", "/one/x", bearer(g.user("u-eve", "acme", "admin", "public"))))
	if lines := g.audited(); len(lines) != 1 || lines[0]["missing"] != "user" {
		t.Errorf("the audit log names users: %v", lines)
	}
}

// TestS41UserOfAnotherIssuer: `require user` by address with another issuer's token → passes only where `email_verified` is true and the
// address is equal; look-alike and sub-domains → 403.
func TestS41UserOfAnotherIssuer(t *testing.T) {
	setClock(t)
	p := startProvider(t)
	globals, _, _ := strings.Cut(trustSite, "\nhttp://ADDR {")
	g := startTrustGate(t, p, globals+"\nhttp://ADDR {\n"+gated("", "issuer corp", "require /user/* user 7f3 Ada@Example.com", "require /domain/* email_domain Example.com example.org")+"}\n")
	f := g.forger()
	type claims = map[string]any
	for name, test := range map[string]struct {
		target string
		claims claims
		reason string // empty: it passes
	}{
		"sub":                     {"/user/x", claims{"sub": "7f3"}, ""},
		"verified address":        {"/user/x", claims{"email": "ada@example.com", "email_verified": true}, ""},
		"in another case":         {"/user/x", claims{"email": "ADA@EXAMPLE.com", "email_verified": true}, ""},
		"not verified":            {"/user/x", claims{"email": "ada@example.com", "email_verified": false}, "email_unverified"},
		"nothing said of it":      {"/user/x", claims{"email": "ada@example.com"}, "email_unverified"},
		"verified is 1":           {"/user/x", claims{"email": "ada@example.com", "email_verified": 1}, "email_unverified"},
		"two addresses":           {"/user/x", claims{"email": []string{"eve@example.net", "ada@example.com"}, "email_verified": true}, "user_not_listed"},
		"an address as sub":       {"/user/x", claims{"sub": "ada@example.com"}, "user_not_listed"},
		"an address as user name": {"/user/x", claims{"preferred_username": "ada@example.com", "upn": "ada@example.com", "email_verified": true}, "user_not_listed"},
		"a Kelvin sign for k":     {"/domain/x", claims{"email": "a\u212a@example.com", "email_verified": true}, "email_domain_missing"},
		"a client of that id":     {"/user/x", claims{"sub": "7f3", "client_id": "7f3"}, "user_not_listed"},
		"domain":                  {"/domain/x", claims{"email": "eve@example.org", "email_verified": true}, ""},
		"a domain below":          {"/domain/x", claims{"email": "eve@sub.example.com", "email_verified": true}, "email_domain_missing"},
		"a domain that ends so":   {"/domain/x", claims{"email": "eve@badexample.com", "email_verified": true}, "email_domain_missing"},
		"two @":                   {"/domain/x", claims{"email": "eve@evil.net@example.com", "email_verified": true}, "email_domain_missing"},
	} {
		t.Run(name, func(t *testing.T) {
			for claim, value := range (claims{"client_id": "app", "sub": "u-1"}) {
				if _, set := test.claims[claim]; !set {
					test.claims[claim] = value
				}
			}
			request := g.request("GET", test.target, bearer(g.watched(f.claiming(test.claims))))
			if test.reason == "" {
				g.passed(t, request)
				return
			}
			g.because(t, request, http.StatusForbidden, test.reason)
		})
	}
}
