package caddymodule

import (
	"net/http"
	"slices"
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
	f, err := s.Families.Family(t.Context(), signIn)
	check(t, err)
	ids := make(map[string]string)
	for _, host := range []string{"app.example.com", "wiki.example.com:8443"} {
		at := *f
		at.ID, at.Origin, at.SignIn.SessionID, at.Preconditions.SessionID = oauth.NewID(), store.HostSession, signIn, signIn
		at.Code = store.CodeBinding{RequestID: oauth.NewID(), RedirectURI: "https://" + host + "/oauth/callback", ExpiresAt: f.CreatedAt.Add(time.Minute), SpentAt: f.CreatedAt}
		if outcome, err := s.Families.AddFamily(t.Context(), &at); outcome != store.Done || err != nil {
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

// TestX59SessionsOfEverybody: browsers, hosts and applications of two people → `session list` has them all, by user, client and host; `session
// end` ends one, all of a user, or all of an application, and nothing else.
func TestX59SessionsOfEverybody(t *testing.T) {
	g := startPeople(t)
	g.ok("user", "add", "--id", "u-bob", "--email", "bob@acme.example", "--password-hash", adaHash)
	list := func(args ...string) (ids []string) {
		t.Helper()
		for _, s := range decoded[[]admin.SessionOfAnybody](t, g.ok(append([]string{"session", "list", "--json"}, args...)...)) {
			ids = append(ids, s.ID)
		}
		return ids
	}
	if got := list(); len(got) != 0 {
		t.Fatalf("before anybody has signed in: %q", got)
	}
	g.browser().signInPage("ada@acme.example", peoplePassword)
	g.browser().signInPage("ada@acme.example", peoplePassword)
	families, adas := g.app().node.Store().Families, list()
	if len(adas) != 2 {
		t.Fatalf("%q", adas)
	}
	f, err := families.Family(t.Context(), adas[0])
	check(t, err)
	bob, err := g.app().node.Store().Users.User(t.Context(), "u-bob")
	check(t, err)
	add := func(edit func(*store.TokenFamily)) string {
		t.Helper()
		other := *f
		other.ID, other.Code = oauth.NewID(), store.CodeBinding{RequestID: oauth.NewID(), ExpiresAt: f.CreatedAt.Add(time.Minute), SpentAt: f.CreatedAt}
		edit(&other)
		if outcome, err := families.AddFamily(t.Context(), &other); outcome != store.Done || err != nil {
			t.Fatal(outcome, err)
		}
		return other.ID
	}
	host := add(func(o *store.TokenFamily) {
		o.Origin, o.SignIn.SessionID, o.Preconditions.SessionID, o.Code.RedirectURI = store.HostSession, f.ID, f.ID, "https://app.example.com/oauth/callback"
	})
	granted := add(func(o *store.TokenFamily) { o.Origin, o.ClientID = oauth.AuthorizationCode, "conf" })
	bobs := add(func(o *store.TokenFamily) {
		o.Origin, o.ClientID, o.User = oauth.AuthorizationCode, "conf", store.FamilyUser{ID: "u-bob", Version: bob.Version}
	})
	want := func(what string, got []string, want ...string) {
		t.Helper()
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	want("all", list(), adas[0], adas[1], host, granted, bobs)
	want("of ada", list("--user", "ada@acme.example"), adas[0], adas[1], host, granted)
	want("of bob's application", list("--user", "u-bob", "--client", "conf"), bobs)
	want("at the host", list("--host", "app.example.com"), host)
	if out := g.ok("session", "list"); !hasLine(out, []string{host, "host", "u-ada", "ada@acme.example", "app.example.com"}) || !hasLine(out, []string{bobs, "application", "u-bob", "bob@acme.example", "conf"}) {
		t.Errorf("printed\n%s", out)
	}
	g.ok("session", "end", adas[0])
	want("one has ended, with its host", list(), adas[1], granted, bobs)
	g.ok("session", "end", "--client", "conf")
	want("those of the application have ended", list(), adas[1])
	g.ok("session", "end", "--user", "ada@acme.example")
	want("those of the user have ended", list())
	for _, wrong := range []struct{ args, says string }{
		{"session end", "name one session"}, {"session end x --user u-ada", "name one session"}, {"session end --user u-ada --client conf", "name one session"},
		{"session end nothing", "there is no such session, user or client"}, {"session end --client nothing", "there is no such session, user or client"}, {"session list --user nobody", "there is no such session, user or client"},
		{"session list --host=", "host: give one value"}, {"session end --user=", "user: give one value"},
	} {
		if _, err := g.run("", strings.Fields(wrong.args)...); err == nil || !strings.Contains(err.Error(), wrong.says) {
			t.Errorf("%s: %v", wrong.args, err)
		}
	}
}
