package caddymodule

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// TestS162AnAddressThatAPersonHasChosen: `require email_domain` or `require user` with the address of a user that was imported unverified → 403 at the
// host until an operator verifies it, and again when the operator takes that back; that of a user whom an operator has added, or declared → in.
func TestS162AnAddressThatAPersonHasChosen(t *testing.T) {
	now := setClock(t)
	g := startHosts(t, "ROUTES", gated("/staff/*", "challenge browser", "require email_domain acme.example")+
		gated("/boss/*", "challenge browser", "require user "+zoe))
	g.must(http.StatusOK, http.MethodPost, "/oauth/imports", `{"source":"old","run":"r","users":[{"id":"u-zoe","email":"`+zoe+`","password_hash":"`+peopleHash()+`"}]}`)
	v := g.signedIn(t, zoe)
	for i, want := range []int{http.StatusForbidden, http.StatusOK, http.StatusForbidden} {
		for _, path := range []string{"/staff/x", "/boss/x"} {
			v.navigate(g.at("app", path)).is(t, want, path)
		}
		g.ok("user", "update", "u-zoe", fmt.Sprintf("--email-verified=%t", i == 0))
		now.advance(time.Minute) // a session is read again
	}
	g.must(http.StatusCreated, http.MethodPost, "/oauth/users", `{"id":"u-ivy","email":"ivy@acme.example","role":"member","password_hash":"`+peopleHash()+`"}`)
	for _, email := range []string{"ivy@acme.example", "ada@acme.example"} {
		g.signedIn(t, email).navigate(g.at("app", "/staff/x")).is(t, http.StatusOK, email)
	}
}
