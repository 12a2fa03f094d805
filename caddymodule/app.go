package caddymodule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/caddymodule/caller"
	"github.com/gatehouse-auth/gatehouse/caddymodule/configuration"
	"github.com/gatehouse-auth/gatehouse/caddymodule/coverage"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/assertion"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clientmetadata"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer/grants"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/memory"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/personaltoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/registry"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

func init() {
	caddy.RegisterModule(new(App))
	httpcaddyfile.RegisterGlobalOption("oauth", parseGlobalOption)
}

// App is the issuer: who it is, which clients and people it knows, where it keeps its state. The handlers `oauth_server` and
// `protect` use it.
type App struct {
	configuration.Block

	logger   *zap.Logger
	audit    *endpoint.Audit
	settings configuration.Settings
	node     *node.Node // nil without an Issuer
	trusted  []*trustedIssuer
	// providers are where people sign in, beside here.
	providers []*identityProvider
	// clientKeys are those that clients publish; nil without an issuer.
	clientKeys *running[*fetch.KeySets]
	// directories are those in which people have passwords, beside here.
	directories []*peopleDirectory

	// described are the documents of clients that describe themselves, and the keys of clients that made themselves known.
	described *clientmetadata.Documents
	// uses are of what outlives the configuration, in the order in which they were taken.
	uses []interface{ Release() error }

	issuer   *issuer.Parts
	personal *personaltoken.Tokens // nil: there are none
	handler  *endpoint.Handler
	registry *registry.Registry
	life     *lifecycle // nil when Provision has failed
	// unchecked is why the store could not be asked in Provision, when it was open already; Start does not ask it again.
	unchecked error
	// target is what operators ask; nil before Start.
	target *admin.Target

	// http is the app whose routes are guarded, once one of our handlers has met it.
	http    *caddyhttp.App
	ctx     caddy.Context
	covered atomic.Pointer[coverage.Result] // nil before Start

	gates *gate.Shared
}

// CaddyModule returns the module's id.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "oauth", New: func() caddy.Module { return new(App) }}
}

// parseGlobalOption reads the global option `oauth`, whose grammar stands at the parsers of its lines. Several blocks, as
// imported files have them, become one.
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

// Provision reads the configuration. It works offline: `caddy validate` runs it.
func (a *App) Provision(ctx caddy.Context) error {
	a.ctx, a.logger = ctx, ctx.Logger()
	a.audit = endpoint.NewAudit(a.logger.Named("audit"), caller.Address)
	if err := registerMetrics(ctx.GetMetricsRegistry()); err != nil {
		return fmt.Errorf("oauth: %w", err)
	}
	var err error
	if a.settings, err = a.Read(); err != nil {
		return fmt.Errorf("oauth: %w", err)
	}
	if err := a.provisionTrust(); err != nil {
		return fmt.Errorf("oauth: %w", err)
	}
	if err := a.provisionProviders(); err != nil {
		return fmt.Errorf("oauth: %w", err)
	}
	a.life = newLifecycle()
	if a.keepsState() {
		if err := a.provisionIssuer(); err != nil {
			return fmt.Errorf("oauth: %w", err)
		}
	}
	a.gates = gate.NewShared(a.logger, a.audit, node.Clock, a.ownIssuer(), a.trustedIssuers())
	if a.keepsState() {
		return a.gates.UseHostSessions(a.hostSessions())
	}
	return nil
}

// provisionIssuer makes our own issuer, or what keeps the sessions where there is none for others.
func (a *App) provisionIssuer() error {
	a.Warn(a.logger, a.settings)
	if err := a.provisionClientKeys(); err != nil {
		return err
	}
	use, err := node.Acquire(a.settings.Node, a.settings.Sealer)
	if err != nil {
		return err
	}
	a.uses, a.node = append(a.uses, use), use.Value
	if err := a.provisionDocuments(); err != nil {
		return err
	}
	a.issuer = a.newIssuer()
	if !a.settings.Open.DocumentsOff {
		a.issuer.Clients.Open.Documents = a.described
	}
	if rules := a.settings.PersonalTokens; rules != nil {
		a.personal = personaltoken.New(personaltoken.Issuer{
			Families: a.issuer.Families, Clients: a.issuer.Clients, Verifier: a.node.Verifier, Roles: a.issuer.Roles, Resources: a.issuer.Resources,
		}, *rules, func() personaltoken.Store { return a.node.Store() }, a.enterNode)
		a.issuer.Issued.Personal = a.personal
	}
	a.registry = &registry.Registry{ // its store is set in serve
		Families: a.issuer.Families, Known: a.issuer.Clients, Roles: a.issuer.Roles, Hasher: a.node.Passwords, Usernames: a.issuer.Issued.Usernames,
		Declared: a.settings.Declared,
	}
	a.issuer.SignIns.Directories, a.issuer.SignIns.DirectoriesAlone = a.passwordDirectories(), a.settings.SignIn.DirectoriesAlone
	if a.handler, err = endpoint.NewHandler(a.issuer, grants.New(a.issuer, a.accepted()), a.audit, counters{}, a.signInMethods(), a.settings.Brand); err != nil {
		return err
	}
	if a.personal != nil {
		a.handler.OfferPersonalTokens(a.personal)
	}
	if err := a.provisionRegistration(); err != nil {
		return err
	}
	// Apps start in no order, so the new configuration's listeners may be open before Start has run. When the one that
	// runs now has opened the node, nothing is left to wait for.
	if a.node.IsOpen() {
		if err := a.checkStored(glanceTimeout); err == nil || isUnavailable(err) { // else Start says what is wrong
			a.unchecked = err
			a.serve()
		}
	}
	return nil
}

