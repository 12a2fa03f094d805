package gate

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/mcp"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/rule"
	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
)

func init() { httpcaddyfile.RegisterHandlerDirective("protect", parseProtect) }

// directive is a `protect` while it is parsed.
type directive struct {
	*Protect
	tools []*mcp.Tool // for MCP, before or after which they may stand
	// roleError reports a role in a rule that is not declared. It counts only if all issuers are ours.
	roleError error
}

// parseProtect reads the directive `protect`.
//
//	protect [<matcher>] [<scope>...] {
//		issuer         self | <name of a trust>...
//		audience       <audience>...
//		resource       <url>
//		resource_required
//		require        [<matcher>] scope <name>...
//		require        [<matcher>] any_scope <name>...
//		require        [<matcher>] user <id or e-mail>...
//		require        [<matcher>] email_domain <domain>...
//		require        [<matcher>] role <name>...
//		require        [<matcher>] group <name>...
//		require        [<matcher>] claim <name> <value>...
//		require        [<matcher>] expression <CEL>
//		require        [<matcher>] acr <value>...
//		require        [<matcher>] max_age <duration>
//		anonymous      <matcher>
//		optional
//		token_from     header | cookie <name> | header <Name> pat | basic pat
//		forward        [+] <Header> <claim> [raw] | off
//		forward        assertion <Header> [<audience>]
//		forward_to     request | response
//		upstream_token strip | relay | swap <audience>
//		cors           <origin>... | * {
//			preflight upstream
//		}
//		challenge      api | browser [<provider>]
//		trust_headers  <Header>...
//		upgrade        <protocol>...
//		streams        close | keep
//		paths          strict | lenient
//		mcp
//		tool           <pattern>... {
//			scope   <name>...
//			require [<matcher>] <kind> <value>...
//			deny
//		}
//	}
func parseProtect(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	h.Next() // the name of the directive
	p := &directive{Protect: &Protect{Source: setting.Source(h.Dispenser)}}
	p.Scopes = h.RemainingArgs()
	if err := rule.RefuseMatchers(h, p.Scopes); err != nil {
		return nil, err
	}
	for h.NextBlock(0) {
		if err := parseOption(p, h); err != nil {
			return nil, err
		}
	}
	if p.roleError != nil && !acceptsExternal(p.Issuers) {
		return nil, p.roleError
	}
	if err := errors.Join(checkChallenge(p.Protect), checkBesideCORS(p.Protect), joinTools(p), checkMCP(p.Protect)); err != nil {
		return nil, h.Errf("%v", err)
	}
	return p.Protect, nil
}

func parseOption(p *directive, h httpcaddyfile.Helper) error {
	options := map[string]func(*directive, httpcaddyfile.Helper) error{
		"issuer": parseIssuers, "audience": parseAudience, "resource": parseResource, "resource_required": parseResourceRequired,
		"require": parseRule, "anonymous": parseAnonymous, "optional": parseOptional, "token_from": parseTokenFrom, "forward": parseForward,
		"upstream_token": parseUpstreamToken, "cors": parseCORS, "trust_headers": parseTrustHeaders, "upgrade": parseUpgrade, "mcp": parseMCP,
		"tool": parseTool, "forward_to": parseForwardTo, "challenge": parseChallenge, "streams": parseStreams, "paths": parsePaths,
	}
	parse, ok := options[h.Val()]
	if !ok {
		return h.Errf("unknown protect option %q"+setting.Known(maps.Keys(options)), h.Val())
	}
	return parse(p, h)
}

func parseAudience(p *directive, h httpcaddyfile.Helper) error {
	return setting.Audience(h.Dispenser, &p.Audience)
}

func parseAnonymous(p *directive, h httpcaddyfile.Helper) error {
	return rule.ParseAnonymous(h, &p.Anonymous)
}

func parseForwardTo(p *directive, h httpcaddyfile.Helper) error {
	return parseChoice(h, &p.ForwardTo, "request", forwardToResponse)
}

func parseStreams(p *directive, h httpcaddyfile.Helper) error {
	return parseChoice(h, &p.Streams, "close", keepStreams)
}

func parsePaths(p *directive, h httpcaddyfile.Helper) error {
	return parseChoice(h, &p.Paths, "strict", lenientPaths)
}

func parseOptional(p *directive, h httpcaddyfile.Helper) error {
	if h.NextArg() {
		return h.ArgErr()
	}
	p.Optional = true
	return nil
}

