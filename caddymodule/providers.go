package caddymodule

import (
	"fmt"

	"github.com/gatehouse-auth/gatehouse/caddymodule/configuration"
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/routes"
	idp "github.com/gatehouse-auth/gatehouse/tokenissuer/upstream"
)

// providers hold what we know of identity providers, by all of their settings. It outlives a reload: metadata, keys, and how sign-ins
// went.
var providers = newRunningPool[idp.Provider]()

// identityProvider is where people sign in.
type identityProvider struct {
	configuration.ProviderSettings
	running *running[idp.Provider]
}

// provisionProviders takes the providers from the pool, or makes them. It opens nothing.
func (a *App) provisionProviders() error {
	for _, settings := range a.settings.SignIn.Providers {
		if settings.LDAP != nil {
			if err := a.provisionDirectory(settings); err != nil {
				return err
			}
			continue
		}
		use, err := providers.Take(providerKey(settings), func() (*running[idp.Provider], error) {
			made, err := newProvider(settings, fetch.Options{Now: node.Clock, Warn: warnOf("provider", settings.Name)})
			if err != nil {
				return nil, err
			}
			return newRunning(made), nil
		})
		if err != nil {
			return setting.At(fmt.Errorf("provider %s: %w", settings.Name, err), a.Sources["provider "+settings.Name])
		}
		a.uses = append(a.uses, use)
		a.providers = append(a.providers, &identityProvider{settings, use.Value})
	}
	return nil
}

func newProvider(s configuration.ProviderSettings, options fetch.Options) (idp.Provider, error) {
	if s.GitHub != nil {
		return idp.NewGitHub(*s.GitHub, options)
	}
	return idp.NewOpenID(*s.OpenID, options)
}

// providerKey is the name of a provider in the pool: every setting that makes a difference to what speaks to it.
func providerKey(s configuration.ProviderSettings) string {
	if g := s.GitHub; g != nil {
		return fmt.Sprintf("%#v", []any{"github", g.Name, g.URL, g.Client.ID, g.Client.Secret.Reveal(), g.Groups, g.Organisations, g.AllowPrivateNetwork})
	}
	o := s.OpenID
	return fmt.Sprintf("%#v", []any{"openid", o.Name, o.Issuer, o.Client.ID, o.Client.Secret.Reveal(), o.Scopes, o.GroupsClaim, o.AllowPrivateNetwork})
}

// redirectURIs are where a provider sends browsers back: to the issuer or, without one, to the hosts. Each provider has its own path,
// so that an answer of one cannot pass for another's.
func (a *App) redirectURIs(p *identityProvider) []string {
	origins := []string{a.settings.URL}
	if !a.issues() {
		origins = a.covered.Load().Hosts
	}
	var uris []string
	for _, origin := range origins {
		uris = append(uris, origin+routes.CallbackPath+"/"+p.Name)
	}
	return uris
}

// startProviders has the providers keep what they publish in the configuration's storage, and fetches that in the background.
func (a *App) startProviders() {
	for _, p := range a.providers {
		p.running.start(storedSnapshots{a.ctx.Storage(), "oauth/provider/"})
	}
}
