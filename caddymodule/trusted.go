package caddymodule

import (
	"context"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/configuration"
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/trust"
)

// trustedIssuers hold what we know of other issuers, by all of their settings. It outlives a reload: keys, and what was
// introspected.
var trustedIssuers = newRunningPool[*trust.Issuer]()

// trustedIssuer is an issuer that a configuration trusts.
type trustedIssuer struct {
	configuration.TrustedIssuer
	running *running[*trust.Issuer]
}

// provisionTrust takes the trusted issuers from the pool, or makes them. It opens nothing.
func (a *App) provisionTrust() error {
	for _, t := range a.settings.Trusted {
		use, err := trustedIssuers.Take(key(t), func() (*running[*trust.Issuer], error) {
			issuer, err := trust.New(t.Settings, fetch.Options{Now: node.Clock, Warn: warnOf("trust", t.Name)})
			if err != nil {
				return nil, err
			}
			return newRunning(issuer), nil
		})
		if err != nil {
			return fmt.Errorf("trust %s: %w", t.Name, err)
		}
		a.uses = append(a.uses, use)
		a.trusted = append(a.trusted, &trustedIssuer{t, use.Value})
	}
	return nil
}

// startTrust has the trusted issuers keep what they know in the configuration's storage, and find their keys.
func (a *App) startTrust() {
	for _, t := range a.trusted {
		t.running.start(storedSnapshots{a.ctx.Storage(), "oauth/trust/"})
	}
}

// key is the name of an issuer in the pool: every setting that makes a difference to the issuer itself.
func key(t configuration.TrustedIssuer) string {
	s := t.Settings
	parts := []any{t.Name, s.Issuer, s.JWKSURI, s.Algorithms, s.Types, s.AllowPrivateNetwork, s.MaxStale, s.RolesClaim, s.ClientAudience}
	if i := s.Introspection; i != nil {
		parts = append(parts, i.Endpoint, i.ClientID, i.ClientSecret.Reveal(), i.CacheFor)
	}
	return fmt.Sprintf("%#v", parts)
}

// warnOf tells the operator about somebody else of that kind and name. The logger is that of the configuration that runs then.
func warnOf(kind, name string) func(string, error) {
	return func(message string, err error) {
		caddy.Log().Named("oauth."+kind).Warn(message, zap.String(kind, name), zap.Error(err))
	}
}

// storedSnapshots keeps what others publish in Caddy's storage, which all nodes may share.
type storedSnapshots struct {
	storage certmagic.Storage
	folder  string
}

// Load reads one.
func (s storedSnapshots) Load(ctx context.Context, name string) ([]byte, error) {
	return s.storage.Load(ctx, s.folder+name)
}

// Save replaces one.
func (s storedSnapshots) Save(ctx context.Context, name string, data []byte) error {
	return s.storage.Store(ctx, s.folder+name, data)
}
