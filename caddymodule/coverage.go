package caddymodule

import (
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/coverage"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
)

// Verdicts about a handler that answers from a backend.
const (
	verdictProtected   = "protected"   // no request reaches it that a `protect` has not let through
	verdictConditional = "conditional" // some may, or nobody can tell
	verdictOpen        = "open"        // no `protect` stands before it
	verdictUnreached   = "unreached"   // no request reaches it at all
)

// examinedRoutes is what protects the routes of a configuration.
type examinedRoutes struct {
	Routes []coverage.Route
	// Warnings are what looks wrong, each with file and line where a Caddyfile has them.
	Warnings []string
	// Guards is how many `protect` there are.
	Guards int
}

// describedIssuer is the issuer of a configuration.
type describedIssuer struct {
	URL      string
	Audience string   // of its tokens, the first
	Scopes   []string // that it knows
	// Metadata is the URL of the metadata of its own resource (RFC 9728 §3.1).
	Metadata string
	// KeysInTheClear: signing keys are stored, and not encrypted.
	KeysInTheClear bool
	// Source is where in a Caddyfile the issuer is named, as file:line.
	Source string
}

// examineRoutes finds out what protects the routes and what looks wrong, and tells the handlers where their metadata are. App is
// nil when there are no routes, issuer when there is none. Everything must have been provisioned.
func examineRoutes(app *caddyhttp.App, issuer *describedIssuer) *examinedRoutes {
	var sites []*siteCoverage
	if app != nil {
		for _, name := range slices.Sorted(maps.Keys(app.Servers)) {
			sites = append(sites, sitesOf(app, walkServer(app.Servers[name]))...)
		}
	}
	describe(sites, issuer)
	found, guards := new(examinedRoutes), make(map[*gate.Protect]bool)
	for _, s := range sites {
		for _, g := range s.gates {
			guards[g.Protect] = true
		}
		for i := range s.backends {
			found.Routes = append(found.Routes, s.view(&s.backends[i]))
		}
		found.Warnings = append(found.Warnings, s.warnings()...)
	}
	found.Guards = len(guards)
	found.Warnings = append(found.Warnings, issuer.warnings(sites)...)
	return found
}

// siteCoverage is what a server does for the same hosts.
type siteCoverage struct {
	server   *caddyhttp.Server
	hosts    []string
	scheme   string // of the first listener, as its port
	port     string
	backends []backend
	gates    []guard
	servers  []serverPlace
}

// sitesOf sorts what was met on the way by hosts.
func sitesOf(app *caddyhttp.App, w *walk) []*siteCoverage {
	var met []*siteCoverage
	of := func(conditions []condition) *siteCoverage {
		hosts := hostsOf(conditions)
		for _, s := range met {
			if slices.Equal(s.hosts, hosts) {
				return s
			}
		}
		s := &siteCoverage{server: w.server, hosts: hosts}
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
