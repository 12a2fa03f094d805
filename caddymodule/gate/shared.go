package gate

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/caller"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/browser"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
	"github.com/gatehouse-auth/gatehouse/caddymodule/hostpaths"
	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/trust"
)

// Shared is the state that all gates of one configuration share. The oauth block creates it, and closes it with the
// configuration.
type Shared struct {
	logger *zap.Logger
	audit  *endpoint.Audit
	now    func() time.Time
	own    *OwnIssuer // nil: only tokens of other issuers pass
	others []TrustedIssuer

	hosts  *browser.Handler // nil: browsers sign in at no host
	turns  turns
	routes routesKnown

	cookies          []string // names of our cookies; none without an issuer, where applications may use them
	identityHeaders  []string // names that any `protect` of this configuration sets beyond the defaults
	reservedPrefixes []string // prefixes of external ids in exchanged tokens: the names of their trusts
	// identityGuard removes all identity headers from client requests. The first request creates it, when every `protect`
	// is known.
	identityGuard func() *identity.Guard
}

// routesKnown is done once all routes are known, and every gate that was found in them knows its resource.
type routesKnown struct {
	done chan struct{}
	note func()
}

func newRoutesKnown() routesKnown {
	done := make(chan struct{})
	return routesKnown{done, sync.OnceFunc(func() { close(done) })}
}

// OwnIssuer is our own issuer, as gates use it.
type OwnIssuer struct {
	*clients.Policy
	Roles store.RoleCatalogue
	// PersonalTokens are the personal access tokens; nil: there are none.
	PersonalTokens issuer.PersonalTokens
	// Imported are the access tokens of another server; nil: there are none.
	Imported  *issuer.ImportedTokens
	Upstreams *token.UpstreamTokens
	Handler   *endpoint.Handler
	Verifier  OwnVerifier
	// Now returns the time by the node's clock.
	Now func() time.Time
	// IsClosing reports whether no configuration uses the node any longer. It then receives no revocations.
	IsClosing func() bool
	// Hidden: it only keeps the sessions of browsers that sign in at providers. It issues no tokens, and its URL is not published.
	Hidden bool
	// IsServing reports whether the issuer has its store. It waits briefly if not.
	IsServing func(context.Context) bool
}

// TrustedIssuer is an external issuer that `protect` may name.
type TrustedIssuer struct {
	Name     string
	URL      string
	Audience []string
	Issuer   *trust.Issuer
	// Life is done once no configuration trusts the issuer.
	Life context.Context
}

// NewShared returns the shared state of a configuration's gates. Own is nil without an issuer of our own.
func NewShared(logger *zap.Logger, audit *endpoint.Audit, now func() time.Time, own *OwnIssuer, others []TrustedIssuer) *Shared {
	s := &Shared{logger: logger, audit: audit, now: now, own: own, others: others, turns: newTurns(), routes: newRoutesKnown()}
	s.identityGuard = sync.OnceValue(func() *identity.Guard { return identity.NewGuard(s.identityHeaders) })
	if own != nil {
		s.cookies = append(endpoint.CookieNames(own.URL), browser.CookieNames()...)
	}
	return s
}

// NoteRoutes records that all routes are known and every gate in them knows its resource.
func (s *Shared) NoteRoutes() { s.routes.note() }

func (s *Shared) knowsRoutes() bool {
	select {
	case <-s.routes.done:
		return true
	default:
		return false
	}
}

// maxWaitForRoutes bounds AwaitRoutes, which normally takes milliseconds: the routes need neither store nor network.
const maxWaitForRoutes = 3 * time.Second

// AwaitRoutes waits until all routes are known. Apps start in no order: after a reload, requests may come before that.
func (s *Shared) AwaitRoutes(ctx context.Context) error {
	timer := time.NewTimer(maxWaitForRoutes)
	defer timer.Stop()
	select {
	case <-s.routes.done:
		return nil
	case <-ctx.Done():
	case <-timer.C:
	}
	return oauth.Unavailable("not_started", nil)
}

// host is the part of the oauth block that gates use.
type host interface {
	// Gates returns the shared state.
	Gates() *Shared
	// NoteHTTP records the HTTP app whose routes the gates protect.
	NoteHTTP(ctx caddy.Context)
}

// sharedOf returns the shared state of the configuration. Directive and source, its position, are for errors.
func sharedOf(ctx caddy.Context, directive, source string) (*Shared, error) {
	app, err := setting.App(ctx, directive, source)
	if err != nil {
		return nil, err
	}
	block, ok := app.(host)
	if !ok {
		return nil, fmt.Errorf("%s: the oauth block is a %T", directive, app)
	}
	block.NoteHTTP(ctx)
	return block.Gates(), nil
}

// Mount puts our own paths before all routes of the server that is being provisioned. It also keeps identity headers of clients and
// our cookies from these routes.
func (s *Shared) Mount(ctx caddy.Context) (*hostpaths.Routes, error) {
	return hostpaths.Mount(ctx, s.AwaitRoutes, s.conceal)
}

// conceal removes, in place, what no upstream may get from a client: identity headers, all trailers, and our cookies, which a gate or
// the issuer restores. It notes a personal access token in a removed header for the gate, because Caddy's access log would contain
// it.
func (s *Shared) conceal(r *http.Request) {
	if slices.ContainsFunc(s.identityGuard().CleanIdentity(r.Header), requests.ShowsPersonalToken) {
		caller.NoteMisplaced(r)
	}
	r.Trailer = nil
	caller.KeepCookies(r, identity.WithoutCookies(r.Header, s.cookies...))
}

// issuerURL returns the URL of our own issuer; empty: there is none for others.
func (s *Shared) issuerURL() string {
	if s.own == nil || s.own.Hidden {
		return ""
	}
	return s.own.URL
}

// isServing reports whether our own issuer has its store. It waits briefly if not. False means 503.
func (s *Shared) isServing(ctx context.Context) bool { return s.own.IsServing(ctx) }

// addIdentityHeader records a header that a `protect` sets. Call it only during provisioning.
func (s *Shared) addIdentityHeader(name string) { s.identityHeaders = append(s.identityHeaders, name) }

// trusted returns the trusted issuer of that name.
func (s *Shared) trusted(name string) (TrustedIssuer, bool) {
	i := slices.IndexFunc(s.others, func(t TrustedIssuer) bool { return t.Name == name })
	if i < 0 {
		return TrustedIssuer{}, false
	}
	return s.others[i], true
}
