package caddymodule

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// application is a client that receives logout tokens.
type application struct {
	*httptest.Server
	request request

	mu     sync.Mutex
	tokens []string
	status int // of its answers
}

// application registers a client of OpenID Connect with a back-channel logout URI.
func (g *gatehouse) application(t *testing.T, id string) *application {
	t.Helper()
	a := &application{status: http.StatusOK, request: openIDRequestOf("conf", "openid")}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if token := r.PostFormValue("logout_token"); token != "" && r.Method == http.MethodPost && r.URL.Path == "/backchannel" {
			a.tokens = append(a.tokens, token)
		}
		w.WriteHeader(a.status)
	}))
	t.Cleanup(a.Close)
	a.request.clientID, a.request.redirectURI = id, a.URL+"/cb"
	a.request.secret = g.addClient(t, store.Client{
		ID: id, Name: "Application " + id, Grants: []oauth.GrantType{oauth.AuthorizationCode}, Scopes: oauth.Scopes{"public", "openid"},
		RedirectURIs: []string{a.request.redirectURI}, FirstParty: true, ClientOpenID: store.ClientOpenID{BackchannelLogoutURI: a.URL + "/backchannel"},
	})
	return a
}

func (a *application) answer(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status = status
}

// told returns the logout tokens received so far.
func (a *application) told() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.tokens)
}

// signedIn signs a user in at the application and returns the ID token's claims.
func (b *browser) signedIn(t *testing.T, a *application, email string) map[string]any {
	t.Helper()
	status, _, body := b.gatehouse.post("/oauth/token", a.request.exchange(b.authorize(a.request, email).location().Query().Get("code")))
	if status != http.StatusOK {
		t.Fatalf("token endpoint: %d %s", status, body)
	}
	_, claims := b.identity(t, member(t, body, "id_token"))
	return claims
}

// awaitTold waits until the application has received n logout tokens, and returns the claims of the last one.
func (g *gatehouse) awaitTold(t *testing.T, a *application, n int) map[string]any {
	t.Helper()
	g.eventually("the application is told", func() bool { return len(a.told()) >= n })
	tokens := a.told()
	if len(tokens) != n {
		t.Fatalf("the application was told %d times, want %d", len(tokens), n)
	}
	header, claims := g.identity(t, tokens[n-1])
	events, _ := claims["events"].(map[string]any)
	if _, nonce := claims["nonce"]; header["typ"] != "logout+jwt" || nonce || events["http://schemas.openid.net/event/backchannel-logout"] == nil {
		t.Errorf("the logout token says %v %v", header, claims)
	}
	return claims
}

// submit sends the form of a page, with further fields.
func (b *browser) submit(t *testing.T, path string, more ...string) page {
	t.Helper()
	p := b.open(path)
	action, fields := formIn(t, p)
	fields.Del("application")
	fields.Del("session")
	fields.Del("everywhere")
	for pair := range slices.Chunk(more, 2) {
		fields.Set(pair[0], pair[1])
	}
	return b.send(action, fields)
}

