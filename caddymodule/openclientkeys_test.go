package caddymodule

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/issuertest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
)

// newSigner returns a client's key.
func newSigner(t *testing.T, kid string) *forger {
	t.Helper()
	key := issuertest.NewSignerOf("", "ES256").Private
	return &forger{key: key, kid: kid, alg: "ES256"}
}

// signed adds a client's assertion to a form.
func (g *gatehouse) signed(form url.Values, f *forger, id string) url.Values {
	form.Del("client_id")
	form.Set("client_assertion_type", clients.AssertionType)
	form.Set("client_assertion", g.asserted(f, id, nil, nil))
	return form
}

const keyed = `"token_endpoint_auth_method":"private_key_jwt"`

// TestQ200KeysOfClientsThatMakeThemselvesKnown: a self-described client with private_key_jwt → served by its key alone; bare id, secret,
// foreign or replayed assertion → 401; client_credentials → refused.
func TestQ200KeysOfClientsThatMakeThemselvesKnown(t *testing.T) {
	now := setClock(t)
	g, d := startPeople(t, "password_grant", strings.Replace(admitsDescribed, "password_grant", lets("limit off"), 1)), newDescribing(t)
	const web = "https://agent.example/callback"
	uris := `"redirect_uris":["` + web + `","http://127.0.0.1/callback"],` + keyed
	mine, remote, stranger := newSigner(t, "mine"), newSigner(t, "remote"), newSigner(t, "mine")
	d.client("/keys", strings.Trim(keySetOf(t, remote), "{}"), "")
	inline, place := `"jwks":`+keySetOf(t, mine), `"jwks_uri":"`+d.URL+`/keys"`
	registeredWith := func(keys string) request { return g.mustRegister("{" + uris + "," + keys + "}").request(web) }
	for _, test := range []struct {
		name string
		r    request
		key  *forger
	}{
		{"a document with keys", d.client("/inline.json", uris+","+inline, web), mine},
		{"a document with the place of keys", d.client("/remote.json", uris+","+place, web), remote},
		{"a registration with keys", registeredWith(inline), mine},
		{"a registration with the place of keys", registeredWith(place), remote},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := *g
			g.t = t
			id := test.r.clientID
			code := func() string {
				b := g.browser()
				return b.codeToClient(t, b.authorize(test.r, "max@acme.example"), test.r)
			}
			first := code()
			for name, form := range map[string]url.Values{
				"its bare id":           test.r.exchange(first),
				"a secret":              func() url.Values { r := test.r; r.secret = "x"; return r.exchange(first) }(),
				"another's key":         g.signed(test.r.exchange(first), stranger, id),
				"another client's name": g.signed(test.r.exchange(first), test.key, "conf"),
			} {
				if status, _, body := g.post("/oauth/token", form); status != http.StatusUnauthorized || member(t, body, "error") != "invalid_client" {
					t.Errorf("%s: %d %s", name, status, body)
				}
			}
			form := g.signed(test.r.exchange(first), test.key, id)
			got := g.obtain(form)
			if got.RefreshToken == "" || !g.alive(got.AccessToken) {
				t.Errorf("the tokens are %+v", got)
			}
			g.refused(form, http.StatusUnauthorized, "invalid_client") // the assertion has been used
			g.refused(test.r.refresh(got.RefreshToken), http.StatusUnauthorized, "invalid_client")
			got = g.obtain(g.signed(test.r.refresh(got.RefreshToken), test.key, id))
			for grant, want := range map[string]string{
				"client_credentials":                              "unauthorized_client",
				"urn:ietf:params:oauth:grant-type:token-exchange": "",
				"urn:ietf:params:oauth:grant-type:jwt-bearer":     "",
			} {
				status, _, body := g.post("/oauth/token", g.signed(url.Values{
					"grant_type": {grant}, "assertion": {got.AccessToken}, "subject_token": {got.AccessToken}, "subject_token_type": {"urn:ietf:params:oauth:token-type:access_token"},
				}, test.key, id))
				if status != http.StatusBadRequest || want != "" && member(t, body, "error") != want {
					t.Errorf("%s: %d %s", grant, status, body)
				}
			}
			if status, _, body := g.post("/oauth/revoke", g.signed(url.Values{"token": {got.RefreshToken}}, test.key, id)); status != http.StatusOK || g.alive(got.AccessToken) {
				t.Errorf("revocation: %d %s", status, body)
			}
			for name, change := range map[string]func(*request){
				"without PKCE":     func(r *request) { r.verifier = "" },
				"any port":         func(r *request) { r.redirectURI = "http://127.0.0.1:4711/callback" },
				"another redirect": func(r *request) { r.redirectURI = web + "/x" },
			} {
				r := test.r
				change(&r)
				if p := g.browser().open(r.path()); p.status != http.StatusBadRequest && p.location().Query().Get("error") == "" {
					t.Errorf("%s: %d to %q", name, p.status, p.header.Get("Location"))
				}
			}
		})
	}

	// A client that names another client's keys can be authenticated only by that client.
	thief := d.client("/thief.json", uris+","+place, web)
	b := g.browser()
	code := b.codeToClient(t, b.authorize(thief, "max@acme.example"), thief)
	g.refused(g.signed(thief.exchange(code), stranger, thief.clientID), http.StatusUnauthorized, "invalid_client")
	g.refused(g.signed(thief.exchange(code), remote, d.URL+"/remote.json"), http.StatusBadRequest, "invalid_grant")

	// The document as read last counts, and operators see it.
	changing := d.client("/inline.json", uris+`,"jwks":`+keySetOf(t, stranger), web)
	now.advance(6 * time.Minute)
	b = g.browser()
	code = b.codeToClient(t, b.authorize(changing, "max@acme.example"), changing)
	g.refused(g.signed(changing.exchange(code), mine, changing.clientID), http.StatusUnauthorized, "invalid_client")
	got := g.obtain(g.signed(changing.exchange(code), stranger, changing.clientID))
	if shown := g.ok("client", "show", changing.clientID); !strings.Contains(shown, stranger.jwk()["x"]) || strings.Contains(shown, mine.jwk()["x"]) {
		t.Errorf("shown is %s", shown)
	}
	d.client("/inline.json", `"redirect_uris":["`+web+`"]`, web)
	now.advance(6 * time.Minute)
	g.refused(g.signed(changing.refresh(got.RefreshToken), stranger, changing.clientID), http.StatusUnauthorized, "invalid_client")
	g.obtain(changing.refresh(got.RefreshToken))
	g.notLogged(t, g.asserted(mine, "x", nil, nil))
}

