package caddymodule

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// adaPassword is the password of adaHash.
const adaPassword = "correct-horse"

// staffed has an organisation, an admin and two clients that may request user tokens.
const staffed = `{
	admin ADMIN
	log {
		output file LOG
		level DEBUG
	}
	oauth {
		issuer http://ADDR
		store memory
		password_grant {
			refresh_tokens
		}
		limits {
			login off
		}
		client conf SECRET {
			scopes public trusted refresh_token
			grants client_credentials password refresh_token
		}
		organisation acme "Acme Ltd"
		user u-ada {
			email ada@acme.example
			password ` + adaHash + `
			organisation acme
			role admin
		}
	}
}

http://ADDR {
	log
	oauth_server
	handle /any/* {
		protect
		reverse_proxy UPSTREAM
	}
	handle {
		respond 404
	}
}
`

var durableStaffed = strings.Replace(staffed, "store memory", "store sqlite DIR/state/oauth.db", 1)

// staffSignIn uses the password grant and returns status and body.
func (g *gatehouse) staffSignIn(email, password string) (int, string) {
	g.t.Helper()
	status, _, body := g.post("/oauth/token", url.Values{
		"grant_type": {"password"}, "client_id": {"conf"}, "client_secret": {confSecret},
		"email": {email}, "password": {password}, "scope": {"public refresh_token"},
	})
	return status, body
}

// staffRefresh uses a refresh token and returns status and body.
func (g *gatehouse) staffRefresh(token string) (int, string) {
	g.t.Helper()
	status, _, body := g.post("/oauth/token", url.Values{
		"grant_type": {"refresh_token"}, "client_id": {"conf"}, "client_secret": {confSecret}, "refresh_token": {token},
	})
	return status, body
}

// staffTokens signs a user in, which must succeed, and returns the access and the refresh token.
func (g *gatehouse) staffTokens(email, password string) (access, refresh string) {
	g.t.Helper()
	status, body := g.staffSignIn(email, password)
	access, refresh = member(g.t, body, "access_token"), member(g.t, body, "refresh_token")
	if status != http.StatusOK || refresh == "" || g.gate(access) != http.StatusOK {
		g.t.Fatalf("%s signs in: %d %s", email, status, body)
	}
	return access, refresh
}

