package caddymodule

import (
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/fileserver"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/intercept"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/rewrite"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
)

// walk goes through the routes of a server in the order in which a request does, and notes what it meets: handlers that
// answer from a backend, and ours.
type walk struct {
	server   *caddyhttp.Server
	backends []backend
	gates    []guard
	servers  []serverPlace
	groups   map[string]bool // those of which a route has been met
	invoked  []string        // named routes that are being walked
	count    int             // of conditions and changes, so that each has a number of its own
}

// backend is a handler that answers from somewhere else, with the way that leads to it.
type backend struct {
	kind      string // as the directive is called
	upstreams []string
	flow      flow
}

// guard is a `protect` on the way.
type guard struct {
	*gate.Protect
	view       gate.View
	conditions []condition
	dead       bool
}

// takesOwn reports whether tokens of our own issuer pass.
func (g *guard) takesOwn() bool {
	return slices.ContainsFunc(g.view.Issuers, func(i gate.IssuerView) bool { return i.Own })
}

// serverPlace is where an `oauth_server` stands.
type serverPlace struct {
	metadataServer
	conditions []condition
	dead       bool
}

// flow is what is known of the requests that come to a handler.
type flow struct {
	stage
	conditions []condition // all of them were met
	gates      []guard     // were passed, by the requests that met their conditions as well
	dead       bool        // there are none: a handler before has answered every request
	onError    bool        // they are on an error route
	// asked: something else than a `protect` has asked who is calling.
	asked string
}

// walkServer walks one server.
func walkServer(server *caddyhttp.Server) *walk {
	w := &walk{server: server, groups: make(map[string]bool)}
	start := flow{stage: stage{known: true}}
	w.routes(server.Routes, start)
	if server.Errors != nil {
		failed := w.onError(start)
		failed.known = true // Caddy puts the request back as it came
		w.routes(server.Errors.Routes, failed)
	}
	return w
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
	inner := f
	certain := len(route.MatcherSets) == 0 && route.Group == ""
	if !certain {
		c := condition{stage: f.stage, id: w.next(), sets: route.MatcherSets, group: route.Group, rivals: w.groups[route.Group]}
		inner.conditions = append(slices.Clip(f.conditions), c)
	}
	if route.Group != "" {
		w.groups[route.Group] = true
	}
	inner = w.handlers(route.Handlers, inner)
	ends := route.Terminal || inner.dead
	switch {
	case certain && ends:
		f.dead = true
	case certain:
		f.stage, f.asked = inner.stage, inner.asked
	case !ends && (inner.url != f.url || inner.rest != f.rest):
		f.stage = w.changed(f.stage, inner.url != f.url) // for some of the requests
	}
	if !ends {
		f.gates, f.passed = inner.gates, inner.passed
	}
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
		g := guard{Protect: h, view: h.View(), conditions: f.conditions, dead: f.dead}
		w.gates = append(w.gates, g)
		f.gates = append(slices.Clip(f.gates), g)
		f.passed++
	case metadataServer:
		w.servers = append(w.servers, serverPlace{h, f.conditions, f.dead})
	case *caddyhttp.Subroute:
		f = w.subroute(h, f)
	case *caddyhttp.Invoke:
		f = w.invoke(h.Name, f)
	case *reverseproxy.Handler:
		f = w.proxy(h, f)
	case *fileserver.FileServer:
		w.backends = append(w.backends, backend{kind: "file_server", flow: f})
		f.dead = f.dead || !h.PassThru
	case *intercept.Intercept:
		later := f
		later.stage = w.changed(f.stage, true) // it comes back when everything behind has been done to the request
		w.responses(h.HandleResponse, later)
	case *caddyhttp.StaticResponse:
		f.dead = f.dead || isFinal(h.StatusCode)
	case *caddyhttp.StaticError:
		f.dead = true
	case *rewrite.Rewrite:
		f.stage = w.rewritten(h, f.stage)
	case *headers.Handler:
		if h.Request != nil {
			f.stage = w.changed(f.stage, false)
		}
	case *caddyauth.Authentication:
		f.stage, f.asked = w.changed(f.stage, false), "basic_auth"
	default:
		f.stage = w.unknown(handler, f.stage)
	}
	return f
}

// subroute walks routes inside of a route. Behind their error routes, what comes next has requests too that have failed on the
// way to any of the gates inside.
func (w *walk) subroute(h *caddyhttp.Subroute, f flow) flow {
	behind := w.routes(h.Routes, f)
	if h.Errors == nil {
		return behind
	}
	failed := w.routes(h.Errors.Routes, w.onError(f))
	if failed.dead {
		return behind
	}
	behind.gates, behind.dead = f.gates, f.dead
	behind.stage = w.changed(behind.stage, true)
	return behind
}

