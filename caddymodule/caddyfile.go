package caddymodule

import (
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() {
	httpcaddyfile.RegisterHandlerDirective("oauth_server", parseServer)
	httpcaddyfile.RegisterHandlerDirective("protect", parseProtect)
	// Nobody writes an `order` line: the issuer's endpoints come first, then the gate, then whatever else asks who
	// somebody is.
	httpcaddyfile.RegisterDirectiveOrder("oauth_server", httpcaddyfile.Before, "basic_auth")
	httpcaddyfile.RegisterDirectiveOrder("protect", httpcaddyfile.Before, "basic_auth")
}

// parseServer reads the directive `oauth_server`.
//
//	oauth_server [<matcher>] {
//		token_alias <path>
//		ready
//	}
func parseServer(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	h.Next() // the name of the directive
	if h.NextArg() {
		return nil, h.ArgErr()
	}
	s := new(Server)
	for h.NextBlock(0) {
		if err := s.parseOption(h); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Server) parseOption(h httpcaddyfile.Helper) error {
	switch option := h.Val(); option {
	case "token_alias":
		if err := text(h.Dispenser, &s.TokenAlias); err != nil {
			return err
		}
		if err := checkAlias(s.TokenAlias); err != nil {
			return h.Errf("%v", err)
		}
	case "ready":
		if err := once(h.Dispenser, option, s.Ready); err != nil {
			return err
		}
		if h.NextArg() {
			return h.ArgErr()
		}
		s.Ready = true
	default:
		return h.Errf("unknown oauth_server option %q", option)
	}
	return nil
}

// parseProtect reads the directive `protect`.
//
//	protect [<matcher>] [<scope>...] {
//		audience       <audience>...
//		require        [<matcher>] scope <name>...
//		require        [<matcher>] any_scope <name>...
//		require        [<matcher>] role <name>...
//		require        [<matcher>] claim <name> <value>...
//		anonymous      <matcher>
//		optional
//		token_from     header | cookie <name>
//		forward        <Header> <claim> | off
//		upstream_token relay | strip
//		challenge      api | browser
//		streams        close | keep
//		paths          strict | lenient
//	}
func parseProtect(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	h.Next() // the name of the directive
	p := &Protect{Scopes: h.RemainingArgs()}
	if err := refuseMatchers(h, p.Scopes); err != nil {
		return nil, err
	}
	for h.NextBlock(0) {
		if err := p.parseOption(h); err != nil {
			return nil, err
		}
	}
	if err := p.checkBrowser(); err != nil {
		return nil, h.Errf("%v", err)
	}
	return p, nil
}

func (p *Protect) parseOption(h httpcaddyfile.Helper) error {
	switch option := h.Val(); option {
	case "audience":
		return parseAudience(h.Dispenser, &p.Audience)
	case "require":
		return p.parseRule(h)
	case "anonymous":
		return p.parseAnonymous(h)
	case "optional":
		if h.NextArg() {
			return h.ArgErr()
		}
		p.Optional = true
	case "token_from":
		return p.parseTokenFrom(h)
	case "forward":
		return p.parseForward(h)
	case "upstream_token":
		return parseChoice(h, &p.UpstreamToken, "relay", stripToken)
	case "challenge":
		return parseChoice(h, &p.Challenge, "api", challengeBrowser)
	case "streams":
		return parseChoice(h, &p.Streams, "close", keepStreams)
	case "paths":
		return parseChoice(h, &p.Paths, "strict", lenientPaths)
	default:
		return h.Errf("unknown protect option %q", option)
	}
	return nil
}

// parseChoice reads one of two words.
func parseChoice(h httpcaddyfile.Helper, value *string, first, second string) error {
	option := h.Val()
	if err := once(h.Dispenser, option, *value != ""); err != nil {
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

// parseMatcher reads a matcher, which must be looked for before any argument: the other way round it would be taken for
// one, and the rule would hold for every request.
func parseMatcher(h httpcaddyfile.Helper) (caddyhttp.RawMatcherSets, bool, error) {
	if h.CountRemainingArgs() == 0 {
		return nil, false, h.ArgErr()
	}
	set, found, err := h.MatcherToken()
	if err != nil {
		return nil, false, h.WrapErr(err)
	}
	if !found {
		h.Prev()
		return nil, false, nil
	}
	if set == nil { // the matcher is *
		return nil, true, nil
	}
	return caddyhttp.RawMatcherSets{set}, true, nil
}

// refuseMatchers refuses a matcher among scopes. It would be taken for the name of one, and the scopes before it would
// be asked of every request.
func refuseMatchers(h httpcaddyfile.Helper, scopes []string) error {
	for _, name := range scopes {
		if name == "*" || strings.HasPrefix(name, "@") || strings.HasPrefix(name, "/") {
			return h.Errf("%s stands among scopes: a matcher comes first", name)
		}
	}
	return nil
}

func (p *Protect) parseRule(h httpcaddyfile.Helper) error {
	matchers, _, err := parseMatcher(h)
	if err != nil {
		return err
	}
	rule := &Rule{MatcherSets: matchers}
	args := h.RemainingArgs()
	if len(args) < 2 {
		return h.Errf("write a rule as `require [<matcher>] scope|any_scope|role <name>...` or `require [<matcher>] claim <name> <value>...`")
	}
	switch kind, values := args[0], args[1:]; kind {
	case "scope":
		rule.Scopes, err = values, refuseMatchers(h, values)
	case "any_scope":
		rule.AnyScope, err = values, refuseMatchers(h, values)
	case "role":
		rule.Roles = values
		if unknown := checkRoles(values); unknown != nil {
			err = h.Errf("%v", unknown)
		}
	case "claim":
		if len(values) < 2 {
			return h.Errf("require claim %s needs a value", values[0])
		}
		rule.Claim, rule.Values = values[0], values[1:]
		err = refusePlaceholders(h, values)
	default:
		return h.Errf("unknown rule %q: use scope, any_scope, role or claim", kind)
	}
	if err != nil {
		return err
	}
	p.Require = append(p.Require, rule)
	return nil
}

// refusePlaceholders refuses placeholders where nothing replaces them: what they name would never be compared.
func refusePlaceholders(h httpcaddyfile.Helper, values []string) error {
	for _, value := range values {
		for _, prefix := range []string{"{http.", "{env.", "{file."} {
			if strings.Contains(value, prefix) {
				return h.Errf("%s: a rule compares with text and replaces no placeholder", value)
			}
		}
	}
	return nil
}

func (p *Protect) parseAnonymous(h httpcaddyfile.Helper) error {
	matchers, found, err := parseMatcher(h)
	if err != nil {
		return err
	}
	if !found || h.NextArg() {
		return h.Errf("write it as `anonymous <matcher>`: a path that starts with a slash, or a named matcher")
	}
	if matchers == nil {
		return h.Errf("anonymous * would protect nothing: leave protect away, or name the paths")
	}
	p.Anonymous = append(p.Anonymous, matchers...)
	return nil
}

// parseTokenFrom reads where a token is taken from. The header is always one place.
func (p *Protect) parseTokenFrom(h httpcaddyfile.Helper) error {
	args := h.RemainingArgs()
	switch {
	case len(args) == 1 && args[0] == "header":
		return nil
	case len(args) != 2 || args[0] != "cookie":
		return h.Errf("write it as `token_from header` or `token_from cookie <name>`")
	}
	if err := once(h.Dispenser, "token_from cookie", p.TokenCookie != ""); err != nil {
		return err
	}
	p.TokenCookie = args[1]
	if err := checkTokenCookie(p.TokenCookie); err != nil {
		return h.Errf("%v", err)
	}
	return nil
}

func (p *Protect) parseForward(h httpcaddyfile.Helper) error {
	args := h.RemainingArgs()
	switch {
	case len(args) == 1 && args[0] == "off":
		p.ForwardOff = true
	case len(args) == 2 && forbiddenForward(args[0]):
		return h.Errf("forward %s: a claim cannot be written into this header", args[0])
	case len(args) == 2:
		p.Forward = append(p.Forward, ForwardedClaim{args[0], args[1]})
	default:
		return h.Errf("write it as `forward <Header> <claim>` or `forward off`")
	}
	if p.ForwardOff && len(p.Forward) > 0 {
		return h.Errf("forward off stands beside other forward lines")
	}
	return nil
}
