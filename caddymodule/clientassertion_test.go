package caddymodule

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/internal/issuertest"
	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// otherNode returns a second issuer on the gatehouse's database, with its own connections and counters.
func (g *gatehouse) otherNode(dsn string) *issuer.Parts {
	g.t.Helper()
	g.awaitServing()
	here := g.app()
	settings := here.settings.Node
	settings.DSN, settings.Rotation = dsn, settings.Rotation+time.Hour
	use, err := node.Acquire(settings, nil)
	check(g.t, err)
	g.t.Cleanup(func() { _ = use.Release() })
	other := use.Value
	check(g.t, other.Open())
	p := here.newIssuer(g.loaded().others.clientKeys.value)
	p.Families.Opened = families.Opened{
		Store: families.StoreOf(other.Store().Store), Directory: store.OverlayDirectory{Declared: here.settings.Issuer.Declared, Stored: other.Store().Directory()},
		Master: other.MasterKey(), JTIMAC: p.Families.JTIMAC,
	}
	p.SignIns.Hasher, p.Families.Limits.Attempts = other.Passwords, other.Attempts
	return p
}

// assertionSite has clients that sign assertions, with inline keys and with keys at a URL. The limit of failures exceeds the number of
// failing cases in a table.
const assertionSite = `{
	admin ADMIN
	log {
		output file LOG
		level DEBUG
	}
	oauth {
		issuer http://ADDR
		store STORE
		client_keys {
			allow_private_network
		}
		limits {
			client 1000/1m per ip
		}
		client conf SECRET
		client inline {
			jwks JWKS
		}
		client remote {
			jwks_uri REMOTE/jwks
		}
		OPTIONS
	}
}
http://ADDR {
	oauth_server
}
`

// assertionScene is a running assertionSite with the keys of its clients.
type assertionScene struct {
	*gatehouse
	remote *provider
	inline *forger
}

func startAssertions(t *testing.T, changes ...string) *assertionScene {
	t.Helper()
	s := &assertionScene{remote: startProvider(t)}
	key := issuertest.NewSignerOf("", "ES256").Private
	s.inline = &forger{key: key, kid: "inline-1", alg: "ES256"}
	changes = append(changes, "STORE", "memory", "OPTIONS", "")
	s.gatehouse = startGatehouse(t, strings.NewReplacer(append(changes, "JWKS", "`"+s.keySet(t)+"`", "REMOTE", s.remote.url)...).Replace(assertionSite))
	return s
}

// keySet returns the JWK set of the client with inline keys.
func (s *assertionScene) keySet(t *testing.T) string { return keySetOf(t, s.inline) }

func keySetOf(t *testing.T, signers ...*forger) string {
	t.Helper()
	var list []map[string]string
	for _, f := range signers {
		list = append(list, f.jwk())
	}
	text, err := json.Marshal(map[string]any{"keys": list})
	check(t, err)
	return string(text)
}

// asserted returns a client's assertion with changes of its header and claims. A nil change removes the member.
func (g *gatehouse) asserted(f *forger, id string, header, claims map[string]any) string {
	g.t.Helper()
	now := node.Clock().Unix()
	h := map[string]any{"alg": f.alg, "kid": f.kid}
	c := map[string]any{"iss": id, "sub": id, "aud": g.url, "jti": oauth.NewID(), "exp": now + 60, "iat": now}
	merge := func(into, changes map[string]any) string {
		maps.Copy(into, changes)
		maps.DeleteFunc(into, func(_ string, value any) bool { return value == nil })
		text, err := json.Marshal(into)
		check(g.t, err)
		return string(text)
	}
	return f.token(merge(h, header), merge(c, claims))
}

func assertionForm(assertionText string, more ...string) url.Values {
	form := url.Values{"grant_type": {"client_credentials"}, "client_assertion_type": {clients.AssertionType}, "client_assertion": {assertionText}}
	for i := 0; i < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	return form
}

