package caddymodule

import (
	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/caddymodule/configuration"
	"github.com/gatehouse-auth/gatehouse/caddymodule/coverage"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
)

// newTarget returns what operators can ask about the configuration.
func (a *App) newTarget() *admin.Target {
	t := &admin.Target{
		Logger: a.logger, Issuer: a.issuer, Registry: a.registry, Node: a.node,
		IsServing: a.life.isServing, Unreadiness: a.unreadiness, OpenStreams: gate.OpenStreams, HeldRefusals: a.gates.Floodgate().Held,
		Routes:        func() []coverage.Route { return a.covered.Load().Routes },
		ReadLifetimes: configuration.ReadLifetimes,
		CountMinted:   func() { tokensIssued.WithLabelValues(byOperator).Inc() },
	}
	if a.issues() {
		t.Metadata, t.DiscoveryURL = a.handler.Metadata(), endpoint.DiscoveryURL(a.issuer.URL)
	}
	for _, other := range a.trusted {
		t.Trusted = append(t.Trusted, admin.TrustedIssuer{
			Name: other.Name, URL: other.Settings.Issuer, Audience: other.Audience, Issuer: other.pooled.value,
		})
	}
	return t
}
