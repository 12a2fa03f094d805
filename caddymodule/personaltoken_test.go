package caddymodule

import (
	"encoding/base64"
	"hash/crc32"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// patSite is a site at which people and machines call with personal access tokens.
const patSite = `{
	admin ADMIN
	log {
		output file LOG
		level DEBUG
	}
	oauth {
		issuer http://ADDR
		store sqlite DIR/state/oauth.db
		scope orders.read "Read orders"
		scope orders.write "Write orders"
		openid
		personal_tokens {
			scopes public orders.read orders.write groups
			lifetime 30d 90d
			roles admin member
			groups robots
		}
		client conf SECRET {
			grants client_credentials authorization_code
			scopes public
			redirect_uris https://client.example/cb
		}
		user u-ada {
			email ada@acme.example
			password HASH
			role admin
		}
		user u-ben {
			email ben@acme.example
			password HASH
			role business_manager
		}
	}
}
http://ADDR {
	log
	oauth_server
	handle /orders/* {
		protect orders.read {
			token_from header X-Api-Key pat
			token_from basic pat
			require role admin member
		}
		reverse_proxy UPSTREAM
	}
	handle /open/* {
		protect {
			anonymous /open/*
		}
		reverse_proxy UPSTREAM
	}
	handle /cookie/* {
		protect {
			token_from cookie app_token
			upstream_token relay
		}
		reverse_proxy UPSTREAM
	}
	handle /elsewhere/* {
		protect {
			audience https://elsewhere.example
		}
		reverse_proxy UPSTREAM
	}
	handle /relay/* {
		protect {
			upstream_token relay
		}
		reverse_proxy UPSTREAM
	}
	handle /bound/* {
		protect {
			resource https://bound.example/api
			resource_required
		}
		reverse_proxy UPSTREAM
	}
	handle /recent/* {
		protect {
			require max_age 1h
		}
		reverse_proxy UPSTREAM
	}
	handle {
		respond 404
	}
}
`

// withoutPATs is patSite without personal access tokens.
func withoutPATs() string {
	text := patSite[:strings.Index(patSite, "\t\tpersonal_tokens")] + patSite[strings.Index(patSite, "\t\tclient conf"):]
	return strings.NewReplacer("\t\t\ttoken_from header X-Api-Key pat\n", "", "\t\t\ttoken_from basic pat\n", "", "HASH", peopleHash()).Replace(text)
}

// startPATs starts patSite with a stored user and a service account.
func startPATs(t *testing.T) *gatehouse {
	t.Helper()
	g := startGatehouse(t, strings.ReplaceAll(patSite, "HASH", peopleHash()))
	g.must(http.StatusCreated, "POST", "/oauth/users", `{"id":"u-eve","email":"eve@acme.example","password_hash":"`+peopleHash()+`","role":"member"}`)
	g.ok("service-account", "add", "--id", "backup", "--role", "member", "--group", "robots")
	return g
}

// pat creates a token and returns its id and the token.
func (g *gatehouse) pat(user string, args ...string) (id, token string) {
	g.t.Helper()
	out := g.ok(append([]string{"pat", "add", "--user", user, "--name", "nightly of " + user, "--scope", "orders.read"}, args...)...)
	return printed(g.t, out, "id"), printed(g.t, out, "token")
}

// statusOf returns the status and the challenge of a request with a bearer token.
func (g *gatehouse) statusOf(path, token string) (int, string) {
	g.t.Helper()
	status, header, _ := g.get(path, token)
	return status, header.Get("WWW-Authenticate")
}

// holdStatus checks the status of a request with a bearer token.
func (g *gatehouse) holdStatus(t *testing.T, what, path, token string, want int) {
	t.Helper()
	if status, challenge := g.statusOf(path, token); status != want {
		t.Errorf("%s %s: %d %s, want %d", what, path, status, challenge, want)
	}
}

// lastRequest returns the last request that the upstream received.
func (g *gatehouse) lastRequest(t *testing.T) *recorded {
	t.Helper()
	seen := g.upstream.seen()
	if len(seen) == 0 {
		t.Fatal("the upstream got nothing")
	}
	return seen[len(seen)-1]
}

// resummed returns a token with one character changed and the checksum that fits it.
func resummed(token string) string {
	body := []byte(token[:len(token)-6])
	body[10] = map[bool]byte{true: 'a', false: 'b'}[body[10] != 'a']
	sum, digits := crc32.ChecksumIEEE(body), [6]byte{}
	for i := 5; i >= 0; i-- {
		digits[i] = oauth.Base62[sum%62]
		sum /= 62
	}
	return string(body) + string(digits[:])
}

// TestG57APersonalTokenInBasicStopsHere: a personal access token as user or password of Basic credentials, in any spelling of base64, where none is
// read and the route lets everyone in, or relays tokens and the caller has one in a cookie → the upstream gets no credentials; others pass.
func TestG57APersonalTokenInBasicStopsHere(t *testing.T) {
	g := startPATs(t)
	_, token := g.pat("u-eve")
	for name, c := range map[string]struct {
		encoding *base64.Encoding
		text     string
		reaches  bool
	}{
		"password": {base64.StdEncoding, "x:" + token, false}, "user": {base64.StdEncoding, token + ":", false}, "user of git": {base64.StdEncoding, token + ":x-oauth-basic", false},
		"unpadded": {base64.RawStdEncoding, "xy:" + token, false}, "URL": {base64.URLEncoding, "~~~???:" + token, false}, "alone": {base64.RawURLEncoding, token, false},
		"another": {base64.StdEncoding, "x:another password", true},
	} {
		credentials := c.encoding.EncodeToString([]byte(c.text))
		for _, header := range []string{"Basic " + credentials, "basic  " + credentials, "BASIC " + credentials[:9] + " " + credentials[9:], "Basic\t" + credentials} {
			if status, _, body := g.do(http.MethodGet, "/open/x", "", "Authorization", header); status != http.StatusOK {
				t.Fatalf("%s: %d %s", name, status, body)
			}
			if got := g.lastRequest(t).Header.Get("Authorization"); got != "" != c.reaches {
				t.Errorf("%s: the upstream gets %q", name, got)
			}
			if status, _, body := g.do(http.MethodGet, "/cookie/x", "", "Authorization", header, "Cookie", "app_token="+g.token()); status != http.StatusOK {
				t.Fatalf("%s beside a cookie: %d %s", name, status, body)
			}
			if got := g.lastRequest(t).Header.Get("Authorization"); got != "" != c.reaches {
				t.Errorf("%s beside a cookie: the upstream gets %q", name, got)
			}
		}
	}
}

// TestQ100ToQ106Q225PersonalTokens: a personal access token as bearer, in the named header or as Basic password → the upstream learns its
// owner; in the query, twice, altered, with another audience, or relayed to userinfo → refused; in no log.
func TestQ100ToQ106Q225PersonalTokens(t *testing.T) {
	g := startPATs(t)
	_, eves := g.pat("eve@acme.example")
	_, robots := g.pat("backup")
	basic := func(user, password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	for _, c := range []struct {
		name, path string
		headers    []string
		status     int
	}{
		{"Q100 bearer", "/orders/1", []string{"Authorization", "Bearer " + eves}, 200},
		{"Q100 of a service account", "/orders/1", []string{"Authorization", "bearer " + robots}, 200},
		{"Q101 a header of its own", "/orders/1", []string{"X-Api-Key", eves}, 200},
		{"Q101 as password", "/orders/1", []string{"Authorization", basic("x", robots)}, 200},
		{"Q101 a header that the route does not name", "/relay/1", []string{"X-Api-Key", resummed(eves)}, 400},
		{"Q101 twice", "/orders/1", []string{"X-Api-Key", eves, "X-Api-Key", robots}, 400},
		{"Q101 beside a bearer token", "/orders/1", []string{"X-Api-Key", eves, "Authorization", "Bearer " + robots}, 400},
		{"Q101 something else in the header", "/orders/1", []string{"X-Api-Key", "the upstream's own"}, 401},
		{"Q225 a scheme before it", "/orders/1", []string{"X-Api-Key", "Bearer " + eves}, 400}, // and not logged
		{"Q101 in the query", "/orders/1?access_token=" + eves, nil, 401},
		{"Q102 a wrong checksum", "/orders/1", []string{"Authorization", "Bearer " + eves[:len(eves)-1] + "_"}, 401},
		{"Q102 another token", "/orders/1", []string{"Authorization", "Bearer " + resummed(eves)}, 401},
		{"Q103 another audience", "/elsewhere/1", []string{"Authorization", "Bearer " + eves}, 401},
		{"Q103 a resource that it is not for", "/bound/1", []string{"Authorization", "Bearer " + eves}, 401},
		{"Q103 a rule about the sign-in", "/recent/1", []string{"Authorization", "Bearer " + eves}, 401},
		{"Q103 relayed", "/relay/1", []string{"Authorization", "Bearer " + eves}, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			if status, header, body := g.do("GET", c.path, "", c.headers...); status != c.status {
				t.Errorf("%d %s %s, want %d", status, header.Get("WWW-Authenticate"), body, c.status)
			}
		})
	}
	t.Run("Q103 for a resource", func(t *testing.T) {
		_, bound := g.pat("backup", "--resource", "https://bound.example/api")
		for path, want := range map[string]int{"/bound/1": 200, "/orders/1": 401} {
			g.holdStatus(t, "", path, bound, want)
		}
		if _, err := g.run("", "pat", "add", "--user", "backup", "--name", "x", "--scope", "public", "--resource", "https://nobody.example"); err == nil {
			t.Error("a token for a resource that is none")
		}
	})
	t.Run("Q104 what the upstream is told", func(t *testing.T) {
		g.do("GET", "/orders/2", "", "X-Api-Key", robots)
		got := g.lastRequest(t)
		if h := got.Header; h.Get("X-Auth-Subject") != "backup" || h.Get("X-Auth-Client") != store.BuiltInClientID || h.Get("X-Auth-Scope") != "orders.read" ||
			h.Get("X-Auth-Role") != "member" || strings.Contains(got.Raw, "gh_pat_") {
			t.Errorf("the upstream got\n%s", got.Raw)
		}
	})
	t.Run("Q105 endpoints of the issuer", func(t *testing.T) {
		if status, _, body := g.get("/oauth/token/info", eves); status != 200 || !strings.Contains(body, `"resource_owner_id":"u-eve"`) {
			t.Errorf("token info: %d %s", status, body)
		}
		if body := g.introspected("conf", confSecret, eves); member(t, body, "sub") != "u-eve" || member(t, body, "scope") != "orders.read" || member(t, body, "username") != "eve@acme.example" {
			t.Errorf("introspection: %s", body)
		}
		if body := g.introspected("conf", confSecret, resummed(eves)); body != `{"active":false}` {
			t.Errorf("introspection of an unknown one: %s", body)
		}
		g.holdStatus(t, "what a sign-in gives", "/oauth/userinfo", eves, 401)
		_, mine := g.pat("u-ada")
		g.statusOf("/orders/1", mine)
		if status, _, body := g.post("/oauth/revoke", url.Values{"token": {mine}}); status != 200 {
			t.Errorf("revocation: %d %s", status, body)
		}
		g.holdStatus(t, "after its holder has revoked it", "/orders/1", mine, 401)
	})
	t.Run("Q106 nowhere in a log", func(t *testing.T) {
		g.notLogged(t, eves, robots, base64.StdEncoding.EncodeToString([]byte("x:"+robots)))
		if logs := g.logs(); strings.Count(logs, `"msg":"handled request"`) < 10 || !strings.Contains(logs, `"msg":"personal access token added"`) {
			t.Error("the audit log does not say who got one")
		}
	})
}

// TestQ107ToQ111PersonalTokensEnd: such a token removed, revoked, expired, its owner disabled, removed or demoted, its scopes taken away
// → 401 or less at once; a new password or name → goes on; used → the day is noted.
func TestQ107ToQ111PersonalTokensEnd(t *testing.T) {
	clock := setClock(t)
	g := startPATs(t)
	mustBe := func(what, token string, want int) {
		t.Helper()
		for range 2 { // new and cached
			var status int
			var challenge string
			g.eventually("the feed was read since the clock was set", func() bool {
				status, challenge = g.statusOf("/orders/1", token)
				return status != http.StatusServiceUnavailable
			})
			if status != want {
				t.Fatalf("%s: %d %s, want %d", what, status, challenge, want)
			}
		}
	}
	t.Run("Q111 used on two days", func(t *testing.T) {
		_, token := g.pat("backup")
		used := func() string {
			t.Helper()
			fields := strings.Fields(strings.Split(g.ok("pat", "list", "--user", "backup"), "\n")[1])
			return fields[len(fields)-2]
		}
		if used() != "never" {
			t.Errorf("a new token was used on %s", used())
		}
		begun := node.Clock().UTC()
		g.statusOf("/orders/1", token)
		if used() != begun.Format(time.DateOnly) {
			t.Errorf("it was used on %s", used())
		}
		clock.advance(24 * time.Hour) // and more than a minute: it is read again after the feed
		g.eventually("the token passes", func() bool { status, _ := g.statusOf("/orders/1", token); return status == http.StatusOK })
		if want := node.Clock().UTC().Format(time.DateOnly); used() != want {
			t.Errorf("a day later it was used on %s, want %s", used(), want)
		}
	})
	t.Run("Q107 removed", func(t *testing.T) {
		id, token := g.pat("u-ada")
		other, kept := g.pat("u-ada")
		mustBe("a new token", token, 200)
		mustBe("another", kept, 200)
		g.ok("pat", "remove", id)
		mustBe("a removed token", token, 401)
		mustBe("another of its owner", kept, 200)
		if _, err := g.run("", "pat", "remove", id); err == nil {
			t.Error("it is removed twice")
		}
		g.ok("token", "revoke", "--jti", other)
		mustBe("one that is revoked by its id", kept, 401)
		if out := g.ok("pat", "list", "--user", "u-ada"); strings.Count(out, "\n") != 1 {
			t.Errorf("listed is\n%s", out)
		}
	})
	t.Run("Q108 its owner", func(t *testing.T) {
		_, token := g.pat("u-eve")
		mustBe("a new token", token, 200)
		g.must(http.StatusNoContent, "POST", "/oauth/users/u-eve/password", `{"password":"another long one"}`)
		mustBe("after another password", token, 200)
		g.must(http.StatusOK, "PATCH", "/oauth/users/u-eve", `{"name":"Eve"}`)
		mustBe("after another name", token, 200)
		g.must(http.StatusNoContent, "POST", "/oauth/users/u-eve/role", `{"role":"group_manager"}`)
		mustBe("its owner may have none any more", token, 401)
		g.must(http.StatusNoContent, "POST", "/oauth/users/u-eve/role", `{"role":"admin"}`)
		clock.advance(11 * time.Second) // a refusal is cached for ten seconds
		mustBe("its owner may again", token, 200)
		g.do("GET", "/orders/2", "", "Authorization", "Bearer "+token)
		if got := g.lastRequest(t).Header.Get("X-Auth-Role"); got != "admin" {
			t.Errorf("the upstream sees the role %q", got)
		}
		b := g.browser()
		b.signIn(b.open("/oauth/login"), "eve@acme.example", "another long one")
		if p := b.change("everywhere", "yes"); p.status != http.StatusSeeOther || b.isSignedIn() {
			t.Fatalf("signing out everywhere: %d %s", p.status, p.body)
		}
		mustBe("after signing out everywhere", token, 200)
		g.ok("user", "disable", "u-eve")
		mustBe("its owner is disabled", token, 401)
		g.ok("user", "enable", "u-eve")
		clock.advance(11 * time.Second)
		mustBe("its owner is enabled again", token, 401)

		_, second := g.pat("u-eve")
		mustBe("a new token", second, 200)
		g.ok("token", "revoke", "--user", "u-eve")
		mustBe("the user's tokens are revoked", second, 401)
		clock.advance(2 * time.Second)
		_, third := g.pat("u-eve")
		mustBe("a token of later", third, 200)
		g.ok("user", "remove", "u-eve")
		mustBe("its owner is removed", third, 401)
	})
	t.Run("Q109 what is allowed", func(t *testing.T) {
		_, token := g.pat("backup", "--scope", "orders.write")
		g.configured("scopes public orders.read orders.write groups", "scopes public orders.write")
		if status, challenge := g.statusOf("/orders/1", token); status != 403 || !strings.Contains(challenge, "insufficient_scope") {
			t.Errorf("its scope is allowed no more: %d %s", status, challenge)
		}
		g.configured("scopes public orders.read orders.write groups", "scopes public")
		mustBe("none of its scopes is allowed any more", token, 401)
		g.reload(withoutPATs())
		mustBe("there are none", token, 401)
		if _, err := g.run("", "pat", "list"); err == nil || !strings.Contains(err.Error(), "add `personal_tokens`") {
			t.Errorf("the list said %v", err)
		}
		g.configured("", "")
		mustBe("all is as it was", token, 200)
	})
	t.Run("Q110 its time", func(t *testing.T) {
		_, token := g.pat("backup", "--expires", "2h")
		mustBe("a new token", token, 200)
		clock.advance(2*time.Hour - time.Second)
		mustBe("in its last second", token, 200)
		clock.advance(time.Second)
		mustBe("at its end", token, 401)
		if body := g.introspected("conf", confSecret, token); body != `{"active":false}` {
			t.Errorf("at its end it is %s", body)
		}
		// Service accounts can have tokens, also with a role whose users cannot.
		g.ok("service-account", "add", "--id", "watcher", "--role", "group_manager")
		_, watchers := g.pat("watcher")
		mustBe("of a service account, at a route for other roles", watchers, 403)
		for _, args := range [][]string{{"--expires", "91d"}, {"--expires", "1s"}, {"--scope", "trusted"}, {"--scope", "nonsense"}} {
			if out, err := g.run("", append([]string{"pat", "add", "--user", "backup", "--name", "x", "--scope", "public"}, args...)...); err == nil {
				t.Errorf("%v made a token:\n%s", args, out)
			}
		}
		for _, who := range []string{"u-ben", "nobody"} {
			if out, err := g.run("", "pat", "add", "--user", who, "--name", "x", "--scope", "public"); err == nil {
				t.Errorf("%s has got a token:\n%s", who, out)
			}
		}
	})
}

// TestQ112ServiceAccountsSignInNowhere: a service account's password or sign-in → refused.
func TestQ112ServiceAccountsSignInNowhere(t *testing.T) {
	g := startPATs(t)
	if out := g.ok("service-account", "list"); !strings.Contains(out, "backup") || strings.Contains(out, "u-eve") {
		t.Errorf("listed are\n%s", out)
	}
	holdWords(t, "the list", g.ok("user", "list"), "service account")
	if out, err := g.run(peoplePassword+"\n", "user", "set-password", "backup", "--password-stdin"); err == nil {
		t.Errorf("it has a password now: %s", out)
	}
	if status, _, body := g.operate("POST", "/oauth/users", `{"id":"x","service":true,"password":"a long enough one"}`); status != http.StatusBadRequest {
		t.Errorf("one was added with a password: %d %s", status, body)
	}
	for _, address := range []string{"backup@service.invalid", "backup"} {
		b := g.browser()
		b.signIn(b.open("/oauth/login"), address, peoplePassword)
		if b.isSignedIn() {
			t.Fatalf("%s has signed in", address)
		}
	}
	_, token := g.pat("backup")
	g.ok("service-account", "disable", "backup")
	g.holdStatus(t, "a disabled account", "/orders/1", token, 401)
	g.ok("service-account", "enable", "backup")
	_, token = g.pat("backup")
	g.ok("service-account", "remove", "backup")
	g.holdStatus(t, "a removed account", "/orders/1", token, 401)
}
