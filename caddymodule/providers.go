package caddymodule

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/caddymodule/configuration"
	gatebrowser "github.com/gatehouse-auth/gatehouse/caddymodule/gate/browser"
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	idp "github.com/gatehouse-auth/gatehouse/tokenissuer/upstream"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/webauthn"
)

// providers holds the metadata and keys of identity providers, and the results of the last sign-ins.
var providers = newRunningPool[idp.Provider]()

// identityProvider is a provider at which people sign in.
type identityProvider struct {
	configuration.ProviderSettings
	running *running[idp.Provider]
}

func (o *others) takeProvider(settings configuration.ProviderSettings, sources configuration.Sources, u *uses) error {
	use, err := providers.Take(providerKey(settings), func() (*running[idp.Provider], error) {
		made, err := newProvider(settings, fetch.Options{Now: node.Clock, Warn: warnOf("provider", settings.Name)})
		if err != nil {
			return nil, err
		}
		return newRunning(made), nil
	})
	if err != nil {
		return sources.At(fmt.Errorf("provider %s: %w", settings.Name, err), "provider", settings.Name)
	}
	o.providers = append(o.providers, &identityProvider{settings, keep(u, use)})
	return nil
}

func newProvider(s configuration.ProviderSettings, options fetch.Options) (idp.Provider, error) {
	if s.GitHub != nil {
		return idp.NewGitHub(*s.GitHub, options)
	}
	return idp.NewOpenID(*s.OpenID, options)
}

// providerKey is the key of a provider in the pool: every setting that makes a difference to it.
func providerKey(s configuration.ProviderSettings) string {
	if g := s.GitHub; g != nil {
		return fmt.Sprintf("%#v", []any{"github", g.Name, g.URL, g.Client.ID, g.Client.Secret.Reveal(), g.Groups, g.Organisations, g.AllowPrivateNetwork})
	}
	o := s.OpenID
	return fmt.Sprintf("%#v", []any{"openid", o.Name, o.Issuer, o.Client.ID, o.Client.Secret.Reveal(), o.Scopes, o.GroupsClaim, o.KeepsRefreshToken, o.AllowPrivateNetwork})
}

// providerOf returns the OpenID provider with an issuer identifier.
func (o *others) providerOf(issuer string) (name string, rules signin.Rules, known bool) {
	for _, p := range o.providers {
		if p.OpenID != nil && p.OpenID.Issuer == issuer {
			return p.Name, p.Rules, true
		}
	}
	return "", signin.Rules{}, false
}

// hostProviders returns the providers for the sign-in at hosts.
func (o *others) hostProviders() (list []gatebrowser.Provider) {
	for _, p := range o.providers {
		list = append(list, gatebrowser.Provider{Provider: p.running.value, Name: p.Name, Origin: p.origin(), Rules: p.Rules, Default: p.Default})
	}
	return list
}

// signInMethods returns the ways in which people sign in at our own issuer.
func (s *service) signInMethods(o *others) endpoint.SignInMethods {
	m := endpoint.SignInMethods{
		WithoutPasswords: !s.settings.SignIn.Password, Accounts: s.accounts(), Directories: make(map[string]string), Passkeys: passkeysOf(s),
	}
	for _, d := range o.directories {
		m.Directories[d.Name] = d.Title
	}
	for _, p := range o.providers {
		m.Providers = append(m.Providers, &endpoint.Provider{
			Provider: p.running.value, Name: p.Name, Title: p.Title, Origin: p.origin(), Domains: p.Domains, Default: p.Default, Rules: p.Rules,
		})
	}
	return m
}

// passkeysOf returns what asks for passkeys, or nil where browsers offer none.
func passkeysOf(s *service) *webauthn.RelyingParty {
	policy := &s.settings.Issuer.Factors
	u, err := url.Parse(s.settings.Issuer.URL)
	if err != nil || policy.RelyingParty == "" {
		return nil
	}
	return &webauthn.RelyingParty{
		ID: policy.RelyingParty, Origin: oauth.OriginOf(u), SignIns: s.issuer.SignIns,
		Alone: policy.Passkeys && s.settings.SignIn.Password && !s.settings.SignIn.DirectoriesAlone,
	}
}

// origin returns the origin to which the provider's button leads.
func (p *identityProvider) origin() string {
	u, err := url.Parse(p.URL())
	if err != nil {
		return ""
	}
	return oauth.OriginOf(u)
}

// target returns the provider for operators. The origins are those of the issuer or, without one, of the hosts. The provider sends browsers
// back to a path of its own, so that an answer of another provider cannot pass for one of this.
func (p *identityProvider) target(origins []string) admin.IdentityProvider {
	var uris []string
	for _, origin := range origins {
		uris = append(uris, origin+oauth.CallbackPath+"/"+p.Name)
	}
	return admin.IdentityProvider{
		Name: p.Name, Kind: p.Kind(), Title: p.Title, URL: p.URL(), RedirectURIs: uris, Default: p.Default, State: p.running.value.State,
		Test: func(ctx context.Context, _ string) []signin.Step {
			return p.running.value.Test(ctx, strings.Join(uris, " "))
		},
	}
}
