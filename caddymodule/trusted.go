package caddymodule

import (
	"context"
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/configuration"
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/trust"
)

// trustedIssuers hold what we know of other issuers, by all of their settings. It outlives a reload: keys, and what was
// introspected.
var trustedIssuers = caddy.NewUsagePool()

// trustedIssuer is an issuer that a configuration trusts.
type trustedIssuer struct {
	configuration.TrustedIssuer
	pooled *pooled[*trust.Issuer]
}

// provisionTrust takes the trusted issuers from the pool, or makes them. It opens nothing.
func (a *App) provisionTrust() error {
	for _, t := range a.settings.Trusted {
		value, _, err := trustedIssuers.LoadOrNew(key(t), func() (caddy.Destructor, error) {
			issuer, err := trust.New(t.Settings, trust.Options{Now: node.Clock, Warn: warnOf("trust", t.Name)})
			if err != nil {
				return nil, err
			}
			return newPooled(issuer), nil
		})
		if err != nil {
			return fmt.Errorf("trust %s: %w", t.Name, err)
		}
		a.trusted = append(a.trusted, &trustedIssuer{TrustedIssuer: t, pooled: value.(*pooled[*trust.Issuer])})
	}
	return nil
}

// startTrust has the trusted issuers keep what they know in the configuration's storage, and find their keys.
func (a *App) startTrust() {
	for _, t := range a.trusted {
		t.pooled.start(storedSnapshots{a.ctx.Storage(), "oauth/trust/"})
	}
}

// releaseTrust gives the trusted issuers back to the pool.
func (a *App) releaseTrust() error {
	var failed error
	for _, t := range a.trusted {
		_, err := trustedIssuers.Delete(key(t.TrustedIssuer))
		failed = errors.Join(failed, err)
	}
	return failed
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
