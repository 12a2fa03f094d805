package caddymodule

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"
)

// explained checks what `token explain` prints about a text. It must never repeat the text.
func (g *gatehouse) explained(t *testing.T, text, verdict string, lines ...string) {
	t.Helper()
	out, err := g.run(text, "token", "explain")
	check(t, err)
	if !strings.HasPrefix(out, verdict) || strings.Contains(out, "gh_pat_") && !strings.Contains(out, "gh_pat_, 30") || len(text) > 20 && strings.Contains(out, text) {
		t.Errorf("it says\n%s", out)
	}
	for _, line := range lines {
		if !hasLine(out, strings.Fields(line)) {
			t.Errorf("it lacks %q:\n%s", line, out)
		}
	}
}

// TestCommandTokenExplainOfAPersonalToken checks that `token explain` decides as the gate does in every state of the token and its owner.
func TestCommandTokenExplainOfAPersonalToken(t *testing.T) {
	now := setClock(t)
	g := startPATs(t)
	const what = "It is a personal access token."
	id, robots := g.pat("backup")
	for _, text := range []string{robots, "Bearer " + robots + "\n", "Authorization: Bearer " + robots, "X-Api-Key: " + robots,
		"Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("x:"+robots))} {
		g.explained(t, text, gateAccepts, "form passed", "token passed", "time passed", "owner passed", "permission passed", "scopes passed", "revocation passed", "audience passed",
			"subject backup", "client gatehouse", "scope orders.read", "jti "+id)
	}
	g.explained(t, robots, gateAccepts, what)
	if status, _ := g.statusOf("/orders/1", robots); status != http.StatusOK {
		t.Errorf("the gate says %d", status)
	}
	_, bound := g.pat("backup", "--resource", "https://bound.example/api")
	g.explained(t, bound, gateAccepts, what, "It was judged for the resource https://bound.example/api", "audience passed", "aud https://bound.example/api")
	if out := g.ok("pat", "list"); !strings.Contains(out, id) {
		t.Fatal(out)
	}
	g.explained(t, robots[:len(robots)-1]+"_", gateRefuses, what, "form failed personal_token_malformed", "token not reached", "audience not reached")
	g.explained(t, resummed(robots), gateRefuses, what, "form passed", "token failed personal_token_unknown", "time not reached")
	_, eves := g.pat("eve@acme.example")
	g.ok("user", "disable", "u-eve")
	g.explained(t, eves, gateRefuses, what, "token failed personal_token_unknown") // disabling ends them
	removed, gone := g.pat("backup")
	g.ok("pat", "remove", removed)
	g.explained(t, gone, gateRefuses, what, "token failed personal_token_unknown")
	now.advance(31 * 24 * time.Hour)
	g.explained(t, robots, gateRefuses, what, "time failed personal_token_unknown", "subject backup")
	without := startGatehouse(t, durableSite)
	without.explained(t, robots, gateRefuses, "It is what looks like a personal access token, and the configuration has no personal_tokens.")
}

// TestCommandTokenExplainOfAHostSession checks that `token explain` names the host of a session cookie and reports whether the session is
// active.
func TestCommandTokenExplainOfAHostSession(t *testing.T) {
	g := startHosts(t)
	v := g.signedIn(t, "ada@acme.example")
	v.walk(g.at("wiki", "/pages/1"), "")
	for _, host := range []string{"app", "wiki"} {
		g.explained(t, v.cookie(host, hostCookie), gateAccepts, "It is the cookie of a session at "+g.origin(host)+", which counts there alone.",
			"form passed", "session passed", "subject u-ada", "client gatehouse")
	}
	cookie := v.cookie("app", hostCookie)
	g.explained(t, cookie+"x", gateRefuses)
	v.signsOut("app")
	g.explained(t, cookie, gateRefuses, "It is the cookie of a session at "+g.origin("app")+", which counts there alone.", "form passed", "session failed session_missing")
}
