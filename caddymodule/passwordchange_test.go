package caddymodule

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/mailtest"
	"github.com/gatehouse-auth/gatehouse/internal/passkeytest"
)

// The tests of this file walk each way to another password, and the other mailed links, through a whole Caddy and a mail server. What a change of
// the password ends is one promise, in one table: holdings.

const (
	zoe          = "zoe@acme.example"
	zoesPassword = "staples in the rain"
)

// startChanges serves a user with everything that a change of password might end, and mail.
func startChanges(t *testing.T) (*hostsGate, *mailtest.Server) {
	t.Helper()
	server := mailtest.Start(t, mailtest.Options{})
	t.Setenv("GATEHOUSE_TEST_SMTP_PASSWORD", mailtest.Password)
	g := startHosts(t, "store memory", `store memory
		password_grant {
			refresh_tokens
		}
		personal_tokens
		`+mailLines(server)+`
		client conf SECRET {
			grants authorization_code refresh_token password
			scopes public trusted refresh_token
			redirect_uris https://client.example/cb?x=1
		}`)
	g.must(http.StatusCreated, http.MethodPost, "/oauth/users", `{"id":"u-zoe","email":"`+zoe+`","organisation":"acme","role":"member","password":"`+peoplePassword+`"}`)
	return g, server
}

// letter returns the link of the next letter, or "" if it has none.
func letter(t *testing.T, server *mailtest.Server, to, subject string) string {
	t.Helper()
	m := server.Next(t)
	p := m.Parse(t)
	if m.To != to || !strings.Contains(p.Subject, subject) {
		t.Fatalf("a letter %q to %s, want %q to %s", p.Subject, m.To, subject, to)
	}
	for line := range strings.Lines(p.Text) {
		if line = strings.TrimSpace(line); strings.Contains(line, "/oauth/link?pending=") {
			return line
		}
	}
	return ""
}

// fills sends a form of a page of the issuer with these fields: name, value, …
func (v *visitorOfHosts) fills(p answer, fields ...string) answer {
	v.t.Helper()
	action, form := formIn(v.t, p)
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return v.send(http.MethodPost, v.gate.at("auth", action), form.Encode(), "Content-Type", urlEncoded, "Sec-Fetch-Site", "same-origin")
}

// sets sets the password with a link, and reports whether the browser is signed in afterwards.
func (v *visitorOfHosts) sets(link, password string) bool {
	v.t.Helper()
	v.fills(v.navigate(link), "new_password", password, "new_password_again", password)
	return v.isSignedIn()
}

func (v *visitorOfHosts) isSignedIn() bool {
	v.t.Helper()
	return v.navigate(v.gate.at("auth", "/oauth/account")).status == http.StatusOK
}

// isIn reports whether the browser has a session at a host.
func (v *visitorOfHosts) isIn(host string) bool {
	v.t.Helper()
	return v.send(http.MethodGet, v.gate.at(host, "/pages/1"), "").status == http.StatusOK
}

// asksToken posts to the token endpoint. It returns the status.
func (v *visitorOfHosts) asksToken(form url.Values) (int, tokens) {
	v.t.Helper()
	a := v.send(http.MethodPost, v.gate.at("auth", "/oauth/token"), form.Encode(), "Content-Type", urlEncoded)
	var got tokens
	check(v.t, json.Unmarshal([]byte(a.body), &got))
	return a.status, got
}

// passes reports whether the gate takes a bearer token.
func (v *visitorOfHosts) passes(token string) bool {
	v.t.Helper()
	return v.send(http.MethodGet, v.gate.at("app", "/api/x"), "", "Authorization", "Bearer "+token).status == http.StatusOK
}

