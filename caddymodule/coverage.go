package caddymodule

import (
	"context"
	"maps"
	"net"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

// Verdicts about a handler that answers from a backend.
const (
	verdictProtected   = "protected"   // no request reaches it that a `protect` has not let through
	verdictConditional = "conditional" // some may, or nobody can tell
	verdictOpen        = "open"        // no `protect` stands before it
	verdictUnreached   = "unreached"   // no request reaches it at all
)

// coverage is what protects the routes of a configuration.
type coverage struct {
	routes   []routeView
	warnings []string
	guards   int // how many `protect` there are
}

// covering holds the apps that have started, with an issuer or without. The newest knows what protects what.
var covering apps

// NoteHTTP remembers the app whose handler is being provisioned. Asking for it by name would load it once more from here.
func (a *App) NoteHTTP(ctx caddy.Context) {
	for _, module := range ctx.Modules() {
		if app, ok := module.(*caddyhttp.App); ok {
			a.http = app
		}
	}
}

// cover finds out what protects the routes, says what looks wrong, and tells the handlers where their metadata are. It is
// for a configuration that has been provisioned as a whole.
func (a *App) cover() {
	defer func() {
		if reason := recover(); reason != nil { // a handler that Caddy knows and we do not; requests go on
			a.logger.Error("panic while looking at the routes", zap.Any("panic", reason), zap.ByteString("stack", debug.Stack()))
		}
	}()
	c := new(coverage)
	a.covered.Store(c)
	if a.http == nil { // there is neither `protect` nor `oauth_server`
		app, err := a.ctx.AppIfConfigured("http")
		if err != nil {
			a.warnAll(c, a.issuerWarnings(nil))
			return
		}
		a.http = app.(*caddyhttp.App)
	}
	var met []*siteCoverage
	for _, name := range slices.Sorted(maps.Keys(a.http.Servers)) {
		walked := walkServer(a.http.Servers[name])
		met = append(met, sitesOf(name, a.http, walked)...)
	}
	a.describe(met)
	guards := make(map[*Protect]bool)
	for _, s := range met {
		for _, g := range s.gates {
			guards[g.Protect] = true
		}
		for i := range s.backends {
			c.routes = append(c.routes, s.view(&s.backends[i]))
		}
		c.warnings = append(c.warnings, s.warnings()...)
	}
	c.guards = len(guards)
	a.warnAll(c, a.issuerWarnings(met))
}

// warnAll logs what was warned of, and more.
func (a *App) warnAll(c *coverage, more []string) {
	c.warnings = append(c.warnings, more...)
	for _, warning := range c.warnings {
		a.logger.Warn(warning)
	}
}

// coverValidated does it for `caddy validate`, which provisions everything and starts nothing.
func (a *App) coverValidated() {
	if a.covered.Load() != nil {
		return
	}
	if a.http == nil { // none of our handlers was met, which says nothing of a configuration that was refused half-way
		if a.ctx.Context == nil {
			return // it was not provisioned
		}
		if cause := context.Cause(a.ctx); cause != nil && cause.Error() == causeValidated {
			a.cover()
		}
		return
	}
	if _, err := a.ctx.AppIfConfigured("http"); err == nil { // else it is not whole
		a.cover()
	}
}

// causeValidated is why Caddy ends a configuration that it has found good and does not start.
const causeValidated = "validation complete"

// siteCoverage is what a server does for the same hosts.
type siteCoverage struct {
	name     string // of the server
	server   *caddyhttp.Server
	hosts    []string
	scheme   string // of the first listener, as its port
	port     string
	backends []backend
	gates    []guard
	servers  []serverPlace
}

// sitesOf sorts what was met on the way by hosts.
func sitesOf(name string, app *caddyhttp.App, w *walk) []*siteCoverage {
	var met []*siteCoverage
	of := func(conditions []condition) *siteCoverage {
		hosts := hostsOf(conditions)
		for _, s := range met {
			if slices.Equal(s.hosts, hosts) {
				return s
			}
		}
		s := &siteCoverage{name: name, server: w.server, hosts: hosts}
		s.scheme, s.port = listens(app, w.server)
		met = append(met, s)
		return s
	}
	for _, b := range w.backends {
		s := of(b.flow.conditions)
		s.backends = append(s.backends, b)
	}
	for _, g := range w.gates {
		s := of(g.conditions)
		s.gates = append(s.gates, g)
	}
	for _, p := range w.servers {
		s := of(p.conditions)
		s.servers = append(s.servers, p)
	}
	return met
}

// hostsOf returns the hosts of the site that the conditions belong to.
func hostsOf(conditions []condition) []string {
	for _, c := range conditions {
		var hosts []string
		for _, set := range c.sets {
			for _, matcher := range set {
				if host, ok := matcher.(*caddyhttp.MatchHost); ok {
					hosts = append(hosts, *host...)
				}
			}
		}
		if len(hosts) > 0 {
			return hosts
		}
	}
	return nil
}

// listens returns the scheme and the port under which clients reach a server.
func listens(app *caddyhttp.App, server *caddyhttp.Server) (scheme, port string) {
	scheme = "http"
	for _, listener := range server.Listen {
		address, err := caddy.ParseNetworkAddress(listener)
		if err != nil || address.IsUnixNetwork() {
			continue
		}
		plain := app.HTTPPort
		if plain == 0 {
			plain = caddyhttp.DefaultHTTPPort
		}
		if len(server.TLSConnPolicies) > 0 && int(address.StartPort) != plain {
			scheme = "https"
		}
		return scheme, strconv.FormatUint(uint64(address.StartPort), 10)
	}
	return scheme, ""
}

// authority is a host with the port, unless that is the scheme's own.
func (s *siteCoverage) authority(host string) string {
	if s.port == "" || s.port == map[string]string{"http": "80", "https": "443"}[s.scheme] {
		if strings.Contains(host, ":") {
			return "[" + host + "]"
		}
		return host
	}
	return net.JoinHostPort(host, s.port)
}

// String names the site for people.
func (s *siteCoverage) String() string {
	names := make([]string, 0, len(s.hosts))
	for _, host := range s.hosts {
		names = append(names, s.scheme+"://"+s.authority(host))
	}
	if len(names) == 0 {
		names = s.server.Listen
	}
	return strings.Join(names, " ")
}

// passage is a gate on the way to a backend.
type passage struct {
	guard
	only []string // what makes some requests pass beside it; none: all pass through it
}

// passages lists the gates that stand before a backend for some requests at least.
func (f *flow) passages() []passage {
	var list []passage
	for _, g := range f.gates {
		p, never := passage{guard: g}, false
		for i := range g.conditions {
			c := &g.conditions[i]
			if never = c.excludedBy(f.conditions); never {
				break
			}
			if !c.impliedBy(f.conditions) {
				p.only = append(p.only, c.inWords())
			}
		}
		if !never {
			list = append(list, p)
		}
	}
	return list
}

// verdict says what the passages are worth, and why they are not worth more.
func (f *flow) verdict(passages []passage) (verdict, why string) {
	switch {
	case f.dead:
		return verdictUnreached, "a handler before it answers every request"
	case len(passages) == 0 && f.onError:
		return verdictOpen, "requests that failed come here, those that were refused among them"
	case len(passages) == 0 && f.asked != "":
		return verdictOpen, f.asked + " asks who is calling"
	case len(passages) == 0:
		return verdictOpen, ""
	}
	for _, p := range passages {
		if len(p.only) > 0 {
			why = "protect is for " + strings.Join(p.only, ", ") + " only"
		} else if p.Optional {
			why = "a token is optional"
		} else {
			return verdictProtected, ""
		}
	}
	return verdictConditional, why
}

// inWords says which requests meet the condition.
func (c *condition) inWords() string {
	switch {
	case c.opaque:
		return "some answers of a backend"
	case len(c.sets) == 0:
		return "what no block before it has answered"
	}
	return inWordsSets(c.sets, c.stripped)
}
