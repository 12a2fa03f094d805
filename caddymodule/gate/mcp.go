package gate

import (
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/mcp"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// parseMCP reads `mcp`, with rules about tools in a block or without.
func parseMCP(p *directive, h httpcaddyfile.Helper) error {
	if h.NextArg() {
		return h.ArgErr()
	}
	p.MCP = new(mcp.Config)
	for nesting := h.Nesting(); h.NextBlock(nesting); {
		if h.Val() != "tool" {
			return h.Errf("unknown mcp option %q: use tool", h.Val())
		}
		if err := parseTool(p, h); err != nil {
			return err
		}
	}
	return nil
}

// parseTool reads a rule about tools. It may stand before `mcp`.
func parseTool(p *directive, h httpcaddyfile.Helper) error {
	tool, roleError, err := mcp.ParseTool(h)
	if p.roleError == nil {
		p.roleError = roleError
	}
	p.tools = append(p.tools, tool)
	return err
}

// joinTools gives the rules about tools to the MCP server that they are about.
func joinTools(p *directive) error {
	if p.MCP == nil && len(p.tools) > 0 {
		return errors.New("tool is about an MCP server: write `mcp` beside it")
	}
	if p.MCP != nil {
		p.MCP.Tools = p.tools
	}
	return nil
}

// checkMCP refuses `mcp` where the gate sees neither the body of a request nor the stream that answers it.
func checkMCP(p *Protect) error {
	if p.MCP != nil && p.ForwardTo == forwardToResponse {
		return errors.New("mcp stands beside forward_to response: the proxy that asks sends neither bodies nor answers through the gate")
	}
	return nil
}

// admitCaller refuses a request to an MCP server that a page of a foreign origin has caused, perhaps by DNS rebinding, and one for
// another protocol, by Upgrade or an extended CONNECT, over which tools could be called past their rules. It is called after admitUpgrade.
func (c *cors) admitCaller(r *http.Request) error {
	if !c.mcp {
		return nil
	}
	if isUpgrade(r) && c.reads {
		return mcp.ReachesPast()
	}
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		return nil
	}
	if !c.tokens.shared.knowsRoutes() {
		if err := c.tokens.shared.AwaitRoutes(r.Context()); err != nil { // the route's own origin is unknown
			return err
		}
	}
	if len(origins) > 1 || !c.allowsOrigin(r, origins[0]) {
		return mcp.Foreign()
	}
	return nil
}

// isOwnOrigin reports whether pages of an origin may call the MCP server although `cors` does not name them.
func (c *cors) isOwnOrigin(r *http.Request, origin string) bool {
	if !c.mcp {
		return false
	}
	var own mcp.Origins
	if known := c.tokens.guarded.Load(); known != nil {
		own = mcp.OriginsOf(known.resourcesAt(oauth.Hostname(r.Host)))
	}
	return own.Allow(origin)
}