// badKeys are keys that a self-described client cannot have, with the expected errors.
func badKeys(t *testing.T) []struct{ name, members, want string } {
	set := keySetOf(t, newSigner(t, "k"))
	return []struct{ name, members, want string }{
		{"no keys", `"x":1`, "needs the client's public keys"},
		{"both kinds", `"jwks":` + set + `,"jwks_uri":"https://agent.example/keys"`, "not both"},
		{"no set", `"jwks":["x"]`, "jwks"},
		{"an empty set", `"jwks":{"keys":[]}`, "no key that can be used"},
		{"a private key", `"jwks":` + strings.Replace(set, `"kty"`, `"d":"PRIVATE","kty"`, 1), "private half"},
		{"a symmetric key", `"jwks":{"keys":[{"kty":"oct","k":"PRIVATE"}]}`, "symmetric"},
		{"a large set", `"jwks":{"keys":[],"pad":"` + strings.Repeat("x", 17<<10) + `"}`, "at most"},
		{"plain http", `"jwks_uri":"http://agent.example/keys"`, "https"},
		{"credentials", `"jwks_uri":"https://me@agent.example/keys"`, "no URL"},
		{"a fragment", `"jwks_uri":"https://agent.example/keys#x"`, "no URL"},
		{"no URL", `"jwks_uri":"keys"`, "no URL"},
		{"Q261 a host that is denied, in capitals", `"jwks_uri":"https://KEYS.example/keys"`, "write its host"},
		{"Q261 a host that is denied, with a dot", `"jwks_uri":"https://keys.example./keys"`, "write its host"},
		{"Q261 the scheme's own port", `"jwks_uri":"https://agent.example:443/keys"`, "write its host"},
	}
}

