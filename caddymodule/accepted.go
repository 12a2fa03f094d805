package caddymodule

import (
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/assertion"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/federation"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer/grants"
)

// accepted is what makes tokens of others tokens of ours.
func (a *App) accepted() grants.Accepted {
	issuers := make(map[string]assertion.Verifier)
	for _, t := range a.trusted {
		for _, rule := range a.settings.AcceptRules {
			if rule.Trust == t.Name {
				issuers[t.Settings.Issuer] = t.running.value
			}
		}
	}
	return grants.Accepted{Issuers: issuers, People: federation.Persons{
		Accounts: a.accounts(), Provider: a.providerOf,
	}}
}

// accounts finds the users of accounts elsewhere, and records whom it makes or changes.
func (a *App) accounts() federation.Accounts {
	return federation.Accounts{Families: a.issuer.Families, Users: a.registry, Changed: func(c federation.Change) {
		fields, what := []zap.Field{zap.String("user_id", c.UserID)}, "user added"
		if !c.Added {
			fields, what = append(fields, zap.Strings("changed", c.Members)), "user updated"
		}
		a.logger.Named("audit").Info(what, append(fields, zap.String("by", "provider "+c.Provider))...)
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