// TestT200AnEndedSessionIsToldToItsApplications: a session ends by sign-out, account page, a change of the user, an operator or the
// organisation's revocation (T212) → its applications get a logout token with its sid within seconds, others do not.
func TestT200AnEndedSessionIsToldToItsApplications(t *testing.T) {
	type scene struct {
		*gatehouse
		t      *testing.T
		b      *browser
		told   *application
		id     string // the user's id
		claims map[string]any
	}
	g := startOpenID(t, "store memory", "store sqlite DIR/state/oauth.db")
	stranger, silent := g.application(t, "stranger"), g.application(t, "silent")
	g.browser().signedIn(t, stranger, "rita@rival.example")
	endings := []struct {
		name string
		end  func(s *scene)
	}{
		{"the user signs out", func(s *scene) { s.b.submit(s.t, "/oauth/logout") }},
		{"the user signs out everywhere", func(s *scene) { s.b.submit(s.t, "/oauth/account", "everywhere", "yes") }},
		{"the user ends the session in another browser", func(s *scene) {
			other := s.browser()
			other.signIn(other.open("/oauth/login"), s.id+"@acme.example", peoplePassword)
			other.submit(s.t, "/oauth/account", "session", s.claims["sid"].(string))
		}},
		{"the user signs in anew in this browser", func(s *scene) {
			r := s.told.request
			r.more = url.Values{"prompt": {"login"}}
			s.b.authorize(r, s.id+"@acme.example")
		}},
		{"an operator revokes the user", func(s *scene) {
			s.must(http.StatusNoContent, "POST", "/oauth/revocations", fmt.Sprintf(`{"user":%q}`, s.claims["sub"]))
		}},
		{"an operator revokes the session", func(s *scene) {
			s.must(http.StatusNoContent, "POST", "/oauth/revocations", fmt.Sprintf(`{"family":%q}`, s.claims["sid"]))
		}},
		{"T212 an operator revokes the organisation", func(s *scene) {
			s.must(http.StatusNoContent, "POST", "/oauth/revocations", fmt.Sprintf(`{"organisation":%q}`, s.id))
		}},
		{"an operator disables the user", func(s *scene) {
			check(s.t, s.app().registry.People.SetUserStatus(s.t.Context(), s.claims["sub"].(string), store.UserDisabled))
		}},
		{"an operator changes the password", func(s *scene) {
			check(s.t, s.app().registry.People.SetPassword(s.t.Context(), s.claims["sub"].(string), oauth.NewSecret("another correct horse battery staple")))
		}},
		{"an operator removes the user", func(s *scene) {
			check(s.t, s.app().registry.People.RemoveUser(s.t.Context(), s.claims["sub"].(string)))
		}},
		{"another node", func(s *scene) {
			node, err := sqlstore.OpenSQLite(s.t.Context(), s.database(), sqlstore.Options{})
			check(s.t, err)
			defer func() { check(s.t, node.Close()) }()
			_, err = node.Families.EndFamilies(s.t.Context(), store.FamilyFilter{ID: s.claims["sid"].(string)}, store.Ending{At: time.Now(), Until: time.Now().Add(time.Hour)})
			check(s.t, err)
		}},
	}
	var scenes []*scene
	for i, c := range endings {
		id := fmt.Sprintf("visitor%d", i)
		s := &scene{gatehouse: g, t: t, b: g.browser(), told: g.application(t, fmt.Sprintf("app%d", i)), id: id}
		g.ok("org", "add", id, "--name", id)
		g.addUser(id+"@acme.example", id, store.RoleMember)
		s.claims = s.b.signedIn(t, s.told, id+"@acme.example")
		plain := silent.request
		plain.scope = "public"
		if p := s.b.authorize(plain, id+"@acme.example"); p.location().Query().Get("code") == "" {
			t.Fatalf("%s: %d %s", c.name, p.status, p.body)
		}
		c.end(s)
		scenes = append(scenes, s)
	}
	for i, s := range scenes { // after all have ended: the worker runs once a second
		t.Run(endings[i].name, func(t *testing.T) {
			told := g.awaitTold(t, s.told, 1)
			for _, name := range []string{"iss", "aud", "sub", "sid"} {
				if told[name] != s.claims[name] || told[name] == nil {
					t.Errorf("%s is %v, in the ID token %v", name, told[name], s.claims[name])
				}
			}
			if n := len(stranger.told()) + len(silent.told()); n != 0 {
				t.Errorf("%d others were told", n)
			}
			delivered := regexp.MustCompile(fmt.Sprintf(`"application told of the sign-out".*"client_id":"app%d"`, i))
			g.eventually("the delivery is in the audit log", func() bool { return delivered.MatchString(g.logs()) })
			g.notLogged(t, s.told.told()...)
		})
	}
}

// TestT200TheConfigurationEndsASession: a reload without a declared user, or with another password → the worker of the new configuration
// sends logout tokens to the session's applications.
func TestT200TheConfigurationEndsASession(t *testing.T) {
	for name, change := range map[string][]string{
		"gone":             {"user u-max {", "user u-maximilian {"},
		"another password": {"email max@acme.example\n\t\t\tpassword " + peopleHash(), "email max@acme.example\n\t\t\tpassword " + cheapHash(72)},
	} {
		t.Run(name, func(t *testing.T) {
			g := startOpenID(t)
			app := g.application(t, "app")
			claims := g.browser().signedIn(t, app, "max@acme.example")
			text := strings.Replace(peopleSite("password_grant\n", "password_grant\n\t\t"+turnOn+"\n"), change[0], change[1], 1)
			g.reload(text)
			if told := g.awaitTold(t, app, 1); told["sid"] != claims["sid"] || told["sub"] != "u-max" {
				t.Errorf("the logout token says %v", told)
			}
		})
	}
}

// TestT207OnlyTheSessionThatEnded: a sign-out in one of several browsers → only that session's applications get logout tokens.
func TestT207OnlyTheSessionThatEnded(t *testing.T) {
	g := startOpenID(t)
	app := g.application(t, "app")
	here, there, other := g.browser(), g.browser(), g.browser()
	ended := here.signedIn(t, app, "max@acme.example")
	there.signedIn(t, app, "max@acme.example")
	other.signedIn(t, app, "rita@rival.example")
	here.submit(t, "/oauth/logout")
	if told := g.awaitTold(t, app, 1); told["sid"] != ended["sid"] {
		t.Errorf("told was of %v, and %v has ended", told["sid"], ended["sid"])
	}
	left, err := g.app().node.Store().Logouts.DueLogouts(t.Context(), time.Now().Add(time.Hour), 10)
	if err != nil || len(left) > 1 { // the delivered one may not be deleted yet
		t.Errorf("due are %+v, %v", left, err)
	}
	there.submit(t, "/oauth/account", "session", other.signedIn(t, app, "rita@rival.example")["sid"].(string))
	there.submit(t, "/oauth/logout")
	if told := g.awaitTold(t, app, 2); told["sub"] != "u-max" {
		t.Errorf("somebody else's session was ended: %v", told)
	}
}

