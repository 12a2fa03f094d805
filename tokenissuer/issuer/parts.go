package issuer

import (
	"context"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/mail"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// Parts are the components of an authorization server (RFC 6749 §1.1). Each endpoint and each grant type uses those that it needs.
type Parts struct {
	Settings
	Families       *families.Families
	Clients        *clients.Clients
	SignIns        *signin.SignIns
	Sessions       *signin.Sessions
	Seals          *signin.Seals
	Minter         *Minter
	Authorizations *Authorizations
	SignOuts       *SignOuts
	Issued         *IssuedTokens
	UserTokens     *UserTokens
	// Resources are those for which clients can request tokens.
	Resources *oauth.Resources
}

// Node holds what an issuer uses of its process.
type Node struct {
	Keys        *keys.Set
	Verifier    *token.Verifier
	Revocations *token.RevocationSet
	// Refresh updates Revocations to the current state of the store. If it is nil, they are always current.
	Refresh func(context.Context) error
	// Now is the clock, which all nodes share.
	Now    func() time.Time
	Hasher *passwords.Hasher
	Limits attempts.Limits
	// Post sends letters to people; nil: there is no mail.
	Post *mail.Post
}

// New returns the parts of an issuer. The caller sets Families.Opened when the store is open, before the first request. The caches belong
// to these settings, because the settings may declare clients and users.
func New(s Settings, n Node) *Parts {
	fs := &families.Families{
		Remembered: token.NewFamilyCache(), Revocations: n.Revocations, Refresh: n.Refresh, Now: n.Now, NodeNow: n.Now,
		Lifetimes: s.Lifetimes, Limits: &n.Limits,
	}
	fs.Imported = families.NewImported(fs)
	if n.Verifier != nil {
		fs.NodeNow = n.Verifier.Now
	}
	p := &Parts{Settings: s, Families: fs, Resources: new(oauth.Resources)}
	p.Clients = &clients.Clients{Policy: s.Policy, Families: fs, Authenticated: clients.NewCache(), Hasher: n.Hasher, Limits: &n.Limits}
	p.SignIns = &signin.SignIns{
		Families: fs, Hasher: n.Hasher, DeclaredSchemes: s.DeclaredSchemes, Limits: &n.Limits, Post: n.Post,
		Factors: &signin.Factors{Families: fs, FactorPolicy: s.Factors, Post: n.Post},
	}
	if !s.Factors.Required.IsZero() {
		fs.Suffices = p.SignIns.Factors.Suffices
	}
	p.Sessions = &signin.Sessions{Families: fs, Clients: p.Clients, Limits: s.Sessions}
	p.Seals = &signin.Seals{Families: fs}
	p.Minter = &Minter{
		Families: fs, URL: s.URL, Audience: s.Audience, Roles: s.Roles, OpenID: s.OpenID, Keys: n.Keys, Assertions: new(keys.AssertionKeys),
		Verifier: n.Verifier,
	}
	p.Authorizations = &Authorizations{
		Families: fs, Clients: p.Clients, Keys: n.Keys, PKCERequired: s.PKCERequired, TwoFactors: s.Factors.CanAdd(),
		Resources: p.Resources, Hosts: new(oauth.Hosts),
	}
	p.SignOuts = &SignOuts{Families: fs, URL: s.URL, Keys: n.Keys}
	p.Issued = &IssuedTokens{
		Families: fs, Clients: p.Clients, Verifier: n.Verifier, Usernames: token.NewUsernameCache(), Limits: &n.Limits,
	}
	p.UserTokens = &UserTokens{Families: fs, Clients: p.Clients, Minter: p.Minter, Resources: p.Resources}
	return p
}
