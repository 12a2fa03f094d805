package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/caller"
	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
)

func init() {
	caddy.RegisterModule(new(Server))
	httpcaddyfile.RegisterHandlerDirective("oauth_server", parseServer)
	// Without an `order` line the issuer's endpoints come first, then the gate, then any other authentication. Both lines stand
	// here because their order counts: each directive is put right before basic_auth.
	httpcaddyfile.RegisterDirectiveOrder("oauth_server", httpcaddyfile.Before, "basic_auth")
	httpcaddyfile.RegisterDirectiveOrder("protect", httpcaddyfile.Before, "basic_auth")
}

// Server serves the issuer's endpoints and the metadata of guarded resources, and hands every other request on. Without an issuer of our
// own it serves only the metadata.
type Server struct {
	// TokenAlias is a second path of the token endpoint, for clients that were built for another server: it takes the
	// refresh exchange and the password grant, and nothing else. It is compared with the path as the client sent it, byte
	// for byte; its other spellings are 404, as those of the issuer's own paths. Default: there is none.
	TokenAlias string `json:"token_alias,omitempty"`
	// Ready serves /oauth/ready below the issuer's path, for balancers: 200 when this node can serve and 503 when it cannot,
	// without authentication; and /oauth/live, for supervisors: 200 as long as the program answers. They answer on every host of the HTTP server: a balancer may name the node by its address.
	// Default: off.
	Ready bool `json:"ready,omitempty"`
	// Source is the position of the directive in a Caddyfile, as file:line. It serves only error messages.
	Source string `json:"source,omitempty"`

	service *service
	alias   requests.Spellings // of TokenAlias
	ending  context.Context    // ends shutdownPatience after the HTTP server has begun to shut down
	// documents are the metadata of the guarded routes of its site, once all routes are known.
	documents atomic.Pointer[endpoint.Resources]
}

// shutdownPatience is how long a request goes on after its server has begun to shut down. A shutdown waits for it, and a sign-in may wait for
// several directories in turn. Tests shorten it.
var shutdownPatience = 5 * time.Second

// CaddyModule returns the module's id.
func (*Server) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.oauth_server", New: func() caddy.Module { return new(Server) }}
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
		return h.Errf("unknown oauth_server option %q: use ready or token_alias", option)
	}
	return nil
}

// Provision finds the issuer.
func (s *Server) Provision(ctx caddy.Context) error {
	app, err := setting.App(ctx, "oauth_server", s.Source)
	if err != nil {
		return err
	}
	of := app.(*App)
	of.NoteHTTP(ctx)
	s.service = of.service
	paths, err := of.Gates().Mount(ctx)
	if err != nil {
		return err
	}
	if s.Ready {
		paths.Add(s)
	}
	s.ending = context.Background()
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		ending, end := context.WithCancel(s.ending)
		s.ending = ending
		patience := shutdownPatience
		server.RegisterOnShutdown(func() { time.AfterFunc(patience, end) })
	}
	return setting.At(s.check(), s.Source)
}

// check refuses settings that cannot be served.
func (s *Server) check() error {
	if !s.service.issues() && (s.TokenAlias != "" || s.Ready) {
		return errors.New("token_alias and ready need an issuer: add `issuer https://…` to the oauth block")
	}
	if s.TokenAlias == "" {
		return nil
	}
	if err := checkAlias(s.TokenAlias); err != nil {
		return err
	}
	if alias, err := url.Parse(s.TokenAlias); err != nil || s.service.handler.Owns(&http.Request{URL: alias}) {
		return fmt.Errorf("token_alias %s: the issuer answers there already", s.TokenAlias)
	}
	s.alias = requests.SpellingsOf(s.TokenAlias)
	return nil
}

// checkAlias refuses a path that no request could have, and one below /oauth/, which is ours whatever is there.
func checkAlias(path string) error {
	u, err := url.Parse(path)
	switch {
	case !strings.HasPrefix(path, "/"), strings.ContainsAny(path, "?#*{}"), err != nil, u.Host != "", u.EscapedPath() != path:
		return fmt.Errorf("token_alias %q: use one exact path that starts with a slash, as clients send it", path)
	case path == "/oauth", strings.HasPrefix(path, "/oauth/"):
		return fmt.Errorf("token_alias %s: paths below /oauth/ are the issuer's own", path)
	}
	return nil
}

// ServeHTTP answers requests for our paths. Access logs skip them: a query may hold a credential, and the audit log has a line.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if s.isMetadata(r) {
		return s.serveMetadata(w, r)
	}
	if !s.service.issues() {
		return next.ServeHTTP(w, r)
	}
	if s.Ready && s.Serve(w, r) { // in a named route, which is provisioned too late to put anything before the routes
		return nil
	}
	serve := s.service.handler.ServeHTTP
	if s.TokenAlias != "" && r.URL.EscapedPath() == s.TokenAlias {
		serve = s.service.handler.ServeTokenAlias
	} else if !s.service.handler.Owns(r) && !s.alias.Has(r.URL) {
		if s.service.handler.IsFront(r) {
			return s.serveFront(w, r, next)
		}
		return next.ServeHTTP(w, r)
	}
	caddyhttp.SetVar(r.Context(), caddyhttp.LogSkipVar, true)
	caller.RestoreCookies(r)
	if !s.service.node.Life.Enter() {
		s.service.handler.ServeUnavailable(w, r, "shutting_down")
		return nil
	}
	defer s.service.node.Life.Leave()
	if !s.service.life.isServing(r.Context()) {
		s.service.handler.ServeUnavailable(w, r, "not_started")
		return nil
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ending, cancel)()
	serve(failing(w, r), r.WithContext(sqlstore.WithTimeout(ctx)))
	return nil
}

// Serve answers a request for a check of the node, and reports whether the request was one.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request) bool {
	if !s.service.handler.IsHealth(r) {
		return false
	}
	caddyhttp.SetVar(r.Context(), caddyhttp.LogSkipVar, true)
	s.service.handler.ServeHealth(w, r, func() bool { return s.service.isReady(r) })
	return true
}

// Interface guards.
var (
	_ caddy.Provisioner           = (*Server)(nil)
	_ caddyhttp.MiddlewareHandler = (*Server)(nil)
)
