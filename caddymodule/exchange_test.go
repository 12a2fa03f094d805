package caddymodule

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// exchangeSite has a chain of four services, each behind a gate. Each may exchange a token for itself for a token for the next one.
var exchangeSite = `{
	admin ADMIN
	log {
		output file LOG
		level DEBUG
	}
	oauth {
		issuer http://ADDR
		store STORE
		personal_tokens
		password_grant {
			refresh_tokens
		}
		limits {
			client      1000/1m per ip
			login       off
			revocations 2/1h per client
		}
		scope read {
			server_tokens
		}
		scope write
		client portal SECRET {
			grants password refresh_token client_credentials
			scopes public trusted read write
		}
		client orders orders-SECRET {
			may_exchange https://stock.internal {
				from   http://ADDR https://orders.internal
				scopes read write
			}
			may_exchange http://ADDR/ledger other {
				from   http://ADDR
				scopes read
			}
		}
		client stock stock-SECRET {
			may_exchange http://ADDR/ledger/ {
				from https://stock.internal
			}
		}
		client ledger ledger-SECRET {
			may_exchange archive {
				from http://ADDR/ledger
			}
		}
		client archive archive-SECRET {
			grants urn:ietf:params:oauth:grant-type:token-exchange
			may_exchange vault
		}
		client vault vault-SECRET {
			may_exchange cellar
		}
		client idle idle-SECRET
		client page {
			type public
			redirect_uris http://127.0.0.1/cb
		}
	}
}
http://ADDR {
	oauth_server
` +
	gated("/orders/*", "upstream_token relay") +
	gated("/stock/* read", "audience https://stock.internal", "upstream_token relay") +
	gated("/ledger/* read", "audience https://nobody.internal", "resource http://ADDR/ledger", "forward + X-Acts act", "upstream_token swap https://books.internal") +
	gated("/swapped/*", "upstream_token swap https://orders.internal") + `}
`

type exchangeScene struct {
	*gatehouse
	secrets map[string]string // the generated ones, by client
}

func startExchange(t *testing.T) exchangeScene {
	t.Helper()
	s := exchangeScene{startGatehouse(t, strings.Replace(exchangeSite, "STORE", "memory", 1)), map[string]string{}}
	s.addUser("ada@acme.example", "", "")
	return s
}

// signIn returns ada's tokens for the portal, including a refresh token.
func (s exchangeScene) signIn(scope string) tokens {
	s.t.Helper()
	return s.obtain(url.Values{
		"grant_type": {"password"}, "client_id": {"portal"}, "client_secret": {confSecret}, "scope": {scope},
		"email": {"ada@acme.example"}, "password": {peoplePassword},
	})
}

// exchange requests a token exchange as a client. An empty value removes the parameter.
func (s exchangeScene) exchange(client, token string, more ...string) (int, string) {
	s.t.Helper()
	form := url.Values{
		"grant_type": {string(oauth.TokenExchange)}, "client_id": {client}, "client_secret": {s.secretOf(client)},
		"subject_token": {token}, "subject_token_type": {"urn:ietf:params:oauth:token-type:access_token"},
	}
	for i := 0; i < len(more); i += 2 {
		if form.Del(more[i]); more[i+1] != "" {
			form[more[i]] = strings.Fields(more[i+1])
		}
	}
	if scope := form["scope"]; len(scope) > 1 {
		form.Set("scope", strings.Join(scope, " "))
	}
	status, _, body := s.post("/oauth/token", form)
	return status, body
}

func (s exchangeScene) exchanged(client, token, audience string) string {
	s.t.Helper()
	status, body := s.exchange(client, token, "audience", audience)
	if status != http.StatusOK {
		s.t.Fatalf("%s for %s: %d %s", client, audience, status, body)
	}
	return member(s.t, body, "access_token")
}

