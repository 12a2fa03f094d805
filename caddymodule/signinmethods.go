package caddymodule

import (
	"net/url"

	"github.com/gatehouse-auth/gatehouse/caddymodule/configuration"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// signInMethods are the ways in which people sign in at our own issuer.
func (a *App) signInMethods() endpoint.SignInMethods {
	m := endpoint.SignInMethods{WithoutPasswords: !a.settings.SignIn.Password, Accounts: a.accounts(), Directories: make(map[string]string)}
	for _, d := range a.directories {
		m.Directories[d.Name] = d.Title
	}
	for _, p := range a.providers {
		m.Providers = append(m.Providers, &endpoint.Provider{
			Provider: p.running.value, Name: p.Name, Title: p.Title, Origin: originOf(p.ProviderSettings),
			Domains: p.Domains, Default: p.Default, Rules: p.Rules,
		})
	}
	return m
}

// originOf returns the origin to which a provider's button leads.
func originOf(p configuration.ProviderSettings) string {
	u, err := url.Parse(p.URL())
	if err != nil {
		return ""
	}
	return oauth.OriginOf(u)
}
