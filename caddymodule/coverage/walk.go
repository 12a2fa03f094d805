package coverage

import (
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/fileserver"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/intercept"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/rewrite"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
)

// walk goes through the routes of a server in the order in which a request does, and notes what it meets: handlers that
// answer from a backend, and ours.
type walk struct {
	app     *caddyhttp.App
	server  *caddyhttp.Server
	sites   []*site
	invoked []string // named routes that are being walked
	count   int      // of conditions and rewrites, so that each has a number of its own
}

// flow is what is known of the requests that come to a handler.
type flow struct {
	location
	conditions []condition // of the routes around the handler, outermost first: every request has met them all
	gates      []guard     // stand before it, each for the requests that have met its conditions too
	dead       bool        // there are no requests: a handler before has answered every one
	onError    bool        // they have failed, and are on an error route
	asked      string      // what has asked who is calling, and is no `protect`
}

// location says which path and method handlers see.
type location struct {
	number    int    // another one wherever path or method may have been changed
	stripped  string // what was taken from the front of the client's path
	rewritten bool   // beyond that, nobody can tell what the client's path was
}

// backend is a handler that answers from somewhere else.
type backend struct {
	flow
	kind      string // as the directive is called
	upstreams []string
}

// guard is a `protect` on the way.
type guard struct {
	flow
	*gate.Protect
	view gate.View
}

// takesOwn reports whether tokens of our own issuer pass.
func (g *guard) takesOwn() bool {
	return slices.ContainsFunc(g.view.Issuers, func(i gate.IssuerView) bool { return i.Own })
}

// placedServer is an `oauth_server` on the way.
type placedServer struct {
	flow
	MetadataServer
	site *site
}

// walkServer walks one server, and returns its sites.
func walkServer(app *caddyhttp.App, server *caddyhttp.Server) []*site {
	w := &walk{app: app, server: server}
	w.routes(server.Routes, flow{})
	if server.Errors != nil {
		failed := w.failed(flow{})
		failed.rewritten = false // Caddy puts the request back as it came
		w.routes(server.Errors.Routes, failed)
	}
	return w.sites
}

// routes walks a list of routes and returns what goes on behind it.
func (w *walk) routes(routes caddyhttp.RouteList, f flow) flow {
	for i := range routes {
		f = w.route(&routes[i], f)
	}
	return f
}

// route walks one route. Requests that it does not match skip it, and so do those that a route of its group has had.
func (w *walk) route(route *caddyhttp.Route, f flow) flow {
	everyRequest := len(route.MatcherSets) == 0 && route.Group == ""
	inner := f
	if !everyRequest {
		inner = w.under(condition{sets: route.MatcherSets, group: route.Group}, f)
	}
	inner = w.handlers(route.Handlers, inner)
	ends := route.Terminal || inner.dead
	switch {
	case ends:
		f.dead = f.dead || everyRequest // else who has not matched goes on
		return f
	case everyRequest:
		return inner
	}
	f.gates = inner.gates
	if inner.number != f.number {
		f.location = w.rewritten()
	}
	return f
}

// under returns the flow of those requests that meet a condition.
func (w *walk) under(c condition, f flow) flow {
	c.id, c.location, c.behind = w.next(), f.location, len(f.gates)
	f.conditions = append(slices.Clip(f.conditions), c)
	return f
}

// handlers walks the handlers of a route. What it returns is dead when one of them answers every request.
func (w *walk) handlers(handlers []caddyhttp.MiddlewareHandler, f flow) flow {
	for _, handler := range handlers {
		f = w.handler(handler, f)
	}
	return f
}

func (w *walk) handler(handler caddyhttp.MiddlewareHandler, f flow) flow {
	switch h := handler.(type) {
	case *gate.Protect:
		g := guard{f, h, h.View()}
		s := w.site(f)
		s.gates = append(s.gates, g)
		f.gates = append(slices.Clip(f.gates), g)
	case MetadataServer:
		s := w.site(f)
		s.servers = append(s.servers, placedServer{f, h, s})
	case *caddyhttp.Subroute:
		return w.subroute(h, f)
	case *caddyhttp.Invoke:
		return w.invoke(h.Name, f)
	case *reverseproxy.Handler:
		return w.proxy(h, f)
	case *fileserver.FileServer:
		w.backend(backend{flow: f, kind: "file_server"})
		f.dead = f.dead || !h.PassThru
	case *intercept.Intercept:
		answered := f
		answered.location = w.rewritten() // by whatever stands behind: the answer comes back from there
		w.answers(h.HandleResponse, answered)
	case *caddyhttp.StaticResponse:
		f.dead = f.dead || isFinal(h.StatusCode)
	case *caddyhttp.StaticError:
		f.dead = true
	case *rewrite.Rewrite:
		f.location = w.rewrite(h, f.location)
	case *caddyauth.Authentication:
		f.asked = "basic_auth"
	default:
		if !keepsLocation(handler) {
			f.location = w.rewritten()
		}
	}
	return f
}