// isFinal reports whether a status surely ends the answer. Caddy goes on behind 103.
func isFinal(status caddyhttp.WeakString) bool {
	return !strings.Contains(string(status), "{") && status.Int() != http.StatusEarlyHints
}

// invoke walks a named route as if it stood here.
func (w *walk) invoke(name string, f flow) flow {
	route := w.server.NamedRoutes[name]
	if route == nil {
		f.dead = true // Caddy answers with an error
		return f
	}
	if slices.Contains(w.invoked, name) {
		f.stage = w.changed(f.stage, true) // it invokes itself
		return f
	}
	w.invoked = append(w.invoked, name)
	defer func() { w.invoked = w.invoked[:len(w.invoked)-1] }()
	return w.route(route, f)
}

// proxy notes a reverse_proxy. One that looks at the answer, as forward_auth does, may let the request go on.
func (w *walk) proxy(h *reverseproxy.Handler, f flow) flow {
	b := backend{kind: "reverse_proxy", flow: f}
	switch {
	case h.Transport != nil && caddy.GetModuleName(h.Transport) == "fastcgi":
		b.kind = "php_fastcgi"
	case h.Rewrite != nil && h.Rewrite.URI != "" && len(h.HandleResponse) > 0:
		b.kind = forwardAuth
	}
	for _, upstream := range h.Upstreams {
		b.upstreams = append(b.upstreams, upstream.Dial)
	}
	if h.DynamicUpstreams != nil {
		b.upstreams = append(b.upstreams, "dynamic "+caddy.GetModuleName(h.DynamicUpstreams))
	}
	w.backends = append(w.backends, b)
	if len(h.HandleResponse) == 0 {
		f.dead = true
		return f
	}
	if b.kind == forwardAuth {
		f.asked = forwardAuth
	}
	return w.responses(h.HandleResponse, f)
}

// forwardAuth is a reverse_proxy that asks somebody else whether the request may go on.
const forwardAuth = "forward_auth"

// responses walks the routes for the answers of a handler. Whether they run depends on the answer.
func (w *walk) responses(handlers []caddyhttp.ResponseHandler, f flow) flow {
	for _, handler := range handlers {
		inner := f
		inner.conditions = append(slices.Clip(f.conditions), condition{stage: f.stage, id: w.next(), opaque: true})
		inner = w.routes(handler.Routes, inner)
		if inner.stage != f.stage {
			f.stage = w.changed(f.stage, inner.url != f.url)
		}
	}
	return f
}

// onError is where requests are that failed anywhere on the way: those that a `protect` refused are among them.
func (w *walk) onError(f flow) flow {
	f.onError, f.dead = true, false
	f.stage = w.changed(f.stage, true)
	return f
}

// rewritten is the stage after a rewrite. Only of a prefix that it takes away is it known what the client's path was.
func (w *walk) rewritten(h *rewrite.Rewrite, m stage) stage {
	prefix := h.StripPathPrefix
	onlyPrefix := prefix != "" && h.Method == "" && h.URI == "" && h.StripPathSuffix == "" && len(h.URISubstring) == 0 &&
		len(h.PathRegexp) == 0 && h.Query == nil
	_, _, plain := plainPattern(prefix)
	after := w.changed(m, true)
	if onlyPrefix && plain && m.known {
		after.stripped, after.known = m.stripped+prefix, true
	}
	return after
}

// unknown is the stage after a handler that needs no look into it.
func (w *walk) unknown(handler caddyhttp.MiddlewareHandler, m stage) stage {
	module, ok := handler.(caddy.Module)
	if !ok {
		return w.changed(m, true)
	}
	switch module.CaddyModule().ID.Name() {
	case "encode", "templates", "tracing", "request_body", "push", "log_append", "metrics", "timeouts", "copy_response_headers", "acme_server":
		return m
	case "vars", "map":
		return w.changed(m, false)
	}
	return w.changed(m, true) // somebody else's: it may do anything
}

// changed is the stage after something was done to the request, and to its URL or not.
func (w *walk) changed(m stage, url bool) stage {
	m.rest = w.next()
	if url {
		m.url, m.stripped, m.known = m.rest, "", false
	}
	return m
}

func (w *walk) next() int {
	w.count++
	return w.count
}
