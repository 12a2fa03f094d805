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
	"github.com/gatehouse-auth/gatehouse/tokenissuer/registration"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// clientDocuments hold the documents of clients that describe themselves, by all of the settings. They outlive a reload.
var clientDocuments = pool.New(func(d *clientmetadata.Documents) error { d.Close(); return nil })

// provisionDocuments takes the documents from the pool, or makes them: those of clients, and their keys. It fetches nothing.
func (a *App) provisionDocuments() error {
	settings := a.settings.Open.Documents
	settings.Now, settings.OpenID = a.node.StoreTime, a.settings.OpenID
	key := fmt.Sprintf("%p %#v", a.node, []any{settings.Allow, settings.Deny, settings.AllowPrivateNetwork, settings.OpenID})
	use, err := clientDocuments.Take(key, func() (*clientmetadata.Documents, error) { return clientmetadata.New(settings), nil })
	if err != nil {
		return err
	}
	a.uses, a.described = append(a.uses, use), use.Value
	return nil
}

// admitClients says which clients may make themselves known, once all routes are known.
func (a *App) admitClients(found *coverage.Result) {
	open := a.settings.Open
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
	a.issuer.Clients.Open.Publish(admitted)
	if err := a.handler.PublishMetadata(); err != nil {
		a.logger.Error("the metadata do not say which clients are admitted: " + err.Error())
	}
}

// provisionRegistration lets clients register, where the configuration says so.
func (a *App) provisionRegistration() error {
	if a.settings.Open.Registration == nil {
		return nil
	}
	return a.handler.MountRegistration(a.registrar())
}

// registrar registers clients by the rules of the configuration; by none, it removes those that registered by the rules of an earlier one.
func (a *App) registrar() *registration.Registrar {
	g := &registration.Registrar{
		Clients: a.issuer.Clients, Registry: a.registry, Stored: func() store.ClientStore { return a.node.Store() },
	}
	if rules := a.settings.Open.Registration; rules != nil {
		g.Rules = *rules
	}
	return g
}

// unusedInterval is how often clients are looked for that nobody uses.
const unusedInterval = time.Hour

// removeUnusedClients removes clients that registered themselves and are not used, once the issuer has its store and until the configuration
// ends. Several nodes may do it at once.
func (a *App) removeUnusedClients() {
	select {
	case <-a.life.ctx.Done():
		return
	case <-a.node.Done():
		return
	case <-a.life.started:
	}
	registrar := a.registrar()
	for {
		ctx, cancel := context.WithTimeout(a.life.ctx, reconcileTimeout)
		removed, err := registrar.RemoveUnused(ctx, a.node.StoreTime().Add(-registration.UnusedFor))
		cancel()
		if removed > 0 {
			a.logger.Named("audit").Info("clients removed that nobody has used for 30 days", zap.Int("clients", removed))
		}
		if err != nil && !a.life.hasEnded() {
			a.logger.Warn("clients that nobody uses are removed later", zap.Error(err))
		}
		select {
		case <-a.life.ctx.Done():
			return
		case <-a.node.Done():
			return
		case <-time.After(unusedInterval):
		}
	}
}