// TestQ201Q261KeysAreChecked: such a client with no, private, symmetric or oversized keys, or keys at a denied host in another spelling →
// refused with the reason.
func TestQ201Q261KeysAreChecked(t *testing.T) {
	site := strings.Replace(strings.Replace(admitsDescribed, "password_grant", lets("limit off"), 1), "allow_private", "deny keys.example\n\t\t\tallow_private", 1)
	g := startPeople(t, "password_grant", site)
	hosts := []*describing{newDescribing(t), newDescribing(t)} // of one host, ten documents are read in a minute
	const web = `"redirect_uris":["https://agent.example/callback"]`
	for i, test := range append(badKeys(t), struct{ name, members, want string }{"a host that is denied", `"jwks_uri":"https://keys.example/keys"`, "not admitted"}) {
		r := hosts[i%2].client(fmt.Sprintf("/%d.json", i), web+","+keyed+","+test.members, "https://agent.example/callback")
		if p := g.browser().open(r.path()); p.status != http.StatusBadRequest || !strings.Contains(html.UnescapeString(p.body), test.want) || strings.Contains(p.body, "PRIVATE") {
			t.Errorf("%s, in a document: %d %s", test.name, p.status, p.body)
		}
		if strings.HasPrefix(test.name, "a host") {
			continue
		}
		status, _, _, body := g.register("{" + web + "," + keyed + "," + test.members + "}")
		if status != http.StatusBadRequest || member(t, body, "error") != "invalid_client_metadata" || !strings.Contains(member(t, body, "error_description"), test.want) || strings.Contains(body, "PRIVATE") {
			t.Errorf("%s, registered: %d %s", test.name, status, body)
		}
	}
	// The keys of a client with another authentication method serve another purpose.
	c := g.mustRegister("{" + web + `,"token_endpoint_auth_method":"none","jwks_uri":"http://agent.example/keys"}`)
	if c.Method != "none" {
		t.Errorf("registered is %+v", c)
	}
}

