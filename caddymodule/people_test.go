package caddymodule

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/crypto/argon2"
	"golang.org/x/net/html"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// peoplePassword is the password of every user in the test configurations.
const peoplePassword = "correct horse battery staple"

// peopleHash is its hash. It costs next to nothing to check, as one that was made long ago: the tests sign in thousands of times.
// What a hash of today costs, and that such a one is replaced by it, are promises of T78 and T79.
func peopleHash() string { return cheapHash(64) }

// cheapHash is an argon2id hash of peoplePassword that takes so many KiB.
func cheapHash(kib uint32) string {
	salt := []byte("0123456789abcdef")
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=1,p=1$%s$%s", kib, encode(salt), encode(argon2.IDKey([]byte(peoplePassword), salt, 1, kib, 1, 32)))
}

// configurationWord are the words that startGatehouse and the tests replace in a configuration.
var configurationWord = regexp.MustCompile("ADDR|ADMIN|UPSTREAM|LOG|DIR|SECRET|HASH|CALLBACK")

// people is a site with an organisation and the clients of the catalogue: conf and other (confidential, web), pub
// (public), nat (native), legacy (confidential, without PKCE), first (first party). /api/* needs trusted, /pub/* is
// anonymous, all else is refused. The word HASH is the hash of peoplePassword.
const peopleBlock = `{
	admin ADMIN
	log {
		output file LOG
		level DEBUG
	}
	oauth {
		issuer http://ADDR
		store memory
		password_grant
		scope orders.read "Read orders" {
			server_tokens
		}
		limits {
			client off
			login off
			grants off
			revocations off
		}
		client conf SECRET {
			name "Confidential app"
			grants client_credentials authorization_code refresh_token password
			scopes public trusted refresh_token offline_access orders.read
			redirect_uris https://client.example/cb?x=1 https://client.example/other
		}
		client other other-SECRET {
			grants authorization_code refresh_token password
			scopes public trusted refresh_token
			redirect_uris https://other.example/cb
		}
		client pub {
			name "Public app"
			type public
			scopes public trusted refresh_token
			redirect_uris https://pub.example/cb
		}
		client keyed keyed-SECRET {
			name "Public app with a secret"
			type public
			scopes public trusted refresh_token
			redirect_uris https://keyed.example/cb
		}
		client nat {
			type native
			scopes public trusted
			redirect_uris http://127.0.0.1/cb http://[::1]/cb com.example.app:/cb http://localhost:8080/cb
		}
		client legacy legacy-SECRET {
			grants authorization_code
			scopes public trusted
			redirect_uris https://legacy.example/cb
		}
		client first first-SECRET {
			grants authorization_code refresh_token
			scopes public trusted refresh_token
			redirect_uris https://first.example/cb
			first_party
		}
		organisation acme "Acme Ltd"
		organisation rival "Rival Inc"
		user u-ada {
			email ada@acme.example
			name "Ada Admin"
			password HASH
			organisation acme
			role admin
		}
		user u-grace {
			email grace@acme.example
			password HASH
			organisation acme
			role group_manager
		}
		user u-ben {
			email ben@acme.example
			password HASH
			organisation acme
			role business_manager
		}
		user u-max {
			email max@acme.example
			password HASH
			organisation acme
			role member
		}
		user u-rita {
			email rita@rival.example
			password HASH
			organisation rival
			role group_manager
		}
	}
}

http://ADDR {
	log
	oauth_server
	handle /api/* {
		protect trusted
		reverse_proxy UPSTREAM
	}
	handle /pub/* {
		protect {
			anonymous /pub/*
		}
		reverse_proxy UPSTREAM
	}
	handle {
		respond 404
	}
}
`

// peopleSite is people, changed by the pairs of old and new text.
func peopleSite(changes ...string) string {
	return strings.ReplaceAll(strings.NewReplacer(changes...).Replace(peopleBlock), "HASH", peopleHash())
}

// startPeople serves people, changed by the pairs of old and new text.
func startPeople(t *testing.T, changes ...string) *gatehouse {
	t.Helper()
	return startGatehouse(t, peopleSite(changes...))
}

// addUser adds a stored user, who unlike the declared ones can be changed, and returns the id.
func (g *gatehouse) addUser(email, organisation string, role store.Role) string {
	g.t.Helper()
	user, err := g.app().registry.People.AddUser(context.Background(), store.User{
		Email: email, Organisation: organisation, Role: role, PasswordHash: oauth.NewSecret(peopleHash()),
	}, oauth.Secret{})
	check(g.t, err)
	return user.ID
}

