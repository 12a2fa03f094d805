package caddymodule

import (
	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/assertion"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/federation"
)

// accepted is what makes tokens of others tokens of ours.
func (a *App) accepted() tokenissuer.Accepted {
	issuers := make(map[string]assertion.Verifier)
	for _, t := range a.trusted {
		for _, rule := range a.settings.AcceptRules {
			if rule.Trust == t.Name {
				issuers[t.Settings.Issuer] = t.pooled.value
			}
		}
	}
	return tokenissuer.Accepted{Issuers: issuers, People: federation.Persons{
		Accounts: federation.Accounts{Registry: a.registry}, Provider: a.providerOf,
	}}
}

// providerOf returns the OpenID provider with an issuer identifier at which people sign in.
func (a *App) providerOf(issuer string) (name string, rules federation.Rules, known bool) {
	for _, p := range a.settings.SignIn.Providers {
		if p.OpenID != nil && p.OpenID.Issuer == issuer {
			return p.Name, p.Rules, true
		}
	}
	return "", federation.Rules{}, false
}
