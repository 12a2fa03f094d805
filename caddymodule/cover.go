package caddymodule

import (
	"context"
	"runtime/debug"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/configuration"
	"github.com/gatehouse-auth/gatehouse/caddymodule/coverage"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
)

// guarded is the HTTP app of a configuration, and what protects its routes.
type guarded struct {
	ctx    caddy.Context
	logger *zap.Logger
	http   *caddyhttp.App                  // nil until one of our handlers has been provisioned
	found  atomic.Pointer[coverage.Result] // nil before examine

	// These are set at the end of Provision.
	service *service
	gates   *gate.Shared
	issuer  *coverage.Issuer // nil: there is none
}

func (g *guarded) noteHTTP(ctx caddy.Context) {
	for _, module := range ctx.Modules() {
		if app, ok := module.(*caddyhttp.App); ok {
			g.http = app
		}
	}
}

// examine finds out what protects each route, logs warnings, and publishes the metadata of the routes. The configuration has to be
// provisioned as a whole. The error says why it cannot be served.
func (g *guarded) examine() (err error) {
	defer func() {
		if reason := recover(); reason != nil { // a handler that Caddy knows and we do not; requests go on
			g.logger.Error("panic while looking at the routes", zap.Any("panic", reason), zap.ByteString("stack", debug.Stack()))
		}
	}()
	defer g.gates.NoteRoutes()
	g.found.Store(new(coverage.Result))
	if g.http == nil { // there is neither `protect` nor `oauth_server`
		if app, missing := g.ctx.AppIfConfigured("http"); missing == nil {
			g.http = app.(*caddyhttp.App)
		}
	}
	found, err := coverage.Examine(g.http, g.issuer, g.service.metadata)
	g.found.Store(found)
	if s := g.service; s.settings.KeepsState() {
		s.issuer.Resources.Publish(found.Resources, found.AgentResources)
		s.issuer.Authorizations.Hosts.Publish(found.Hosts)
		s.admitClients(found)
	}
	for _, warning := range found.Warnings {
		g.logger.Warn(warning)
	}
	return err
}

// metadata returns the handler for the metadata of resources.
func (s *service) metadata(resources []endpoint.ResourceMetadata) *endpoint.Resources {
	return endpoint.NewResources(s.audit, counters{}, resources)
}

// coveredIssuer returns what the warnings about routes need of our own issuer; nil: there is none.
func coveredIssuer(b *configuration.Block, s *service) *coverage.Issuer {
	if !s.issues() {
		return nil
	}
	is := &s.settings.Issuer
	return &coverage.Issuer{
		URL: is.URL, Audience: is.Audience[0], Audiences: is.Audience, Scopes: is.Scopes.Names(),
		Metadata: endpoint.ResourceMetadataURL(&s.issuer.Policy), Source: b.Sources["issuer"],
		SignsIn:    len(b.Users) > 0 || b.SignIn != nil || b.OpenID != nil || b.Registration != nil,
		HasConsole: b.Console != nil, ConsoleSource: b.Sources["console"],
		KeysInTheClear: (b.Keys == nil || b.Keys.EncryptWith == "") && s.settings.Node.Store != node.Memory,
	}
}

// examineValidated examines the routes for `caddy validate`, which provisions everything and starts nothing. Caddy has found the
// configuration good by then, so that an error can only be logged.
func (g *guarded) examineValidated() {
	if g.found.Load() != nil {
		return
	}
	if g.http == nil { // none of our handlers was provisioned, which also happens in a configuration that was refused half-way
		if cause := context.Cause(g.ctx); cause == nil || cause.Error() != causeValidated {
			return
		}
	} else if _, err := g.ctx.AppIfConfigured("http"); err != nil { // it was refused
		return
	}
	if err := g.examine(); err != nil {
		g.logger.Error("this configuration will not be loaded", zap.Error(err))
	}
}

// causeValidated is the cause with which Caddy ends a configuration that it has found good and does not start.
const causeValidated = "validation complete"