// code returns a code for the request of a browser that is signed in, and whether the browser was asked for consent.
func (v *visitorOfHosts) code(r request) (code string, asked bool) {
	v.t.Helper()
	a := v.navigate(v.gate.at("auth", r.path()))
	if asked = strings.Contains(a.body, `name="decision"`); asked {
		a = v.fills(page(a), "decision", "allow")
	}
	code = page(a).location().Query().Get("code")
	if code == "" {
		v.t.Fatalf("no code: %d %q %.400s", a.status, a.header.Get("Location"), a.body)
	}
	return code, asked
}

// holdings are what a user has on the day of a change.
type holdings struct {
	gate *hostsGate
	conf request
	// here and there are browsers that signed in with the password, alone is one that did with a passkey, and between has proved the password
	// and is asked for the passkey.
	here, there, alone, between *visitorOfHosts
	question                    answer
	passkey                     *passkeytest.Authenticator
	byCode, byPassword          tokens
	code, personal              string
}

func (g *hostsGate) holdings(t *testing.T) *holdings {
	t.Helper()
	h := &holdings{gate: g, conf: requestOf("conf"), here: g.signedIn(t, zoe), there: g.signedIn(t, zoe), alone: g.visitor(t), between: g.visitor(t)}
	h.conf.scope = "trusted public refresh_token"
	status := 0
	if status, h.byPassword = h.here.asksToken(h.conf.asPassword(zoe, peoplePassword)); status != http.StatusOK { // before there is a passkey
		t.Fatalf("the password grant: %d", status)
	}
	first, asked := h.here.code(h.conf)
	if status, h.byCode = h.here.asksToken(h.conf.exchange(first)); status != http.StatusOK || !asked {
		t.Fatalf("the code grant: %d, asked for consent: %t", status, asked)
	}
	h.code, _ = h.here.code(h.conf)
	h.personal = printed(t, g.ok("pat", "add", "--user", "u-zoe", "--name", "a script", "--scope", "trusted"), "token")
	h.passkey = passkeytest.New(t, g.origin("auth"))
	shownCodes(t, h.here.addsPasskey(h.passkey))
	h.here.walk(g.at("app", "/pages/1"), "") // of the session that has both factors
	p, _ := h.alone.walk(g.at("app", "/pages/1"), "")
	h.alone.uses(h.passkey, p)
	h.question, _ = h.between.walk(g.at("auth", "/oauth/login"), zoe)
	isBetween := strings.Contains(h.question.body, `name="code"`)
	if !h.here.isIn("app") || !h.there.isIn("app") || !h.alone.isIn("app") || !isBetween ||
		!h.here.passes(h.personal) || !h.here.passes(h.byCode.AccessToken) || !h.here.passes(h.byPassword.AccessToken) {
		t.Fatal("nothing to end")
	}
	return h
}

// holdEnded checks the table of docs/operations.md. here is not in it: its session ends unless the change was made in it.
func (h *holdings) holdEnded(t *testing.T, keepsPersonal bool) {
	t.Helper()
	refreshes := func(r tokens) bool {
		status, _ := h.there.asksToken(h.conf.refresh(r.RefreshToken))
		return status == http.StatusOK
	}
	redeemed, _ := h.there.asksToken(h.conf.exchange(h.code))
	h.between.uses(h.passkey, h.question)
	for name, lives := range map[string]bool{
		"the session of another browser": h.there.isSignedIn(), "the session at a host": h.there.isIn("app"),
		"the session of a passkey": h.alone.isSignedIn(), "the session of a passkey at a host": h.alone.isIn("app"),
		"the host session of the browser that made the change": h.here.isIn("app"),
		"a sign-in between two factors":                        h.between.isSignedIn(),
		"the access token of a code":                           h.there.passes(h.byCode.AccessToken), "its refresh token": refreshes(h.byCode),
		"the access token of the password grant": h.there.passes(h.byPassword.AccessToken), "that one's refresh token": refreshes(h.byPassword),
		"a code that was not redeemed": redeemed == http.StatusOK,
	} {
		if lives {
			t.Errorf("%s goes on", name)
		}
	}
	if h.there.passes(h.personal) != keepsPersonal {
		t.Errorf("the personal access token goes on: %t", !keepsPersonal)
	}
}

