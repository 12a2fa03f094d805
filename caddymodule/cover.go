package caddymodule

import (
	"context"
	"runtime/debug"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/coverage"
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
)

// NoteHTTP remembers the app whose handler is being provisioned. Asking for it by name would load it once more from here.
func (a *App) NoteHTTP(ctx caddy.Context) {
	for _, module := range ctx.Modules() {
		if app, ok := module.(*caddyhttp.App); ok {
			a.http = app
		}
	}
}

// cover finds out what protects the routes, says what looks wrong, and tells the handlers where their metadata are. It is
// for a configuration that has been provisioned as a whole, and returns an error if it cannot be served.
func (a *App) cover() (err error) {
	defer func() {
		if reason := recover(); reason != nil { // a handler that Caddy knows and we do not; requests go on
			a.logger.Error("panic while looking at the routes", zap.Any("panic", reason), zap.ByteString("stack", debug.Stack()))
		}
	}()
	defer a.gates.NoteRoutes()
	a.covered.Store(new(coverage.Result))
	if a.http == nil { // there is neither `protect` nor `oauth_server`
		if app, missing := a.ctx.AppIfConfigured("http"); missing == nil {
			a.http = app.(*caddyhttp.App)
		}
	}
	found, err := coverage.Examine(a.http, a.coveredIssuer(), a.documents)
	a.covered.Store(found)
	if a.keepsState() {
		a.issuer.Resources.Publish(found.Resources, found.AgentResources)
		a.issuer.Authorizations.Hosts.Publish(found.Hosts)
		a.admitClients(found)
	}
	for _, warning := range found.Warnings {
		a.logger.Warn(warning)
	}
	return err
}

// documents serves the metadata of resources.
func (a *App) documents(resources []endpoint.ResourceMetadata) *endpoint.Resources {
	return endpoint.NewResources(a.audit, counters{}, resources)
}

// coveredIssuer returns the issuer whose routes are examined; nil: this configuration has none.
func (a *App) coveredIssuer() *coverage.Issuer {
	if !a.issues() {
		return nil
	}
	return &coverage.Issuer{
		URL: a.settings.URL, Audience: a.settings.Audience[0], Audiences: a.settings.Audience, Scopes: a.settings.Scopes.Names(),
		Metadata: endpoint.ResourceMetadataURL(&a.issuer.Policy), Source: a.Sources["issuer"],
		SignsIn:        len(a.Users) > 0 || a.SignIn != nil || a.OpenID != nil || a.Registration != nil,
		KeysInTheClear: (a.Keys == nil || a.Keys.EncryptWith == "") && a.settings.Node.Store != node.Memory,
	}
}

// coverValidated does it for `caddy validate`, which provisions everything and starts nothing. Caddy has found the configuration good by
// then, so that an error can only be logged.
func (a *App) coverValidated() {
	if a.covered.Load() != nil {
		return
	}
	if a.http == nil { // none of our handlers was met, which says nothing of a configuration that was refused half-way
		if a.ctx.Context == nil {
			return // it was not provisioned
		}
		if cause := context.Cause(a.ctx); cause == nil || cause.Error() != causeValidated {
			return
		}
	} else if _, err := a.ctx.AppIfConfigured("http"); err != nil { // it is not whole
		return
	}
	if err := a.cover(); err != nil {
		a.logger.Error("this configuration will not be loaded", zap.Error(err))
	}
}

// causeValidated is why Caddy ends a configuration that it has found good and does not start.
const causeValidated = "validation complete"
