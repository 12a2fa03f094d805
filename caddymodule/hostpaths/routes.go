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

// Routes are the routes of a server behind our own paths. Nobody writes them into a configuration: Mount puts them there.
type Routes struct {
	handlers []Handler
	metadata metadata
	behind   caddyhttp.RouteList

	compile sync.Once
	next    caddyhttp.Handler
}

// CaddyModule returns the module's id.
func (*Routes) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.oauth_host_paths", New: func() caddy.Module { return new(Routes) }}
}

// Mount puts our own paths before all routes of the server whose handlers are being provisioned, once, and returns them. It returns
// nil outside a server. AwaitRoutes waits until the metadata of the routes are known. Caddy compiles the routes of a server once
// their handlers are provisioned; those of named routes are provisioned later, and then nothing comes of it.
func Mount(ctx caddy.Context, awaitRoutes func(context.Context) error) (*Routes, error) {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok {
		return nil, nil
	}
	if mounted := mounted(server.Routes); mounted != nil {
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
	routes := front.Handlers[0].(*Routes) //nolint:forcetypeassert // it was made just now
	routes.metadata.awaitRoutes, routes.behind = awaitRoutes, server.Routes
	server.Routes = caddyhttp.RouteList{front}
	return routes, nil
}

// mounted returns what Mount has put before a server's routes; nil: nothing.
func mounted(routes caddyhttp.RouteList) *Routes {
	if len(routes) != 1 || len(routes[0].Handlers) != 1 {
		return nil
	}
	found, _ := routes[0].Handlers[0].(*Routes)
	return found
}

// Add has a handler answer at its paths. Adding it again does nothing.
func (h *Routes) Add(handler Handler) {
	if h != nil && !slices.Contains(h.handlers, handler) {
		h.handlers = append(h.handlers, handler)
	}
}

// Behind returns the routes of the server.
func (h *Routes) Behind() caddyhttp.RouteList { return h.behind }

// ServeHTTP answers at our own paths, and has the server's routes answer every other request.
func (h *Routes) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if h.metadata.serve(w, r) {
		return nil
	}
	for _, handler := range h.handlers {
		if handler.Serve(w, r) {
			return nil
		}
	}
	h.compile.Do(func() { h.next = h.behind.Compile(next) }) // next is the end of all routes, for every request
	return h.next.ServeHTTP(w, r)
}

// Interface guards.
var _ caddyhttp.MiddlewareHandler = (*Routes)(nil)
