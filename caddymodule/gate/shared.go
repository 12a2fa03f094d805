package gate

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/floodgate"
	"github.com/gatehouse-auth/gatehouse/caddymodule/identity"
	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/trust"
)

// Shared is what all gates of one configuration share. The oauth block makes it, and closes it with the configuration.
type Shared struct {
	logger *zap.Logger
	audit  *endpoint.Audit
	now    func() time.Time
	own    *OwnIssuer // nil: only tokens of other issuers pass
	others []TrustedIssuer

	flood *floodgate.Gate // nil: floods of bad tokens are not held back
	limit tokenissuer.Limit
	// released is closed when the servers shut down: refusals that are held back are given at once then.
	released chan struct{}
	release  func()

	identityHeaders []string // what any `protect` of this configuration sets beyond the defaults
	qualifiers      []string // with which the ids of trusted issuers begin in the tokens that a `protect` swaps
	// identityGuard takes all of them from clients. It is made by the first request, when every `protect` is known.
	identityGuard func() *identity.Guard
}

// OwnIssuer is our own issuer, as gates use it.
type OwnIssuer struct {
	*tokenissuer.Settings
	Upstreams *tokenissuer.UpstreamTokens
	Handler   *endpoint.Handler
	Verifier  OwnVerifier
	Node      Node
	// IsServing reports whether the issuer has its store, and waits a moment for it when it has not.
	IsServing func(context.Context) bool
}

// Node is what outlives a reload, as far as gates use it.
type Node interface {
	// Enter counts a request that may use the store. It is false once the node is closing; else Leave follows.
	Enter() bool
	Leave()
	// IsClosing reports whether no configuration uses the node any more: it learns of no revocation then.
	IsClosing() bool
	// Now is the time by the node's own clock.
	Now() time.Time
}

// TrustedIssuer is an issuer of somebody else's, as `protect` may name it.
type TrustedIssuer struct {
	Name     string
	URL      string
	Audience []string
	Issuer   *trust.Issuer
	// Life ends when no configuration trusts the issuer any more.
	Life context.Context
}

// NewShared returns what the gates of a configuration share. Without an issuer of our own, own is nil. Bad tokens beyond the
// limit are held back; without one they are not.
func NewShared(logger *zap.Logger, audit *endpoint.Audit, now func() time.Time, own *OwnIssuer, others []TrustedIssuer, limit tokenissuer.Limit) (*Shared, error) {
	s := &Shared{logger: logger, audit: audit, now: now, own: own, others: others, limit: limit, released: make(chan struct{})}
	s.release = sync.OnceFunc(func() { close(s.released) })
	s.identityGuard = sync.OnceValue(func() *identity.Guard { return identity.NewGuard(s.identityHeaders) })
	var err error
	s.flood, err = takeFloodgate(limit, now)
	return s, err
}

// Release answers the refusals that are held back.
func (s *Shared) Release() { s.release() }

// Released is closed once refusals are held back no more, because the servers shut down.
func (s *Shared) Released() <-chan struct{} { return s.released }

// Close gives the flood gate back.
func (s *Shared) Close() error {
	if s.flood == nil {
		return nil
	}
	_, err := floodgates.Delete(s.limit)
	return err
}

// Floodgate returns what holds back floods of bad tokens; nil: nothing does.
func (s *Shared) Floodgate() *floodgate.Gate { return s.flood }

// host is the oauth block, as far as its gates know it.
type host interface {
	// Gates returns what they share.
	Gates() *Shared
	// NoteHTTP notes the HTTP app whose routes they guard.
	NoteHTTP(ctx caddy.Context)
}

// sharedOf returns what the gates of the configuration share, for the directive that needs it, which stands at the source.
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

// issuerURL returns the URL of our own issuer; empty: there is none.
func (s *Shared) issuerURL() string {
	if s.own == nil {
		return ""
	}
	return s.own.URL
}

// isServing reports whether our own issuer has its store, and waits a moment for it when it has not. False is a 503.
func (s *Shared) isServing(ctx context.Context) bool { return s.own.IsServing(ctx) }

// addIdentityHeader records a header that a `protect` sets. It is called while the configuration is provisioned.
func (s *Shared) addIdentityHeader(name string) { s.identityHeaders = append(s.identityHeaders, name) }

// releaseWith has the refusals that are held back answered when the server begins to shut down, which waits for them.
func (s *Shared) releaseWith(ctx caddy.Context) {
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		server.RegisterOnShutdown(s.release)
	}
}

// trusted returns the trusted issuer of that name.
func (s *Shared) trusted(name string) (TrustedIssuer, bool) {
	i := slices.IndexFunc(s.others, func(t TrustedIssuer) bool { return t.Name == name })
	if i < 0 {
		return TrustedIssuer{}, false
	}
	return s.others[i], true
}
