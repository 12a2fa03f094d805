package caddymodule

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
)

func init() {
	httpcaddyfile.RegisterHandlerDirective("oauth_server", parseServer)
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
	s := &Server{Source: setting.Source(h.Dispenser)}
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
		if err := setting.Text(h.Dispenser, &s.TokenAlias); err != nil {
			return err
		}
		if err := checkAlias(s.TokenAlias); err != nil {
			return h.Errf("%v", err)
		}
	case "ready":
		if err := setting.Once(h.Dispenser, option, s.Ready); err != nil {
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