// TestG99OrganisationLifecycle: an organisation with users removed → 409; without → 204.
func TestG99OrganisationLifecycle(t *testing.T) {
	g := startGatehouse(t, staffed)
	added := g.must(http.StatusCreated, "POST", "/oauth/organisations", `{"id":"globex","name":"Globex"}`)
	if member(t, added, "source") != "store" || member(t, added, "name") != "Globex" {
		t.Error(added)
	}
	if added := g.must(http.StatusCreated, "POST", "/oauth/organisations", `{"id":"nameless"}`); member(t, added, "name") != "nameless" {
		t.Error(added)
	}
	g.must(http.StatusConflict, "POST", "/oauth/organisations", `{"id":"globex","name":"Another"}`)
	var all []organisationView
	if err := json.Unmarshal([]byte(g.must(http.StatusOK, "GET", "/oauth/organisations", ``)), &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 3 || all[0].ID != "acme" || all[0].Source != "config" || all[1].ID != "globex" || all[1].CreatedAt.IsZero() {
		t.Errorf("listed %+v", all)
	}
	g.must(http.StatusCreated, "POST", "/oauth/users", `{"id":"u-bob","email":"bob@globex.example","organisation":"globex"}`)
	answer := g.must(http.StatusConflict, "DELETE", "/oauth/organisations/globex", ``)
	if answer != `{"error":"the organisation still has users: remove them first"}` {
		t.Error(answer)
	}
	g.must(http.StatusNoContent, "DELETE", "/oauth/users/u-bob", ``)
	g.must(http.StatusNoContent, "DELETE", "/oauth/organisations/globex", ``)
	if answer := g.must(http.StatusNotFound, "DELETE", "/oauth/organisations/globex", ``); answer != `{"error":"there is no such organisation"}` {
		t.Error(answer)
	}
}

// TestG99UserLifecycle applies every operation of the admin API to a user. Every change ends the user's sign-ins.
func TestG99UserLifecycle(t *testing.T) {
	g := startGatehouse(t, staffed)
	const email = "bob@acme.example"
	g.must(http.StatusCreated, "POST", "/oauth/users", `{"id":"u-bob","email":" Bob@Acme.Example ","name":"Bob","organisation":"acme","role":"group_manager"}`)
	if status, _ := g.staffSignIn(email, "first-password"); status != http.StatusBadRequest {
		t.Errorf("without a password: %d", status)
	}
	shown := g.must(http.StatusOK, "GET", "/oauth/users/u-bob", ``)
	if member(t, shown, "email") != email || !strings.Contains(shown, `"has_password":false`) || member(t, shown, "status") != "active" {
		t.Error(shown)
	}
	g.must(http.StatusNoContent, "POST", "/oauth/users/u-bob/password", `{"password":"first-password"}`)
	access, refresh := g.staffTokens(email, "first-password")
	for _, change := range []struct{ operation, body, password string }{ // the password that works afterwards; empty: none does
		{"password", `{"password":"second-password"}`, "second-password"},
		{"password", `{"password_hash":"` + adaHash + `"}`, adaPassword},
		{"role", `{"role":"business_manager"}`, adaPassword},
		{"disable", `{}`, ""},
		{"enable", `{}`, adaPassword},
		{"lock", `{}`, ""},
		{"enable", `{}`, adaPassword},
	} {
		g.must(http.StatusNoContent, "POST", "/oauth/users/u-bob/"+change.operation, change.body)
		if status := g.gate(access); status != http.StatusUnauthorized {
			t.Errorf("after %s %s the gate answers %d to an older token", change.operation, change.body, status)
		}
		if status, _ := g.staffRefresh(refresh); status != http.StatusBadRequest {
			t.Errorf("after %s %s an older refresh token: %d", change.operation, change.body, status)
		}
		if change.password != "" {
			access, refresh = g.staffTokens(email, change.password)
		} else if status, _ := g.staffSignIn(email, adaPassword); status != http.StatusBadRequest {
			t.Errorf("after %s the user signs in: %d", change.operation, status)
		}
	}
	g.must(http.StatusNoContent, "DELETE", "/oauth/users/u-bob", ``)
	if status, _ := g.staffSignIn(email, adaPassword); status != http.StatusBadRequest {
		t.Errorf("a removed user signs in: %d", status)
	}
	if answer := g.must(http.StatusNotFound, "GET", "/oauth/users/u-bob", ``); answer != `{"error":"there is no such user"}` {
		t.Error(answer)
	}
	g.must(http.StatusConflict, "POST", "/oauth/users", `{"id":"u-bob","email":"other@acme.example","organisation":"acme"}`)
	g.must(http.StatusCreated, "POST", "/oauth/users", `{"id":"u-bob-2","email":"`+email+`","organisation":"acme"}`)
}

// TestG99UsersOfOneOrganisation checks that a list can be limited to one organisation, and that a misspelled filter is an error.
func TestG99UsersOfOneOrganisation(t *testing.T) {
	g := startGatehouse(t, staffed)
	g.must(http.StatusCreated, "POST", "/oauth/organisations", `{"id":"a&b c"}`)
	g.must(http.StatusCreated, "POST", "/oauth/users", `{"id":"u-bob","email":"bob@ab.example","organisation":"a&b c"}`)
	for query, want := range map[string]string{
		"": "u-ada u-bob", "?organisation=acme": "u-ada", "?organisation=a%26b+c": "u-bob", "?organisation=nobody": "",
	} {
		var ids []string
		var users []userView
		if err := json.Unmarshal([]byte(g.must(http.StatusOK, "GET", "/oauth/users"+query, ``)), &users); err != nil {
			t.Fatal(err)
		}
		for _, u := range users {
			ids = append(ids, u.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%q lists %q, want %q", query, got, want)
		}
	}
	for _, query := range []string{"?organization=acme", "?organisation=", "?organisation=acme&organisation=x", "?organisation=%zz", "?x"} {
		g.must(http.StatusBadRequest, "GET", "/oauth/users"+query, ``)
	}
}

// TestG99DeclaredPeople checks that declared organisations and users are listed and refuse every change.
func TestG99DeclaredPeople(t *testing.T) {
	g := startGatehouse(t, staffed)
	if shown := g.must(http.StatusOK, "GET", "/oauth/users/u-ada", ``); member(t, shown, "source") != "config" {
		t.Error(shown)
	}
	for _, change := range [][3]string{
		{"POST", "/oauth/users/u-ada/password", `{"password":"another-password"}`},
		{"POST", "/oauth/users/u-ada/password", `{"password_hash":"` + adaHash + `"}`},
		{"POST", "/oauth/users/u-ada/role", `{"role":"member"}`},
		{"POST", "/oauth/users/u-ada/disable", `{}`},
		{"POST", "/oauth/users/u-ada/enable", `{}`},
		{"POST", "/oauth/users/u-ada/lock", `{}`},
		{"DELETE", "/oauth/users/u-ada", ``},
		{"DELETE", "/oauth/organisations/acme", ``},
	} {
		answer := g.must(http.StatusConflict, change[0], change[1], change[2])
		if want := `{"error":"it is declared in the configuration: change it there"}`; answer != want {
			t.Errorf("%s %s: %s", change[0], change[1], answer)
		}
	}
	g.must(http.StatusConflict, "POST", "/oauth/organisations", `{"id":"acme"}`)
	answer := g.must(http.StatusConflict, "POST", "/oauth/users", `{"email":"Ada@acme.example","organisation":"acme"}`)
	if answer != `{"error":"another user has the e-mail address"}` {
		t.Error(answer)
	}
	g.staffTokens("ada@acme.example", adaPassword)
}

// TestG99ErrorsAboutPeople checks that an error says what is wrong and that nothing changes.
func TestG99ErrorsAboutPeople(t *testing.T) {
	g := startGatehouse(t, staffed)
	shown := func() string {
		return g.must(http.StatusOK, "GET", "/oauth/users", ``) + g.must(http.StatusOK, "GET", "/oauth/organisations", ``)
	}
	before := shown()
	user := func(members string) string {
		return `{"email":"bob@acme.example","organisation":"acme"` + members + `}`
	}
	for _, test := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/oauth/users/nobody", ``, 404, "there is no such user"},
		{"DELETE", "/oauth/users/nobody", ``, 404, "there is no such user"},
		{"POST", "/oauth/users/nobody/disable", `{}`, 404, "there is no such user"},
		{"POST", "/oauth/users/nobody/lock", `{}`, 404, "there is no such user"},
		{"POST", "/oauth/users/nobody/role", `{"role":"admin"}`, 404, "there is no such user"},
		{"POST", "/oauth/users/nobody/password", `{"password":"another-password"}`, 404, "there is no such user"},
		{"DELETE", "/oauth/organisations/nobody", ``, 404, "there is no such organisation"},
		{"POST", "/oauth/organisations", `{"id":""}`, 400, "organisation id: use 1 to 255 bytes of text without control characters"},
		{"POST", "/oauth/organisations", `{"id":"a","title":"A"}`, 400, "title"},
		{"POST", "/oauth/users", `{"organisation":"acme"}`, 400, `"" is no e-mail address`},
		{"POST", "/oauth/users", `{"email":"bob@acme.example","organisation":"nobody"}`, 400, `there is no organisation "nobody": add it first`},
		{"POST", "/oauth/users", user(`,"role":"boss"`), 400, `unknown role "boss"`},
		{"POST", "/oauth/users", user(`,"status":"disabled"`), 400, "status"},
		{"POST", "/oauth/users", user(`,"password":"short"`), 400, "use a password of 8 to 1024 bytes without NUL"},
		{"POST", "/oauth/users", user(`,"password_hash":"correct-horse"`), 400, "use a password hash as"},
		{"POST", "/oauth/users", user(`,"password":"correct-horse","password_hash":"` + adaHash + `"`), 400, "give password or password_hash, not both"},
		{"POST", "/oauth/users/u-ada/password", `{}`, 400, "use a password of 8 to 1024 bytes without NUL"},
		{"POST", "/oauth/users/u-ada/password", `{"password":"correct-horse","password_hash":"x"}`, 400, "give password or password_hash, not both"},
		{"POST", "/oauth/users/u-ada/role", `{"role":"boss"}`, 400, `unknown role "boss"`},
		{"POST", "/oauth/users/u-ada/role", `{"rolle":"admin"}`, 400, "rolle"},
		{"GET", "/oauth/organisations/acme", ``, 405, "takes DELETE"},
		{"GET", "/oauth/users/u-ada/password", ``, 405, "takes POST"},
		{"PUT", "/oauth/users/u-ada", `{}`, 405, "takes GET and PATCH and DELETE"},
	} {
		answer := g.must(test.status, test.method, test.path, test.body)
		if got := member(t, answer, "error"); !strings.Contains(got, test.want) || strings.Contains(got, adaPassword) {
			t.Errorf("%s %s %s: %s, want %s", test.method, test.path, test.body, got, test.want)
		}
	}
	if after := shown(); after != before {
		t.Errorf("refused requests changed %s to %s", before, after)
	}
}
