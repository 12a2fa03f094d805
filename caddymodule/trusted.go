package caddymodule

import (
	"fmt"

	"github.com/gatehouse-auth/gatehouse/caddymodule/configuration"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer/grants"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/trust"
)

// trustedIssuers holds the keys of other issuers and their answers to introspections.
var trustedIssuers = newRunningPool[*trust.Issuer]()

// trustedIssuer is an issuer that a configuration trusts.
type trustedIssuer struct {
	configuration.TrustedIssuer
	running *running[*trust.Issuer]
}

func (o *others) takeTrusted(t configuration.TrustedIssuer, u *uses) error {
	use, err := trustedIssuers.Take(trustedKey(t), func() (*running[*trust.Issuer], error) {
		issuer, err := trust.New(t.Settings, fetch.Options{Now: node.Clock, Warn: warnOf("trust", t.Name)})
		if err != nil {
			return nil, err
		}
		return newRunning(issuer), nil
	})
	if err != nil {
		return fmt.Errorf("trust %s: %w", t.Name, err)
	}
	o.trusted = append(o.trusted, &trustedIssuer{t, keep(u, use)})
	return nil
}

// trustedKey is the key of an issuer in the pool: every setting that makes a difference to it.
func trustedKey(t configuration.TrustedIssuer) string {
	s := t.Settings
	parts := []any{t.Name, s.Issuer, s.JWKSURI, s.Algorithms, s.Types, s.AllowPrivateNetwork, s.MaxStale, s.RolesClaim, s.ClientAudience}
	if i := s.Introspection; i != nil {
		parts = append(parts, i.Endpoint, i.ClientID, i.ClientSecret.Reveal(), i.CacheFor)
	}
	return fmt.Sprintf("%#v", parts)
}

// forGates returns the trusted issuers for the gates.
func (o *others) forGates() []gate.TrustedIssuer {
	var list []gate.TrustedIssuer
	for _, t := range o.trusted {
		list = append(list, gate.TrustedIssuer{Name: t.Name, URL: t.Settings.Issuer, Audience: t.Audience, Issuer: t.running.value, Life: t.running.life})
	}
	return list
}

// accepted returns the issuers whose tokens the token endpoint exchanges for ours, and the users that those tokens may name.
func (o *others) accepted(settings *configuration.Settings, accounts signin.Accounts) grants.Accepted {
	issuers := make(map[string]clients.AssertionVerifier)
	for _, t := range o.trusted {
		for _, rule := range settings.Issuer.AcceptRules {
			if rule.Trust == t.Name {
				issuers[t.Settings.Issuer] = t.running.value
			}
		}
	}
	return grants.Accepted{Issuers: issuers, People: signin.Persons{Accounts: accounts, Provider: o.providerOf}}
}
