package caddymodule

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Regression tests for holes that a review of sign-in, consent and user tokens found. Each comment describes the hole.

// withhold starts a POST without the last byte of its body. It returns when the server waits for the body and has therefore checked the
// credential. The returned function sends the byte and reads the answer.
func (b *browser) withhold(target, body string, headers ...string) (finish func() page) {
	b.t.Helper()
	connection, err := net.Dial("tcp", b.addr)
	check(b.t, err)
	b.t.Cleanup(func() { _ = connection.Close() })
	_ = connection.SetDeadline(time.Now().Add(patience))
	request, err := http.NewRequest(http.MethodPost, b.url+target, nil)
	check(b.t, err)
	for _, c := range b.jar.Cookies(request.URL) {
		request.AddCookie(c)
	}
	for pair := range slices.Chunk(headers, 2) {
		request.Header.Add(pair[0], pair[1])
	}
	var head strings.Builder
	_ = request.Header.Write(&head)
	reader := bufio.NewReader(connection)
	_, err = fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n%s\r\n",
		target, b.addr, len(body), &head)
	check(b.t, err)
	if line, err := readHead(reader); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		b.t.Fatalf("the server does not wait for the body: %v %s", err, line)
	}
	if _, err := io.WriteString(connection, body[:len(body)-1]); err != nil {
		b.t.Fatal(err)
	}
	return func() page {
		b.t.Helper()
		if _, err := io.WriteString(connection, body[len(body)-1:]); err != nil {
			b.t.Fatal(err)
		}
		response, err := http.ReadResponse(reader, request)
		check(b.t, err)
		return read(b.t, response)
	}
}

// withholdForm is like withhold for a form of ours, with a browser's headers.
func (b *browser) withholdForm(action string, fields url.Values) (finish func() page) {
	b.t.Helper()
	return b.withhold(action, fields.Encode(), "Content-Type", urlEncoded, "Origin", "null", "Sec-Fetch-Site", "same-origin")
}

// signedIn returns a browser in which a user has signed in.
func (g *gatehouse) signedIn(email string) *browser { return g.signedInAt("", email) }

// signedInAt is like signedIn from another loopback address.
func (g *gatehouse) signedInAt(address, email string) *browser {
	g.t.Helper()
	b := g.browserAt(address)
	if p := b.signIn(b.open("/oauth/login"), email, peoplePassword); p.status != http.StatusSeeOther {
		g.t.Fatalf("sign-in: %d %s", p.status, p.body)
	}
	return b
}

// TestT96AConsentThatIsUnderWayWhenTheSessionEnds checks a consent form whose last byte arrives after the user has signed out everywhere. A
// thief with a stolen browser used to get a code, and no sign-out had ended its tokens.
func TestT96AConsentThatIsUnderWayWhenTheSessionEnds(t *testing.T) {
	g := startPeople(t)
	r := requestOf("pub")
	end := func(t *testing.T, how, id string) {
		check(t, g.endings()[how](id))
	}
	for name, c := range map[string]struct {
		end   func(t *testing.T, thief *browser, id, email string)
		given bool
	}{
		"nothing ends": {func(*testing.T, *browser, string, string) {}, true},
		"signed out everywhere": {func(t *testing.T, _ *browser, _, email string) {
			holdChanged(t, g.signedIn(email).change("everywhere", "yes"), "/oauth/logout")
		}, false},
		"signed out": {func(t *testing.T, thief *browser, _, _ string) {
			if p := thief.signOut(); p.status != http.StatusSeeOther {
				t.Fatalf("sign-out: %d %s", p.status, p.body)
			}
		}, false},
		"revoked":  {func(t *testing.T, _ *browser, id, _ string) { end(t, "revoked", id) }, false},
		"disabled": {func(t *testing.T, _ *browser, id, _ string) { end(t, "disabled", id) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			email := strings.ReplaceAll(name, " ", "-") + "@acme.example"
			id := g.addUser(email, "acme", store.RoleMember)
			thief := g.signedIn(email)
			action, fields := formIn(t, thief.consentFor(t, r))
			fields.Set("decision", "allow")
			finish := thief.withholdForm(action, fields)
			c.end(t, thief, id, email)
			if thief.isSignedIn() != c.given {
				t.Fatal("the session has not ended")
			}
			p := finish()
			if c.given {
				g.obtain(r.exchange(thief.codeToClient(t, p, r)))
				return
			}
			if p.status >= http.StatusInternalServerError || p.location().Query().Has("code") || strings.Contains(p.body, "code=") {
				t.Errorf("the consent of an ended session: %d %q", p.status, p.header.Get("Location"))
			}
			families, err := g.app().node.Store().Families.FamiliesOf(t.Context(), id, time.Time{})
			if err != nil || len(families) != 0 {
				t.Errorf("%d families live, %v", len(families), err)
			}
		})
	}
}