// gets requests a token with an assertion.
func (s *assertionScene) gets(assertionText string, more ...string) (int, string) {
	s.t.Helper()
	status, _, body := s.post("/oauth/token", assertionForm(assertionText, more...))
	return status, body
}

// wants requests a token with an assertion and checks the status. A client that has not proved itself gets invalid_client.
func (s *assertionScene) wants(t *testing.T, what string, want int, assertionText string, more ...string) {
	t.Helper()
	status, body := s.gets(assertionText, more...)
	code := map[int]string{http.StatusUnauthorized: "invalid_client", http.StatusBadRequest: "invalid_request"}[status]
	if status != want || code != "" && member(t, body, "error") != code {
		t.Errorf("%s: %d %s, want %d", what, status, body, want)
	}
}

// TestQ70ClientsProveThemselvesWithKeys: a client with `jwks` or `jwks_uri` signs an assertion at token, revocation and introspection
// endpoint, in each allowed form → 200; the metadata names method and algorithms.
func TestQ70ClientsProveThemselvesWithKeys(t *testing.T) {
	s := startAssertions(t)
	now := node.Clock().Unix()
	s.wants(t, "a key at a URL", http.StatusOK, s.asserted(s.remote.signer(), "remote", nil, nil))
	s.wants(t, "with the client_id", http.StatusOK, s.asserted(s.inline, "inline", nil, nil), "client_id", "inline")
	for name, c := range map[string]struct{ header, claims map[string]any }{
		"a key in the configuration": {}, "without kid": {header: map[string]any{"kid": nil}}, "a thumbprint in the header": {header: map[string]any{"x5t": "AAAA"}},
		"typ JWT": {header: map[string]any{"typ": "JWT"}}, "typ client-authentication": {header: map[string]any{"typ": "client-authentication+jwt"}},
		"for the token endpoint": {claims: map[string]any{"aud": s.url + "/oauth/token"}}, "without iat, with more said": {claims: map[string]any{"iat": nil, "x": 1}},
		"a clock that is behind": {claims: map[string]any{"exp": now - 50}}, "a fraction of a second": {claims: map[string]any{"exp": float64(now) + 30.5}},
	} {
		s.wants(t, name, http.StatusOK, s.asserted(s.inline, "inline", c.header, c.claims))
	}
	_, body := s.gets(s.asserted(s.inline, "inline", nil, nil))
	token := member(t, body, "access_token")
	form := func() url.Values { return assertionForm(s.asserted(s.inline, "inline", nil, nil), "token", token) }
	if status, _, body := s.post("/oauth/introspect", form()); status != http.StatusOK || !strings.Contains(body, `"active":true`) {
		t.Errorf("introspection: %d %s", status, body)
	}
	if status, _, body := s.post("/oauth/revoke", form()); status != http.StatusOK {
		t.Errorf("revocation: %d %s", status, body)
	}
	if status, _, body := s.post("/oauth/introspect", form()); status != http.StatusOK || !strings.Contains(body, `"active":false`) {
		t.Errorf("introspection after it: %d %s", status, body)
	}
	_, _, metadata := s.get("/.well-known/oauth-authorization-server", "")
	for _, endpoint := range []string{"token", "revocation", "introspection"} {
		if !strings.Contains(metadata, `"`+endpoint+`_endpoint_auth_methods_supported":["client_secret_basic","client_secret_post","private_key_jwt"`) ||
			!strings.Contains(metadata, `"`+endpoint+`_endpoint_auth_signing_alg_values_supported":["ES256"`) {
			t.Errorf("%s: %s", endpoint, metadata)
		}
	}
}