// browser is a visitor with a cookie jar, who follows no redirect by itself.
type browser struct {
	*gatehouse
	jar    *cookiejar.Jar
	client *http.Client
}

func (g *gatehouse) browser() *browser { return g.browserAt("") }

// browserAt comes from another loopback address.
func (g *gatehouse) browserAt(address string) *browser {
	jar, _ := cookiejar.New(nil)
	dialer := new(net.Dialer)
	if address != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(address)}
	}
	return &browser{gatehouse: g, jar: jar, client: &http.Client{
		Jar: jar, Timeout: patience,
		Transport:     oneShot(dialer),
		CheckRedirect: stays,
	}}
}

// page is an answer that a browser got.
type page = answer

// fetch sends a request; headers are name, value, …
func (b *browser) fetch(method, target, body string, headers ...string) page {
	b.t.Helper()
	if strings.HasPrefix(target, "/") {
		target = b.url + target
	}
	return sentBy(b.t, b.client, method, target, body, headers...)
}

func (b *browser) open(target string) page { return b.fetch(http.MethodGet, target, "") }

// send posts a form as a browser does from one of our pages.
func (b *browser) send(action string, fields url.Values) page {
	b.t.Helper()
	return b.fetch(http.MethodPost, action, fields.Encode(), "Content-Type", "application/x-www-form-urlencoded",
		"Origin", "null", "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "navigate")
}

// cookie returns the value of a cookie, or "".
func (b *browser) cookie(name string) string {
	site, _ := url.Parse(b.url)
	for _, c := range b.jar.Cookies(site) {
		if c.Name == name {
			return c.Value
		}
	}
	return ""
}

// nodes are all nodes of a page.
func nodes(t *testing.T, p page) iter.Seq[*html.Node] {
	t.Helper()
	root, err := html.Parse(strings.NewReader(p.body))
	check(t, err)
	return root.Descendants()
}

// attributesOf are the attributes of an element, by name.
func attributesOf(n *html.Node) map[string]string {
	attributes := make(map[string]string)
	for _, a := range n.Attr {
		attributes[a.Key] = a.Val
	}
	return attributes
}

// formIn returns where the first form of a page goes, and its fields as they stand: ticked boxes, no buttons.
func formIn(t *testing.T, p page) (action string, fields url.Values) {
	t.Helper()
	fields = make(url.Values)
	found := false
	for n := range nodes(t, p) {
		attributes := attributesOf(n)
		switch {
		case n.Data == "form" && !found:
			action, found = attributes["action"], true
		case n.Data == "input" && attributes["name"] != "":
			value, hasValue := attributes["value"]
			_, checked := attributes["checked"]
			if attributes["type"] == "checkbox" {
				if !checked {
					continue
				}
				if !hasValue {
					value = "on"
				}
			}
			fields.Set(attributes["name"], value)
		}
	}
	if !found {
		t.Fatalf("status %d, no form in the page: %s", p.status, p.body)
	}
	return action, fields
}

// request is an authorization request as a client sends it.
type request struct {
	clientID, secret, redirectURI, scope, state, verifier string
	more                                                  url.Values
}

// the client's usual request.
func requestOf(clientID string) request {
	r := request{
		clientID: clientID, scope: "trusted public", state: "state-of-" + clientID,
		verifier: "verifier-of-" + clientID + "-" + strings.Repeat("v", 43),
		redirectURI: map[string]string{
			"conf": "https://client.example/cb?x=1", "other": "https://other.example/cb", "pub": "https://pub.example/cb",
			"nat": "http://127.0.0.1:53123/cb", "legacy": "https://legacy.example/cb", "first": "https://first.example/cb",
		}[clientID],
		secret: map[string]string{
			"conf": confSecret, "other": "other-" + confSecret, "legacy": "legacy-" + confSecret, "first": "first-" + confSecret,
		}[clientID],
	}
	if clientID == "legacy" {
		r.verifier = ""
	}
	return r
}

func challengeOf(verifier string) string {
	digest := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(digest[:])
}

// path is the address of the authorization endpoint with the request.
func (r request) path() string { return "/oauth/authorize?" + r.values().Encode() }

func (r request) values() url.Values {
	values := url.Values{"response_type": {"code"}, "client_id": {r.clientID}, "redirect_uri": {r.redirectURI}}
	for name, value := range map[string]string{"scope": r.scope, "state": r.state} {
		if value != "" {
			values.Set(name, value)
		}
	}
	if r.verifier != "" {
		values.Set("code_challenge", challengeOf(r.verifier))
		values.Set("code_challenge_method", "S256")
	}
	for name, more := range r.more {
		values[name] = more
	}
	return values
}

// signIn fills in the sign-in form of a page and returns where that leads.
func (b *browser) signIn(p page, email, password string) page {
	b.t.Helper()
	action, fields := formIn(b.t, p)
	fields.Set("email", email)
	fields.Set("password", password)
	return b.send(action, fields)
}

// decide answers the consent form of a page.
func (b *browser) decide(p page, decision string) page {
	b.t.Helper()
	action, fields := formIn(b.t, p)
	fields.Set("decision", decision)
	return b.send(action, fields)
}

// authorize walks through sign-in and consent, whichever is needed, and returns the last answer: the one that leads to
// the client.
func (b *browser) authorize(r request, email string) page {
	b.t.Helper()
	p := b.open(r.path())
	for range 6 {
		location := p.header.Get("Location")
		switch {
		case strings.HasPrefix(location, "/oauth/") || strings.HasPrefix(location, b.url+"/oauth/"):
			p = b.open(location)
		case location != "":
			return p
		case strings.Contains(p.body, `name="password"`):
			p = b.signIn(p, email, peoplePassword)
		case strings.Contains(p.body, `name="decision"`):
			p = b.decide(p, "allow")
		default:
			b.t.Fatalf("neither a form nor a redirect: %d %s", p.status, p.body)
		}
	}
	b.t.Fatalf("the flow does not end: %d %s", p.status, p.body)
	return p
}

// code is the code for a user who signs in in a browser of their own.
func (g *gatehouse) code(r request, email string) string {
	g.t.Helper()
	p := g.browser().authorize(r, email)
	code := p.location().Query().Get("code")
	if code == "" {
		g.t.Fatalf("no code: %d %s", p.status, p.header.Get("Location"))
	}
	return code
}

// exchange is the form that redeems a code.
func (r request) exchange(code string) url.Values {
	values := url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {r.redirectURI}, "client_id": {r.clientID},
	}
	if r.secret != "" {
		values.Set("client_secret", r.secret)
	}
	if r.verifier != "" {
		values.Set("code_verifier", r.verifier)
	}
	return values
}

