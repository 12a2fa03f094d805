package caddymodule

import (
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

// TestG99ErrorsAboutPeople checks that an error says what is wrong and that nothing changes.
func TestG99ErrorsAboutPeople(t *testing.T) {
	g := startGatehouse(t, staffed)
	shown := func() string {
		return g.must(http.StatusOK, "GET", "/oauth/users", ``) + g.must(http.StatusOK, "GET", "/oauth/organisations", ``)
	}
	before := shown()
	const declared, filter = "it is declared in the configuration: change it there", "organisation: give one value, or leave it out"
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
		{"POST", "/oauth/users", user(`,"groups":["a,b"]`), 400, `group "a,b"`},
		{"POST", "/oauth/users", user(`,"password":"short"`), 400, "use a password of at least 12 characters"},
		{"POST", "/oauth/users", user(`,"password_hash":"correct-horse"`), 400, "use a password hash as"},
		{"POST", "/oauth/users", user(`,"password":"correct-horse","password_hash":"` + adaHash + `"`), 400, "give password or password_hash, not both"},
		{"POST", "/oauth/users/u-ada/password", `{}`, 400, "use a password of at least 12 characters"},
		{"POST", "/oauth/users/u-ada/password", `{"password":"correct-horse","password_hash":"x"}`, 400, "give password or password_hash, not both"},
		{"POST", "/oauth/users/u-ada/role", `{"role":"boss"}`, 400, `unknown role "boss"`},
		{"POST", "/oauth/users/u-ada/role", `{"rolle":"admin"}`, 400, "rolle"},
		{"POST", "/oauth/users/u-ada/password", `{"password":"another-password"}`, 409, declared},
		{"POST", "/oauth/users/u-ada/password", `{"password_hash":"` + adaHash + `"}`, 409, declared},
		{"POST", "/oauth/users/u-ada/role", `{"role":"member"}`, 409, declared},
		{"POST", "/oauth/users/u-ada/disable", `{}`, 409, declared},
		{"POST", "/oauth/users/u-ada/enable", `{}`, 409, declared},
		{"POST", "/oauth/users/u-ada/lock", `{}`, 409, declared},
		{"DELETE", "/oauth/users/u-ada", ``, 409, declared},
		{"DELETE", "/oauth/organisations/acme", ``, 409, declared},
		{"POST", "/oauth/organisations", `{"id":"acme"}`, 409, "the id is already taken"},
		{"POST", "/oauth/users", `{"email":"Ada@acme.example","organisation":"acme"}`, 409, "another user has the e-mail address"},
		{"GET", "/oauth/users?organization=acme", ``, 400, `unknown filter "organization"`},
		{"GET", "/oauth/users?organisation=", ``, 400, filter},
		{"GET", "/oauth/users?organisation=acme&organisation=x", ``, 400, filter},
		{"GET", "/oauth/users?state=asleep", ``, 400, `unknown state "asleep": use active, disabled, locked or invited`},
		{"GET", "/oauth/users?limit=0", ``, 400, `limit: "0" is no value`},
		{"GET", "/oauth/users?limit=1001", ``, 400, "limit: use 1 to 1000"},
		{"GET", "/oauth/users?without_factor=perhaps", ``, 400, `without_factor: "perhaps" is no value`},
		{"GET", "/oauth/users?after=x", ``, 400, "after: it is from no link of a list"},
		{"GET", "/oauth/users?organisation=%zz", ``, 400, "the query is malformed"},
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
	g.staffTokens("ada@acme.example", adaPassword)
}
