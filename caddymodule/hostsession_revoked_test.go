package caddymodule

import (
	"net/http"
	"testing"
	"time"
)

// TestS114ASignInInTheSecondOfARevocation: a revocation of a user, and sessions and tokens issued earlier in the same second → refused; a
// sign-in after it in that second → passes.
func TestS114ASignInInTheSecondOfARevocation(t *testing.T) {
	c := setClock(t)
	g := startHosts(t, "http://wiki.localhost:TCPPORT {", "http://auth.localhost:TCPPORT/own/* {\n\tprotect {\n\t\tchallenge browser\n\t}\n\treverse_proxy UPSTREAM\n}\nhttp://wiki.localhost:TCPPORT {")
	status := func(v *visitorOfHosts, host, path string, headers ...string) int {
		t.Helper()
		return v.send(http.MethodGet, g.at(host, path), "", headers...).status
	}
	bearer := func(v *visitorOfHosts) []string {
		return []string{"Authorization", "Bearer " + v.cookie("auth", "accessToken")}
	}
	for name, revoke := range map[string]func(){
		"the user's tokens":         func() { g.ok("token", "revoke", "--user", "ada@acme.example") },
		"the organisation's tokens": func() { g.must(http.StatusNoContent, "POST", "/oauth/revocations", `{"organisation":"acme"}`) },
	} {
		t.Run(name, func(t *testing.T) {
			(&gateway{gatehouse: g.gatehouse}).later(c, time.Hour)
			before, bystander := g.signedIn(t, "ada@acme.example"), g.visitor(t)
			token := bearer(before)
			if got := status(bystander, "app", "/api/x", token...); got != http.StatusOK {
				t.Fatalf("before: %d", got)
			}
			for range 2 { // again in the same second
				revoke()
				if host, own, api := status(before, "app", "/"), status(before, "auth", "/own/x"), status(bystander, "app", "/api/x", token...); host != http.StatusUnauthorized || own != http.StatusUnauthorized || api != http.StatusUnauthorized {
					t.Errorf("signed in before: %d at the host, %d at the issuer's, %d with a token", host, own, api)
				}
				after := g.signedIn(t, "ada@acme.example")
				after.walk(g.at("auth", "/own/x"), "")
				if host, own, api := status(after, "app", "/"), status(after, "auth", "/own/x"), status(bystander, "app", "/api/x", bearer(after)...); host != http.StatusOK || own != http.StatusOK || api != http.StatusOK {
					t.Errorf("signed in after: %d at the host, %d at the issuer's, %d with a token", host, own, api)
				}
				before, token = after, bearer(after)
			}
		})
	}
}
