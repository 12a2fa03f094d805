package gate

import (
	"errors"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/mcp"
	"github.com/gatehouse-auth/gatehouse/caddymodule/rule"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/routes"
)

// parseMCP reads `mcp`, with rules about tools in a block or without.
func (p *Protect) parseMCP(h httpcaddyfile.Helper) error {
	if h.NextArg() {
		return h.ArgErr()
	}
	p.MCP = new(mcp.Config)
	for nesting := h.Nesting(); h.NextBlock(nesting); {
		if h.Val() != "tool" {
			return h.Errf("unknown mcp option %q: use tool", h.Val())
		}
		if err := p.parseTool(h); err != nil {
			return err
		}
	}
	return nil
}

// parseTool reads a rule about tools. It may stand before `mcp`.
func (p *Protect) parseTool(h httpcaddyfile.Helper) error {
	tool, roleError, err := mcp.ParseTool(h)
	if p.roleError == nil {
		p.roleError = roleError
	}
	p.tools = append(p.tools, tool)
	return err
}

// joinTools gives the rules about tools to the MCP server that they are about.
func (p *Protect) joinTools() error {
	if p.MCP == nil && len(p.tools) > 0 {
		return errors.New("tool is about an MCP server: write `mcp` beside it")
	}
	if p.MCP != nil {
		p.MCP.Tools = p.tools
	}
	return nil
}

// checkMCP refuses `mcp` where the gate sees neither the body of a request nor the stream that answers it.
func (p *Protect) checkMCP() error {
	if p.MCP != nil && p.ForwardTo == forwardToResponse {
		return errors.New("mcp stands beside forward_to response: the proxy that asks sends neither bodies nor answers through the gate")
	}
	return nil
}

// readMCP applies what `mcp` implies, and checks the rules about tools.
func (p *Protect) readMCP(ctx caddy.Context) error {
	if p.MCP == nil {
		return nil
	}
	if err := errors.Join(p.checkMCP(), p.MCP.Provision(ctx)); err != nil {
		return err
	}
	if p.UpstreamToken == "" {
		p.UpstreamToken = stripToken
	}
	p.ResourceRequired = p.ResourceRequired || len(p.Audience) == 0
	return nil
}

// admitCaller refuses a request to an MCP server that a page of a foreign origin has caused, perhaps by DNS rebinding, and one for
// another protocol, by Upgrade or an extended CONNECT, over which tools could be called past their rules. It is called after admitUpgrade.
func (p *Protect) admitCaller(r *http.Request) error {
	if p.MCP == nil {
		return nil
	}
	if isUpgrade(r) && p.MCP.Reads() {
		return mcp.ReachesPast()
	}
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		return nil
	}
	if !p.shared.knowsRoutes() {
		if err := p.shared.AwaitRoutes(r.Context()); err != nil { // the route's own origin is unknown
			return err
		}
	}
	if len(origins) > 1 || !p.allowsOrigin(r, origins[0]) {
		return mcp.Foreign()
	}
	return nil
}

// isOwnOrigin reports whether pages of an origin may call the MCP server although `cors` does not name them.
func (p *Protect) isOwnOrigin(r *http.Request, origin string) bool {
	if p.MCP == nil {
		return false
	}
	var own mcp.Origins
	if known := p.guarded.Load(); known != nil {
		own = mcp.OriginsOf(known.resourcesAt(routes.Hostname(r.Host)))
	}
	return own.Allow(origin)
}

// readAsked reads what a request asks of the MCP server, and tells the access log.
func (p *Protect) readAsked(r *http.Request, d *decision) error {
	if !p.MCP.Reads() {
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

// checkCalls checks the rules of each tool that a request calls. Its token is nil where the request needs none otherwise.
func (p *Protect) checkCalls(d *decision, input rule.Input) (missing string, err error) {
	if d.asked == nil {
		return "", nil
	}
	for i := range d.asked.Calls {
		call := &d.asked.Calls[i]
		switch rules, denied := p.MCP.RulesFor(call.Tool); {
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

// scopesNeeded returns the scopes that a request needs, for the challenge. Nobody has read the request before it has shown a good token;
// its headers may tell what it asks.
func (p *Protect) scopesNeeded(d *decision, input rule.Input) string {
	rules := p.Require
	if p.MCP.Reads() {
		asked := d.asked
		if asked == nil {
			said := mcp.ReadHeaders(input.Request)
			asked = &said
		}
		for _, call := range asked.Calls {
			further, _ := p.MCP.RulesFor(call.Tool)
			for _, r := range further {
				if !slices.Contains(rules, r) { // a batch may call one tool many times
					rules = append(slices.Clip(rules), r)
				}
			}
		}
	}
	return rule.ScopesNeeded(rules, p.Scopes, input)
}
