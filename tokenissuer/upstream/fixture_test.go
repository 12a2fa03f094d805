package upstream

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

const (
	ourID        = "gatehouse"
	ourSecret    = "the secret:of/our client"
	redirectURI  = "https://id.example/oauth/callback/corp"
	goodCode     = "code-of-a-sign-in"
	accessToken  = "access-token-of-a-sign-in"
	refreshToken = "refresh-token-of-a-sign-in"
	metadataPath = "/.well-known/openid-configuration"
)

// idp is an OpenID provider on loopback that can be made to misbehave.
type idp struct {
	*httptest.Server
	t     *testing.T
	clock *tokentest.Clock
	key   *ecdsa.PrivateKey
	kid   string

	mu sync.Mutex
	// metadata, claims, header and userinfo replace members of its documents. A nil value removes a member.
	metadata, claims, header, userinfo, refreshed map[string]any
	// answers replace whole responses, by path.
	answers map[string]http.HandlerFunc
	asked   map[string]int
	// nonce and challenge are those of the last authorization request, and token that of the last token request.
	nonce, challenge string
	token            url.Values
	basic            [2]string
}

func newIDP(t *testing.T) *idp {
	t.Helper()
	p := &idp{
		t: t, clock: tokentest.NewClock(), kid: "first", answers: make(map[string]http.HandlerFunc), asked: make(map[string]int),
		metadata: make(map[string]any), claims: make(map[string]any), header: make(map[string]any),
	}
	p.rotate("first")
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.Close)
	return p
}

// rotate replaces the key.
func (p *idp) rotate(kid string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key, p.kid = key, kid
}

func (p *idp) answer(path string, handler http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[path] = handler
}

func (p *idp) count(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[path]
}

func (p *idp) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked[r.URL.Path]++
	handler := p.answers[r.URL.Path]
	p.mu.Unlock()
	if handler != nil {
		handler(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case metadataPath:
		p.write(w, with(map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token",
			"userinfo_endpoint": p.URL + "/userinfo", "end_session_endpoint": p.URL + "/logout", "jwks_uri": p.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"ES256"}, "code_challenge_methods_supported": []string{"S256"},
		}, p.metadata))
	case "/keys":
		p.write(w, map[string]any{"keys": []any{p.jwk()}})
	case "/token":
		p.serveToken(w, r)
	case "/userinfo":
		if r.Header.Get("Authorization") != "Bearer "+accessToken {
			w.WriteHeader(http.StatusUnauthorized)
		}
		p.write(w, with(map[string]any{"sub": "248289761001"}, p.userinfo))
	default:
		http.NotFound(w, r)
	}
}

func (p *idp) serveToken(w http.ResponseWriter, r *http.Request) {
	body := make([]byte, 64<<10)
	n, _ := r.Body.Read(body)
	form, err := url.ParseQuery(string(body[:n]))
	if err != nil {
		p.t.Error(err)
	}
	id, secret, _ := r.BasicAuth()
	p.mu.Lock()
	p.token, p.basic = form, [2]string{id, secret}
	digest := sha256.Sum256([]byte(form.Get("code_verifier")))
	proved := base64.RawURLEncoding.EncodeToString(digest[:]) == p.challenge
	p.mu.Unlock()
	if form.Get("grant_type") == "refresh_token" && form.Get("refresh_token") == refreshToken {
		p.write(w, with(map[string]any{"access_token": accessToken, "token_type": "Bearer", "refresh_token": "the next one", "id_token": p.idToken()}, p.refreshed))
		return
	}
	if form.Get("code") != goodCode || !proved {
		w.WriteHeader(http.StatusBadRequest)
		p.write(w, map[string]any{"error": "invalid_grant", "error_description": "no such code: " + form.Get("code")})
		return
	}
	p.write(w, map[string]any{"access_token": accessToken, "token_type": "Bearer", "refresh_token": refreshToken, "id_token": p.idToken()})
}

func (p *idp) write(w http.ResponseWriter, value any) {
	if err := json.NewEncoder(w).Encode(value); err != nil {
		p.t.Error(err)
	}
}

// with returns members, with others replacing members of the same name.
func with(members, others map[string]any) map[string]any {
	maps.Copy(members, others)
	maps.DeleteFunc(members, func(_ string, value any) bool { return value == nil })
	return members
}

