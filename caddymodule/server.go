package caddymodule

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

func init() { caddy.RegisterModule(new(Server)) }

// Server serves the issuer's endpoints and hands every other request on.
type Server struct {
	app *App
}

// CaddyModule returns the module's id.
func (*Server) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.oauth_server", New: func() caddy.Module { return new(Server) }}
}

// Provision finds the issuer.
func (s *Server) Provision(ctx caddy.Context) error {
	var err error
	s.app, err = appOf(ctx, "oauth_server")
	return err
}

// appOf returns the configuration's issuer, for the directive that needs it.
func appOf(ctx caddy.Context, directive string) (*App, error) {
	app, err := ctx.AppIfConfigured("oauth")
	if errors.Is(err, caddy.ErrNotConfigured) {
		return nil, fmt.Errorf("%s needs an issuer: add an oauth block to the global options", directive)
	}
	if err != nil {
		return nil, err
	}
	return app.(*App), nil
}

// ServeHTTP answers what is ours. Access logs skip it: a query may hold a credential, and the audit log has a line.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if !s.app.handler.Owns(r) {
		return next.ServeHTTP(w, r)
	}
	caddyhttp.SetVar(r.Context(), caddyhttp.LogSkipVar, true)
	if !s.app.engine.enter() {
		s.app.handler.Refuse(w, r, tokenissuer.Unavailable("shutting_down", nil))
		return nil
	}
	defer s.app.engine.leave()
	if !s.app.isServing(r.Context()) {
		s.app.handler.Refuse(w, r, tokenissuer.Unavailable("not_started", nil))
		return nil
	}
	s.app.handler.ServeHTTP(w, r)
	return nil
}

// clientAddress returns where a request comes from, by Caddy's own judgement of which proxies speak for clients. An
// IPv6 address stands for its /64, which is what one host usually has.
func clientAddress(r *http.Request) string {
	text, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	if text == "" {
		text = r.RemoteAddr
		if host, _, err := net.SplitHostPort(text); err == nil {
			text = host
		}
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return text
	}
	address = address.Unmap().WithZone("")
	if address.Is4() {
		return address.String()
	}
	network, err := address.Prefix(64)
	if err != nil {
		return text
	}
	return network.String()
}

// Interface guards.
var (
	_ caddy.Provisioner           = (*Server)(nil)
	_ caddyhttp.MiddlewareHandler = (*Server)(nil)
)