// TestQ71ForgedClientAssertions: an assertion with one flaw in key, algorithm, header, typ, audience, iss, sub, time or jti → 401, no URL
// in it is fetched, the valid one is not used up. A valid one passes in the end.
func TestQ71ForgedClientAssertions(t *testing.T) {
	s := startAssertions(t)
	now := node.Clock().Unix()
	stranger := *s.inline
	stranger.key = issuertest.NewSignerOf("", "ES256").Private
	header := func(changes map[string]any) string { return s.asserted(s.inline, "inline", changes, nil) }
	claims := func(changes map[string]any) string { return s.asserted(s.inline, "inline", nil, changes) }
	publicKey, err := x509.MarshalPKIXPublicKey(s.inline.key.Public())
	check(t, err)
	asPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicKey})
	good := header(nil)
	unsigned := good[:strings.LastIndexByte(good, '.')+1]
	for name, text := range map[string]string{
		"another's key": s.asserted(&stranger, "inline", nil, nil), "another client's key": s.asserted(s.inline, "remote", nil, nil),
		"an unknown client": s.asserted(s.inline, "nobody", nil, nil), "a client with a secret": s.asserted(s.inline, "conf", nil, nil),
		"the built-in client": s.asserted(s.inline, "gatehouse", nil, nil),
		"alg none":            header(map[string]any{"alg": "none"}), "alg nOnE": header(map[string]any{"alg": "nOnE"}), "no alg": header(map[string]any{"alg": nil}),
		"alg of another key": header(map[string]any{"alg": "RS256"}), "alg ES384": header(map[string]any{"alg": "ES384"}),
		"HS256 with the public key": s.inline.mac(map[string]any{"alg": "HS256", "typ": nil}, asPEM), "HS256 with the set": s.inline.mac(map[string]any{"alg": "HS256", "typ": nil}, []byte(s.keySet(t))),
		"an unknown kid": header(map[string]any{"kid": "other"}), "a kid that is a path": header(map[string]any{"kid": "../inline-1"}), "an empty kid with typ": header(map[string]any{"kid": 7}),
		"jwk": header(map[string]any{"jwk": stranger.jwk()}), "jku": header(map[string]any{"jku": s.remote.url + "/evil"}), "x5u": header(map[string]any{"x5u": s.remote.url + "/evil"}),
		"crit": header(map[string]any{"crit": []string{"exp"}}), "b64": header(map[string]any{"b64": false}), "zip": header(map[string]any{"zip": "DEF"}),
		"an access token": header(map[string]any{"typ": "at+jwt"}), "a logout token": header(map[string]any{"typ": "logout+jwt"}), "an identity grant": header(map[string]any{"typ": "oauth-id-jag+jwt"}),
		"no signature": unsigned, "two parts": strings.TrimSuffix(unsigned, "."), "four parts": good + ".x", "no JWT": "x", "padding": good + "=", "long": strings.Repeat("a", 9000),
		"aud in an array": claims(map[string]any{"aud": []string{s.url}}), "aud with another": claims(map[string]any{"aud": []string{s.url, "https://other.example"}}),
		"aud of the endpoint in an array": claims(map[string]any{"aud": []string{s.url + "/oauth/token"}}), "aud of another": claims(map[string]any{"aud": "https://other.example"}),
		"aud with a slash": claims(map[string]any{"aud": s.url + "/"}), "aud of another endpoint": claims(map[string]any{"aud": s.url + "/oauth/revoke"}), "no aud": claims(map[string]any{"aud": nil}),
		"aud a number": claims(map[string]any{"aud": 1}), "aud null": claims(map[string]any{"aud": []any{}}),
		"iss of another": claims(map[string]any{"iss": "conf"}), "sub of another": claims(map[string]any{"sub": "conf"}), "no iss": claims(map[string]any{"iss": nil}), "no sub": claims(map[string]any{"sub": nil}),
		"expired": claims(map[string]any{"exp": now - 61}), "no exp": claims(map[string]any{"exp": nil}), "exp a text": claims(map[string]any{"exp": strconv.FormatInt(now+60, 10)}),
		"an hour ahead": claims(map[string]any{"exp": now + 3600}), "far ahead": claims(map[string]any{"exp": 9e15}), "negative": claims(map[string]any{"exp": -1}),
		"from the future": claims(map[string]any{"iat": now + 120}), "not yet": claims(map[string]any{"nbf": now + 120}),
		"no jti": claims(map[string]any{"jti": nil}), "an empty jti": claims(map[string]any{"jti": ""}), "a long jti": claims(map[string]any{"jti": strings.Repeat("j", 513)}), "jti a number": claims(map[string]any{"jti": 1}),
	} {
		s.wants(t, name, http.StatusUnauthorized, text)
	}
	s.wants(t, "sub twice", http.StatusUnauthorized, s.inline.token(`{"alg":"ES256","kid":"inline-1"}`,
		`{"iss":"inline","sub":"inline","sub":"inline","aud":"`+s.url+`","jti":"twice","exp":`+strconv.FormatInt(now+60, 10)+`}`))
	s.wants(t, "another client_id", http.StatusUnauthorized, good, "client_id", "remote")
	if n := s.remote.count("/evil"); n != 0 {
		t.Errorf("a URL of an assertion was asked %d times", n)
	}
	s.wants(t, "the good one, which no forgery has used up", http.StatusOK, good)
	s.notLogged(t, good)
}

