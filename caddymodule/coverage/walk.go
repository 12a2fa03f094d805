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
	"github.com/gatehouse-auth/gatehouse/caddymodule/hostpaths"
)

// walk visits the routes of a server in the order in which a request does, and records its gates, backends and
// metadata servers.
type walk struct {
	app     *caddyhttp.App
	server  *caddyhttp.Server
	sites   []*site
	paths   *hostpaths.Routes // ours before the routes; nil: none
	invoked []string          // named routes that are being walked
	count   int               // number of conditions and rewrites so far, which gives each a unique number
}

// flow describes the requests that reach a handler.
type flow struct {
	location
	conditions []condition // of the enclosing routes, outermost first: every request meets them all
	gates      []guard     // before it, each for the requests that also meet its conditions
	dead       bool        // a handler before it answers every request
	onError    bool        // the requests have failed and are on an error route
	asked      string      // directive before it, other than `protect`, that authenticates
}

// location identifies the path and method that handlers see.
type location struct {
	number    int    // differs wherever path or method may have changed
	stripped  string // prefix removed from the client's path
	rewritten bool   // the client's path is unknown
}

// backend is a handler that answers from somewhere else, such as an upstream or files.
type backend struct {
	flow
	kind      string // name of the directive
	upstreams []string
}

// guard is a `protect` on the way.
type guard struct {
	flow
	Protect *gate.Protect
	view    gate.View
}

// takesOwn reports whether the gate accepts tokens of our own issuer.
func (g *guard) takesOwn() bool {
	return slices.ContainsFunc(g.view.Issuers, func(i gate.IssuerView) bool { return i.Own })
}

// ownAudience returns the audiences that the gate asks of tokens of our own issuer.
func (g *guard) ownAudience() []string {
	for _, issuer := range g.view.Issuers {
		if issuer.Own {
			return issuer.Audience
		}
	}
	return nil
}

// placedServer is an `oauth_server` on the way.
type placedServer struct {
	flow
	MetadataServer
	site *site
}

// walkServer walks one server, and returns its sites.
func walkServer(app *caddyhttp.App, server *caddyhttp.Server) []*site {
	w := &walk{app: app, server: server, paths: hostpaths.Mounted(server)}
	w.routes(server.Routes, flow{})
	if server.Errors != nil {
		failed := w.failed(flow{})
		failed.rewritten = false // Caddy restores the original request
		w.routes(server.Errors.Routes, failed)
	}
	return w.sites
}

// routes walks a list of routes and returns the flow after it.
func (w *walk) routes(routes caddyhttp.RouteList, f flow) flow {
	for i := range routes {
		f = w.route(&routes[i], f)
	}
	return f
}

// route walks one route. It is skipped by requests that it does not match, and by those that an earlier route of its
// group handled.
func (w *walk) route(route *caddyhttp.Route, f flow) flow {
	everyRequest := len(route.MatcherSets) == 0 && route.Group == ""
	inner := f
	if !everyRequest {
		inner = w.under(condition{sets: route.MatcherSets, group: route.Group}, f)
		w.site(inner) // even if it is empty: no other site gets requests for its hosts
	}
	inner = w.handlers(route.Handlers, inner)
	ends := route.Terminal || inner.dead
	switch {
	case ends:
		f.dead = f.dead || everyRequest // otherwise requests that do not match continue
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

// under returns the flow of those requests that also meet a condition.
func (w *walk) under(c condition, f flow) flow {
	c.id, c.location, c.behind = w.next(), f.location, len(f.gates)
	f.conditions = append(slices.Clip(f.conditions), c)
	return f
}

// handlers walks the handlers of a route. The flow that it returns is dead if one of them answers every request.
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
	case OperatorConsole:
		s := w.site(f)
		s.consoles = append(s.consoles, h.ConsoleAt())
		f.dead = true
	case *caddyhttp.Subroute:
		return w.subroute(h, f)
	case *hostpaths.Routes:
		if !f.onError {
			return w.routes(h.Behind(), f)
		}
	case *caddyhttp.Invoke:
		return w.invoke(h.Name, f)
	case *reverseproxy.Handler:
		return w.proxy(h, f)
	case *fileserver.FileServer:
		w.backend(backend{flow: f, kind: "file_server"})
		f.dead = f.dead || !h.PassThru
	case *intercept.Intercept:
		answered := f
		answered.location = w.rewritten() // later handlers may have rewritten it before the response
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

// subroute walks the routes of a subroute. Unless its error routes answer every request, some that failed before any
// of its gates continue after it.
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

// isFinal reports whether a static response with this status ends the request. Caddy continues after 103.
func isFinal(status caddyhttp.WeakString) bool {
	return !strings.Contains(string(status), "{") && status.Int() != http.StatusEarlyHints
}

// invoke walks a named route as part of the route that invokes it.
func (w *walk) invoke(name string, f flow) flow {
	route := w.server.NamedRoutes[name]
	switch {
	case route == nil:
		f.dead = true // Caddy answers with an error
		return f
	case slices.Contains(w.invoked, name):
		f.location = w.rewritten() // recursive
		return f
	}
	w.invoked = append(w.invoked, name)
	defer func() { w.invoked = w.invoked[:len(w.invoked)-1] }()
	return w.route(route, f)
}

// forwardAuth is a reverse_proxy that asks another service whether the request may continue.
const forwardAuth = "forward_auth"

// proxy records a reverse_proxy. One that handles responses, such as forward_auth, may let the request continue.
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

// answers walks the routes that handle responses. Which of them run, if any, depends on the response, so that gates
// among them do not count for later handlers.
func (w *walk) answers(handlers []caddyhttp.ResponseHandler, f flow) flow {
	for _, handler := range handlers {
		if inner := w.routes(handler.Routes, w.under(condition{}, f)); inner.number != f.number {
			f.location = w.rewritten()
		}
	}
	return f
}

// failed returns the flow of requests that failed anywhere on the way, including those that a `protect` refused.
func (w *walk) failed(f flow) flow {
	f.onError, f.dead = true, false
	f.location = w.rewritten()
	return f
}

func (w *walk) backend(b backend) {
	s := w.site(b.flow)
	s.backends = append(s.backends, b)
}

// rewrite returns the location after a rewrite. The client's path stays known only if the rewrite does nothing but
// strip a prefix.
func (w *walk) rewrite(h *rewrite.Rewrite, before location) location {
	after, prefix := w.rewritten(), h.StripPathPrefix
	prefixAlone := prefix != "" && h.Method == "" && h.URI == "" && h.StripPathSuffix == "" && len(h.URISubstring) == 0 &&
		len(h.PathRegexp) == 0 && h.Query == nil
	if _, _, plain := plainPattern(prefix); prefixAlone && plain && !before.rewritten {
		after.stripped, after.rewritten = before.stripped+prefix, false
	}
	return after
}

// rewritten returns the location after a handler that may have changed path and method.
func (w *walk) rewritten() location { return location{number: w.next(), rewritten: true} }

// keepsLocation reports whether a handler is one of Caddy's that change neither path nor method.
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
