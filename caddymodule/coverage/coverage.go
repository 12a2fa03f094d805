package coverage

import (
	"maps"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Issuer is the issuer of a configuration.
type Issuer struct {
	URL      string
	Audience string // the first of Audiences
	// Audiences are the audiences of tokens that are requested without a resource.
	Audiences []string
	Scopes    []string // all that are declared
	// Metadata is the URL of the metadata of its own resource (RFC 9728 §3.1).
	Metadata string
	// KeysInTheClear reports that signing keys are stored unencrypted.
	KeysInTheClear bool
	// SignsIn reports that the configuration has settings for people who sign in.
	SignsIn bool
	// Source is where a Caddyfile names the issuer, as file:line.
	Source string
	// HasConsole reports that there is a block `console`, at ConsoleSource.
	HasConsole    bool
	ConsoleSource string
}

// Result is what protects the routes of a configuration.
type Result struct {
	Routes []Route
	// Warnings are likely mistakes, each with file and line if the configuration is a Caddyfile.
	Warnings []string
	// Resources are those for which tokens of our issuer can be requested (RFC 8707).
	Resources []string
	// Hosts are the origins of the hosts at which browsers sign in.
	Hosts []string
	// Gates is the number of `protect` handlers.
	Gates int
	// Agents reports that a route with `mcp` accepts tokens of our issuer. AgentScopes are the scopes that such routes may need, and
	// AgentResources their resources.
	Agents                      bool
	AgentScopes, AgentResources []string
}

// Examine determines what protects the routes, reports likely mistakes, and publishes the metadata URLs to the handlers. App is nil if there
// are no routes, and issuer if the configuration has none. Serve returns the handler of a site's metadata. All modules must be provisioned.
// With an error the configuration cannot be served; the result is complete even then.
func Examine(app *caddyhttp.App, issuer *Issuer, serve Serve) (*Result, error) {
	var sites []*site
	if app != nil {
		for _, name := range slices.Sorted(maps.Keys(app.Servers)) {
			sites = append(sites, walkServer(app, app.Servers[name])...)
		}
	}
	known, err := namesOf(sites, issuer)
	describe(sites, known, issuer, serve)
	found, gates := new(Result), make(map[*gate.Protect]bool)
	found.accept(sites, known, issuer)
	var lost []string
	found.Hosts, lost = hostsOfBrowsers(sites, issuer)
	found.Warnings = append(found.Warnings, lost...)
	for _, s := range sites {
		for i := range s.gates {
			g := &s.gates[i]
			gates[g.Protect] = true
			if g.Protect.MCP != nil && g.takesOwn() {
				found.Agents, found.AgentScopes = true, oauth.ResourceScopes(slices.Concat(found.AgentScopes, g.scopes()))
			}
		}
		for i := range s.backends {
			found.Routes = append(found.Routes, s.view(&s.backends[i]))
		}
		found.Warnings = append(found.Warnings, s.warnings()...)
	}
	found.Gates = len(gates)
	found.Warnings = append(found.Warnings, issuer.warnings(sites)...)
	found.Warnings = append(found.Warnings, issuer.consoleWarnings(sites)...)
	if issuer != nil && (issuer.SignsIn || found.Agents || len(found.Hosts) > 0) {
		found.Warnings = append(found.Warnings, issuer.neighbours(sites)...)
	}
	return found, err
}