// TestQ72AnAssertionIsGoodOnce: an assertion twice, at the same or another endpoint or node → good once; one jti of two clients → each
// its own.
func TestQ72AnAssertionIsGoodOnce(t *testing.T) {
	dsn := pgtest.Shared(t).Database(t)
	s := startAssertions(t, "STORE", "postgres "+dsn)
	first := s.asserted(s.inline, "inline", nil, nil)
	s.wants(t, "once", http.StatusOK, first)
	s.wants(t, "again", http.StatusUnauthorized, first)
	if status, _, body := s.post("/oauth/introspect", assertionForm(first, "token", "x")); status != http.StatusUnauthorized {
		t.Errorf("at another endpoint: %d %s", status, body)
	}
	other := s.otherNode(dsn)
	use := func(text string) error {
		_, err := other.Clients.Authenticate(t.Context(), tokenClient(text))
		return err
	}
	if err := use(first); oauth.AsError(err).Reason != "client_assertion_used" {
		t.Errorf("on another node: %v", err)
	}
	second := s.asserted(s.inline, "inline", nil, nil)
	if err := use(second); err != nil {
		t.Errorf("a new one on another node: %v", err)
	}
	s.wants(t, "here after another node", http.StatusUnauthorized, second)
	// The same jti of two clients does not collide.
	s.wants(t, "a jti", http.StatusOK, s.asserted(s.inline, "inline", nil, map[string]any{"jti": "shared"}))
	s.wants(t, "another client's same jti", http.StatusOK, s.asserted(s.remote.signer(), "remote", nil, map[string]any{"jti": "shared"}))
}