// refresh is the form that refreshes.
func (r request) refresh(token string) url.Values {
	values := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}
	if r.clientID != "" {
		values.Set("client_id", r.clientID)
	}
	if r.secret != "" {
		values.Set("client_secret", r.secret)
	}
	return values
}

// tokens are the body of a good answer of the token endpoint.
type tokens struct {
	AccessToken  string `json:"access_token"`
	TokenType    string `json:"token_type"`
	ExpiresIn    int    `json:"expires_in"`
	RefreshToken string `json:"refresh_token"`
	Scope        string `json:"scope"`
	CreatedAt    int64  `json:"created_at"`
	IDToken      string `json:"id_token"`
}

// obtain posts to the token endpoint and wants tokens.
func (g *gatehouse) obtain(form url.Values) tokens {
	g.t.Helper()
	status, _, body := g.post("/oauth/token", form)
	var got tokens
	if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK {
		g.t.Fatalf("token endpoint: %d %s", status, body)
	}
	return got
}

// refused posts to the token endpoint and wants an error.
func (g *gatehouse) refused(form url.Values, status int, code string) {
	g.t.Helper()
	gotStatus, _, body := g.post("/oauth/token", form)
	if gotStatus != status || member(g.t, body, "error") != code {
		g.t.Errorf("token endpoint: %d %s, want %d %s", gotStatus, body, status, code)
	}
}

// userTokens are tokens by the code flow.
func (g *gatehouse) userTokens(r request, email string) tokens {
	g.t.Helper()
	return g.obtain(r.exchange(g.code(r, email)))
}

// alive reports whether the gate takes a token.
func (g *gatehouse) alive(token string) bool {
	g.t.Helper()
	status, _, _ := g.get("/api/x", token)
	return status == http.StatusOK
}
