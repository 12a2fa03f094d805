package mcp

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/rule"
)

// ParseTool reads one `tool`. A role that is not declared is a roleError, which counts only if all issuers are ours.
//
//	tool <pattern>... {
//		scope   <name>...
//		require [<matcher>] <kind> <value>...
//		deny
//	}
func ParseTool(h httpcaddyfile.Helper) (tool *Tool, roleError, err error) {
	tool = &Tool{Patterns: h.RemainingArgs()}
	for nesting := h.Nesting(); h.NextBlock(nesting); {
		switch option := h.Val(); option {
		case "scope":
			scopes := h.RemainingArgs()
			if len(scopes) == 0 {
				return nil, nil, h.ArgErr()
			}
			if err := rule.RefuseMatchers(h, scopes); err != nil {
				return nil, nil, err
			}
			tool.Scopes = append(tool.Scopes, scopes...)
		case "require":
			required, undeclared, err := rule.Parse(h)
			if err != nil {
				return nil, nil, err
			}
			if roleError == nil {
				roleError = undeclared
			}
			tool.Require = append(tool.Require, required)
		case "deny":
			if h.NextArg() {
				return nil, nil, h.ArgErr()
			}
			tool.Deny = true
		default:
			return nil, nil, h.Errf("unknown tool option %q: use scope, require or deny", option)
		}
	}
	if err := tool.check(); err != nil {
		return nil, nil, h.Errf("%v", err)
	}
	return tool, roleError, nil
}
