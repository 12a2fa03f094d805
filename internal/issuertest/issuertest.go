// Package issuertest has a foreign issuer for tests: keys, tokens, and a server whose answers a test controls.
package issuertest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
)

// Audience is the audience of all tokens.
const Audience = "https://api.example"

// Start is the time at the beginning of every test, in the time zone of snapshots.
var Start = tokentest.Start.UTC()

// NewClock returns a clock at Start.
func NewClock() *tokentest.Clock {
	c := tokentest.NewClock()
	c.Set(Start)
	return c
}

// Signer is a key of a foreign issuer.
type Signer struct {
	Kid, Alg string
	Private  crypto.Signer
}

// NewSigner returns a new Ed25519 key.
func NewSigner(kid string) *Signer { return NewSignerOf(kid, "EdDSA") }

// NewSignerOf returns a new key for an algorithm.
func NewSignerOf(kid, alg string) *Signer {
	s := &Signer{Kid: kid, Alg: alg}
	var err error
	switch alg {
	case "EdDSA":
		_, s.Private, err = ed25519.GenerateKey(rand.Reader)
	case "ES256":
		s.Private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ES384":
		s.Private, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ES512":
		s.Private, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	default:
		s.Private, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		panic(err)
	}
	return s
}

// JWK returns the public key as the issuer publishes it. An empty kid or alg is omitted.
func (s *Signer) JWK() string {
	encode := base64.RawURLEncoding.EncodeToString
	members := map[string]string{"use": "sig"}
	switch public := s.Private.Public().(type) {
	case ed25519.PublicKey:
		members["kty"], members["crv"], members["x"] = "OKP", "Ed25519", encode(public)
	case *ecdsa.PublicKey:
		point, err := public.Bytes()
		if err != nil {
			panic(err)
		}
		half := (len(point) + 1) / 2
		members["kty"], members["crv"], members["x"], members["y"] = "EC", public.Params().Name, encode(point[1:half]), encode(point[half:])
	case *rsa.PublicKey:
		members["kty"], members["n"], members["e"] = "RSA", encode(public.N.Bytes()), "AQAB"
	}
	for name, value := range map[string]string{"kid": s.Kid, "alg": s.Alg} {
		if value != "" {
			members[name] = value
		}
	}
	text, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// JWKS returns a set of keys.
func JWKS(keys ...string) string { return `{"keys":[` + strings.Join(keys, ",") + `]}` }

// ECKey returns a key of another algorithm.
func ECKey(kid string) string { return NewSignerOf(kid, "ES256").JWK() }

// Token signs an access token. edits replace claims.
func (s *Signer) Token(issuer string, edits map[string]any) string {
	claims := map[string]any{
		"iss": issuer, "sub": "alice", "client_id": "app", "aud": Audience, "jti": "1", "scope": "read",
		"iat": Start.Unix(), "exp": Start.Add(72 * time.Hour).Unix(),
	}
	maps.Copy(claims, edits)
	payload, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	head := `{"alg":"` + s.Alg + `","typ":"at+jwt"}`
	if s.Kid != "" { // raw, because a test may write more members into it
		head = strings.Replace(head, "}", `,"kid":"`+s.Kid+`"}`, 1)
	}
	encode := base64.RawURLEncoding.EncodeToString
	input := encode([]byte(head)) + "." + encode(payload)
	signature, err := jwt.GetSigningMethod(s.Alg).Sign(input, s.Private)
	if err != nil {
		panic(err)
	}
	return input + "." + encode(signature)
}

// As returns the same key under another kid or for another algorithm.
func (s *Signer) As(kid, alg string) *Signer { return &Signer{kid, alg, s.Private} }

// Provider is an identity provider on loopback whose answers a test controls.
type Provider struct {
	*httptest.Server
	mu      sync.Mutex
	answers map[string]http.HandlerFunc
	asked   map[string]int
}

// The paths of a provider's keys and metadata.
const (
	KeysPath   = "/keys"
	OAuthPath  = "/.well-known/oauth-authorization-server"
	OpenIDPath = "/.well-known/openid-configuration"
)

// NewProvider starts a provider that publishes the keys and its metadata.
func NewProvider(tb testing.TB, keys ...*Signer) *Provider {
	tb.Helper()
	p := Unstarted(keys...)
	p.Start()
	tb.Cleanup(p.Close)
	p.Answer(OAuthPath, Text(p.Metadata()))
	return p
}

// Unstarted returns a provider that publishes the keys and that the caller starts.
func Unstarted(keys ...*Signer) *Provider {
	p := &Provider{answers: make(map[string]http.HandlerFunc), asked: make(map[string]int)}
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(p.serve))
	p.Publish(keys...)
	return p
}

// Metadata returns the provider's metadata.
func (p *Provider) Metadata() string {
	return fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q,"scopes_supported":["read"]}`, p.URL, p.URL+KeysPath)
}

// Publish replaces the keys.
func (p *Provider) Publish(keys ...*Signer) {
	var list []string
	for _, key := range keys {
		list = append(list, key.JWK())
	}
	p.Answer(KeysPath, Text(JWKS(list...)))
}

// Answer replaces the handler of a path; nil removes it.
func (p *Provider) Answer(path string, handler http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[path] = handler
}

func (p *Provider) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked[r.URL.Path]++
	handler := p.answers[r.URL.Path]
	p.mu.Unlock()
	if handler == nil {
		handler = http.NotFound
	}
	handler(w, r)
}

// Fetches returns how often the keys were requested.
func (p *Provider) Fetches() int { return p.Count(KeysPath) }

// Count returns how often a path was requested.
func (p *Provider) Count(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[path]
}

// Text answers with a body.
func Text(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }
}

// Status answers with a status.
func Status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// Inactive answers that a token is not active (RFC 7662 §2.2).
func Inactive(w http.ResponseWriter, r *http.Request) { Text(`{"active":false}`)(w, r) }

// Broken answers with status 500.
func Broken(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