// issues reports whether there is an issuer of our own, at which people and clients can be.
func (a *App) issues() bool { return a.settings.URL != "" && !a.settings.SessionsOnly }

// keepsState reports whether there is a store: of an issuer, or of the sessions of browsers that sign in at providers. Without one the
// app is a gate for tokens of others.
func (a *App) keepsState() bool { return a.settings.URL != "" }

// newIssuer returns the issuer of the configuration on the node. serve sets what comes with the store.
func (a *App) newIssuer() *issuer.Parts {
	limits := a.settings.Limits
	limits.Attempts = a.node.Attempts
	p := issuer.New(a.settings.Settings, issuer.Node{
		Keys: a.node.Keys, Verifier: a.node.Verifier, Revocations: a.node.Revocations, Refresh: a.node.Refresh, Now: a.node.StoreTime,
		Hasher: a.node.Passwords, Limits: limits,
	})
	p.Clients.Keys = assertion.NewKeys(a.clientKeys.value, a.described)
	p.Clients.Origins = memory.NewOrigins(a.clients, a.node.StoreTime)
	return p
}

// clients lists the clients, declared and stored, once there is a store.
func (a *App) clients(ctx context.Context) ([]*store.Client, error) {
	if !a.life.hasStarted() {
		return nil, oauth.Unavailable("not_started", nil)
	}
	return a.registry.Clients(ctx)
}

// ownIssuer is our own issuer for the gates; nil: there is none.
func (a *App) ownIssuer() *gate.OwnIssuer {
	if !a.keepsState() {
		return nil
	}
	return &gate.OwnIssuer{
		Policy: &a.issuer.Policy, Roles: a.issuer.Roles, PersonalTokens: a.issuer.Issued.Personal,
		Upstreams: token.NewUpstreamTokens(a.delegating()),
		Handler:   a.handler, Verifier: a.node.Verifier, Node: a.node, Hidden: !a.issues(), IsServing: a.life.isServing,
	}
}

// delegating is our own issuer for those who tell upstreams in its name.
func (a *App) delegating() token.UpstreamIssuer {
	m, fs := a.issuer.Minter, a.issuer.Families
	return token.UpstreamIssuer{
		URL: m.URL, Assertions: m.Assertions, Now: fs.Now, Birth: fs.IssueTime,
		Credentials: func() token.UpstreamCredentials {
			return token.UpstreamCredentials{Keys: m.Keys, Master: fs.Master, JTIMAC: fs.JTIMAC}
		},
	}
}

// trustedIssuers are the issuers of others for the gates.
func (a *App) trustedIssuers() []gate.TrustedIssuer {
	var list []gate.TrustedIssuer
	for _, t := range a.trusted {
		list = append(list, gate.TrustedIssuer{Name: t.Name, URL: t.Settings.Issuer, Audience: t.Audience, Issuer: t.running.value, Life: t.running.life})
	}
	return list
}

// Gates returns what the gates of the configuration share.
func (a *App) Gates() *gate.Shared { return a.gates }

// CheckScopes refuses scopes that no token can hold. What other issuers know nobody here can tell.
func (a *App) CheckScopes(names oauth.Scopes) error {
	if a.keepsState() && len(a.trusted) == 0 {
		return a.settings.Scopes.Check(names)
	}
	return oauth.CheckScopeNames(names)
}

// Stop ends what the configuration does in the background. Its requests go on: Cleanup releases what they need.
func (a *App) Stop() error {
	if a.life != nil {
		a.life.stop()
	}
	admin.Withdraw(a.target)
	return nil
}

// Cleanup releases the node, the trusted issuers and the providers. It accepts an app whose Provision failed half-way.
func (a *App) Cleanup() error {
	a.coverValidated()
	var released error
	for _, use := range slices.Backward(a.uses) { // what was taken later may use what was taken before
		released = errors.Join(released, use.Release())
	}
	return released
}

// Interface guards.
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)
