package gate

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/mcp"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/requestpath"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/rule"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// rules are the rules of a route about requests and their tokens.
type rules struct {
	tokens    *tokens
	scopes    []string
	require   []*rule.Rule
	anonymous rule.Anonymous
	mcp       *mcp.Config // nil: the route is not an MCP server
}

// newRules checks the rules of a route.
func newRules(ctx caddy.Context, p *Protect, t *tokens) (rules, error) {
	l := rules{tokens: t, scopes: p.Scopes, require: p.Require, mcp: p.MCP}
	if p.MCP != nil && t.own != nil && oauth.CheckScopeNames(p.Scopes) == nil { // those of a tool are easily mistyped
		t.shared.own.Scopes.Declare(p.Scopes)
	}
	if err := l.checkScopes(p.Scopes); err != nil {
		return l, err
	}
	for _, r := range p.Require {
		if err := r.Provision(ctx); err != nil {
			return l, err
		}
	}
	for _, r := range slices.Concat(p.Require, p.MCP.Rules()) {
		if err := errors.Join(l.checkScopes(r.Scopes), l.checkScopes(r.AnyScope)); err != nil {
			return l, err
		}
		if acceptsExternal(p.Issuers) { // the roles of other issuers are unknown here
			continue
		}
		if err := rule.CheckRoles(t.shared.own.Roles, r.Roles); err != nil {
			return l, err
		}
	}
	for _, choice := range []struct{ name, value, usual, other string }{
		{"paths", p.Paths, "strict", lenientPaths}, {"forward_to", p.ForwardTo, "request", forwardToResponse},
		{"challenge", p.Challenge, "api", challengeBrowser}, {"streams", p.Streams, "close", keepStreams},
	} {
		if !slices.Contains([]string{"", choice.usual, choice.other}, choice.value) {
			return l, fmt.Errorf("%s %q: use %s or %s", choice.name, choice.value, choice.usual, choice.other)
		}
	}
	var err error
	l.anonymous, err = rule.NewAnonymous(ctx, p, p.Anonymous)
	return l, err
}

// checkScopes refuses scopes that no token of ours can have. The scopes of other issuers are unknown here.
func (l *rules) checkScopes(names []string) error {
	if len(l.tokens.issuers) > 1 || l.tokens.own == nil {
		return oauth.CheckScopeNames(names)
	}
	return l.tokens.shared.own.Scopes.Check(names)
}

// input returns a request with a verified token, for the rules.
func (l *rules) input(r *http.Request, exam requestpath.Exam, tok *token.AccessToken) rule.Input {
	input := rule.Input{Request: r, Exam: exam, Token: tok, Now: l.tokens.shared.now}
	if l.tokens.isOwn(tok) {
		input.Own, input.Now = true, l.tokens.shared.own.Now
	}
	return input
}

// check checks the route's scopes and then every rule. It also returns what the token lacks, for the audit log.
func (l *rules) check(input rule.Input) (missing string, err error) {
	if missing := input.Token.Scopes.Missing(l.scopes...); missing != "" {
		return "scope " + missing, oauth.MissingScope(missing)
	}
	if len(l.require) == 0 {
		return "", nil
	}
	return rule.Check(l.require, input)
}

// readAsked reads what a request asks of the MCP server, and adds the tools to the access log.
func (l *rules) readAsked(r *http.Request, d *decision) error {
	if !l.mcp.Reads() {
		return nil
	}
	asked, err := mcp.Read(r)
	d.asked = &asked
	if tools := asked.Tools(); tools != "" {
		d.tools = tools
		if extra, ok := r.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields); ok {
			extra.Set(zap.String("tool", tools))
		}
	}
	return err
}

// checkCalls checks the rules of each tool that a request calls. The token of input is nil if the request is anonymous.
func (l *rules) checkCalls(d *decision, input rule.Input) (missing string, err error) {
	if d.asked == nil {
		return "", nil
	}
	for i := range d.asked.Calls {
		call := &d.asked.Calls[i]
		switch rules, denied := l.mcp.RulesFor(call.Tool); {
		case denied:
			err = mcp.Denied()
		case len(rules) == 0:
		case input.Token == nil:
			err = tokenMissing
		default:
			missing, err = rule.Check(rules, input)
		}
		if err != nil {
			d.asked.ID = call.ID
			return missing, err
		}
	}
	return "", nil
}

// scopesNeeded returns the scopes that a request needs, for the challenge. Before the token is verified, it reads the headers of a
// request to an MCP server and not the body.
func (l *rules) scopesNeeded(d *decision, input rule.Input) string {
	needed := l.require
	if l.mcp.Reads() {
		asked := d.asked
		if asked == nil {
			said := mcp.ReadHeaders(input.Request)
			asked = &said
		}
		for _, call := range asked.Calls {
			further, _ := l.mcp.RulesFor(call.Tool)
			for _, r := range further {
				if !slices.Contains(needed, r) { // a batch may call one tool many times
					needed = append(slices.Clip(needed), r)
				}
			}
		}
	}
	return rule.ScopesNeeded(needed, l.scopes, input)
}
