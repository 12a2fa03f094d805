package caddymodule

import (
	"context"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
	gatebrowser "github.com/gatehouse-auth/gatehouse/caddymodule/gate/browser"
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/assertion"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/hosts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/memory"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/personaltoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/registry"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// provision builds our own issuer, or what keeps the sessions of browsers where there is no issuer for applications.
func (s *service) provision(o *others, u *uses) error {
	use, err := node.Acquire(s.settings.Node, s.settings.Sealer)
	if err != nil {
		return err
	}
	s.node = keep(u, use)
	if err := s.takeDocuments(u); err != nil {
		return err
	}
	s.issuer = s.newIssuer(o.clientKeys.value)
	if !s.settings.Open.DocumentsOff {
		s.issuer.Open.Documents = s.documents
	}
	if rules := s.settings.PersonalTokens; rules != nil {
		s.personal = personaltoken.New(s.issuer, *rules, func() personaltoken.Store { return s.node.Store() }, s.enterNode)
		s.issuer.PersonalTokens = s.personal
	}
	s.registry = registry.New(s.issuer, s.settings.Issuer.Declared, nil, nil) // serve adds its store
	s.issuer.PasswordDirectories, s.issuer.DirectoriesAlone = o.passwordDirectories(s.accounts()), s.settings.SignIn.DirectoriesAlone
	s.issuer.Accepted = o.accepted(&s.settings, s.accounts())
	if s.handler, err = endpoint.NewHandler(s.issuer, s.audit, counters{}, s.signInMethods(o), s.settings.Brand); err != nil {
		return err
	}
	if s.personal != nil {
		s.handler.OfferPersonalTokens(s.personal)
	}
	if s.settings.Open.Registration != nil {
		if err := s.handler.MountRegistration(s.registrar()); err != nil {
			return err
		}
	}
	// Apps start in no order, so the listeners of the new configuration may be open before Start has run. If the running configuration has
	// opened the node, requests need not wait for Start.
	if s.node.IsOpen() {
		if err := s.checkStored(glanceTimeout); err == nil || isUnavailable(err) { // Start reports any other error
			s.unchecked = err
			s.serve()
		}
	}
	return nil
}

// newIssuer combines the configuration and the node. Start adds the store and the master key.
func (s *service) newIssuer(clientKeys *fetch.KeySets) *tokenissuer.Issuer {
	limits := s.settings.Limits
	limits.Attempts = s.node.Attempts
	return &tokenissuer.Issuer{
		Records: tokenissuer.Records{
			ClientKeys:    assertion.NewKeys(clientKeys, s.documents),
			Authenticated: memory.NewClientCache(),  // of this configuration, which may declare clients
			Usernames:     token.NewUsernameCache(), // likewise: it may declare users
			Families:      token.NewFamilyCache(),   // likewise
			Revocations:   s.node.Revocations,
			Refresh:       s.node.Refresh,
			Now:           s.node.StoreTime,
		},
		Credentials: tokenissuer.Credentials{
			Keys:       s.node.Keys,
			Assertions: new(keys.AssertionKeys),
			Verifier:   s.node.Verifier,
		},
		Settings: s.settings.Issuer,
		Hasher:   s.node.Passwords,
		Origins:  memory.NewOrigins(s.clients, s.node.StoreTime),
		Limits:   limits,
	}
}

// clients lists the declared and the stored clients, once there is a store.
func (s *service) clients(ctx context.Context) ([]*store.Client, error) {
	if !s.life.hasStarted() {
		return nil, oauth.Unavailable("not_started", nil)
	}
	return s.registry.Clients.Clients(ctx)
}

// serve gives the issuer its store, and admits requests.
func (s *service) serve() {
	s.life.start(func() {
		st := s.node.Store()
		s.issuer.Store, s.issuer.Master, s.issuer.JTIMAC = st, s.node.MasterKey(), s.node.JTIMAC()
		s.issuer.Directory = store.OverlayDirectory{Declared: s.settings.Issuer.Declared, Stored: st}
		s.registry.UseStores(st, st)
	})
}

// ownIssuer returns our own issuer for the gates; nil: there is none.
func (s *service) ownIssuer() *gate.OwnIssuer {
	if !s.settings.KeepsState() {
		return nil
	}
	return &gate.OwnIssuer{
		Settings:  &s.issuer.Settings,
		Upstreams: token.NewUpstreamTokens(s.delegating()),
		Handler:   s.handler, Verifier: s.node.Verifier, Now: s.node.Now, IsClosing: s.node.Life.IsClosing, Hidden: !s.issues(), IsServing: s.life.isServing,
	}
}

// delegating returns our own issuer for the tokens and assertions that upstreams get in its name.
func (s *service) delegating() token.UpstreamIssuer {
	is := s.issuer
	return token.UpstreamIssuer{
		URL: is.URL, Assertions: is.Assertions, Now: is.Now, Birth: func() time.Time { return is.Birth(is.Now()) },
		Credentials: func() token.UpstreamCredentials {
			return token.UpstreamCredentials{Keys: is.Keys, Master: is.Master, JTIMAC: is.JTIMAC}
		},
	}
}

// hostSessions returns the settings of the sign-in at hosts behind the gate.
func (s *service) hostSessions(o *others) gatebrowser.Settings {
	return gatebrowser.Settings{
		Direct: !s.issues(), Accounts: s.accounts(), Providers: o.hostProviders(),
		Issuer: &s.issuer.Settings, Sessions: hosts.New(s.issuer, s.enterNode), Hosts: &s.issuer.Hosts, Audit: s.audit, Brand: s.settings.Brand,
		IsServing: s.life.isServing, Enter: s.enterNode,
	}
}