// holdKept checks that a browser that is signed in again is not asked for consent, and that the passkey signs in if it is still there.
func (h *holdings) holdKept(t *testing.T, again *visitorOfHosts, hasPasskey bool) {
	t.Helper()
	if _, asked := again.code(h.conf); asked {
		t.Error("asked for a consent that was given")
	}
	v := h.gate.visitor(t)
	p, _ := v.walk(h.gate.at("app", "/pages/1"), "")
	v.uses(h.passkey, p)
	if v.isIn("app") != hasPasskey {
		t.Errorf("the passkey signs in: %t", !hasPasskey)
	}
	if status, _ := v.asksToken(h.conf.asPassword(zoe, peoplePassword)); status == http.StatusOK {
		t.Error("the old password is good for the password grant")
	}
}

// TestE90E91E93ANewPasswordEndsTheRest: a user changes the password on the account page → this browser has a new session; or with the link of a letter
// for a forgotten one → the passkey is asked for; or an operator sets one → every session ends; each time every other session, also at hosts, of
// passkeys and between two factors, every token and every code ends at once; personal access tokens, the passkey and consents stay; a letter says so.
func TestE90E91E93ANewPasswordEndsTheRest(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, g *hostsGate, server *mailtest.Server, h *holdings){
		"E90 on the account page": func(t *testing.T, g *hostsGate, _ *mailtest.Server, h *holdings) {
			account, _ := h.here.walk(g.at("auth", "/oauth/account"), "")
			before := h.here.cookie("auth", "session")
			a := h.here.fills(account, "change", "password", "present_password", peoplePassword, "new_password", zoesPassword, "new_password_again", zoesPassword)
			if a.status != http.StatusSeeOther || h.here.cookie("auth", "session") == before {
				t.Fatalf("%d %q: no new session", a.status, a.header.Get("Location"))
			}
		},
		"E91 forgotten": func(t *testing.T, g *hostsGate, server *mailtest.Server, _ *holdings) {
			v := g.visitor(t)
			v.fills(v.navigate(g.at("auth", "/oauth/forgotten")), "email", zoe)
			link := letter(t, server, zoe, "password")
			if !strings.HasPrefix(link, g.at("auth", "/oauth/link?")) || v.sets(link, zoesPassword) {
				t.Fatalf("the link is %q, or it signs in without the passkey", link)
			}
			g.notLogged(t, link)
		},
		"E93 by an operator": func(t *testing.T, g *hostsGate, _ *mailtest.Server, _ *holdings) {
			_, err := g.run(zoesPassword+"\n", "user", "set-password", zoe, "--password-stdin")
			check(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, server := startChanges(t)
			h := g.holdings(t)
			letter(t, server, zoe, "second factor was added")
			change(t, g, server, h)
			h.holdEnded(t, true)
			isHere := strings.HasPrefix(name, "E90")
			if h.here.isSignedIn() != isHere {
				t.Errorf("the session goes on: %t", !isHere)
			}
			letter(t, server, zoe, "your password was changed")
			if a, at := h.here.walk(g.at("app", "/pages/1"), ""); isHere && (a.status != http.StatusOK || at != g.at("app", "/pages/1")) {
				t.Errorf("the new session at the host: %d at %s", a.status, at)
			}
			again := g.visitor(t)
			p, _ := again.walk(g.at("auth", "/oauth/login"), "")
			p = again.fills(p, "email", zoe, "password", zoesPassword)
			p, _ = again.walk(g.at("auth", page(p).header.Get("Location")), "")
			again.uses(h.passkey, p)
			if !again.isSignedIn() {
				t.Errorf("the new password and the passkey: %d %.400s", p.status, p.body)
			}
			h.holdKept(t, again, true)
			g.notLogged(t, zoesPassword)
		})
	}
}

