package caddymodule

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gatehouse-auth/gatehouse/internal/issuertest"
)

// atProvider returns a line block of `sign_in` for a provider.
func atProvider(name string, p *lyingProvider, lines string) string {
	return "provider " + name + " " + p.URL + " {\nclient gw 0123456789\nallow_private_network\n" + lines + "\n}\n"
}

// startProviders serves people who can also sign in through these lines of `sign_in`.
func startProviders(t *testing.T, signIn string, changes ...string) *gatehouse {
	t.Helper()
	return startPeople(t, append([]string{"store memory", "store memory\nsign_in {\n" + signIn + "\n}"}, changes...)...)
}

// chooses submits the sign-in page's form with a provider's button, and returns the answer.
func (b *browser) chooses(t *testing.T, p page, provider string) page {
	t.Helper()
	action, fields := formIn(t, p)
	fields.Set("provider", provider)
	return b.send(action, fields)
}

// atProvider follows a redirect to a provider, and from there back to us.
func (b *browser) atProvider(t *testing.T, p page, provider *lyingProvider) page {
	t.Helper()
	if location := p.header.Get("Location"); p.status != http.StatusSeeOther || !strings.HasPrefix(location, provider.URL+"/authorize?") {
		t.Fatalf("%d to %q and not to the provider: %s", p.status, location, p.body)
	}
	return b.open(provider.follow(p.header.Get("Location")))
}

// signsInAt signs in at a provider from the plain sign-in page, and returns the answer to the callback.
func (b *browser) signsInAt(t *testing.T, name string, provider *lyingProvider) page {
	t.Helper()
	return b.atProvider(t, b.chooses(t, b.open("/oauth/login?switch=1"), name), provider)
}

// holdSignedInAs checks that a browser is signed in as that user.
func (b *browser) holdSignedInAs(t *testing.T, email string) {
	t.Helper()
	p := b.open("/oauth/account")
	if p.status != http.StatusOK || !strings.Contains(p.body, email) {
		t.Errorf("%d, %s is not signed in: %q %.300s", p.status, email, p.header.Get("Location"), p.body)
	}
}

// holdBack checks that a browser is sent back to the sign-in page with a notice, signed out.
func (b *browser) holdBack(t *testing.T, p page, notice, words string) page {
	t.Helper()
	location, err := url.Parse(p.header.Get("Location"))
	if err != nil || p.status != http.StatusSeeOther || location.Path != "/oauth/login" || location.Query().Get("failed") != notice {
		t.Fatalf("%d %q, want the notice %s: %.300s", p.status, p.header.Get("Location"), notice, p.body)
	}
	if b.cookie("session") != "" {
		t.Error("somebody was signed in")
	}
	back := b.open(p.header.Get("Location"))
	if back.status != http.StatusOK || !strings.Contains(back.body, words) {
		t.Errorf("%d, no %q in the page: %s", back.status, words, back.body)
	}
	return back
}

// lyingProvider is an OpenID provider on loopback. A user is always signed in there, and the test controls its
// responses.
type lyingProvider struct {
	*httptest.Server
	t   *testing.T
	key *issuertest.Signer

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
	p := &lyingProvider{t: t, key: issuertest.NewSignerOf("k", "ES256"), codes: make(map[string]url.Values)}
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
		_, _ = io.WriteString(w, issuertest.JWKS(p.key.JWK()))
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
	token.Header["kid"] = p.key.Kid
	signed, err := token.SignedString(p.key.Private)
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
	check(p.t, err)
	defer func() { _ = response.Body.Close() }()
	return response.Header.Get("Location")
}
