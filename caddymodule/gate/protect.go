package gate

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

func init() { caddy.RegisterModule(new(Protect)) }

// Protect lets a request pass only with an access token of an issuer that the route trusts, and tells the next handler who
// is calling. Without any setting a valid token of our own issuer is required.
type Protect struct {
	// Issuers are whose tokens pass: `self`, and names of `trust` blocks. Default: self.
	Issuers []string `json:"issuers,omitempty"`
	// Scopes that every token must hold.
	Scopes []string `json:"scopes,omitempty"`
	// Audience that tokens must be meant for: one of these, whoever issued them. Default: of our own tokens the issuer's
	// audience, of another issuer's that of its `trust`.
	Audience []string `json:"audience,omitempty"`
	// Require lists further rules; all that concern a request must hold.
	Require []*Rule `json:"require,omitempty"`
	// Anonymous requests need no token. Nothing is said of them to the upstream. The path patterns match case-sensitively
	// here, and never a path that could be read in two ways.
	Anonymous caddyhttp.RawMatcherSets `json:"anonymous,omitempty" caddy:"namespace=http.matchers"`
	// Optional lets requests without a token pass; a token that is there must be good.
	Optional bool `json:"optional,omitempty"`
	// TokenCookie is the name of a cookie whose value is taken for an access token too. It needs no such cookie: the
	// Authorization header is always looked at. `accessToken` is the cookie of the issuer's own sign-in; with it, browsers
	// that are signed in are given a fresh token whenever theirs is used up. Requests that change something or open a
	// WebSocket must then come from a page of the same origin. Default: no cookie is a credential.
	TokenCookie string `json:"token_cookie,omitempty"`
	// Forward says which claims the upstream is told in which headers, in place of the default identity headers unless
	// ForwardDefaults is set.
	Forward []ForwardedClaim `json:"forward,omitempty"`
	// ForwardDefaults has the default identity headers beside those of Forward.
	ForwardDefaults bool `json:"forward_defaults,omitempty"`
	// ForwardOff tells the upstream nothing.
	ForwardOff bool `json:"forward_off,omitempty"`
	// ForwardTo is `request` (default: only the upstream is told) or `response`: the answer has the identity headers as well,
	// for another proxy that asks us whether a request may pass. Clients see them when nobody takes them away.
	ForwardTo string `json:"forward_to,omitempty"`
	// Assertion tells the upstream in a signed header who is calling.
	Assertion *AssertionConfig `json:"assertion,omitempty"`
	// UpstreamToken is `strip` (the Authorization header does not go on), `relay` (it does), or `swap`: the upstream gets a token of
	// our issuer's that is meant for SwapAudience alone. Default: tokens do not go on; a header of another scheme than Bearer does.
	UpstreamToken string `json:"upstream_token,omitempty"`
	// SwapAudience is whom a swapped token is meant for.
	SwapAudience string `json:"swap_audience,omitempty"`
	// CORS lists the origins whose pages may read answers, and whose preflight requests are answered without a token. `*` stands for
	// all. Default: none. Where an upstream says itself who may read its answer, that holds.
	CORS []string `json:"cors,omitempty"`
	// CORSPreflight is "upstream" when the upstream answers preflight requests. Default: the gate does.
	CORSPreflight string `json:"cors_preflight,omitempty"`
	// Resource is the resource identifier of what is guarded (RFC 9728 §1.2). Default: made of the site's own address and
	// the path that the route matches.
	Resource string `json:"resource,omitempty"`
	// Challenge is `api` (default: whoever brings no good token gets a 401) or `browser` (who would look at a page is sent to
	// the sign-in page, and comes back). It needs the TokenCookie `accessToken`, and works on the issuer's host alone.
	Challenge string `json:"challenge,omitempty"`
	// TrustHeaders lists headers by which an upstream reads another method or path (X-HTTP-Method-Override, X-Original-URL and
	// their like) that are passed on when a trusted proxy sends them. Rules do not look at them. Default: none passes.
	TrustHeaders []string `json:"trust_headers,omitempty"`
	// Upgrade lists protocols that clients may switch to beside WebSocket. What goes on in them nobody asks us about. Those in
	// which HTTP goes on are refused, h2c first of all. Default: a request that asks for another protocol than WebSocket is
	// passed on as an ordinary one.
	Upgrade []string `json:"upgrade,omitempty"`
	// Streams is `close` (default: a WebSocket, an event stream or another long answer ends when its token expires or is
	// revoked) or `keep` (who was let in once stays as long as the connection does).
	Streams string `json:"streams,omitempty"`
	// Paths is `strict` (default: a path that could be read in two ways is answered with 400) or `lenient` (such a path
	// passes, under every rule and never anonymous). Leave it strict unless the upstream needs such paths.
	Paths string `json:"paths,omitempty"`
	// Source is where in a Caddyfile the directive stands, as file:line. It is for warnings and errors alone.
	Source string `json:"source,omitempty"`

	// undeclared is an error of the Caddyfile: a rule names a role that is not one of ours.
	undeclared error
	shared     *Shared
	logger     *zap.Logger
	audit      *endpoint.Audit
	issuers    []routeIssuer
	own        *routeIssuer // of issuers; nil: tokens of ours do not pass
	anonymous  anonymousRule
	forward    []ForwardedClaim
	assertion  *AssertionConfig // as it was read; nil: none
	swapFor    string           // SwapAudience as it was read
	origin     ownOrigin
	// trustedHeaders are the TrustHeaders in canonical form.
	trustedHeaders []string
	warnHost       sync.Once
	cookies        ownCookies
	refusal        *endpoint.PreparedChallenge
	resource       string // resolved
	// described is the refusal that names the route's own metadata, once all routes are known.
	described atomic.Pointer[endpoint.PreparedChallenge]
	verifier  OwnVerifier
}