// TestQ73KeysAreTheOnlyWay: a client with keys that presents a secret, its bare id or two ways at once → 401 or 400; its keys removed →
// dead.
func TestQ73KeysAreTheOnlyWay(t *testing.T) {
	s := startAssertions(t)
	s.must(http.StatusCreated, "POST", "/oauth/clients", `{"id":"turned","name":"turned","grants":["client_credentials"]}`)
	secret := member(t, s.must(http.StatusOK, "POST", "/oauth/clients/turned/rotate-secret", `{"overlap":"1h"}`), "client_secret")
	if status, _ := s.tokenFor("turned", secret); status != http.StatusOK {
		t.Fatal("the secret is not good")
	}
	s.must(http.StatusOK, "PATCH", "/oauth/clients/turned", `{"jwks":`+s.keySet(t)+`}`)
	s.wants(t, "the key", http.StatusOK, s.asserted(s.inline, "turned", nil, nil))
	for id, secret := range map[string]string{"turned": secret, "inline": "x"} { // its former one, a made-up one
		if status, body := s.tokenFor(id, secret); status != http.StatusUnauthorized {
			t.Errorf("a secret of %s: %d %s", id, status, body)
		}
	}
	good := func() string { return s.asserted(s.inline, "inline", nil, nil) }
	s.wants(t, "an empty secret", http.StatusUnauthorized, "", "client_assertion_type", "", "client_id", "inline", "client_secret", "")
	s.wants(t, "another type", http.StatusUnauthorized, good(), "client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:saml2-bearer")
	s.wants(t, "no type", http.StatusUnauthorized, good(), "client_assertion_type", "")
	s.wants(t, "a type alone", http.StatusUnauthorized, "", "client_id", "inline")
	s.wants(t, "a type alone, of a client with a secret", http.StatusUnauthorized, "", "client_id", "conf")
	s.wants(t, "a secret beside", http.StatusBadRequest, good(), "client_id", "inline", "client_secret", "x")
	status, _, body := s.do("POST", "/oauth/token", assertionForm(good()).Encode(), "Content-Type", urlEncoded, "Authorization", "Basic Y29uZjp4")
	if status != http.StatusBadRequest {
		t.Errorf("Basic beside: %d %s", status, body)
	}
	s.ok("client", "disable", "turned")
	s.wants(t, "a client that is disabled", http.StatusUnauthorized, s.asserted(s.inline, "turned", nil, nil))
	s.ok("client", "enable", "turned")
	// Once the keys are removed, the secret works again.
	s.must(http.StatusOK, "PATCH", "/oauth/clients/turned", `{"jwks":null}`)
	s.wants(t, "a key that is gone", http.StatusUnauthorized, s.asserted(s.inline, "turned", nil, nil))
}

// TestQ74KeysAtAURL: keys at a URL → fetched once, again for another kid; the host down → still good; slow → only its own requests wait.
func TestQ74KeysAtAURL(t *testing.T) {
	now := setClock(t)
	s := startAssertions(t)
	remote := s.remote.signer()
	for range 3 {
		s.wants(t, "a key at a URL", http.StatusOK, s.asserted(remote, "remote", nil, nil))
	}
	if n := s.remote.count(providerJWKS); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
	now.advance(time.Minute)
	s.wants(t, "a new key", http.StatusOK, s.asserted(s.remote.addKey("EdDSA"), "remote", nil, nil))
	s.remote.stop()
	s.wants(t, "while the host is away", http.StatusOK, s.asserted(remote, "remote", nil, nil))
	silent, connections := startCanary(t)
	s.must(http.StatusCreated, "POST", "/oauth/clients", `{"id":"silent","name":"silent","jwks_uri":"http://`+silent+`/jwks"}`)
	waiting := make(chan int)
	go func() {
		status, _ := s.gets(s.asserted(remote, "silent", nil, nil))
		waiting <- status
	}()
	s.eventually("the silent host is asked", func() bool { return connections.Load() > 0 })
	s.wants(t, "beside a client whose host is silent", http.StatusOK, s.asserted(s.inline, "inline", nil, nil))
	if status := <-waiting; status != http.StatusServiceUnavailable {
		t.Errorf("the client whose host is silent: %d", status)
	}
}

