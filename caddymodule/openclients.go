package caddymodule

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/coverage"
	"github.com/gatehouse-auth/gatehouse/caddymodule/pool"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clientmetadata"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// clientDocuments holds the metadata documents of clients, by all settings that make a difference. They outlive a reload.
var clientDocuments = pool.New(func(d *clientmetadata.Documents) error { d.Close(); return nil })

// takeDocuments takes the metadata documents of clients from the pool. It fetches nothing.
func (s *service) takeDocuments(u *uses) error {
	settings := s.settings.Open.Documents
	settings.Now, settings.OpenID = s.node.StoreTime, s.settings.Issuer.OpenID
	key := fmt.Sprintf("%p %#v", s.node, []any{settings.Allow, settings.Deny, settings.AllowPrivateNetwork, settings.OpenID})
	use, err := clientDocuments.Take(key, func() (*clientmetadata.Documents, error) { return clientmetadata.New(settings), nil })
	if err != nil {
		return err
	}
	s.documents = keep(u, use)
	return nil
}

// admitClients publishes which clients may describe or register themselves, once all routes are known.
func (s *service) admitClients(found *coverage.Result) {
	open := s.settings.Open
	orOfAgents := func(scopes oauth.Scopes) oauth.Scopes {
		if len(scopes) == 0 {
			return found.AgentScopes
		}
		return scopes
	}
	admitted := clients.Admitted{
		Documents:      open.DocumentsOn || found.Agents && !open.DocumentsOff,
		DocumentScopes: orOfAgents(open.DocumentScopes), RegistrationScopes: orOfAgents(open.RegistrationScopes),
	}
	s.issuer.Clients.Open.Publish(admitted)
	if err := s.handler.PublishMetadata(); err != nil {
		s.logger.Error("the metadata do not say which clients are admitted: " + err.Error())
	}
}

// registrar returns what registers clients by the rules of the configuration. Without rules it only removes clients that have registered
// by the rules of an earlier configuration.
func (s *service) registrar() *clients.Registrar {
	g := &clients.Registrar{Clients: s.registry.Clients}
	if rules := s.settings.Open.Registration; rules != nil {
		g.RegistrationRules = *rules
	}
	return g
}

// unusedInterval is the time between two searches for unused clients.
const unusedInterval = time.Hour

// removeUnusedClients removes clients that registered themselves and are not used, from the time at which the issuer has its store until
// the configuration ends. Several nodes may do it at once.
func (s *service) removeUnusedClients() {
	select {
	case <-s.life.ctx.Done():
		return
	case <-s.node.Life.Done():
		return
	case <-s.life.started:
	}
	registrar := s.registrar()
	for {
		ctx, cancel := context.WithTimeout(s.life.ctx, reconcileTimeout)
		removed, err := registrar.RemoveUnused(ctx, s.node.StoreTime().Add(-clients.UnusedFor))
		cancel()
		if removed > 0 {
			s.logger.Named("audit").Info("clients removed that nobody has used for 30 days", zap.Int("clients", removed))
		}
		if err != nil && !s.life.hasEnded() {
			s.logger.Warn("clients that nobody uses are removed later", zap.Error(err))
		}
		select {
		case <-s.life.ctx.Done():
			return
		case <-s.node.Life.Done():
			return
		case <-time.After(unusedInterval):
		}
	}
}
