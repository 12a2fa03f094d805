package caddymodule

import (
	"net"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-ldap/ldap/v3"

	"github.com/gatehouse-auth/gatehouse/internal/ldaptest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// atDirectory returns a site whose people sign in with a directory.
func atDirectory(server *ldaptest.Server, lines string) string {
	return `{
	admin ADMIN
	log {
		output file LOG
		level DEBUG
	}
	oauth {
		issuer http://ADDR
		store memory
		password_grant
		session_scopes groups
		limits {
			login off
		}
		sign_in {
			ldap corp ` + server.TLSURL + ` {
				ca ` + server.CAFile + `
				bind_dn ` + ldaptest.ReaderDN + `
				bind_password "` + ldaptest.ReaderPassword + `"
				user_base ` + ldaptest.Base + `
				user_filter (|(mail={email})(uid={username}))
				group_base ` + ldaptest.Groups + `
				timeout 30s
				dial_timeout 30s
				` + lines + `
			}
		}
	}
}

http://ADDR {
	oauth_server
	handle /wiki {
		protect {
			require group engineering
		}
		respond "Hello {http.auth.user.id}"
	}
	handle {
		respond 404
	}
}
`
}

// TestP52SigningInWithADirectory: the sign-in page with a directory: name or address, injection, wrong password, outage → signed in with
// groups, refused, 503; no password in the log.
func TestP52SigningInWithADirectory(t *testing.T) {
	server := ldaptest.Start(t)
	g := startGatehouse(t, atDirectory(server, "create"))

	b := g.browser()
	p := b.open("/oauth/login")
	if strings.Contains(p.body, `inputmode="email"`) {
		t.Errorf("the form asks for an address: %s", p.body)
	}
	for _, login := range []string{"*", "ada)(uid=*", "eve", "twin"} {
		if p := b.signIn(b.open("/oauth/login"), login, ldaptest.PasswordOf("ada")); p.status != http.StatusOK || b.isSignedIn() {
			t.Errorf("%s: %d", login, p.status)
		}
	}
	b.signIn(b.open("/oauth/login"), "ada", "wrong")
	if b.isSignedIn() {
		t.Fatal("signed in with a wrong password")
	}
	b.signIn(b.open("/oauth/login"), "ada", ldaptest.PasswordOf("ada"))
	if page := b.open("/oauth/account"); !strings.Contains(page.body, "ada@example.com") {
		t.Fatalf("account page: %d %s", page.status, page.body)
	}
	families, err := g.app().node.Store().Families.FamiliesOf(t.Context(), userNamed(t, g, "ada@example.com").ID, time.Time{})
	check(t, err)
	if !slices.ContainsFunc(families, func(f *store.TokenFamily) bool {
		return f.SignIn.Provider == "corp" && reflect.DeepEqual(f.SignIn.Proof, store.Proof{ACR: "1", AMR: []string{"pwd"}})
	}) {
		t.Errorf("a password was proved, and kept are %+v", families)
	}
	if logs := g.logs(); !strings.Contains(logs, `"reason":"directory_refused"`) || !strings.Contains(logs, `"provider":"corp","account":"ada"`) {
		t.Errorf("the log does not say whom which directory has refused: %s", logs)
	}
	if logs := g.logs(); strings.Contains(logs, `"account":"eve"`) {
		t.Error("what no directory knows stands in the log: it may be a password")
	}
	if logs := g.logs(); !strings.Contains(logs, `"provider":"corp"`) || strings.Contains(logs, "nobody guesses") || strings.Contains(logs, ldaptest.ReaderPassword) {
		t.Error("the log lacks the provider, or has a password")
	}

	grant := func(login, password string) (int, string) {
		status, _, body := g.post("/oauth/token", url.Values{"grant_type": {"password"}, "username": {login}, "password": {password}, "scope": {"public groups"}})
		return status, body
	}
	status, body := grant("ada@example.com", ldaptest.PasswordOf("ada"))
	if status != http.StatusOK {
		t.Fatalf("password grant: %d %s", status, body)
	}
	if status, _, body := g.get("/wiki", member(t, body, "access_token")); status != http.StatusOK {
		t.Errorf("group of a group: %d %s", status, body)
	}
	if status, _ := grant("ada@example.com", ""); status != http.StatusBadRequest {
		t.Errorf("an empty password: %d", status)
	}
	status, body = grant("bob", ldaptest.PasswordOf("bob"))
	if status != http.StatusOK {
		t.Fatalf("bob: %d %s", status, body)
	}
	if status, _, _ := g.get("/wiki", member(t, body, "access_token")); status != http.StatusForbidden {
		t.Errorf("bob, who is in another group: %d", status)
	}

	if out := g.ok("provider", "test", "corp", "--login", "ada"); !strings.Contains(out, "engineering") {
		t.Errorf("provider test: %s", out)
	}
	if out := g.ok("provider", "list"); !strings.Contains(out, "corp") || !strings.Contains(out, "ldap") {
		t.Errorf("provider list: %s", out)
	}
	server.Stop()
	if status, body := grant("ada", ldaptest.PasswordOf("ada")); status != http.StatusServiceUnavailable {
		t.Errorf("the directory is away: %d %s", status, body)
	}
	server.Run()
	if status, body := grant("ada", ldaptest.PasswordOf("ada")); status != http.StatusOK {
		t.Errorf("the directory is back: %d %s", status, body)
	}
}

// TestP198WhoHasLeftTheDirectoryIsSignedOut: `recheck`, and a person whose entry is gone → the session and what came of it end at the next
// round, which one node begins in each interval; the directory away → they go on, and the log says so.
func TestP198WhoHasLeftTheDirectoryIsSignedOut(t *testing.T) {
	server := ldaptest.Start(t)
	server.AddPerson(ldaptest.DN("eve"), "eve", "eve@example.com")
	g := startGatehouse(t, atDirectory(server, "create\nrecheck 1h"))
	g.eventually("the first round is over", func() bool { return strings.Contains(g.logs(), `"asked":0,"left":0`) })
	b := g.browser()
	b.signIn(b.open("/oauth/login"), "eve", ldaptest.PasswordOf("eve"))
	status, _, body := g.post("/oauth/token", url.Values{"grant_type": {"password"}, "username": {"eve"}, "password": {ldaptest.PasswordOf("eve")}, "scope": {"public"}})
	if status != http.StatusOK || !b.isSignedIn() {
		t.Fatalf("%d %s", status, body)
	}
	admin := server.Admin()
	check(t, admin.Del(ldap.NewDelRequest(ldaptest.DN("eve"), nil)))
	_ = admin.Close()
	r := g.loaded().starting.rechecks[0]
	r.once()
	if !b.isSignedIn() {
		t.Error("a second round within the interval")
	}
	server.Stop()
	if _, err := r.Round(t.Context()); err == nil || !b.isSignedIn() {
		t.Errorf("the directory is away: %v", err)
	}
	if out := g.ok("provider", "list"); !strings.Contains(out, "down") && !strings.Contains(out, "unavailable") && !strings.Contains(out, "refused") {
		t.Errorf("provider list does not say that it is away: %s", out)
	}
	server.Run()
	if tally, err := r.Round(t.Context()); err != nil || tally.Left != 1 {
		t.Fatalf("%+v, %v", tally, err)
	}
	if page := b.open("/oauth/account"); strings.Contains(page.body, "eve@example.com") {
		t.Error("eve is signed in still")
	}
	if status, _, answer := g.get("/wiki", member(t, body, "access_token")); status != http.StatusUnauthorized {
		t.Errorf("eve's token: %d %s", status, answer)
	}
	if !strings.Contains(g.logs(), `"msg":"sessions ended at a recheck"`) {
		t.Error("nothing in the audit log")
	}
}

// TestP54WhoMayNotComeInHasAPage: the right password of a person whom the rules refuse → the sign-in page with that reason.
func TestP54WhoMayNotComeInHasAPage(t *testing.T) {
	server := ldaptest.Start(t)
	g := startGatehouse(t, atDirectory(server, "title \"Acme & Co\"\ncreate\nallow group engineering"))
	b := g.browser()
	p := b.signIn(b.open("/oauth/login"), "bob", ldaptest.PasswordOf("bob"))
	if p.status != http.StatusForbidden || b.isSignedIn() || !strings.Contains(p.header.Get("Content-Type"), "text/html") {
		t.Errorf("%d %s", p.status, p.body)
	}
	if words := strings.ReplaceAll(strings.ReplaceAll(p.body, "<bdi>", ""), "</bdi>", ""); !strings.Contains(words, "This account at Acme &amp; Co cannot sign in here.") || !strings.Contains(p.body, `value="bob"`) {
		t.Errorf("the page does not say why, or has no form: %s", p.body)
	}
	b.signIn(p, "ada", ldaptest.PasswordOf("ada"))
	if !b.isSignedIn() {
		t.Error("ada is not signed in")
	}
}

// TestV8AShutdownDoesNotWaitForADirectory: a stop while a directory has accepted the connection and does not answer →
// Caddy stops, whatever timeout is set.
func TestV8AShutdownDoesNotWaitForADirectory(t *testing.T) {
	former := shutdownPatience
	shutdownPatience = 100 * time.Millisecond
	t.Cleanup(func() { shutdownPatience = former })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	asked := make(chan struct{}, 10)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			asked <- struct{}{}
		}
	}()
	g := startGatehouse(t, strings.NewReplacer("LDAP", listener.Addr().String()).Replace(`{
	admin ADMIN
	log {
		output file LOG
	}
	oauth {
		issuer http://ADDR
		store memory
		password_grant
		sign_in {
			ldap first ldap://LDAP {
				start_tls
				user_base dc=example,dc=com
				timeout 10m
				dial_timeout 10m
			}
			ldap second ldap://LDAP {
				start_tls
				user_base dc=example,dc=org
				timeout 10m
				dial_timeout 10m
			}
		}
	}
}

http://ADDR {
	oauth_server
}
`))
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		response, err := http.PostForm(g.url+"/oauth/token", url.Values{
			"grant_type": {"password"}, "username": {"ada@example.com"}, "password": {"right"}, "scope": {"public"},
		})
		if err == nil {
			_ = response.Body.Close()
		}
	}()
	<-asked
	begun := time.Now()
	check(t, caddy.Stop())
	<-answered
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("the shutdown took %s", took)
	}
}