// idToken returns the ID token for the last authorization request.
func (p *idp) idToken() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	claims := with(map[string]any{
		"iss": p.URL, "sub": "248289761001", "aud": ourID, "exp": now.Add(5 * time.Minute).Unix(), "iat": now.Unix(), "nonce": p.nonce,
		"name": "Jane Doe", "email": "jane@example.com", "email_verified": true,
	}, p.claims)
	payload, err := json.Marshal(claims)
	if err != nil {
		p.t.Error(err)
	}
	return p.sign(payload)
}

func (p *idp) sign(payload []byte) string {
	header, err := json.Marshal(with(map[string]any{"alg": "ES256", "kid": p.kid}, p.header))
	if err != nil {
		p.t.Error(err)
	}
	return p.signInput(tokentest.Encode(string(header)) + "." + tokentest.Encode(string(payload)))
}

func (p *idp) signInput(input string) string {
	signature, err := jwt.SigningMethodES256.Sign(input, p.key)
	if err != nil {
		p.t.Error(err)
	}
	return input + "." + tokentest.Encode(string(signature))
}

func (p *idp) jwk() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	point, err := p.key.PublicKey.Bytes()
	if err != nil {
		p.t.Error(err)
	}
	return map[string]string{
		"kty": "EC", "crv": "P-256", "use": "sig", "kid": p.kid, "x": tokentest.Encode(string(point[1:33])), "y": tokentest.Encode(string(point[33:])),
	}
}

// provider returns an OpenID for this provider.
func (p *idp) provider(edit func(*Settings)) *OpenID {
	p.t.Helper()
	s := Settings{Name: "corp", Issuer: p.URL, Client: Client{ourID, oauth.NewSecret(ourSecret)}, AllowPrivateNetwork: true}
	if edit != nil {
		edit(&s)
	}
	provider, err := NewOpenID(s, fetch.Options{Now: p.clock.Now})
	if err != nil {
		p.t.Fatal(err)
	}
	return provider
}

// begin begins a sign-in, as a browser does at the authorization endpoint.
func (p *idp) begin(provider Provider, r Request) (Flow, url.Values) {
	p.t.Helper()
	r.RedirectURI, r.State = redirectURI, "state"
	location, flow, err := provider.Begin(p.t.Context(), r)
	if err != nil {
		p.t.Fatal(err)
	}
	return flow, p.follow(location)
}

// follow follows a redirect as a browser does.
func (p *idp) follow(location string) url.Values {
	p.t.Helper()
	u, err := url.Parse(location)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nonce, p.challenge = u.Query().Get("nonce"), u.Query().Get("code_challenge")
	return u.Query()
}

// hmacToken returns an HS256 token signed with a key.
func hmacToken(key []byte, payload string) string {
	input := tokentest.Encode(`{"alg":"HS256","kid":"first"}`) + "." + payload
	signature, err := jwt.SigningMethodHS256.Sign(input, key)
	if err != nil {
		panic(err)
	}
	return input + "." + tokentest.Encode(string(signature))
}

// signIn performs a whole sign-in.
func (p *idp) signIn(provider Provider) (signin.Account, error) {
	p.t.Helper()
	flow, _ := p.begin(provider, Request{})
	return provider.Finish(p.t.Context(), flow, goodAnswer(), redirectURI)
}

func goodAnswer() Answer { return Answer{State: "state", Code: oauth.NewSecret(goodCode)} }

// wantReason fails unless err has that reason and a sentence for the person, and contains no secret.
func wantReason(t *testing.T, err error, reason string) {
	t.Helper()
	var e *oauth.Error
	if !errors.As(err, &e) || e.Reason != reason {
		t.Fatalf("got %v, want %s", err, reason)
	}
	if e.Description == "" {
		t.Errorf("%s has no sentence for the person", reason)
	}
	wantNoSecret(t, err.Error()+e.Description)
}

func wantNoSecret(t *testing.T, text string) {
	t.Helper()
	for _, secret := range []string{ourSecret, url.QueryEscape(ourSecret), goodCode, accessToken, "code_verifier="} {
		if strings.Contains(text, secret) {
			t.Errorf("%q has a secret", text)
		}
	}
}

// memory stores snapshots.
type memory struct {
	mu   sync.Mutex
	kept map[string][]byte
}

func (m *memory) Load(_ context.Context, name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if data, ok := m.kept[name]; ok {
		return bytes.Clone(data), nil
	}
	return nil, fs.ErrNotExist
}

func (m *memory) Save(_ context.Context, name string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil {
		m.kept = make(map[string][]byte)
	}
	m.kept[name] = bytes.Clone(data)
	return nil
}

func (m *memory) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.kept)
}
