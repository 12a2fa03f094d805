package hostsession

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() { caddy.RegisterModule(new(Routes)) }

// Routes are the routes of a server behind our own paths. Nobody writes them into a configuration: Mount puts them there.
type Routes struct {
	handler *Handler
	behind  caddyhttp.RouteList

	compile sync.Once
	next    caddyhttp.Handler
}

// CaddyModule returns the module's id.
func (*Routes) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.oauth_host_routes", New: func() caddy.Module { return new(Routes) }}
}

// Mount puts our own paths before all routes of the server whose handlers are being provisioned, once. A `protect` may stand behind
// a path, as in `handle /admin/*`, and a browser has to come back to the host all the same. Caddy compiles the routes of a
// server once their handlers are provisioned; those of named routes are provisioned later, and then nothing comes of it.
func Mount(ctx caddy.Context, handler *Handler) error {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || Mounted(server.Routes) != nil {
		return nil
	}
	config, err := json.Marshal(map[string]string{"handler": "oauth_host_routes"})
	if err != nil {
		return err
	}
	front := caddyhttp.Route{HandlersRaw: []json.RawMessage{config}}
	if err := front.ProvisionHandlers(ctx, nil); err != nil {
		return fmt.Errorf("putting the sign-in of hosts before the routes: %w", err)
	}
	routes := front.Handlers[0].(*Routes) //nolint:forcetypeassert // it was made just now
	routes.handler, routes.behind = handler, server.Routes
	server.Routes = caddyhttp.RouteList{front}
	return nil
}

// Mounted returns what Mount has put before a server's routes; nil: nothing.
func Mounted(routes caddyhttp.RouteList) *Routes {
	if len(routes) != 1 || len(routes[0].Handlers) != 1 {
		return nil
	}
	mounted, _ := routes[0].Handlers[0].(*Routes)
	return mounted
}

// Behind returns the routes of the server.
func (h *Routes) Behind() caddyhttp.RouteList { return h.behind }

// ServeHTTP answers our own paths, and has the server's routes answer every other request.
func (h *Routes) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if h.handler != nil && h.handler.Serve(w, r) {
		return nil
	}
	h.compile.Do(func() { h.next = h.behind.Compile(next) }) // next is the end of all routes, for every request
	return h.next.ServeHTTP(w, r)
}

// Interface guards.
var _ caddyhttp.MiddlewareHandler = (*Routes)(nil)
