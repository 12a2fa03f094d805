package gate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/mcp"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/rule"
	"github.com/gatehouse-auth/gatehouse/caddymodule/hostpaths"
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
	// Audience lists audiences; a token of any issuer must be meant for one of them. Default: for our own tokens the
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
	// ResourceRequired lets only tokens pass that were requested for the resource of this route (RFC 8707), of any issuer.
	// Default: tokens for the issuer's audience pass too.
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

	// The parts that Provision builds from the settings.
	shared         *Shared
	logger         *zap.Logger
	tokens         tokens
	credentials    credentials
	cors           cors
	rules          rules
	forwarding     forwarding
	browser        *hostSignIn
	challenger     challenger
	trustedHeaders []string // TrustHeaders in canonical form, and toldHeaders where another proxy asks
	resource       string   // Resource, resolved
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
	paths, err := p.shared.Mount(ctx)
	if err != nil {
		return err
	}
	if err := p.build(ctx, paths); err != nil {
		return setting.At(fmt.Errorf("protect: %w", err), p.Source)
	}
	p.warn()
	return nil
}

// build makes the parts of the gate.
func (p *Protect) build(ctx caddy.Context, paths *hostpaths.Routes) (err error) {
	if err := p.tokens.read(p, p.shared); err != nil {
		return err
	}
	if err := p.provisionMCP(ctx); err != nil {
		return err
	}
	if p.resource, err = p.tokens.bind(p); err != nil {
		return err
	}
	if p.rules, err = newRules(ctx, p, &p.tokens); err != nil {
		return err
	}
	if p.forwarding, err = newForwarding(p, &p.tokens); err != nil {
		return err
	}
	if p.credentials, err = newCredentials(p, &p.tokens); err != nil {
		return err
	}
	if p.browser, err = newBrowser(p, &p.tokens, p.resource, paths, p.logger); err != nil {
		return err
	}
	if p.cors, err = newCORS(p, &p.tokens); err != nil {
		return err
	}
	if err := checkUpgrades(p.Upgrade); err != nil {
		return err
	}
	if p.trustedHeaders, err = believedHeaders(p); err != nil {
		return err
	}
	p.challenger.usual = usualChallenge(p, &p.tokens)
	return nil
}

// provisionMCP applies what `mcp` implies, and checks the rules about tools.
func (p *Protect) provisionMCP(ctx caddy.Context) error {
	if p.MCP == nil {
		return nil
	}
	if err := errors.Join(checkMCP(p), p.MCP.Provision(ctx)); err != nil {
		return err
	}
	if p.UpstreamToken == "" {
		p.UpstreamToken = stripToken
	}
	p.ResourceRequired = p.ResourceRequired || len(p.Audience) == 0
	return nil
}

// warn warns of settings that have no effect.
func (p *Protect) warn() {
	if slices.ContainsFunc(p.Require, (*rule.Rule).NeedsEmail) && !acceptsExternal(p.Issuers) && !p.UsesHostSessions() {
		p.logger.Warn("nobody passes a `require` by e-mail address here, because access tokens of ours have none: name users by id, or let browsers "+
			"sign in with `challenge browser`", zap.String("source", p.Source))
	}
	if !p.ForwardOff {
		warnOfAbsentClaims(p)
	}
}

// usualChallenge returns the challenge of a route whose own metadata are not known.
func usualChallenge(p *Protect, t *tokens) *answers.PreparedChallenge {
	c := answers.Challenge{Realm: t.shared.issuerURL(), Scope: oauth.Scopes(oauth.ResourceScopes(p.Scopes)).String()}
	switch {
	case c.Realm != "":
	case t.issuers[0].external == nil:
		c.Realm = "sign-in"
	default:
		c.Realm = t.issuers[0].audience[0]
	}
	// Our metadata document describes the issuer's audience; for another one it would mislead (RFC 9728 §3.3).
	if len(p.Audience) == 0 && t.own != nil && t.own.url == t.shared.issuerURL() {
		c.ResourceMetadata = endpoint.ResourceMetadataURL(t.shared.own.Policy)
	}
	return c.Prepare()
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
