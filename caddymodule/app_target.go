package caddymodule

import (
	"context"
	"strings"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/caddymodule/coverage"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/federation"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/hosts"
)

// newTarget returns what operators can ask about the configuration.
func (a *App) newTarget() *admin.Target {
	t := &admin.Target{
		Logger: a.logger, Issuer: a.issuer, Registry: a.registry, PersonalTokens: a.personal, Node: a.node, SessionsOnly: a.keepsState() && !a.issues(),
		IsServing: a.life.isServing, Unreadiness: a.unreadiness, OpenStreams: gate.OpenStreams,
		Routes:      func() []coverage.Route { return a.covered.Load().Routes },
		CountMinted: func() { tokensIssued.WithLabelValues(byOperator).Inc() },
	}
	if a.keepsState() {
		t.ExplainSession = hosts.Explainer(a.issuer.Sessions, a.issuer.Roles, a.issuer.Authorizations.Hosts)
	}
	if a.issues() {
		t.LogoutsToPrivate = a.OpenID != nil && a.OpenID.AllowPrivateNetwork
		t.Metadata, t.DiscoveryURL = a.handler.Metadata(), endpoint.DiscoveryURL(a.issuer.URL)
	}
	for _, other := range a.trusted {
		t.Trusted = append(t.Trusted, admin.TrustedIssuer{
			Name: other.Name, URL: other.Settings.Issuer, Audience: other.Audience, Issuer: other.running.value,
		})
	}
	for _, p := range a.providers {
		uris := a.redirectURIs(p)
		t.Providers = append(t.Providers, admin.IdentityProvider{
			Name: p.Name, Kind: p.Kind(), Title: p.Title, URL: p.URL(), RedirectURIs: uris, Default: p.Default, State: p.running.value.State,
			Test: func(ctx context.Context, _ string) []federation.Step {
				return p.running.value.Test(ctx, strings.Join(uris, " "))
			},
		})
	}
	for _, d := range a.directories {
		t.Providers = append(t.Providers, d.target())
	}
	return t
}
