package hostpaths

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() { caddy.RegisterModule(new(Routes)) }

// Handler answers at paths of ours.
type Handler interface {
	// Serve answers a request for one of its paths, and reports whether it did.
	Serve(w http.ResponseWriter, r *http.Request) bool
}

// Routes answers our own paths and hands other requests to the routes of a server. Mount inserts it; it is not written in configurations.
type Routes struct {
	conceal  func(*http.Request)
	handlers []Handler
	metadata metadata
	behind   caddyhttp.RouteList // nil: the handler after this one

	compile sync.Once
	next    caddyhttp.Handler
}

// CaddyModule returns the module's id.
func (*Routes) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.oauth_host_paths", New: func() caddy.Module { return &Routes{conceal: func(*http.Request) {}} }}
}

// Mount inserts Routes before all routes of the server that is being provisioned, once, and returns it. It returns nil outside a server.
// AwaitRoutes waits until the metadata of the routes are known. Conceal removes from each request, in place, what neither routes nor error
// routes may see.
func Mount(ctx caddy.Context, awaitRoutes func(context.Context) error, conceal func(*http.Request)) (*Routes, error) {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok {
		return nil, nil
	}
	if mounted := Mounted(server); mounted != nil {
		return mounted, nil
	}
	config, err := json.Marshal(map[string]string{"handler": "oauth_host_paths"})
	if err != nil {
		return nil, err
	}
	front := caddyhttp.Route{HandlersRaw: []json.RawMessage{config}}
	if err := front.ProvisionHandlers(ctx, nil); err != nil {
		return nil, fmt.Errorf("putting our own paths before the routes: %w", err)
	}
	routes := front.Handlers[0].(*Routes) // it was made just now
	routes.metadata.awaitRoutes, routes.conceal = awaitRoutes, conceal
	if isProvisioned(server.Routes) {
		mountInside(server, front)
		return routes, nil
	}
	routes.behind = server.Routes
	server.Routes = caddyhttp.RouteList{front}
	if server.Errors != nil && len(server.Errors.Routes) > 0 { // a request may fail before it reaches the routes
		server.Errors.Routes = append(caddyhttp.RouteList{front}, server.Errors.Routes...)
	}
	return routes, nil
}

// isProvisioned reports whether Caddy has provisioned all routes of a server and compiled them, as it has when it comes to error routes
// and named ones.
func isProvisioned(routes caddyhttp.RouteList) bool {
	return !slices.ContainsFunc(routes, func(route caddyhttp.Route) bool { return route.HandlersRaw != nil })
}

// mountInside puts a route before the routes of each site and each `handle` of a server: these are compiled for each request.
func mountInside(server *caddyhttp.Server, front caddyhttp.Route) {
	lists := []caddyhttp.RouteList{server.Routes}
	if server.Errors != nil {
		lists = append(lists, server.Errors.Routes)
	}
	for _, route := range slices.Concat(lists...) {
		for _, handler := range route.Handlers {
			if inner, ok := handler.(*caddyhttp.Subroute); ok {
				inner.Routes = append(caddyhttp.RouteList{front}, inner.Routes...)
			}
		}
	}
}

// Mounted returns the Routes of a server; nil: there is none.
func Mounted(server *caddyhttp.Server) *Routes {
	for _, route := range server.Routes {
		for _, handler := range route.Handlers {
			if inner, ok := handler.(*caddyhttp.Subroute); ok && len(inner.Routes) > 0 && len(inner.Routes[0].Handlers) > 0 {
				handler = inner.Routes[0].Handlers[0]
			}
			if found, ok := handler.(*Routes); ok {
				return found
			}
		}
	}
	return nil
}

// Add adds a handler for its paths. Adding it again is a no-op.
func (h *Routes) Add(handler Handler) {
	if h != nil && !slices.Contains(h.handlers, handler) {
		h.handlers = append(h.handlers, handler)
	}
}

// Behind returns the routes of the server; nil: they are the next handler.
func (h *Routes) Behind() caddyhttp.RouteList { return h.behind }

// ServeHTTP answers requests for our own paths, and hands every other request to the server's routes.
func (h *Routes) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	failed := r.Context().Value(caddyhttp.ErrorCtxKey) != nil
	if !failed && h.serve(w, r) {
		return nil
	}
	h.conceal(r)
	if failed || h.behind == nil {
		return next.ServeHTTP(w, r)
	}
	h.compile.Do(func() { h.next = h.behind.Compile(next) }) // next is the end of all routes, for every request
	return h.next.ServeHTTP(w, r)
}

// serve answers at our own paths, and reports whether it did.
func (h *Routes) serve(w http.ResponseWriter, r *http.Request) bool {
	return h.metadata.serve(w, r) || slices.ContainsFunc(h.handlers, func(handler Handler) bool { return handler.Serve(w, r) })
}

// Interface guards.
var _ caddyhttp.MiddlewareHandler = (*Routes)(nil)
