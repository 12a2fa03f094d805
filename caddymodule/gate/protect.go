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

	"github.com/gatehouse-auth/gatehouse/caddymodule/hostpaths"
	"github.com/gatehouse-auth/gatehouse/caddymodule/mcp"
	"github.com/gatehouse-auth/gatehouse/caddymodule/rule"
	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

func init() { caddy.RegisterModule(new(Protect)) }

// Protect is a handler that passes only requests with an access token of a trusted issuer, and tells the next handler who
// is calling. By default it requires a valid token of our own issuer.
type Protect struct {
	// Issuers lists the issuers whose tokens pass: `self`, and names of `trust` blocks. Default: self.
	Issuers []string `json:"issuers,omitempty"`
	// Scopes that every token must hold.
	Scopes []string `json:"scopes,omitempty"`
	// Audience lists audiences; a token must be meant for one of them, whoever issued it. Default: for our own tokens the
	// issuer's audience, for another issuer's that of its `trust`. One of our own may be meant for the route's resource as well.
	Audience []string `json:"audience,omitempty"`
	// Require lists further rules. A request must satisfy all that apply to it.
	Require []*rule.Rule `json:"require,omitempty"`
	// Anonymous requests need no token, and carry no identity to the upstream. Path patterns match case-sensitively here,
	// and never match a path that can be read in two ways.
	Anonymous caddyhttp.RawMatcherSets `json:"anonymous,omitempty" caddy:"namespace=http.matchers"`
	// Optional lets requests without a token pass; a token that is present must be valid.
	Optional bool `json:"optional,omitempty"`
	// TokenCookie is the name of a cookie that may hold an access token. The Authorization header is accepted in any
	// case. Requests that change something or open a WebSocket must then come from a page of the same origin. It cannot
	// stand beside the Challenge `browser`. Default: no cookie is a credential.
	TokenCookie string `json:"token_cookie,omitempty"`
	// PersonalTokenHeader is the name of a header that may hold a personal access token, and nothing else. Such tokens are accepted in
	// the Authorization header as bearer tokens in any case. Default: there is no such header.
	PersonalTokenHeader string `json:"personal_token_header,omitempty"`
	// PersonalTokenBasic accepts a personal access token as the password of Basic authentication, under any user name.
	PersonalTokenBasic bool `json:"personal_token_basic,omitempty"`
	// Forward maps claims to headers of the upstream request. It replaces the default identity headers unless
	// ForwardDefaults is set.
	Forward []ForwardedClaim `json:"forward,omitempty"`
	// ForwardDefaults sends the default identity headers in addition to those of Forward.
	ForwardDefaults bool `json:"forward_defaults,omitempty"`
	// ForwardOff sends no identity to the upstream.
	ForwardOff bool `json:"forward_off,omitempty"`
	// ForwardTo is `request` (default: only the upstream gets the identity headers) or `response`: the response has them
	// as well, for another proxy that asks whether a request may pass. That proxy must remove them from what clients see.
	ForwardTo string `json:"forward_to,omitempty"`
	// Assertion sends the upstream a signed header that names the caller.
	Assertion *AssertionConfig `json:"assertion,omitempty"`
	// UpstreamToken is `strip` (remove the Authorization header), `relay` (pass it on), or `swap` (replace it by a token
	// of our issuer for SwapAudience alone). Default: remove tokens, but pass on a header of another scheme than Bearer.
	UpstreamToken string `json:"upstream_token,omitempty"`
	// SwapAudience is the audience of the token that replaces the client's.
	SwapAudience string `json:"swap_audience,omitempty"`
	// CORS lists the origins whose pages may read responses, and whose preflight requests are answered without a token.
	// `*` allows all. Default: none. CORS headers of the upstream take precedence.
	CORS []string `json:"cors,omitempty"`
	// CORSPreflight is "upstream" when the upstream answers preflight requests. Default: the gate answers them.
	CORSPreflight string `json:"cors_preflight,omitempty"`
	// Resource is the resource identifier of the protected resource (RFC 9728 §1.2). Default: the site's address and the
	// path that the route matches.
	Resource string `json:"resource,omitempty"`
	// ResourceRequired lets only tokens pass that were asked for the resource of this route (RFC 8707), whoever issued them.
	// Default: so do tokens for the issuer's audience.
	ResourceRequired bool `json:"resource_required,omitempty"`
	// Challenge is `api` (default: a request without a valid token gets a 401) or `browser` (page navigations are
	// redirected to sign in at the issuer and come back with a session of the host, with which the browser passes from
	// then on).
	Challenge string `json:"challenge,omitempty"`
	// SignInAt is the identity provider at which browsers sign in. With an issuer of our own they go there through it. Default: the
	// default one, or what the issuer's page says.
	SignInAt string `json:"sign_in_at,omitempty"`
	// TrustHeaders lists headers that override method or path (X-HTTP-Method-Override, X-Original-URL and the like) and
	// are passed on if a trusted proxy sends them. Rules ignore them. Default: none passes.
	TrustHeaders []string `json:"trust_headers,omitempty"`
	// Upgrade lists protocols that clients may switch to besides WebSocket. The gate does not see what is sent over them.
	// Protocols that carry HTTP are refused, h2c among them. Default: a request for any other protocol is passed on as an
	// ordinary one.
	Upgrade []string `json:"upgrade,omitempty"`
	// Streams is `close` (default: a WebSocket, an event stream or another long response ends when its token expires or
	// is revoked) or `keep` (it lasts as long as the connection).
	Streams string `json:"streams,omitempty"`
	// Paths is `strict` (default: a path that can be read in two ways is answered with 400) or `lenient` (such a path
	// passes under every rule, but never anonymously). Leave it strict unless the upstream needs such paths.
	Paths string `json:"paths,omitempty"`
	// MCP: the route is a server of the Model Context Protocol. Tokens must be for its resource, as with ResourceRequired, unless
	// Audience is set; the client's token is stripped unless UpstreamToken is set; a request that a page of a foreign origin has
	// caused is refused. Default: it is not.
	MCP *mcp.Config `json:"mcp,omitempty"`
	// Source is the directive's position in the Caddyfile, as file:line, for warnings and errors.
	Source string `json:"source,omitempty"`

	// roleError reports a role in a rule that is not declared. It counts only if all issuers are ours.
	roleError        error
	tools            []*mcp.Tool // as they are parsed, for MCP
	shared           *Shared
	logger           *zap.Logger
	audit            *endpoint.Audit
	issuers          []routeIssuer
	own              *routeIssuer // element of issuers; nil: our own tokens do not pass
	anonymous        rule.Anonymous
	forward          []ForwardedClaim
	assertion        *AssertionConfig // resolved; nil: none
	exchangeAudience string           // SwapAudience, resolved
	origin           issuerOrigin
	// trustedHeaders are the TrustHeaders in canonical form.
	trustedHeaders []string
	warnHost       sync.Once
	cookies        ownCookies
	refusal        *answers.PreparedChallenge
	resource       string            // resolved
	paths          *hostpaths.Routes // ours at the hosts of the server; nil: none
	// described are the challenges that name the route's own metadata; nil until all routes are known.
	described atomic.Pointer[[]challenges]
	// guarded is what the gate guards, for tokens of ours, and with ResourceRequired of any issuer. Nil: what the issuers have, as long
	// as the routes are not known.
	guarded  atomic.Pointer[guarded]
	verifier OwnVerifier
}

