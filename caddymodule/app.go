package caddymodule

import (
	"encoding/json"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/caddymodule/caller"
	"github.com/gatehouse-auth/gatehouse/caddymodule/configuration"
	"github.com/gatehouse-auth/gatehouse/caddymodule/console"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

func init() {
	caddy.RegisterModule(new(App))
	httpcaddyfile.RegisterGlobalOption("oauth", parseGlobalOption)
}

// App is the app `oauth`: its JSON, and what Caddy calls. The handlers `oauth_server` and `protect` use it.
type App struct {
	configuration.Block

	others  *others
	service *service // nil until Provision has read the configuration
	guarded *guarded
	gates   *gate.Shared
	// starting is nil before Start.
	starting *starting
	uses     uses
	console  *console.Parts // nil: there is none
}

// CaddyModule returns the module's id.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "oauth", New: func() caddy.Module { return new(App) }}
}

// parseGlobalOption reads the global option `oauth`, whose grammar is documented at the parsers of its lines. Several blocks, as imported
// files have them, become one.
func parseGlobalOption(d *caddyfile.Dispenser, existing any) (any, error) {
	app := new(App)
	if earlier, ok := existing.(httpcaddyfile.App); ok {
		if err := json.Unmarshal(earlier.Value, app); err != nil {
			return nil, d.WrapErr(err)
		}
	}
	if err := app.UnmarshalCaddyfile(d); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "oauth", Value: caddyconfig.JSON(app, nil)}, nil
}

// Provision reads the configuration and builds what it declares. It works offline: `caddy validate` runs it.
func (a *App) Provision(ctx caddy.Context) error {
	if err := a.provision(ctx); err != nil {
		return fmt.Errorf("oauth: %w", err)
	}
	return nil
}

func (a *App) provision(ctx caddy.Context) error {
	a.guarded = &guarded{ctx: ctx, logger: ctx.Logger()}
	if err := registerMetrics(ctx.GetMetricsRegistry()); err != nil {
		return err
	}
	settings, err := a.Read()
	if err != nil {
		return err
	}
	logger, n := ctx.Logger(), (*node.Node)(nil)
	if settings.KeepsState() {
		use, err := node.Acquire(settings.Node, settings.Sealer)
		if err != nil {
			return err
		}
		n = keep(&a.uses, use)
		logger = logger.WithOptions(n.Audit.Kept())
	}
	a.service = &service{
		settings: settings, sources: a.Sources, logger: logger, audit: endpoint.NewAudit(logger.Named("audit"), caller.Address), life: newLifecycle(), node: n,
	}
	if a.others, err = takeOthers(&settings, a.Sources, &a.uses); err != nil {
		return err
	}
	if settings.KeepsState() {
		a.Warn(logger, &settings)
		if err := a.others.takeClientKeys(a.ClientKeys, &a.uses); err != nil {
			return err
		}
		if err := a.service.provision(a.others, &a.uses); err != nil {
			return err
		}
	}
	a.gates = gate.NewShared(a.service.logger, a.service.audit, node.Clock, a.service.ownIssuer(), a.others.forGates())
	a.guarded.service, a.guarded.gates, a.guarded.issuer = a.service, a.gates, coveredIssuer(&a.Block, a.service)
	if settings.KeepsState() {
		a.gates.UseHostSessions(a.service.hostSessions(a.others))
	}
	if operators := settings.Operators; operators != nil {
		a.console = &console.Parts{Operators: operators, Pages: settings.Pages, Audit: a.service.audit}
	}
	return nil
}

// Start opens the store, unless the previous configuration used the same one, and begins to serve. It returns no error when a
// database server cannot be reached: the app begins to serve as soon as it can.
func (a *App) Start() error {
	if err := a.guarded.examine(); err != nil {
		return fmt.Errorf("oauth: %w", err)
	}
	a.others.start(a.guarded.ctx.Storage())
	m := &mailer{service: a.service}
	a.starting = &starting{a.service, newTarget(a.service, a.others, a.guarded, m), a.about(), newRechecks(a.service, a.others), m}
	a.console.Serve(a.starting.target)
	if err := a.starting.start(); err != nil {
		return fmt.Errorf("oauth: %w", err)
	}
	return nil
}

// NoteHTTP records the app whose handler is being provisioned. Asking for it by name would load a second one from here.
func (a *App) NoteHTTP(ctx caddy.Context) { a.guarded.noteHTTP(ctx) }

// Gates returns what the gates of the configuration share.
func (a *App) Gates() *gate.Shared { return a.gates }

// Console returns the parts of the console; nil: there is none.
func (a *App) Console() *console.Parts { return a.console }

// CheckScopes refuses scopes that no token can hold. Which scopes the tokens of other issuers hold is not known here.
func (a *App) CheckScopes(names oauth.Scopes) error {
	if a.service.settings.KeepsState() && len(a.others.trusted) == 0 {
		return a.service.settings.Issuer.Scopes.Check(names)
	}
	return oauth.CheckScopeNames(names)
}

// Stop ends what the configuration does in the background. Its requests go on: Cleanup releases what they need.
func (a *App) Stop() error {
	if a.service != nil {
		a.service.life.stop()
	}
	if a.starting != nil {
		admin.Withdraw(a.starting.target)
	}
	return nil
}

// Cleanup releases the node, the trusted issuers and the providers. It accepts an app whose Provision failed half-way.
func (a *App) Cleanup() error {
	if a.guarded != nil {
		a.guarded.examineValidated()
	}
	return a.uses.release()
}

// Interface guards.
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)
