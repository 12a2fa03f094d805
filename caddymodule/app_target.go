package caddymodule

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/caddymodule/coverage"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// newTarget returns what operators can ask about the configuration.
func (a *App) newTarget() *admin.Target {
	t := &admin.Target{
		Logger: a.logger, Issuer: a.issuer, Registry: a.registry, Node: a.node,
		IsServing: a.life.isServing, Unreadiness: a.unreadiness, OpenStreams: gate.OpenStreams, HeldRefusals: a.gates.Floodgate().Held,
		Routes:        func() []coverage.Route { return a.covered.Load().Routes },
		ReadLifetimes: readLifetimes,
		CountMinted:   func() { tokensIssued.WithLabelValues(byOperator).Inc() },
	}
	for _, other := range a.trusted {
		t.Trusted = append(t.Trusted, admin.TrustedIssuer{
			Name: other.name, URL: other.settings.Issuer, Audience: other.audience, Issuer: other.issuer,
		})
	}
	return t
}

// readLifetimes reads a `tokens` block in JSON.
func readLifetimes(block jsontext.Value) (store.Lifetimes, error) {
	var c TokensConfig
	if err := json.Unmarshal(block, &c, json.RejectUnknownMembers(true)); err != nil {
		return store.Lifetimes{}, fmt.Errorf("the request: %w", err)
	}
	return c.lifetimes()
}