// CaddyModule returns the module's id.
func (*Protect) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.oauth_protect", New: func() caddy.Module { return new(Protect) }}
}

// Provision resolves the settings.
func (p *Protect) Provision(ctx caddy.Context) error {
	p.logger = ctx.Logger()
	var err error
	if p.shared, err = sharedOf(ctx, "protect", p.Source); err != nil {
		return err
	}
	p.audit = p.shared.audit
	if p.shared.own != nil {
		p.verifier = p.shared.own.Verifier
	}
	if p.paths, err = p.shared.Mount(ctx); err != nil {
		return err
	}
	steps := []func() error{
		p.readIssuers, p.readPersonalTokens, func() error { return p.readMCP(ctx) }, p.readResource, func() error { return p.readRules(ctx) }, p.readForwarding, p.readAssertion, p.readSwap, p.readBrowsers, p.readHostSessions, p.readCORS, p.readUpgrades, p.readTrustHeaders,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return setting.At(fmt.Errorf("protect: %w", err), p.Source)
		}
	}
	refusal := answers.Challenge{Realm: p.realm(), Scope: oauth.Scopes(oauth.ResourceScopes(p.Scopes)).String()}
	// Our metadata document describes the issuer's audience; for another one it would mislead (RFC 9728 §3.3).
	if len(p.Audience) == 0 && p.own != nil && p.own.url == p.shared.issuerURL() {
		refusal.ResourceMetadata = endpoint.ResourceMetadataURL(p.shared.own.Settings)
	}
	p.refusal = refusal.Prepare()
	return nil
}