func parseRule(p *directive, h httpcaddyfile.Helper) error {
	parsed, roleError, err := rule.Parse(h)
	if err != nil {
		return err
	}
	if p.roleError == nil {
		p.roleError = roleError
	}
	p.Require = append(p.Require, parsed)
	return nil
}

// parseChoice reads an option that takes one of two words.
func parseChoice(h httpcaddyfile.Helper, value *string, first, second string) error {
	option := h.Val()
	if err := setting.Once(h.Dispenser, option, *value != ""); err != nil {
		return err
	}
	if !h.AllArgs(value) {
		return h.ArgErr()
	}
	if *value != first && *value != second {
		return h.Errf("%s %q: use %s or %s", option, *value, first, second)
	}
	return nil
}

// parseTokenFrom reads where tokens may come from. The Authorization header is always accepted.
func parseTokenFrom(p *directive, h httpcaddyfile.Helper) error {
	args := h.RemainingArgs()
	if personal, err := parsePersonalToken(p, h, args); personal {
		return err
	}
	switch {
	case len(args) == 1 && args[0] == "header":
		return nil
	case len(args) != 2 || args[0] != "cookie":
		return h.Errf("write it as `token_from header`, `token_from cookie <name>`, `token_from header <Name> pat` or `token_from basic pat`")
	}
	if err := setting.Once(h.Dispenser, "token_from cookie", p.TokenCookie != ""); err != nil {
		return err
	}
	p.TokenCookie = args[1]
	if err := checkTokenCookie(p.TokenCookie); err != nil {
		return h.Errf("%v", err)
	}
	return nil
}

func parseForward(p *directive, h httpcaddyfile.Helper) error {
	args := h.RemainingArgs()
	switch {
	case len(args) > 0 && args[0] == "assertion":
		return parseAssertion(p, h, args[1:])
	case len(args) == 1 && args[0] == "off":
		p.ForwardOff = true
		return checkForwardOff(p, h)
	}
	beside := len(args) > 0 && args[0] == "+"
	if beside {
		args = args[1:]
	}
	raw := len(args) == 3 && args[2] == "raw"
	if len(args) != 2 && !raw || args[0] == "+" {
		return h.Errf("write it as `forward [+] <Header> <claim> [raw]`, `forward assertion <Header> [<audience>]` or `forward off`")
	}
	return addForward(p, h, beside, ForwardedClaim{Header: args[0], Claim: args[1], Raw: raw})
}

// addForward adds a header to the default ones, or in their place.
func addForward(p *directive, h httpcaddyfile.Helper, beside bool, f ForwardedClaim) error {
	switch {
	case identity.Forbidden(f.Header):
		return h.Errf("forward %s: a claim cannot be written into this header", f.Header)
	case len(p.Forward) > 0 && beside != p.ForwardDefaults:
		return h.Errf("forward + adds to the default headers, and other forward lines replace them: write all of them with +, or none")
	}
	p.ForwardDefaults = beside
	if err := f.checkRaw(); err != nil {
		return h.Errf("%v", err)
	}
	p.Forward = append(p.Forward, f)
	return checkForwardOff(p, h)
}

func checkForwardOff(p *directive, h httpcaddyfile.Helper) error {
	if p.ForwardOff && len(p.Forward) > 0 {
		return h.Errf("forward off stands beside other forward lines")
	}
	return nil
}

// parseTrustHeaders reads the overriding headers that pass when a trusted proxy sends them.
func parseTrustHeaders(p *directive, h httpcaddyfile.Helper) error {
	names := h.RemainingArgs()
	if len(names) == 0 {
		return h.ArgErr()
	}
	p.TrustHeaders = append(p.TrustHeaders, names...)
	if _, err := believedHeaders(p.Protect); err != nil {
		return h.Errf("%v", err)
	}
	return nil
}

// believedHeaders returns the headers that a trusted proxy may override method or path with. It refuses other names.
func believedHeaders(p *Protect) (believed []string, err error) {
	for _, name := range p.TrustHeaders {
		name = http.CanonicalHeaderKey(name)
		if !slices.Contains(identity.Overriding, name) {
			return nil, fmt.Errorf("trust_headers %s: use headers by which a client would choose method or path: %s", name, strings.Join(identity.Overriding, ", "))
		}
		believed = append(believed, name)
	}
	if asksAtFixedAddress(p) {
		believed = append(believed, toldHeaders...)
	}
	return believed, nil
}
