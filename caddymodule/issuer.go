package caddymodule

import (
	"context"

	"github.com/gatehouse-auth/gatehouse/caddymodule/caller"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
	gatebrowser "github.com/gatehouse-auth/gatehouse/caddymodule/gate/browser"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer/grants"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/mail"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// provision builds our own issuer, or what keeps the sessions of browsers where there is no issuer for applications.
func (s *service) provision(o *others, u *uses) error {
	if err := s.takeDocuments(u); err != nil {
		return err
	}
	s.issuer = s.newIssuer(o.clientKeys.value)
	if !s.settings.Open.DocumentsOff {
		s.issuer.Clients.Open.Documents = s.documents
	}
	if rules := s.settings.PersonalTokens; rules != nil {
		s.personal = people.NewPersonalTokens(people.TokenIssuer{
			Families: s.issuer.Families, Clients: s.issuer.Clients, Verifier: s.node.Verifier, Roles: s.issuer.Roles, Resources: s.issuer.Resources,
		}, *rules, func() people.TokenStore { return people.TokenStoreOf(s.node.Store().Store) }, s.enterNode)
		s.issuer.Issued.Personal = s.personal
	}
	s.issuer.Families.Imported.AddressOf = func(ctx context.Context) string { return caller.Network(caller.IP(ctx)) }
	s.issuer.SignIns.Pepper = s.settings.SignIn.DevisePepper
	s.issuer.Issued.Imported = issuer.NewImportedTokens(s.issuer, s.enterNode)
	declared := s.settings.Issuer.Declared
	s.registry = &people.Registry{ // serve adds its stores
		Clients: &clients.Registry{Families: s.issuer.Families, Known: s.issuer.Clients, Declared: declared},
		People: &people.Users{
			Families: s.issuer.Families, Roles: s.issuer.Roles, Hasher: s.node.Passwords, Usernames: s.issuer.Issued.Usernames, Declared: declared,
			OpenID: s.settings.Issuer.OpenID, Post: s.issuer.SignIns.Post,
		},
	}
	s.issuer.SignIns.Directories, s.issuer.SignIns.DirectoriesAlone = o.passwordDirectories(s.accounts()), s.settings.SignIn.DirectoriesAlone
	var err error
	if s.handler, err = endpoint.NewHandler(s.issuer, grants.New(s.issuer, o.accepted(&s.settings, s.accounts())), s.audit, counters{}, s.signInMethods(o), s.settings.Pages); err != nil {
		return err
	}
	if s.issues() && s.settings.SignIn.Password && !s.settings.SignIn.DirectoriesAlone {
		s.registry.Links = &people.Links{Users: s.registry.People, Seals: s.issuer.Seals, Page: endpoint.LinkPage(s.issuer.URL)}
		if err := s.handler.OfferLinks(s.registry.Links, s.peopleRegistration(), s.enterNode); err != nil {
			return err
		}
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

// peopleRegistration returns what lets people make accounts; nil: they cannot.
func (s *service) peopleRegistration() *people.Registration {
	rules := s.settings.SignIn.Registration
	if len(rules) == 0 {
		return nil
	}
	links := *s.registry.Links
	links.Page = endpoint.RegistrationPage(s.issuer.URL)
	return &people.Registration{Links: &links, Rules: rules}
}

// newIssuer returns the issuer of the configuration on the node. serve adds what comes with the store.
func (s *service) newIssuer(clientKeys *fetch.KeySets) *issuer.Parts {
	limits := s.settings.Limits
	limits.Attempts = s.node.Attempts
	p := issuer.New(s.settings.Issuer, issuer.Node{
		Keys: s.node.Keys, Verifier: s.node.Verifier, Revocations: s.node.Revocations, Refresh: s.node.Refresh, Now: s.node.StoreTime,
		Hasher: s.node.Passwords, Limits: limits, Post: newPost(s),
	})
	p.Clients.Keys = clients.NewAssertionKeys(clientKeys, s.documents)
	p.Clients.Origins = clients.NewOrigins(s.clients, s.node.StoreTime)
	return p
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
		s.issuer.Families.Opened = families.Opened{
			Store: families.StoreOf(st.Store), Imports: st.Imports, Devices: st.Devices, Directory: store.OverlayDirectory{Declared: s.settings.Issuer.Declared, Stored: st.Directory()},
			Master: s.node.MasterKey(), JTIMAC: s.node.JTIMAC(),
		}
		if post := s.issuer.SignIns.Post; !post.IsOff() {
			post.Opened = mail.Opened{Store: st.Mails, Master: s.node.MasterKey()}
		}
		s.registry.UseStores(st.Clients, people.StoreOf(st.Store))
	})
}

// ownIssuer returns our own issuer for the gates; nil: there is none.
func (s *service) ownIssuer() *gate.OwnIssuer {
	if !s.settings.KeepsState() {
		return nil
	}
	return &gate.OwnIssuer{
		Policy: &s.issuer.Policy, Roles: s.issuer.Roles, PersonalTokens: s.issuer.Issued.Personal, Imported: s.issuer.Issued.Imported,
		Upstreams: token.NewUpstreamTokens(s.delegating()),
		Handler:   s.handler, Verifier: s.node.Verifier, Now: s.node.Now, IsClosing: s.node.Life.IsClosing, Hidden: !s.issues(), IsServing: s.life.isServing,
	}
}

// delegating returns our own issuer for the tokens and assertions that upstreams get in its name.
func (s *service) delegating() token.UpstreamIssuer {
	m, fs := s.issuer.Minter, s.issuer.Families
	return token.UpstreamIssuer{
		URL: m.URL, Assertions: m.Assertions, Now: fs.Now, Birth: fs.IssueTime,
		Credentials: func() token.UpstreamCredentials {
			return token.UpstreamCredentials{Keys: m.Keys, Master: fs.Master, JTIMAC: fs.JTIMAC}
		},
	}
}

// hostSessions returns the settings of the sign-in at hosts behind the gate.
func (s *service) hostSessions(o *others) gatebrowser.Settings {
	return gatebrowser.Settings{
		Direct: !s.issues(), TwoFactors: s.issuer.Authorizations.TwoFactors, Accounts: s.accounts(), Providers: o.hostProviders(),
		Issuer: &s.issuer.Policy, Audit: s.audit, Shown: s.settings.Pages,
		Sessions: signin.NewHostSessions(s.issuer.Sessions, s.issuer.SignIns, s.issuer.Roles, s.node.Verifier, s.enterNode), Hosts: s.issuer.Authorizations.Hosts,
		IsServing: s.life.isServing, Enter: s.enterNode,
	}
}