// realm returns the realm of challenges: our issuer's URL, or the route's audience.
func (p *Protect) realm() string {
	if url := p.shared.issuerURL(); url != "" {
		return url
	}
	if p.issuers[0].external == nil {
		return "sign-in"
	}
	return p.issuers[0].audience[0]
}

func (p *Protect) readRules(ctx caddy.Context) error {
	if p.MCP != nil && p.own != nil && oauth.CheckScopeNames(p.Scopes) == nil { // those of a tool are easily mistyped
		p.shared.own.Scopes.Declare(p.Scopes)
	}
	if err := p.checkScopes(p.Scopes); err != nil {
		return err
	}
	for _, r := range p.Require {
		if err := r.Provision(ctx); err != nil {
			return err
		}
	}
	for _, r := range slices.Concat(p.Require, p.MCP.Rules()) {
		if err := errors.Join(p.checkScopes(r.Scopes), p.checkScopes(r.AnyScope), p.checkRoles(r.Roles)); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(p.Require, (*rule.Rule).NeedsEmail) && !p.acceptsExternal() && !p.UsesHostSessions() {
		p.logger.Warn("nobody passes a `require` by e-mail address here, because access tokens of ours have none: name users by id, or let browsers "+
			"sign in with `challenge browser`", zap.String("source", p.Source))
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
	p.anonymous, err = rule.NewAnonymous(ctx, p, p.Anonymous)
	return err
}

// checkRoles refuses undeclared roles, unless other issuers' tokens pass: their roles are unknown here.
func (p *Protect) checkRoles(names []string) error {
	if p.acceptsExternal() {
		return nil
	}
	return rule.CheckRoles(p.shared.own.Roles, names)
}

// checkScopes refuses scopes that no token of ours can have. The scopes of other issuers are unknown here.
func (p *Protect) checkScopes(names []string) error {
	if len(p.issuers) > 1 || p.own == nil {
		return oauth.CheckScopeNames(names)
	}
	return p.shared.own.Scopes.Check(names)
}

// ownCookies holds the names of cookies that are between the browser and us.
type ownCookies struct {
	// issuer has the names used by our sign-in. Upstreams neither see nor set these.
	issuer []string
	// hidden also has TokenCookie. Upstreams do not see it, but may set it.
	hidden []string
}

// readBrowsers checks the settings that concern browsers.
func (p *Protect) readBrowsers() (err error) {
	p.cookies.issuer = p.shared.cookies
	p.cookies.hidden = p.cookies.issuer
	if p.TokenCookie != "" {
		p.cookies.hidden = append(slices.Clip(p.cookies.issuer), p.TokenCookie)
		if err := checkTokenCookie(p.TokenCookie); err != nil {
			return err
		}
	}
	if err := p.checkChallenge(); err != nil {
		return err
	}
	p.origin, err = newIssuerOrigin(p.shared.issuerURL())
	return err
}

// Values of settings other than the default.
const (
	stripToken       = "strip"
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