// TestM28AnAdminWhoIsDismissedWhileCreating: an admin removed, disabled or demoted before the last byte of the request → 4xx, nothing is created.
func TestM28AnAdminWhoIsDismissedWhileCreating(t *testing.T) {
	g := startPeople(t)
	ofGrace := func(t *testing.T) int {
		t.Helper()
		families, err := g.app().node.Store().Families.FamiliesOf(t.Context(), "u-grace", time.Time{})
		check(t, err)
		return len(families)
	}
	for _, name := range []string{"stays", "removed", "disabled", "demoted", "stays, no family", "removed, no family", "disabled, no family", "demoted, no family"} {
		t.Run(name, func(t *testing.T) {
			ending, _, ofNoFamily := strings.Cut(name, ", ")
			email := strings.ReplaceAll(name, ", no family", "-2") + "@acme.example"
			id := g.addUser(email, "acme", store.RoleAdmin)
			b, before := g.signedIn(email), ofGrace(t)
			token := b.cookie("accessToken")
			if ofNoFamily { // no session ends with the admin; the admin's own record decides
				token = g.issue(issuer.Grant{
					Type: oauth.AuthorizationCode, User: &store.User{ID: id, Organisation: "acme", Role: store.RoleAdmin}, Scopes: oauth.Scopes{"trusted", "public"}, Family: &store.TokenFamily{ID: "none"},
				})
			}
			finish := b.withhold(mintPath+"u-grace"+mintPathEnd, reference("u-grace"), "Content-Type", documentMedia, "Authorization", "Bearer "+token)
			want := 1
			if dismiss := g.endings()[ending]; dismiss != nil {
				want = 0
				check(t, dismiss(id))
			}
			p := finish()
			if born := ofGrace(t) - before; born != want {
				t.Errorf("%d families were born, want %d", born, want)
			}
			if want == 1 {
				if p.status != http.StatusCreated || !g.alive(member(t, p.body, "access_token")) {
					t.Errorf("%d %s", p.status, p.body)
				}
				return
			}
			if p.status < 400 || p.status >= 500 || jwtInText.MatchString(p.body) {
				t.Errorf("%d %s", p.status, p.body)
			}
		})
	}
}

// machineScope is people with a scope that no client of users has, and a route for it.
func machineScope(sessionScopes string) string {
	return peopleSite("scope orders.read \"Read orders\" {", sessionScopes+"scope internal.batch \"Machines only\" {\n\t\t\tserver_tokens\n\t\t}\n\t\tscope orders.read \"Read orders\" {",
		"handle /pub/* {", "handle /batch/* {\n\t\tprotect internal.batch\n\t\treverse_proxy UPSTREAM\n\t}\n\thandle /pub/* {")
}

// TestT105SessionsHoldNoScopeOfMachines checks that sessions have no scopes for servers only. Every session's token used to have all
// declared scopes. Anyone could request them with the password grant without a client, though no client had them.
func TestT105SessionsHoldNoScopeOfMachines(t *testing.T) {
	g := startGatehouse(t, machineScope(""))
	asking := func(scope string) url.Values {
		r := nobodysClient
		r.scope = scope
		return r.asPassword("max@acme.example", peoplePassword)
	}
	passes := func(token string) int {
		t.Helper()
		status, _, _ := g.get("/batch/x", token)
		return status
	}
	token := g.signedIn("max@acme.example").cookie("accessToken")
	if status := passes(token); status != http.StatusForbidden || !g.alive(token) {
		t.Errorf("a session's token: %d", status)
	}
	g.refused(asking("trusted internal.batch"), http.StatusBadRequest, "invalid_scope")
	got := g.obtain(asking("trusted public"))
	if status := passes(got.AccessToken); status != http.StatusForbidden || got.Scope != "trusted public" || !g.alive(got.AccessToken) {
		t.Errorf("a token of the password grant: %d, scope %q", status, got.Scope)
	}

	g.reload(machineScope("session_scopes internal.batch\n\t\t"))
	if status := passes(g.signedIn("max@acme.example").cookie("accessToken")); status != http.StatusOK {
		t.Errorf("a session's token, when the operator says so: %d", status)
	}
	if got := g.obtain(asking("trusted internal.batch")); passes(got.AccessToken) != http.StatusOK {
		t.Errorf("a token of the password grant, when the operator says so: scope %q", got.Scope)
	}
	g.refused(asking("orders.read"), http.StatusBadRequest, "invalid_scope") // session_scopes does not list it
}

// TestA67StaySignedInUnticked checks that a client gets no refresh token if the user unticks its scope. The client used to get one. The
// remaining ticked scopes are granted.
func TestA67StaySignedInUnticked(t *testing.T) {
	g := startPeople(t)
	b, r := g.signedIn("max@acme.example"), requestOf("conf")
	for name, c := range map[string]struct {
		scope    string
		unticked []string
		granted  string
		refresh  bool
	}{
		"offline_access unticked":           {"public trusted offline_access", []string{"scope_2"}, "public trusted", false},
		"refresh_token unticked":            {"public trusted refresh_token", []string{"scope_2"}, "public trusted", false},
		"both unticked":                     {"offline_access trusted refresh_token", []string{"scope_0", "scope_2"}, "trusted", false},
		"one of two unticked":               {"offline_access trusted refresh_token", []string{"scope_0"}, "trusted refresh_token", true},
		"ticked":                            {"public trusted offline_access", nil, "public trusted offline_access", true},
		"another one unticked":              {"public trusted offline_access", []string{"scope_0"}, "trusted offline_access", true},
		"never asked for":                   {"public trusted", nil, "public trusted", true},
		"never asked for, another unticked": {"public trusted", []string{"scope_0"}, "trusted", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := r
			r.scope = c.scope
			action, fields := formIn(t, b.consentFor(t, r))
			fields.Set("decision", "allow")
			for _, box := range c.unticked {
				if !fields.Has(box) {
					t.Fatalf("there is no box %s", box)
				}
				fields.Del(box)
			}
			got := g.obtain(r.exchange(b.codeToClient(t, b.send(action, fields), r)))
			if got.Scope != c.granted || (got.RefreshToken != "") != c.refresh {
				t.Errorf("scope %q, refresh token %t; want %q, %t", got.Scope, got.RefreshToken != "", c.granted, c.refresh)
			}
		})
	}
}