// TestQ203KeysAreReplaced: such a client replaces its keys → the new count at once, the old never again.
func TestQ203KeysAreReplaced(t *testing.T) {
	g, d := startPeople(t, "password_grant", strings.Replace(admitsDescribed, "password_grant", lets("limit off"), 1)), newDescribing(t)
	const web = "https://agent.example/callback"
	uris := `"redirect_uris":["` + web + `"]`
	first, second, third := newSigner(t, "first"), newSigner(t, "second"), newSigner(t, "third")
	d.client("/keys", strings.Trim(keySetOf(t, third), "{}"), "")
	c := g.mustRegister("{" + uris + "," + keyed + `,"jwks":` + keySetOf(t, first) + "}")
	if c.Method != "private_key_jwt" || c.Secret != "" || c.SecretExpires != nil {
		t.Errorf("registered is %+v", c)
	}
	told := func(body string) string {
		var answer struct {
			JWKS json.RawMessage `json:"jwks"`
			URI  string          `json:"jwks_uri"`
		}
		check(t, json.Unmarshal([]byte(body), &answer))
		return string(answer.JWKS) + answer.URI
	}
	if status, body := g.manage(http.MethodGet, c, c.Token, ""); status != http.StatusOK || told(body) != keySetOf(t, first) || member(t, body, "token_endpoint_auth_method") != "private_key_jwt" {
		t.Errorf("told is %d %s", status, body)
	}
	r := c.request(web)
	tokens := g.obtain(g.signed(r.exchange(g.code(r, "max@acme.example")), first, c.ID))
	put := func(members string) (int, string) {
		return g.manage(http.MethodPut, c, c.Token, `{"client_id":"`+c.ID+`",`+uris+","+members+"}")
	}
	for name, members := range map[string]string{
		"no keys": keyed, "none": `"token_endpoint_auth_method":"none"`, "a secret": `"token_endpoint_auth_method":"client_secret_basic"`, "no method and no keys": `"x":1`,
	} {
		if status, body := put(members); status != http.StatusBadRequest || member(t, body, "error") != "invalid_client_metadata" {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	for _, method := range []string{"none", "client_secret_basic"} {
		other := g.mustRegister("{" + uris + `,"token_endpoint_auth_method":"` + method + `"}`)
		g.managed(t, "a key in place of "+method, http.StatusBadRequest, http.MethodPut, other, other.Token, `{"client_id":"`+other.ID+`",`+uris+","+keyed+`,"jwks":`+keySetOf(t, first)+"}")
	}
	tokens = g.obtain(g.signed(r.refresh(tokens.RefreshToken), first, c.ID))
	before := first
	for _, test := range []struct {
		members, want string
		key           *forger
	}{
		{keyed + `,"jwks":` + keySetOf(t, second), keySetOf(t, second), second},
		{`"jwks_uri":"` + d.URL + `/keys"`, d.URL + "/keys", third},
	} {
		if status, body := put(test.members); status != http.StatusOK || told(body) != test.want {
			t.Fatalf("%s: %d %s", test.members, status, body)
		}
		g.refused(g.signed(r.refresh(tokens.RefreshToken), before, c.ID), http.StatusUnauthorized, "invalid_client")
		tokens = g.obtain(g.signed(r.refresh(tokens.RefreshToken), test.key, c.ID))
		before = test.key
	}
}

// TestQ202StrangersReachNoPrivateNetwork: self-described clients cannot make the server connect to private networks,
// whatever the operator's own clients may do.
func TestQ202StrangersReachNoPrivateNetwork(t *testing.T) {
	g, d := startPeople(t, "password_grant", lets("limit off")+"\n\t\tclient_keys {\n\t\t\tallow_private_network\n\t\t}"), newDescribing(t)
	const web = "https://agent.example/callback"
	signer := newSigner(t, "k")
	d.client("/keys", strings.Trim(keySetOf(t, signer), "{}"), "")
	for _, uri := range []string{d.URL + "/keys", strings.Replace(d.URL, "http", "https", 1) + "/keys"} {
		r := g.mustRegister(`{"redirect_uris":["` + web + `"],` + keyed + `,"jwks_uri":"` + uri + `"}`).request(web)
		status, _, body := g.post("/oauth/token", g.signed(r.exchange("x"), signer, r.clientID))
		if status != http.StatusUnauthorized && status != http.StatusServiceUnavailable || d.questions() != 0 {
			t.Errorf("%s: %d %s after %d questions", uri, status, body, d.questions())
		}
	}
}

// TestQ208AssertionsOfStrangersAreBounded: a self-described client with more than 600 assertions a minute → 429 and nothing kept; others
// are served.
func TestQ208AssertionsOfStrangersAreBounded(t *testing.T) {
	now := setClock(t)
	g := startPeople(t, "password_grant", lets("limit off"))
	signer := newSigner(t, "k")
	register := func() string {
		return g.mustRegister(`{"redirect_uris":["https://agent.example/callback"],` + keyed + `,"jwks":` + keySetOf(t, signer) + "}").ID
	}
	busy, other := register(), register()
	proves := func(id string) error {
		_, err := g.app().issuer.Clients.Authenticate(t.Context(), tokenClient(g.asserted(signer, id, nil, nil)))
		return err
	}
	for i := range 600 {
		if err := proves(busy); err != nil {
			t.Fatal(i, err)
		}
	}
	status, header, body := g.post("/oauth/token", g.signed(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"x"}}, signer, busy))
	if status != http.StatusTooManyRequests || header.Get("Retry-After") == "" {
		t.Errorf("one more: %d %s", status, body)
	}
	if err := proves(other); err != nil {
		t.Errorf("another client: %v", err)
	}
	now.advance(time.Minute)
	if err := proves(busy); err != nil {
		t.Errorf("a minute later: %v", err)
	}
}