// atUpstream returns the request that the upstream of a route received, and the token in it.
func (s exchangeScene) atUpstream(t *testing.T, path, token string) (*recorded, string) {
	t.Helper()
	if status, _, body := s.get(path, token); status != http.StatusOK {
		t.Fatalf("%s: %d %s", path, status, body)
	}
	r := s.lastRequest(t)
	return r, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

// TestQ150Q156AChainOfServices: a token exchanged along three services → each for the same user, earlier services in `act`; a fifth actor
// → invalid_request.
func TestQ150Q156AChainOfServices(t *testing.T) {
	s := startExchange(t)
	first := s.signIn("public read write")
	before := claims(t, first.AccessToken)
	_, arrived := s.atUpstream(t, "/orders/x", first.AccessToken)
	status, body := s.exchange("orders", arrived, "audience", "https://stock.internal", "scope", "read", "requested_token_type", "urn:ietf:params:oauth:token-type:jwt")
	if status != http.StatusOK || member(t, body, "issued_token_type") != "urn:ietf:params:oauth:token-type:jwt" || member(t, body, "token_type") != "Bearer" ||
		member(t, body, "scope") != "read" || strings.Contains(body, "refresh_token") || !strings.Contains(body, `"expires_in":`) {
		t.Fatalf("%d %s", status, body)
	}
	second := member(t, body, "access_token")
	got := claims(t, second)
	for name, want := range map[string]any{
		"iss": s.url, "sub": before["sub"], "sid": before["sid"], "auth_time": before["auth_time"], "client_id": "orders", "aud": "https://stock.internal", "scope": "read",
		"token_iss": s.url, "token_jti": before["jti"], "token_iat": before["iat"], "token_client": "portal", "token_via": nil,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if act := fmt.Sprint(got["act"]); act != "map[client_id:orders sub:orders]" || got["exp"].(float64) > before["exp"].(float64) {
		t.Errorf("act is %s, exp %v of %v", act, got["exp"], before["exp"])
	}
	_, arrived = s.atUpstream(t, "/stock/x", second)
	third := s.exchanged("stock", arrived, s.url+"/ledger")
	got = claims(t, third)
	if act := fmt.Sprint(got["act"]); act != "map[act:map[client_id:orders sub:orders] client_id:stock sub:stock]" || got["aud"] != s.url+"/ledger" ||
		got["client_id"] != "stock" || got["token_client"] != "portal" || got["token_jti"] != before["jti"] || fmt.Sprint(got["token_via"]) != fmt.Sprint([]any{claims(t, second)["jti"]}) {
		t.Errorf("the third is %v", got)
	}
	r, last := s.atUpstream(t, "/ledger/x", third)
	seen, swapped := r.Header, claims(t, last)
	if seen.Get("X-Auth-Subject") != before["sub"] || seen.Get("X-Auth-Client") != "stock" || seen.Get("X-Acts") != "stock" {
		t.Errorf("the upstream is told %v", seen)
	}
	if act := fmt.Sprint(swapped["act"]); !strings.HasPrefix(act, "map[act:map[act:map[client_id:orders") || swapped["token_jti"] != before["jti"] || swapped["token_client"] != "portal" || len(swapped["token_via"].([]any)) != 2 {
		t.Errorf("swapped: %v", swapped)
	}
	for path, token := range map[string]string{"/orders/x": second, "/ledger/x": second, "/stock/x": third} {
		s.holdStatus(t, "", path, token, http.StatusUnauthorized)
	}
	// The fourth service can act, and a fifth cannot.
	fourth := s.exchanged("ledger", third, "archive")
	fifth := s.exchanged("archive", fourth, "vault")
	if status, body := s.exchange("vault", fifth, "audience", "cellar"); status != http.StatusBadRequest || member(t, body, "error") != "invalid_request" || !strings.Contains(body, "At most 4 may act for a subject") {
		t.Errorf("a fifth actor: %d %s", status, body)
	}
	holdWords(t, "the audit log", s.logs(), `"grant_type":"urn:ietf:params:oauth:grant-type:token-exchange"`, `"client_id":"stock"`, `"subject":"`+before["sub"].(string)+`"`, `"audience":["`+s.url+`/ledger"]`, `"actors":2`, `"first_jti":"`+before["jti"].(string)+`"`, `"reason":"actors_too_many"`)
	if metrics := s.scrape(); !strings.Contains(metrics, `gatehouse_tokens_issued_total{grant="urn:ietf:params:oauth:grant-type:token-exchange"}`) {
		t.Error("the exchanges are not counted")
	}
	s.notLogged(t, first.AccessToken, second, third)
}

// TestQ151ToQ159ExchangesThatAreRefused: an exchange without a rule, by a public client, of a foreign, expired or unsuitable token, for
// another audience, wider scope, too many actors → refused each with its error.
func TestQ151ToQ159ExchangesThatAreRefused(t *testing.T) {
	s := startExchange(t)
	signed := s.signIn("public read")
	forStock := s.exchanged("orders", signed.AccessToken, "https://stock.internal")
	service := s.obtain(url.Values{"grant_type": {"client_credentials"}, "client_id": {"portal"}, "client_secret": {confSecret}, "scope": {"public"}}).AccessToken
	master := s.app().issuer.Families.Master
	provider := startProvider(t)
	foreign := (&acceptScene{gatehouse: s.gatehouse, provider: provider}).signed(provider.signer(), map[string]any{"typ": "at+jwt"}, map[string]any{"sub": "ada", "client_id": "portal", "scope": "read"})
	pat := printed(t, s.ok("pat", "add", "--user", claims(t, signed.AccessToken)["sub"].(string), "--name", "x", "--scope", "public"), "token")
	const stock, access = "https://stock.internal", "urn:ietf:params:oauth:token-type:access_token"
	for name, c := range map[string]struct {
		client, token string
		more          []string
		code, says    string
	}{
		"Q151 no rule":                        {"idle", signed.AccessToken, []string{"audience", stock}, "unauthorized_client", ""},
		"Q151 a public client":                {"page", signed.AccessToken, []string{"audience", stock, "client_secret", ""}, "unauthorized_client", ""},
		"Q151 another's secret":               {"orders", signed.AccessToken, []string{"audience", stock, "client_secret", "stock-" + confSecret}, "invalid_client", ""},
		"Q152 a token for another":            {"stock", signed.AccessToken, []string{"audience", s.url + "/ledger"}, "invalid_request", "not meant for this client"},
		"Q152 its own of before":              {"orders", forStock, []string{"audience", stock}, "invalid_request", "not meant for this client"},
		"Q153 no audience":                    {"orders", signed.AccessToken, nil, "invalid_request", "audience"},
		"Q153 another's audience":             {"orders", signed.AccessToken, []string{"audience", "archive"}, "invalid_target", ""},
		"Q153 a prefix":                       {"orders", signed.AccessToken, []string{"audience", stock + "/x"}, "invalid_target", ""},
		"Q153 the issuer's own":               {"orders", signed.AccessToken, []string{"audience", s.url}, "invalid_target", ""},
		"Q153 audiences of two rules":         {"orders", signed.AccessToken, []string{"audience", stock + " other"}, "invalid_target", ""},
		"Q153 a resource beside":              {"orders", signed.AccessToken, []string{"audience", stock, "resource", s.url + "/other"}, "invalid_target", ""},
		"Q153 no URI":                         {"orders", signed.AccessToken, []string{"resource", "other"}, "invalid_target", ""},
		"Q154 more than the token":            {"orders", signed.AccessToken, []string{"audience", stock, "scope", "write"}, "invalid_scope", ""},
		"Q154 some more than the token":       {"orders", signed.AccessToken, []string{"audience", stock, "scope", "read write"}, "invalid_scope", ""},
		"Q154 more than the rule":             {"orders", signed.AccessToken, []string{"audience", "other", "scope", "public"}, "invalid_scope", ""},
		"Q154 nothing in common":              {"orders", service, []string{"audience", stock}, "invalid_scope", ""},
		"Q158 a refresh token":                {"orders", signed.RefreshToken, []string{"audience", stock}, "invalid_request", "not a valid access token"},
		"Q158 a refresh token, said to be":    {"orders", signed.RefreshToken, []string{"audience", stock, "subject_token_type", "urn:ietf:params:oauth:token-type:refresh_token"}, "invalid_request", "subject_token_type"},
		"Q158 an ID token, said to be":        {"orders", signed.AccessToken, []string{"audience", stock, "subject_token_type", "urn:ietf:params:oauth:token-type:id_token"}, "invalid_request", "subject_token_type"},
		"Q158 an ID token":                    {"orders", s.idTokenFor(t, "orders"), []string{"audience", stock}, "invalid_request", "not a valid access token"},
		"Q158 a code":                         {"orders", master.Code(oauth.NewID()).Reveal(), []string{"audience", stock}, "invalid_request", "not a valid access token"},
		"Q158 a personal access token":        {"orders", pat, []string{"audience", stock}, "invalid_request", "personal access token cannot be exchanged"},
		"Q158 another issuer's":               {"orders", foreign, []string{"audience", stock}, "invalid_request", "of another issuer"},
		"Q158 garbage":                        {"orders", "x", []string{"audience", stock}, "invalid_request", "not a valid access token"},
		"Q158 another signature":              {"orders", signed.AccessToken[:len(signed.AccessToken)-8] + "AAAAAAAA", []string{"audience", stock}, "invalid_request", "not a valid access token"},
		"Q159 no subject_token":               {"orders", "", []string{"audience", stock, "subject_token", ""}, "invalid_request", "subject_token"},
		"Q159 no subject_token_type":          {"orders", signed.AccessToken, []string{"audience", stock, "subject_token_type", ""}, "invalid_request", "subject_token_type"},
		"Q159 two subject_tokens":             {"orders", signed.AccessToken, []string{"audience", stock, "subject_token", signed.AccessToken + " " + signed.AccessToken}, "invalid_request", ""},
		"Q159 two subject_token_types":        {"orders", signed.AccessToken, []string{"audience", stock, "subject_token_type", access + " " + access}, "invalid_request", ""},
		"Q159 actor_token":                    {"orders", signed.AccessToken, []string{"audience", stock, "actor_token", service, "actor_token_type", access}, "invalid_request", "actor_token"},
		"Q159 actor_token_type":               {"orders", signed.AccessToken, []string{"audience", stock, "actor_token_type", access}, "invalid_request", "actor_token"},
		"Q159 a refresh token is asked for":   {"orders", signed.AccessToken, []string{"audience", stock, "requested_token_type", "urn:ietf:params:oauth:token-type:refresh_token"}, "invalid_request", "requested_token_type"},
		"Q159 an ID token is asked for":       {"orders", signed.AccessToken, []string{"audience", stock, "requested_token_type", "urn:ietf:params:oauth:token-type:id_token"}, "invalid_request", "requested_token_type"},
		"Q159 two audiences at another grant": {"portal", "", []string{"grant_type", "client_credentials", "client_secret", confSecret, "audience", "a b"}, "invalid_request", ""},
	} {
		t.Run(name, func(t *testing.T) {
			status, body := s.exchange(c.client, c.token, c.more...)
			want := http.StatusBadRequest
			if c.code == "invalid_client" {
				want = http.StatusUnauthorized
			}
			if status != want || member(t, body, "error") != c.code || !strings.Contains(body, c.says) {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	for name, c := range map[string]struct {
		more       []string
		aud, scope string
	}{
		"as it was registered":            {[]string{"audience", stock}, "https://stock.internal", "read"},
		"spelled in another way":          {[]string{"resource", "HTTPS://Stock.internal/"}, "https://stock.internal", "read"},
		"twice":                           {[]string{"audience", stock + " " + stock, "resource", stock}, "https://stock.internal", "read"},
		"two of one rule":                 {[]string{"audience", "other " + s.url + "/ledger"}, "[other " + s.url + "/ledger]", "read"},
		"a resource and a name":           {[]string{"resource", s.url + "/ledger", "audience", "other"}, "[" + s.url + "/ledger other]", "read"},
		"another grant has one audience":  {[]string{"grant_type", "client_credentials", "audience", "x", "scope", "public"}, s.url, "public"},
		"scopes of token and rule, alone": {[]string{"audience", "other", "scope", "read"}, "other", "read"},
	} {
		t.Run(name, func(t *testing.T) {
			status, body := s.exchange("orders", signed.AccessToken, c.more...)
			if status != http.StatusOK {
				t.Fatalf("%d %s", status, body)
			}
			if got := claimsIn(t, body); fmt.Sprint(got["aud"]) != c.aud || got["scope"] != c.scope {
				t.Errorf("%v", got)
			}
		})
	}
	// A service's own token remains one of a service. A token that a gate has swapped can be exchanged further.
	asService := s.obtain(url.Values{"grant_type": {"client_credentials"}, "client_id": {"portal"}, "client_secret": {confSecret}, "scope": {"read"}}).AccessToken
	if got := claims(t, s.exchanged("orders", asService, stock)); got["sub"] != "portal" || got["client_id"] != "orders" || got["sid"] != nil {
		t.Errorf("a service's: %v", got)
	}
	_, swapped := s.atUpstream(t, "/swapped/x", signed.AccessToken)
	got := claims(t, s.exchanged("orders", swapped, stock))
	if act := fmt.Sprint(got["act"]); act != "map[act:map[client_id:gatehouse sub:gatehouse] client_id:orders sub:orders]" || got["exp"].(float64) > claims(t, swapped)["exp"].(float64) || got["token_client"] != "portal" {
		t.Errorf("a swapped one: %v", got)
	}
	if logs := s.logs(); !strings.Contains(logs, `"reason":"audience_wrong"`) || !strings.Contains(logs, `"reason":"target_not_allowed"`) {
		t.Error("the audit log does not say why")
	}
	s.notLogged(t, signed.AccessToken, signed.RefreshToken, pat, foreign)
}

// idTokenFor returns an ID token of our issuer with a client as its audience.
func (s exchangeScene) idTokenFor(t *testing.T, client string) string {
	t.Helper()
	key := s.signingKey(oauth.ES256)
	text, err := key.SignAs("JWT", []byte(fmt.Sprintf(`{"iss":%q,"sub":"ada","aud":%q,"iat":1,"exp":9999999999}`, s.url, client)))
	check(t, err)
	return text
}

// TestQ157Q162WhatEndsAnExchangedToken: the origin, sign-in, user, application or a service between ends → everything exchanged from it is
// dead. The clients are stored.
func TestQ157Q162WhatEndsAnExchangedToken(t *testing.T) {
	s := startExchange(t)
	for name, c := range map[string]struct {
		end func(first tokens, second, who string)
		// leaves are the tokens that stay valid.
		leaves string
	}{
		"the first by its id": {func(first tokens, _, _ string) {
			s.ok("token", "revoke", "--jti", claims(t, first.AccessToken)["jti"].(string))
		}, ""},
		"the sign-in":                    {func(first tokens, _, who string) { s.revokes(t, "app-"+who, first.RefreshToken, http.StatusOK) }, ""},
		"the one between, by its client": {func(first tokens, second, who string) { s.revokes(t, "one-"+who, second, http.StatusOK) }, "first"},
		"the user":                       {func(_ tokens, _, who string) { s.ok("user", "disable", "u-"+who) }, ""},
		"the application":                {func(_ tokens, _, who string) { s.ok("client", "disable", "app-"+who) }, ""},
		"the service between":            {func(_ tokens, _, who string) { s.ok("client", "disable", "one-"+who) }, "first"},
		"the service that has the last":  {func(_ tokens, _, who string) { s.ok("client", "disable", "two-"+who) }, "first second"},
	} {
		t.Run(name, func(t *testing.T) {
			s := s
			s.t = t
			who := strings.ReplaceAll(name, " ", "-")
			for id, flags := range map[string][]string{
				"app-": {"--grant", "password", "--grant", "refresh_token", "--scope", "read"},
				"one-": {"--may-exchange", "https://stock.internal from " + s.url + " scopes read"},
				"two-": {"--may-exchange", s.url + "/ledger from https://stock.internal"},
			} {
				s.secrets[id+who] = printed(t, s.ok(append([]string{"client", "add", "--id", id + who, "--name", id}, flags...)...), "client_secret")
			}
			holdWords(t, "the rule", s.ok("client", "show", "one-"+who), "https://stock.internal from "+s.url+" scopes read")
			s.must(http.StatusCreated, "POST", "/oauth/users", `{"id":"u-`+who+`","email":"`+who+`@acme.example","password_hash":"`+peopleHash()+`"}`)
			first := s.obtain(url.Values{
				"grant_type": {"password"}, "client_id": {"app-" + who}, "client_secret": {s.secrets["app-"+who]}, "scope": {"read"}, "email": {who + "@acme.example"}, "password": {peoplePassword},
			})
			second := s.exchanged("one-"+who, first.AccessToken, "https://stock.internal")
			third := s.exchanged("two-"+who, second, s.url+"/ledger")
			alive := func() (living string) {
				for _, c := range [][3]string{{"first", "/orders/x", first.AccessToken}, {"second", "/stock/x", second}, {"third", "/ledger/x", third}} {
					if status, _, _ := s.get(c[1], c[2]); status == http.StatusOK {
						living += " " + c[0]
					}
				}
				return strings.TrimSpace(living)
			}
			if alive() != "first second third" {
				t.Fatalf("alive at first: %s", alive())
			}
			c.end(first, second, who)
			if got := alive(); got != c.leaves {
				t.Errorf("alive: %q, want %q", got, c.leaves)
			}
			status, body := s.exchange("two-"+who, second, "audience", s.url+"/ledger")
			if status == http.StatusOK {
				t.Errorf("it can still be exchanged: %s", body)
			}
			if name == "the service between" {
				s.ok("client", "enable", "one-"+who)
				if status, body := s.exchange("one-"+who, first.AccessToken, "audience", "https://stock.internal"); status != http.StatusBadRequest || !strings.Contains(body, "issued before this client was disabled") {
					t.Errorf("what came before it was disabled: %d %s", status, body)
				}
			}
		})
	}
	s.ok("client", "add", "--id", "trader", "--name", "x", "--may-exchange", "a b from c scopes read", "--may-exchange", "d")
	s.ok("client", "update", "trader", "--may-exchange", "")
	if shown := s.must(http.StatusOK, "GET", "/oauth/clients/trader", ""); strings.Contains(shown, "may_exchange") {
		t.Errorf("a rule is left: %s", shown)
	}
	for rule, says := range map[string]string{
		`{"audiences":[]}`: "needs an audience", `{"audiences":["a b"]}`: "without spaces", `{"audiences":["` + s.url + `/"]}`: "our issuer's own audience", `{"audiences":["a"],"scopes":["nothing"]}`: "nothing",
	} {
		holdWords(t, "the answer", s.must(http.StatusBadRequest, "PATCH", "/oauth/clients/trader", `{"may_exchange":[`+rule+`]}`), says)
	}
}

// revokes requests the revocation of a token as a client.
func (s exchangeScene) revokes(t *testing.T, client, token string, want int) {
	t.Helper()
	status, _, body := s.post("/oauth/revoke", url.Values{"client_id": {client}, "client_secret": {s.secretOf(client)}, "token": {token}})
	if status != want {
		t.Errorf("%s revokes: %d %s, want %d", client, status, body, want)
	}
}

func (s exchangeScene) secretOf(client string) string {
	if secret := s.secrets[client]; secret != "" {
		return secret
	}
	return strings.TrimPrefix(client+"-"+confSecret, "portal-")
}

// TestQ155Q160AnExchangedTokenAtTheIssuer: an exchanged token at introspection and revocation by its client → described, ended alone; by others
// → inactive, 403; it lives for two hours, and no longer than its origin. The issuer accepts it nowhere else.
func TestQ155Q160AnExchangedTokenAtTheIssuer(t *testing.T) {
	s := startExchange(t)
	first := s.signIn("read trusted")
	second := s.exchanged("orders", first.AccessToken, "https://stock.internal")
	asks := func(client, token string) string { return s.introspected(client, s.secretOf(client), token) }
	holdWords(t, "to its client", asks("orders", second), `"active":true`, `"act":{"sub":"orders","client_id":"orders"}`, `"aud":"https://stock.internal"`)
	for _, client := range []string{"portal", "stock"} {
		if body := asks(client, second); body != `{"active":false}` {
			t.Errorf("%s is told %s", client, body)
		}
		s.revokes(t, client, second, http.StatusForbidden)
	}
	for _, path := range []string{"/oauth/token/info", "/oauth/userinfo", "/orders/x"} {
		if status, _, _ := s.get(path, second); status == http.StatusOK {
			t.Errorf("%s takes it", path)
		}
	}
	s.revokes(t, "orders", second, http.StatusOK)
	if body := asks("orders", second); body != `{"active":false}` {
		t.Errorf("after its end: %s", body)
	}
	s.holdStatus(t, "the token that was exchanged has ended with it", "/orders/x", first.AccessToken, http.StatusOK)
	short := strings.Fields(s.ok("token", "mint", "--client", "portal", "--user", "ada@acme.example", "--scope", "read", "--lifetime", "90s"))[0]
	for token, longest := range map[string]float64{first.AccessToken: 2 * 60 * 60, short: 90} {
		origin, got := claims(t, token), claims(t, s.exchanged("orders", token, "https://stock.internal"))
		if life := got["exp"].(float64) - got["iat"].(float64); life > longest || token != short && life != longest || got["exp"].(float64) > origin["exp"].(float64) {
			t.Errorf("it lives for %v s and ends at %v, the other at %v", life, got["exp"], origin["exp"])
		}
	}
}

// TestQ260WhatCameOfAnExchangedTokenEndsBeyondTheLimit: more revocations of exchanged tokens than are recorded one by one → tokens
// exchanged from them end too.
func TestQ260WhatCameOfAnExchangedTokenEndsBeyondTheLimit(t *testing.T) {
	now := setClock(t)
	s := startExchange(t)
	first := s.signIn("read")
	for i := range 4 {
		now.advance(2 * time.Second) // wider revocations have a resolution of one second
		second := s.exchanged("orders", first.AccessToken, "https://stock.internal")
		third := s.exchanged("stock", second, s.url+"/ledger")
		_, swapped := s.atUpstream(t, "/ledger/x", third)
		s.revokes(t, "orders", second, http.StatusOK)
		for path, token := range map[string]string{"/stock/x": second, "/ledger/x": third} {
			s.holdStatus(t, fmt.Sprint("after revocation ", i), path, token, http.StatusUnauthorized)
		}
		if _, err := s.app().issuer.Minter.Verifier.Verify(swapped, []string{"https://books.internal"}); err == nil {
			t.Errorf("after the revocation %d of a token: what the last gate had swapped is good", i)
		}
	}
	s.holdStatus(t, "the token that was exchanged has ended with them", "/orders/x", first.AccessToken, http.StatusOK)
}

// TestQ262AKeyThatIsWithdrawnEndsWhatCameOfItsTokens: a withdrawn key → its tokens and those exchanged for them → 401.
func TestQ262AKeyThatIsWithdrawnEndsWhatCameOfItsTokens(t *testing.T) {
	s := startExchange(t)
	first := s.signIn("read").AccessToken
	s.ok("keys", "rotate", "--now")
	second := s.exchanged("orders", first, "https://stock.internal")
	s.ok("keys", "rotate", "--now")
	third := s.exchanged("stock", second, s.url+"/ledger")
	_, swapped := s.atUpstream(t, "/ledger/x", third)
	if a, b := kidOf(t, first), kidOf(t, second); a == b || kidOf(t, third) == b {
		t.Fatal("one key has signed both")
	}
	s.ok("keys", "revoke", kidOf(t, first))
	for path, token := range map[string]string{"/orders/x": first, "/stock/x": second, "/ledger/x": third} {
		s.holdStatus(t, "", path, token, http.StatusUnauthorized)
	}
	if _, err := s.app().issuer.Minter.Verifier.Verify(swapped, []string{"https://books.internal"}); err == nil {
		t.Error("what the last gate had swapped is good")
	}
}
