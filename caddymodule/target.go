package caddymodule

import (
	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/caddymodule/coverage"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

// newTarget returns what the admin API needs of a configuration.
func newTarget(s *service, o *others, g *guarded, m *mailer) *admin.Target {
	t := &admin.Target{
		Logger: s.logger, Unreadiness: s.unreadiness, OpenStreams: gate.OpenStreams,
		Routes: func() []coverage.Route { return g.found.Load().Routes }, Warnings: func() []string { return g.found.Load().Warnings },
		Version: version(),
	}
	for _, other := range o.trusted {
		t.Trusted = append(t.Trusted, admin.TrustedIssuer{
			Name: other.Name, URL: other.Settings.Issuer, Audience: other.Audience, Issuer: other.running.value,
		})
	}
	if !s.settings.KeepsState() {
		return t
	}
	t.OwnIssuer = &admin.OwnIssuer{
		Issuer: s.issuer, Registry: s.registry, Node: s.node, PersonalTokens: s.personal, SessionsOnly: !s.issues(), IsServing: s.life.isServing,
		ExplainSession: signin.HostSessionExplainer(s.issuer.Sessions, s.issuer.Roles, s.issuer.Authorizations.Hosts),
		Audit:          s.settings.Node.Audit,
		CountMinted:    func() { tokensIssued.WithLabelValues(byOperator).Inc() },
	}
	if s.settings.Mail != nil {
		t.SendTestMail, t.MailState = m.sendTest, m.health.State
	}
	origins := g.found.Load().Hosts
	if s.issues() {
		origins = []string{s.issuer.URL}
		t.LogoutsToPrivate = s.settings.LogoutsToPrivate
		t.Metadata, t.DiscoveryURL = s.handler.Metadata(), endpoint.DiscoveryURL(s.issuer.URL, s.settings.Issuer.OpenID)
	}
	for _, p := range o.providers {
		t.Providers = append(t.Providers, p.target(origins))
	}
	for _, d := range o.directories {
		t.Providers = append(t.Providers, d.target())
	}
	return t
}