// CaddyModule returns the module's id.
func (*Protect) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.oauth_protect", New: func() caddy.Module { return new(Protect) }}
}

// Provision finds the issuer and reads the rules.
func (p *Protect) Provision(ctx caddy.Context) error {
	p.logger = ctx.Logger()
	var err error
	if p.shared, err = sharedOf(ctx, "protect", p.Source); err != nil {
		return err
	}
	p.shared.releaseWith(ctx)
	p.audit = p.shared.audit
	if p.shared.own != nil {
		p.verifier = p.shared.own.Verifier
	}
	steps := []func() error{
		p.readIssuers, func() error { return p.readRules(ctx) }, p.readForwarding, p.readAssertion, p.readSwap, p.readBrowsers, p.readCORS, p.readUpgrades, p.readTrustHeaders,
		p.readResource,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return setting.At(fmt.Errorf("protect: %w", err), p.Source)
		}
	}
	refusal := endpoint.Challenge{Realm: p.realm(), Scope: oauth.Scopes(oauth.ResourceScopes(p.Scopes)).String()}
	// The metadata that we serve is that of the issuer's audience; for another one it would mislead (RFC 9728 §3.3).
	if len(p.Audience) == 0 && p.own != nil {
		refusal.ResourceMetadata = endpoint.ResourceMetadataURL(p.shared.own.Settings)
	}
	p.refusal = refusal.Prepare()
	return nil
}

// realm names who protects: our issuer, or what the route is an audience of.
func (p *Protect) realm() string {
	if url := p.shared.issuerURL(); url != "" {
		return url
	}
	return p.issuers[0].audience[0]
}

func (p *Protect) readRules(ctx caddy.Context) error {
	if err := p.checkScopes(p.Scopes); err != nil {
		return err
	}
	for _, rule := range p.Require {
		if err := errors.Join(rule.provision(ctx), p.checkScopes(rule.Scopes), p.checkScopes(rule.AnyScope), p.checkRoles(rule.Roles)); err != nil {
			return err
		}
	}
	for _, choice := range []struct{ name, value, usual, other string }{
		{"paths", p.Paths, "strict", lenientPaths}, {"forward_to", p.ForwardTo, "request", forwardToResponse},
		{"challenge", p.Challenge, "api", challengeBrowser}, {"streams", p.Streams, "close", keepStreams},
	} {
		if !slices.Contains([]string{"", choice.usual, choice.other}, choice.value) {
			return fmt.Errorf("%s %q: use %s or %s", choice.name, choice.value, choice.usual, choice.other)
		}
	}
	var err error
	p.anonymous, err = newAnonymousRule(ctx, p)
	return err
}

// checkRoles refuses roles that nobody can have. What other issuers know nobody here can tell.
func (p *Protect) checkRoles(names []string) error {
	if p.takesOthers() {
		return nil
	}
	return checkRoles(p.shared.own.Roles, names)
}

// checkScopes refuses scopes that no token of ours can hold. What other issuers know nobody here can tell.
func (p *Protect) checkScopes(names []string) error {
	if len(p.issuers) > 1 || p.own == nil {
		return oauth.CheckScopeNames(names)
	}
	return p.shared.own.Scopes.Check(names)
}

// ownCookies are the names of cookies that are kept between the browser and us.
type ownCookies struct {
	// issuer has those of our own sign-in, which no upstream sees or sets.
	issuer []string
	// hidden has those and the one that may carry a token. An upstream does not see it; who else but one should set it?
	hidden []string
}

// readBrowsers settles what concerns browsers alone.
func (p *Protect) readBrowsers() (err error) {
	if p.shared.own != nil { // else an application may call its own cookies so
		p.cookies.issuer = endpoint.CookieNames(p.shared.own.URL)
	}
	p.cookies.hidden = p.cookies.issuer
	if p.TokenCookie != "" {
		p.cookies.hidden = append(slices.Clip(p.cookies.issuer), p.TokenCookie)
		if err := checkTokenCookie(p.TokenCookie); err != nil {
			return err
		}
	}
	if err := errors.Join(p.checkBrowser(), p.checkSessions()); err != nil {
		return err
	}
	p.origin, err = newOwnOrigin(p.shared.issuerURL())
	return err
}

// Settings that differ from the default.
const (
	StripToken       = "strip"
	relayToken       = "relay"
	lenientPaths     = "lenient"
	challengeBrowser = "browser"
	keepStreams      = "keep"
)

// Interface guards.
var (
	_ caddy.Provisioner           = (*Protect)(nil)
	_ caddyhttp.MiddlewareHandler = (*Protect)(nil)
)