// TestT203AnApplicationThatIsDown: an application that is down → retried after 5 s, 10 s … 10 min with fresh tokens, also after a reload;
// given up after an hour, in metrics and audit log.
func TestT203AnApplicationThatIsDown(t *testing.T) {
	clock := runningClock(t)
	g := startOpenID(t, "store memory", "store sqlite DIR/state/oauth.db")
	down, dead := g.application(t, "down"), g.application(t, "dead")
	down.answer(http.StatusServiceUnavailable)
	dead.Close()
	b := g.browser()
	b.signedIn(t, down, "max@acme.example")
	b.signedIn(t, dead, "max@acme.example")
	b.submit(t, "/oauth/logout")
	g.eventually("both have failed", func() bool {
		return strings.Count(g.logs(), `"result":"failed"`) == 2
	})
	down.answer(http.StatusNoContent)
	g.reload(peopleSite("password_grant\n", "password_grant\n\t\t"+turnOn+"\n", "store memory", "store sqlite DIR/state/oauth.db"))
	clock.advance(time.Minute)
	g.eventually("the one that is up is told", func() bool { return strings.Contains(g.logs(), "application told of the sign-out") })
	clock.advance(2 * time.Hour)
	g.eventually("the other is given up", func() bool { return strings.Contains(g.logs(), `"result":"given_up"`) })
	g.eventually("nothing is due", func() bool {
		left, err := g.app().node.Store().Logouts.DueLogouts(t.Context(), time.Now().Add(1000*time.Hour), 10)
		return err == nil && len(left) == 0
	})
	_, _, metrics := g.operate(http.MethodGet, "/metrics", "")
	for _, result := range []string{"delivered", "failed", "given_up"} {
		holdWords(t, "the metrics", metrics, `gatehouse_logout_deliveries_total{result="`+result+`"}`)
	}
}

// TestT205BackchannelToAPrivateAddress: a back-channel URI at a private address → registered, and dialled only where private networks are
// allowed.
func TestT205BackchannelToAPrivateAddress(t *testing.T) {
	g := startOpenID(t)
	app := g.application(t, "app")
	check(t, g.app().node.Store().Clients.ChangeClient(t.Context(), "app", store.ClientChange{Edit: func(c *store.Client) error {
		c.BackchannelLogoutURI = "https://10.255.255.1/backchannel?key=in-the-query"
		return nil
	}}))
	b := g.browser()
	b.signedIn(t, app, "max@acme.example")
	b.submit(t, "/oauth/logout")
	g.eventually("the delivery fails", func() bool {
		return strings.Contains(g.logs(), "10.255.255.1 is private; allow_private_network would open it")
	})
	if strings.Contains(g.logs(), "in-the-query") {
		t.Error("the query of the URI is in the log")
	}
	g.reload(peopleSite("password_grant\n", "password_grant\n\t\t"+turnOn+" {\n\t\t\tallow_private_network\n\t\t}\n"))
	if !g.loaded().OpenID.AllowPrivateNetwork {
		t.Error("private networks are not allowed")
	}
}

// TestT211TheAccountPageSaysWhoIsTold: the account page → lists for each session the applications that are notified of its end.
func TestT211TheAccountPageSaysWhoIsTold(t *testing.T) {
	g := startOpenID(t)
	app, moved := g.application(t, "app"), g.application(t, "moved")
	b := g.browser()
	b.signedIn(t, app, "max@acme.example")
	b.signedIn(t, moved, "max@acme.example")
	check(t, g.app().node.Store().Clients.ChangeClient(t.Context(), "moved", store.ClientChange{Edit: func(c *store.Client) error {
		c.ClientOpenID = store.ClientOpenID{}
		return nil
	}}))
	g.browser().signIn(g.browser().open("/oauth/login"), "max@acme.example", peoplePassword)
	for language, words := range map[string]string{
		"en": "When this session ends, these applications are told to sign you out:", "de": "Wenn diese Sitzung endet, werden diese Anwendungen aufgefordert, Sie abzumelden:",
	} {
		page := b.fetch(http.MethodGet, "/oauth/account", "", "Accept-Language", language)
		if want := words + "</p>\n<ul class=\"scopes\" role=\"list\"><li><bdi>Application app</bdi></li></ul>"; strings.Count(page.body, words) != 1 || !strings.Contains(page.body, want) {
			t.Errorf("%s: the page does not say %q:\n%s", language, want, page.body)
		}
	}
}
