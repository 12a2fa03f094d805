package caddymodule

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-auth/gatehouse/internal/issuertest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/trust"
)

// provider is an external issuer with its metadata, its keys and an introspection endpoint. It can be stopped,
// restarted at the same address, slowed down and made to lie.
type provider struct {
	t    *testing.T
	addr string
	url  string

	mu     sync.Mutex
	server *http.Server
	keys   []*forger
	asked  map[string]int // requests by path
	// answer replaces the response to a path; nil: the honest one.
	answer map[string]http.HandlerFunc
	// opaque are the tokens that introspection knows, with their responses.
	opaque map[string]map[string]any
}

const (
	providerJWKS       = "/jwks"
	providerMetadata   = "/.well-known/oauth-authorization-server"
	providerIntrospect = "/introspect"
)

// startProvider starts a provider with one key.
func startProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{t: t, addr: freeAddr(t), asked: make(map[string]int), answer: make(map[string]http.HandlerFunc), opaque: make(map[string]map[string]any)}
	p.url = "http://" + p.addr
	p.addKey("ES256")
	p.start()
	t.Cleanup(p.stop)
	return p
}

func (p *provider) start() {
	p.t.Helper()
	var listener net.Listener
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if listener, err = net.Listen("tcp", p.addr); err == nil {
			break
		}
	}
	check(p.t, err)
	server := &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	p.mu.Lock()
	p.server = server
	p.mu.Unlock()
	go func() { _ = server.Serve(listener) }()
}

// stop closes the listener and every connection.
func (p *provider) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil {
		_ = p.server.Close()
		p.server = nil
	}
}

// addKey makes a key that signs from now on, and publishes it with the previous ones.
func (p *provider) addKey(algorithm string) *forger {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	f := &forger{key: issuertest.NewSignerOf("", algorithm).Private, kid: fmt.Sprintf("key-%d-%s", len(p.keys), oauth.NewID()[:6]), alg: algorithm, issuer: p.url}
	p.keys = append(p.keys, f)
	return f
}

// signer returns the newest key.
func (p *provider) signer() *forger {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys[len(p.keys)-1]
}

// withdraw publishes only the newest key.
func (p *provider) withdraw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = p.keys[len(p.keys)-1:]
}

// says replaces the response to a path; nil restores the honest one.
func (p *provider) says(path string, answer http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer[path] = answer
}

// count returns the number of requests for a path.
func (p *provider) count(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[path]
}

// ServeHTTP implements http.Handler.
func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked[r.URL.Path]++
	answer := p.answer[r.URL.Path]
	p.mu.Unlock()
	if answer != nil {
		answer(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case providerMetadata:
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": p.url, "jwks_uri": p.url + providerJWKS})
	case providerJWKS:
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": p.jwks()})
	case providerIntrospect:
		_ = json.NewEncoder(w).Encode(p.introspect(r))
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (p *provider) introspect(r *http.Request) map[string]any {
	id, secret, _ := r.BasicAuth()
	if id != "gateway" || secret != "gateway-secret" || r.Method != http.MethodPost {
		return map[string]any{"active": "who are you?"}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if said, known := p.opaque[r.PostFormValue("token")]; known {
		return said
	}
	return map[string]any{"active": false}
}

// knows sets the introspection response of a token, and returns the token; nil removes it.
func (p *provider) knows(token string, said map[string]any) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.opaque[token] = said; said == nil {
		delete(p.opaque, token)
	}
	return token
}

func (p *provider) jwks() (keys []map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.keys {
		keys = append(keys, f.jwk())
	}
	return keys
}

// jwk returns the public half of a forger's key.
func (f *forger) jwk() (members map[string]string) {
	_ = json.Unmarshal([]byte((&issuertest.Signer{Kid: f.kid, Alg: f.alg, Private: f.key}).JWK()), &members)
	return members
}

// trustSite has routes for tokens of a provider alone, of ours alone and of both. PROVIDER is the provider's URL, and
// TRUST stands for further lines of its block.
var trustSite = `{
	admin ADMIN
	storage file_system DIR/storage
	log {
		output file LOG
		level DEBUG
	}
	oauth {
		issuer http://ADDR
		store memory
		client conf SECRET {
			scopes public trusted
		}
		trust corp PROVIDER {
			audience http://ADDR
			allow_private_network
			TRUST
		}
	}
}

http://ADDR {
	log
	oauth_server
` +
	gated("/any/*", "issuer corp") +
	gated("/optional/*", "issuer corp", "optional") +
	gated("/both/*", "issuer self corp") +
	gated("/own/*") +
	gated("/trusted/* trusted", "issuer self corp") +
	gated("/other/*", "issuer corp", "audience https://other.example") +
	handled("handle", "respond 404") + `}
`

// gateOnly returns trustSite without our own issuer.
func gateOnly(caddyfile string) string {
	start, end := strings.Index(caddyfile, "\t\tissuer http://ADDR\n"), strings.Index(caddyfile, "\t\ttrust corp")
	text := caddyfile[:start] + caddyfile[end:]
	for _, gone := range []string{"\toauth_server\n", "issuer self corp"} {
		text = strings.ReplaceAll(text, gone, map[string]string{"issuer self corp": "issuer corp"}[gone])
	}
	return strings.Replace(text, "\thandle /own/* {\n\t\tprotect\n\t\treverse_proxy UPSTREAM\n\t}\n", "", 1)
}

// trustGate is a gate that trusts a provider.
type trustGate struct {
	*gateway
	provider *provider
}

// startTrustGate loads a configuration in which PROVIDER is the provider and TRUST are the lines. It waits for the
// keys of a provider that serves them, because a token waits for its key only a few seconds.
func startTrustGate(t *testing.T, p *provider, caddyfile string, lines ...string) *trustGate {
	t.Helper()
	g := &trustGate{startGate(t, trusting(p, caddyfile, lines...)), p}
	if p.givesKeys() {
		g.awaitKeys()
	}
	return g
}

// givesKeys reports whether the provider runs and serves its keys.
func (p *provider) givesKeys() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server != nil && p.answer[providerJWKS] == nil && p.answer[providerMetadata] == nil
}

func trusting(p *provider, caddyfile string, lines ...string) string {
	return strings.NewReplacer("PROVIDER", p.url, "TRUST", strings.Join(lines, "\n\t\t\t")).Replace(caddyfile)
}

// forger returns a forger that signs tokens for the gate's routes with the provider's newest key.
func (g *trustGate) forger() *forger {
	f := *g.provider.signer()
	f.audience = g.url
	return &f
}

// restart stops Caddy and starts it again, with the same storage.
func (g *trustGate) restart(caddyfile string) {
	g.t.Helper()
	check(g.t, caddy.Stop())
	g.reload(caddyfile)
}

// awaitKeys waits until the gate has the provider's keys. An issuer with introspection is ready without keys.
func (g *gateway) awaitKeys() {
	g.t.Helper()
	g.eventually("the provider's keys are there", func() bool {
		corp := g.trustedNamed("corp")
		return corp.Generation() > 0 && corp.Ready() == nil
	})
}

// shown sends a token to a path and returns the status.
func (g *trustGate) shown(path, token string) int {
	g.t.Helper()
	status, _, _ := g.get(path, g.watched(token))
	return status
}

// trustedNamed returns a trusted issuer of the running configuration by name.
func (g *gatehouse) trustedNamed(name string) *trust.Issuer {
	for _, t := range g.loaded().others.trusted {
		if t.Name == name {
			return t.running.value
		}
	}
	return nil
}
