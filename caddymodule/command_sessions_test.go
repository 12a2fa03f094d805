package caddymodule

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestS66HostSessionsAsOperatorsAndPeopleSeeThem checks that the CLI and the account page list host sessions under the sign-in that created
// them. Each can be ended alone.
func TestS66HostSessionsAsOperatorsAndPeopleSeeThem(t *testing.T) {
	g := startPeople(t)
	b := g.browser()
	b.signInPage("ada@acme.example", peoplePassword)
	sessions := func() []admin.Session {
		t.Helper()
		return decoded[[]admin.Session](t, g.ok("user", "sessions", "u-ada", "--json"))
	}
	signIn := sessions()[0].ID
	s := g.app().node.Store()
	f, err := s.Family(t.Context(), signIn)
	check(t, err)
	ids := make(map[string]string)
	for _, host := range []string{"app.example.com", "wiki.example.com:8443"} {
		at := *f
		at.ID, at.Origin, at.SessionID, at.Preconditions.SessionID = oauth.NewID(), store.HostSession, signIn, signIn
		at.Code = store.CodeBinding{RequestID: oauth.NewID(), RedirectURI: "https://" + host + "/oauth/callback", ExpiresAt: f.CreatedAt.Add(time.Minute), SpentAt: f.CreatedAt}
		if outcome, err := s.AddFamily(t.Context(), &at); outcome != store.Done || err != nil {
			t.Fatal(outcome, err)
		}
		ids[host] = at.ID
	}
	out := g.ok("user", "sessions", "u-ada")
	if strings.Count(out, "\n") != 4 || !hasLine(out, []string{ids["app.example.com"], "  app.example.com"}) {
		t.Errorf("printed\n%s", out)
	}
	if got := sessions(); len(got) != 1 || len(got[0].Hosts) != 2 || got[0].Hosts[0].LastSeen.IsZero() {
		t.Errorf("%+v", got)
	}
	page := b.open("/oauth/account")
	for host, id := range ids {
		if !strings.Contains(page.body, host) || !strings.Contains(page.body, `value="`+id+`"`) {
			t.Errorf("the account page says nothing of %s:\n%s", host, page.body)
		}
	}
	if strings.Contains(page.body, "gatehouse</bdi>") {
		t.Error("a host session is an application")
	}
	b.submit(t, "/oauth/account", "session", ids["app.example.com"])
	if got := sessions(); len(got) != 1 || len(got[0].Hosts) != 1 || got[0].Hosts[0].Host != "wiki.example.com:8443" {
		t.Errorf("after one was ended: %+v", got)
	}
	g.ok("token", "revoke", "--family", ids["wiki.example.com:8443"])
	if got := sessions(); len(got) != 1 || len(got[0].Hosts) != 0 {
		t.Errorf("after both were ended: %+v", got)
	}
}

// TestA148SessionsAsOperatorsSeeThem: `user sessions` → each browser with its sid and the applications that are notified of its end.
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
