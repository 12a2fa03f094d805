package caddymodule

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// lyingProvider is an OpenID provider on loopback. A user is always signed in there, and the test controls its
// responses.
type lyingProvider struct {
	*httptest.Server
	t   *testing.T
	key *ecdsa.PrivateKey

	mu sync.Mutex
	// claims are those of the user; a nil value omits one. answer replaces parameters of the authorization response.
	claims map[string]any
	answer map[string]string
	// down makes every request fail. hold, if not nil, delays token requests.
	down bool
	// keepsSessions means that the provider has no end-session endpoint.
	keepsSessions bool
	hold          chan struct{}
	// asked is the last authorization request, signedOut the last logout request; redeemed counts token requests.
	asked, signedOut url.Values
	redeemed         int
	codes            map[string]url.Values
}

func newLyingProvider(t *testing.T) *lyingProvider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &lyingProvider{t: t, key: key, codes: make(map[string]url.Values)}
	p.says(map[string]any{"sub": "1001", "email": "ada@acme.example", "email_verified": true, "name": "Ada"})
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.Close)
	return p
}

func (p *lyingProvider) says(claims map[string]any) { p.change(func() { p.claims = claims }) }

func (p *lyingProvider) change(how func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	how()
}

func (p *lyingProvider) lastAsked() url.Values {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

func (p *lyingProvider) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	if r.URL.Path == "/token" {
		hold := p.hold
		p.redeemed++
		p.mu.Unlock()
		if hold != nil {
			<-hold
		}
		p.mu.Lock()
	}
	defer p.mu.Unlock()
	if p.down {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		metadata := map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"end_session_endpoint": p.URL + "/logout", "id_token_signing_alg_values_supported": []string{"ES256"},
			"code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true,
			"prompt_values_supported": []string{"none", "login", "consent", "select_account"},
		}
		if p.keepsSessions {
			delete(metadata, "end_session_endpoint")
		}
		p.write(w, metadata)
	case "/keys":
		raw := func(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
		point, err := p.key.PublicKey.Bytes()
		if err != nil {
			p.t.Error(err)
		}
		p.write(w, map[string]any{"keys": []any{map[string]any{
			"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "k", "x": raw(point[1:33]), "y": raw(point[33:]),
		}}})
	case "/authorize":
		p.asked = r.URL.Query()
		code := "code-" + strconv.Itoa(len(p.codes))
		p.codes[code] = p.asked
		answer := map[string]string{"code": code, "state": p.asked.Get("state"), "iss": p.URL}
		maps.Copy(answer, p.answer)
		back := make(url.Values)
		for name, value := range answer {
			if value != "" {
				back.Set(name, value)
			}
		}
		http.Redirect(w, r, p.asked.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
	case "/token":
		p.serveToken(w, r)
	case "/logout":
		p.signedOut = r.URL.Query()
		http.Redirect(w, r, p.signedOut.Get("post_logout_redirect_uri")+"?state="+url.QueryEscape(p.signedOut.Get("state")), http.StatusFound)
	default:
		http.NotFound(w, r)
	}
}

// serveToken redeems a code once, for a request with the verifier.
func (p *lyingProvider) serveToken(w http.ResponseWriter, r *http.Request) {
	asked := p.codes[r.PostFormValue("code")]
	delete(p.codes, r.PostFormValue("code"))
	digest := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if asked == nil || base64.RawURLEncoding.EncodeToString(digest[:]) != asked.Get("code_challenge") || r.PostFormValue("redirect_uri") != asked.Get("redirect_uri") {
		w.WriteHeader(http.StatusBadRequest)
		p.write(w, map[string]any{"error": "invalid_grant"})
		return
	}
	now := time.Now()
	claims := jwt.MapClaims{
		"iss": p.URL, "aud": "gw", "nonce": asked.Get("nonce"), "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "auth_time": now.Unix(),
	}
	for name, value := range p.claims {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	token := jwt.NewWithClaims(jwt.SigningMethodES256, claims)
	token.Header["kid"] = "k"
	signed, err := token.SignedString(p.key)
	if err != nil {
		p.t.Error(err)
	}
	p.write(w, map[string]any{"access_token": "an access token", "token_type": "Bearer", "id_token": signed})
}

func (p *lyingProvider) write(w http.ResponseWriter, body any) {
	if err := json.NewEncoder(w).Encode(body); err != nil {
		p.t.Error(err)
	}
}

// follow sends a browser to a provider's URL, and returns the URL to which the provider then redirects it.
func (p *lyingProvider) follow(location string) string {
	p.t.Helper()
	response, err := (&http.Client{CheckRedirect: stays}).Get(location)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	return response.Header.Get("Location")
}
