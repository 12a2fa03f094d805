package coverage

import (
	"maps"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
)

// Issuer is the issuer of a configuration.
type Issuer struct {
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

// Result is what protects the routes of a configuration.
type Result struct {
	Routes []Route
	// Warnings are what looks wrong, each with file and line where a Caddyfile has them.
	Warnings []string
	// Gates is how many `protect` there are.
	Gates int
}

// Examine finds out what protects the routes and what looks wrong, and tells the handlers where their metadata are. App is nil
// when there are no routes, issuer when there is none of our own. Everything must have been provisioned.
func Examine(app *caddyhttp.App, issuer *Issuer) *Result {
	var sites []*site
	if app != nil {
		for _, name := range slices.Sorted(maps.Keys(app.Servers)) {
			sites = append(sites, walkServer(app, app.Servers[name])...)
		}
	}
	describe(sites, issuer)
	found, gates := new(Result), make(map[*gate.Protect]bool)
	for _, s := range sites {
		for i := range s.gates {
			gates[s.gates[i].Protect] = true
		}
		for i := range s.backends {
			found.Routes = append(found.Routes, s.view(&s.backends[i]))
		}
		found.Warnings = append(found.Warnings, s.warnings()...)
	}
	found.Gates = len(gates)
	found.Warnings = append(found.Warnings, issuer.warnings(sites)...)
	return found
}
