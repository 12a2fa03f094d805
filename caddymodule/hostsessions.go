package caddymodule

import (
	"context"

	"github.com/gatehouse-auth/gatehouse/caddymodule/hostsession"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/hosts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
)

// hostSessions are the settings of the sign-in at hosts behind the gate.
func (a *App) hostSessions() hostsession.Settings {
	s := hostsession.Settings{
		Direct: !a.issues(), Accounts: a.accounts(),
		Issuer: &a.issuer.Policy, Sessions: hosts.New(a.issuer.Sessions, a.issuer.SignIns, a.issuer.Roles, a.node.Verifier, a.enterNode), Hosts: a.issuer.Authorizations.Hosts, Audit: a.audit, Brand: a.settings.Brand,
		IsServing: a.life.isServing, Enter: a.enterNode,
	}
	for _, p := range a.providers {
		s.Providers = append(s.Providers, hostsession.Provider{
			Provider: p.running.value, Name: p.Name, Origin: originOf(p.ProviderSettings), Rules: p.Rules, Default: p.Default,
		})
	}
	return s
}

// enterNode registers somebody who uses the store of the node.
func (a *App) enterNode(ctx context.Context) (context.Context, func(), error) {
	if !a.node.Enter() {
		return nil, nil, oauth.Unavailable("shutting_down", nil)
	}
	return sqlstore.WithTimeout(ctx), a.node.Leave, nil
}
