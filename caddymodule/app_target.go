package caddymodule

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/caddymodule/coverage"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// newTarget returns what operators can ask about the configuration.
func (a *App) newTarget() *Target {
	t := &Target{
		Logger: a.logger, Issuer: a.issuer, Registry: a.registry, Node: a.node, Flood: a.gates.Floodgate(),
		IsServing: a.isServing, Unreadiness: a.unreadiness, OpenStreams: gate.OpenStreams,
		Routes:        func() []coverage.Route { return a.covered.Load().Routes },
		ReadLifetimes: readLifetimes,
		CountMinted:   func() { tokensIssued.WithLabelValues(byOperator).Inc() },
	}
	for _, other := range a.trusted {
		t.Trusted = append(t.Trusted, targetIssuer{other.name, other.settings.Issuer, other.audience, other.issuer})
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
