package trust

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

const ourAudience = "https://api.example"

// testStart is when every test begins, in the zone that snapshots are written in.
var testStart = tokentest.Start.UTC()

func newClock() *tokentest.Clock {
	c := tokentest.NewClock()
	c.Set(testStart)
	return c
}

// signer is a key of an issuer that is not ours.
type signer struct {
	kid, alg string
	private  crypto.Signer
}

func newSigner(kid string) *signer { return newSignerOf(kid, "EdDSA") }

func newSignerOf(kid, alg string) *signer {
	s := &signer{kid: kid, alg: alg}
	var err error
	switch alg {
	case "EdDSA":
		_, s.private, err = ed25519.GenerateKey(rand.Reader)
	case "ES256":
		s.private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ES384":
		s.private, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ES512":
		s.private, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	default:
		s.private, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		panic(err)
	}
	return s
}

// jwk is the public key as the issuer publishes it. An empty kid or alg is left out.
func (s *signer) jwk() string {
	encode := base64.RawURLEncoding.EncodeToString
	members := map[string]string{"use": "sig"}
	switch public := s.private.Public().(type) {
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
	for name, value := range map[string]string{"kid": s.kid, "alg": s.alg} {
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

func jwks(keys ...string) string { return `{"keys":[` + strings.Join(keys, ",") + `]}` }

// ecKey is a key of another algorithm.
func ecKey(kid string) string { return newSignerOf(kid, "ES256").jwk() }

// token signs an access token. edits replace claims.
func (s *signer) token(issuer string, edits map[string]any) string {
	claims := map[string]any{
		"iss": issuer, "sub": "alice", "client_id": "app", "aud": ourAudience, "jti": "1", "scope": "read",
		"iat": testStart.Unix(), "exp": testStart.Add(72 * time.Hour).Unix(),
	}
	maps.Copy(claims, edits)
	payload, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	head := `{"alg":"` + s.alg + `","typ":"at+jwt"}`
	if s.kid != "" { // as it is, so that a test can write more members into it
		head = strings.Replace(head, "}", `,"kid":"`+s.kid+`"}`, 1)
	}
	encode := base64.RawURLEncoding.EncodeToString
	input := encode([]byte(head)) + "." + encode(payload)
	signature, err := jwt.GetSigningMethod(s.alg).Sign(input, s.private)
	if err != nil {
		panic(err)
	}
	return input + "." + encode(signature)
}

// as is the same key under another kid or for another algorithm.
func (s *signer) as(kid, alg string) *signer { return &signer{kid, alg, s.private} }

// provider is an identity provider on loopback, which does as a test says.
type provider struct {
	*httptest.Server
	mu      sync.Mutex
	answers map[string]http.HandlerFunc
	asked   map[string]int
}

const (
	keysPath  = "/keys"
	oauthPath = "/.well-known/oauth-authorization-server"
	oidcPath  = "/.well-known/openid-configuration"
)

func newProvider(tb testing.TB, keys ...*signer) *provider {
	tb.Helper()
	p := unstarted(keys...)
	p.Start()
	tb.Cleanup(p.Close)
	p.answer(oauthPath, text(p.metadata()))
	return p
}

func unstarted(keys ...*signer) *provider {
	p := &provider{answers: make(map[string]http.HandlerFunc), asked: make(map[string]int)}
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(p.serve))
	p.publish(keys...)
	return p
}

func (p *provider) metadata() string {
	return fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q,"scopes_supported":["read"]}`, p.URL, p.URL+keysPath)
}

func (p *provider) publish(keys ...*signer) {
	var list []string
	for _, key := range keys {
		list = append(list, key.jwk())
	}
	p.answer(keysPath, text(jwks(list...)))
}

func (p *provider) answer(path string, handler http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[path] = handler
}

func (p *provider) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked[r.URL.Path]++
	handler := p.answers[r.URL.Path]
	p.mu.Unlock()
	if handler == nil {
		handler = http.NotFound
	}
	handler(w, r)
}

// fetches is how often the keys were asked for.
func (p *provider) fetches() int { return p.count(keysPath) }

func (p *provider) count(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[path]
}

func text(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func inactiveAnswer(w http.ResponseWriter, r *http.Request) { text(`{"active":false}`)(w, r) }

func broken(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }

// gate is an Issuer in a test.
type gate struct {
	*Issuer
	clock    *tokentest.Clock
	provider *provider

	mu       sync.Mutex
	warnings []string
}

func newGate(tb testing.TB, p *provider, edits ...func(*Settings)) *gate {
	tb.Helper()
	g := &gate{clock: newClock(), provider: p}
	settings := Settings{Issuer: p.URL, AllowPrivateNetwork: true}
	for _, edit := range edits {
		edit(&settings)
	}
	var err error
	g.Issuer, err = New(settings, Options{Now: g.clock.Now, Warn: g.warn})
	if err != nil {
		tb.Fatal(err)
	}
	g.keys.client.bearWithMachine()
	g.keyTimeout = time.Minute
	if g.introspector != nil {
		g.introspector.wait = time.Minute
	}
	tb.Cleanup(g.keys.client.transport.CloseIdleConnections)
	return g
}

// bearWithMachine gives the client so much time that a slow machine fails no test. Tests of time set their own.
func (c *client) bearWithMachine() *client {
	c.timeout, c.dialer.Timeout, c.transport.TLSHandshakeTimeout = time.Minute, time.Minute, time.Minute
	return c
}

func atKeys(s *Settings) { s.JWKSURI = s.Issuer + keysPath }

func (g *gate) warn(message string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.warnings = append(g.warnings, message+": "+err.Error())
}

func (g *gate) warned(part string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Contains(strings.Join(g.warnings, "\n"), part)
}

func (g *gate) judgeNow(token string) (*accesstoken.AccessToken, error) {
	return g.judgeFrom("", token)
}

// judgeFrom judges a token that a source shows.
func (g *gate) judgeFrom(source, token string) (*accesstoken.AccessToken, error) {
	return g.VerifyAdmitted(context.Background(), token, []string{ourAudience}, source, nil)
}

func (g *gate) accepts(tb testing.TB, token string) {
	tb.Helper()
	if t, err := g.judgeNow(token); err != nil || t == nil {
		tb.Errorf("refused: %v", err)
	}
}

func (g *gate) refuses(tb testing.TB, token string, code oauth.ErrorCode, reason string) {
	tb.Helper()
	t, err := g.judgeNow(token)
	if err == nil || t != nil {
		tb.Fatalf("accepted, not refused for %s", reason)
	}
	if e := oauth.AsError(err); e.Code != code || e.Reason != reason {
		tb.Errorf("refused with %v, not for %s (%s)", err, code, reason)
	} else if code == oauth.TemporarilyUnavailable && (e.RetryAfter < time.Second || e.RetryAfter > maxRetry) {
		tb.Errorf("to come back in %v", e.RetryAfter)
	}
}

// fetchNow fetches as run would, and waits for the end.
func (g *gate) fetchNow() {
	g.keys.refresh()
	g.keys.mu.Lock()
	fetched := g.keys.fetched
	g.keys.mu.Unlock()
	<-fetched
}

// memory keeps snapshots as a test wants.
type memory struct {
	mu     sync.Mutex
	data   map[string][]byte
	saves  int
	fail   error
	before func(ctx context.Context) // runs before everything
}

func newMemory() *memory { return &memory{data: make(map[string][]byte)} }

func (m *memory) Load(ctx context.Context, name string) ([]byte, error) {
	if m.before != nil {
		m.before(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if data, ok := m.data[name]; ok || m.fail != nil {
		return data, m.fail
	}
	return nil, fs.ErrNotExist
}

func (m *memory) Save(ctx context.Context, name string, data []byte) error {
	if m.before != nil {
		m.before(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.saves++
	if m.fail == nil {
		m.data[name] = bytes.Clone(data)
	}
	return m.fail
}

func (m *memory) saved() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.saves
}

// kept returns the only snapshot.
func (m *memory) kept() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, data := range m.data {
		return data
	}
	return nil
}

func (m *memory) replace(data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.data {
		m.data[name] = data
	}
}

func (m *memory) setFail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

var errStorage = errors.New("the storage is away")
