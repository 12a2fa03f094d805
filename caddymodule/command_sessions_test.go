package caddymodule

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestA148SessionsAsOperatorsSeeThem: one line for each browser, with the applications that are told when it is signed out.
func TestA148SessionsAsOperatorsSeeThem(t *testing.T) {
	type session struct {
		ID, Browser string
		CreatedAt   time.Time `json:"created_at"`
		LastSeen    time.Time `json:"last_seen"`
		Told        []string
	}
	g := startOpenID(t, "redirect_uris https://client.example/cb?x=1", "backchannel_logout_uri http://127.0.0.1:1/\n\t\t\tredirect_uris https://client.example/cb?x=1")
	sessions := func() []session {
		t.Helper()
		return decoded[[]session](t, g.ok("user", "sessions", "u-ada", "--json"))
	}
	if got := sessions(); len(got) != 0 {
		t.Fatalf("before anybody has signed in: %+v", got)
	}
	quiet := g.browser()
	quiet.signInPage("ada@acme.example", peoplePassword)
	told, r := g.browser(), openIDRequestOf("conf", "openid")
	_, claims := g.identity(t, told.redeem(t, told.authorize(r, "ada@acme.example"), r).IDToken)
	got := sessions()
	if len(got) != 2 {
		t.Fatalf("%+v", got)
	}
	for _, s := range got {
		want := ""
		if s.ID == claims["sid"] {
			want = "conf"
		}
		if strings.Join(s.Told, " ") != want || s.CreatedAt.IsZero() || s.LastSeen.IsZero() {
			t.Errorf("%+v, want to be told: %q", s, want)
		}
	}
	out := g.ok("user", "sessions", "ada@acme.example")
	if !strings.Contains(out, "TOLD") || strings.Count(out, "\n") != 3 || !strings.Contains(out, claims["sid"].(string)) {
		t.Errorf("printed\n%s", out)
	}
	g.ok("token", "revoke", "--family", claims["sid"].(string))
	if got := sessions(); len(got) != 1 || len(got[0].Told) != 0 {
		t.Errorf("after one was ended: %+v", got)
	}
	g.must(http.StatusNotFound, "GET", "/oauth/users/nobody/sessions", "")
}