// subroute walks routes inside of a route. Behind error routes that do not all answer come requests that failed before any of the
// gates inside.
func (w *walk) subroute(h *caddyhttp.Subroute, f flow) flow {
	behind := w.routes(h.Routes, f)
	if h.Errors == nil {
		return behind
	}
	if failed := w.routes(h.Errors.Routes, w.failed(f)); failed.dead {
		return behind
	}
	f.location = w.rewritten()
	return f
}

// isFinal reports whether a status surely ends the answer. Caddy goes on behind 103.
func isFinal(status caddyhttp.WeakString) bool {
	return !strings.Contains(string(status), "{") && status.Int() != http.StatusEarlyHints
}

// invoke walks a named route as if it stood here.
func (w *walk) invoke(name string, f flow) flow {
	route := w.server.NamedRoutes[name]
	switch {
	case route == nil:
		f.dead = true // Caddy answers with an error
		return f
	case slices.Contains(w.invoked, name):
		f.location = w.rewritten() // it invokes itself
		return f
	}
	w.invoked = append(w.invoked, name)
	defer func() { w.invoked = w.invoked[:len(w.invoked)-1] }()
	return w.route(route, f)
}

// forwardAuth is a reverse_proxy that asks somebody else whether the request may go on.
const forwardAuth = "forward_auth"

// proxy notes a reverse_proxy. One that looks at the answer, as forward_auth does, may let the request go on.
func (w *walk) proxy(h *reverseproxy.Handler, f flow) flow {
	b := backend{flow: f, kind: "reverse_proxy"}
	switch {
	case h.Transport != nil && caddy.GetModuleName(h.Transport) == "fastcgi":
		b.kind = "php_fastcgi"
	case h.Rewrite != nil && h.Rewrite.URI != "" && len(h.HandleResponse) > 0:
		b.kind, f.asked = forwardAuth, forwardAuth
	}
	for _, upstream := range h.Upstreams {
		b.upstreams = append(b.upstreams, upstream.Dial)
	}
	if h.DynamicUpstreams != nil {
		b.upstreams = append(b.upstreams, "dynamic "+caddy.GetModuleName(h.DynamicUpstreams))
	}
	w.backend(b)
	f.dead = f.dead || len(h.HandleResponse) == 0
	return w.answers(h.HandleResponse, f)
}

// answers walks the routes for the answers of a handler. Which of them run nobody can tell, nor whether any does, so that no gate
// among them stands before what comes behind.
func (w *walk) answers(handlers []caddyhttp.ResponseHandler, f flow) flow {
	for _, handler := range handlers {
		if inner := w.routes(handler.Routes, w.under(condition{}, f)); inner.number != f.number {
			f.location = w.rewritten()
		}
	}
	return f
}

// failed is where requests are that failed anywhere on the way: those that a `protect` refused are among them.
func (w *walk) failed(f flow) flow {
	f.onError, f.dead = true, false
	f.location = w.rewritten()
	return f
}

func (w *walk) backend(b backend) {
	s := w.site(b.flow)
	s.backends = append(s.backends, b)
}

// rewrite is the location behind a rewrite. Only of a prefix that it takes away is it known what the client's path was.
func (w *walk) rewrite(h *rewrite.Rewrite, before location) location {
	after, prefix := w.rewritten(), h.StripPathPrefix
	prefixAlone := prefix != "" && h.Method == "" && h.URI == "" && h.StripPathSuffix == "" && len(h.URISubstring) == 0 &&
		len(h.PathRegexp) == 0 && h.Query == nil
	if _, _, plain := plainPattern(prefix); prefixAlone && plain && !before.rewritten {
		after.stripped, after.rewritten = before.stripped+prefix, false
	}
	return after
}

// rewritten is the location behind a handler that may have changed path and method.
func (w *walk) rewritten() location { return location{number: w.next(), rewritten: true} }

// keepsLocation reports whether a handler is one of Caddy's that leave path and method alone.
func keepsLocation(handler caddyhttp.MiddlewareHandler) bool {
	module, ok := handler.(caddy.Module)
	return ok && slices.Contains([]string{
		"acme_server", "copy_response_headers", "encode", "headers", "log_append", "map", "metrics", "push", "request_body", "templates",
		"timeouts", "tracing", "vars",
	}, module.CaddyModule().ID.Name())
}

func (w *walk) next() int {
	w.count++
	return w.count
}