// TestE92AnOperatorsRecovery: `user recover --mail` → the same ends before the link is opened, and so do the passkey, personal access tokens and every
// session; a letter reports the passkey, and the link of another sets a password and signs in; consents stay.
func TestE92AnOperatorsRecovery(t *testing.T) {
	g, server := startChanges(t)
	h := g.holdings(t)
	letter(t, server, zoe, "second factor was added")
	g.ok("user", "recover", zoe, "--mail")
	link, told := "", false
	for range 2 { // in any order
		p := server.Next(t).Parse(t)
		told = told || strings.Contains(p.Subject, "second factor was removed")
		for line := range strings.Lines(p.Text) {
			if line = strings.TrimSpace(line); strings.Contains(p.Subject, "get back into your account") && strings.Contains(line, "/oauth/link?pending=") {
				link = line
			}
		}
	}
	if !told {
		t.Error("no letter says that the passkey is gone")
	}
	h.holdEnded(t, false)
	if h.here.isSignedIn() {
		t.Error("the session goes on")
	}
	thief := g.visitor(t)
	p, _ := thief.walk(g.at("auth", "/oauth/login"), "")
	if thief.uses(h.passkey, p); thief.isSignedIn() {
		t.Error("the passkey signs in")
	}
	v := g.visitor(t)
	if !v.sets(link, zoesPassword) {
		t.Error("the link does not sign in")
	}
	h.holdKept(t, v, false)
	g.notLogged(t, zoesPassword)
}

// TestE94AnInvitationIsMailed: `user invite` of an address → a letter to it; its link sets the first password and leads into the application; no
// letter about a changed password.
func TestE94AnInvitationIsMailed(t *testing.T) {
	g, server := startChanges(t)
	if out := g.ok("user", "invite", "ivy@acme.example", "--name", "Ivy", "--org", "acme", "--role", "member"); strings.Contains(out, "pending=") {
		t.Errorf("the link is printed: %s", out)
	}
	link := letter(t, server, "ivy@acme.example", "")
	v := g.visitor(t)
	if !v.sets(link, zoesPassword) {
		t.Fatal("not signed in")
	}
	if a, at := v.walk(g.at("wiki", "/pages/1"), ""); a.status != http.StatusOK || at != g.at("wiki", "/pages/1") {
		t.Errorf("%d at %s", a.status, at)
	}
	if seen := g.lastRequest(t); seen.Header.Get("X-Email") != "ivy@acme.example" || seen.Header.Get("X-Name") != "Ivy" {
		t.Errorf("the application learns %v", seen.Header)
	}
	if n := server.Waiting(); n != 0 {
		t.Errorf("%d letters too many", n)
	}
	g.notLogged(t, zoesPassword, link)
}

// TestE95AnotherAddressIsMailed: another address on the account page → a letter to it; its link in this browser → the application learns the new
// address in the session that goes on, the earlier address gets a letter, and the sign-in is with the new one.
func TestE95AnotherAddressIsMailed(t *testing.T) {
	const next = "zoe@new.example"
	g, server := startChanges(t)
	v := g.signedIn(t, zoe)
	account, _ := v.walk(g.at("auth", "/oauth/account"), "")
	v.fills(account, "change", "email", "new_email", next, "present_password", peoplePassword)
	link := letter(t, server, next, "")
	v.fills(v.navigate(link)).is(t, http.StatusSeeOther, "the link")
	if link := letter(t, server, zoe, "address"); link != "" {
		t.Errorf("the note has a link: %s", link)
	}
	if a, _ := v.walk(g.at("wiki", "/pages/1"), ""); a.status != http.StatusOK {
		t.Errorf("the session: %d", a.status)
	}
	if got := g.lastRequest(t).Header.Get("X-Email"); got != next {
		t.Errorf("the application learns %q", got)
	}
	g.signedIn(t, next)
	if a, at := g.visitor(t).walk(g.at("app", "/"), zoe); at == g.at("app", "/") {
		t.Errorf("the earlier address signs in: %d", a.status)
	}
	g.notLogged(t, link)
}