// TestQ74PrivateAddressesAreNotAsked: keys at a private address → never fetched without `allow_private_network`.
func TestQ74PrivateAddressesAreNotAsked(t *testing.T) {
	s := startAssertions(t, "client_keys {\n\t\t\tallow_private_network\n\t\t}", "")
	before := s.remote.count(providerJWKS)
	for name, uri := range map[string]string{"loopback": s.remote.url + "/jwks", "https": "https://127.0.0.1:1/jwks", "private": "https://10.0.0.1/jwks", "metadata": "https://169.254.169.254/jwks"} {
		id := "at-" + name
		s.must(http.StatusCreated, "POST", "/oauth/clients", `{"id":"`+id+`","name":"n","jwks_uri":"`+uri+`"}`)
		status, body := s.gets(s.asserted(s.remote.signer(), id, nil, nil))
		if status != http.StatusUnauthorized && status != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if n := s.remote.count(providerJWKS); n != before {
		t.Errorf("a private address was asked %d times", n-before)
	}
}

// TestQ71Q75FailedAssertionsAreCounted: wrong assertions beyond the limit, then a valid one → 429; another client → 200; `strict_assertions` and the
// token endpoint as audience → 401.
func TestQ71Q75FailedAssertionsAreCounted(t *testing.T) {
	s := startAssertions(t, "client 1000/1m per ip", "client 5/1m per ip", "OPTIONS", "strict_assertions")
	s.wants(t, "the token endpoint", http.StatusUnauthorized, s.asserted(s.remote.signer(), "remote", nil, map[string]any{"aud": s.url + "/oauth/token"}))
	stranger := *s.inline
	stranger.key = issuertest.NewSignerOf("", "ES256").Private
	for i := range 5 {
		s.wants(t, fmt.Sprint("guess ", i), http.StatusUnauthorized, s.asserted(&stranger, "inline", nil, nil))
	}
	s.wants(t, "the sixth", http.StatusTooManyRequests, s.asserted(&stranger, "inline", nil, nil))
	s.wants(t, "a good one after them", http.StatusTooManyRequests, s.asserted(s.inline, "inline", nil, nil))
	s.wants(t, "another client", http.StatusOK, s.asserted(s.remote.signer(), "remote", nil, nil))
}

// TestQ76KeysAreCheckedWhenTheyAreRegistered: a client registered with no, both, private, symmetric or malformed keys, or plain http →
// refused without showing any.
func TestQ76KeysAreCheckedWhenTheyAreRegistered(t *testing.T) {
	s := startAssertions(t)
	set := s.keySet(t)
	private := strings.Replace(set, `"kty"`, `"d":"AAAA","kty"`, 1)
	for name, members := range map[string]string{
		"both": `"jwks":` + set + `,"jwks_uri":"https://app.example/jwks"`, "no keys": `"jwks":{"keys":[]}`, "no set": `"jwks":{}`, "a list": `"jwks":[]`,
		"a text": `"jwks":"x"`, "a private key": `"jwks":` + private, "a symmetric key": `"jwks":{"keys":[{"kty":"oct","k":"AAAA"}]}`,
		"plain http": `"jwks_uri":"http://app.example/jwks"`, "no URL": `"jwks_uri":"jwks"`, "credentials": `"jwks_uri":"https://a:b@app.example/jwks"`,
		"a public client": `"type":"public","redirect_uris":["https://app.example/cb"],"jwks":` + set,
	} {
		t.Run(name, func(t *testing.T) {
			if body := s.must(http.StatusBadRequest, "POST", "/oauth/clients", `{"name":"n",`+members+`}`); strings.Contains(body, "AAAA") {
				t.Errorf("the answer shows it: %s", body)
			}
		})
	}
	if body := s.must(http.StatusCreated, "POST", "/oauth/clients", `{"id":"keyed","name":"keyed","jwks":`+set+`}`); member(t, body, "client_secret") != "" || member(t, body, "token_endpoint_auth_method") != "private_key_jwt" {
		t.Errorf("registered as %s", body)
	}
	s.must(http.StatusBadRequest, "POST", "/oauth/clients/keyed/rotate-secret", `{}`)
	file := s.vars.Replace("DIR/keys.json")
	check(t, os.WriteFile(file, []byte(set), 0o600))
	s.ok("client", "add", "--id", "from-file", "--name", "From a file", "--jwks", file)
	s.wants(t, "keys of a file", http.StatusOK, s.asserted(s.inline, "from-file", nil, nil))
	holdWords(t, "the client", s.ok("client", "show", "from-file"), "private_key_jwt")
}

func tokenClient(text string) clients.Authentication {
	return clients.Authentication{Assertion: oauth.NewSecret(text), Address: "192.0.2.1"}
}
