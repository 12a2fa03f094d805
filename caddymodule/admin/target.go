package admin

import (
	"context"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/coverage"
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/personaltoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/registry"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/trust"
)

// Target is a configuration as operators ask about it.
type Target struct {
	Logger *zap.Logger
	// Issuer, Registry and Node are nil in a gate for tokens of others. Issuer and Registry have their store once IsServing.
	Issuer   *issuer.Parts
	Registry *registry.Registry
	Node     *node.Node
	// PersonalTokens are the personal access tokens; nil: there are none.
	PersonalTokens *personaltoken.Tokens
	// ExplainSession explains the cookie of a host session and returns its host, which is empty if the text is no such cookie.
	ExplainSession func(ctx context.Context, cookie string) (x token.Explanation, host string, err error)
	// SessionsOnly: the Issuer keeps sessions of browsers that sign in at providers, and issues nothing.
	SessionsOnly bool
	// Trusted are the other issuers whose tokens some route can take.
	Trusted []TrustedIssuer
	// Providers are where people sign in, beside here.
	Providers []IdentityProvider
	// IsServing reports whether the issuer has its store, and waits a moment for it.
	IsServing func(context.Context) bool
	// Unreadiness lists why this node cannot serve; none: it can.
	Unreadiness func() []string
	// OpenStreams returns how many streams end with their token.
	OpenStreams func() int
	// Routes returns what protects each route.
	Routes func() []coverage.Route
	// Metadata are the issuer's, as clients get them at DiscoveryURL; nil without an issuer.
	Metadata     []byte
	DiscoveryURL string
	// LogoutsToPrivate: applications at private addresses are told of sign-outs.
	LogoutsToPrivate bool
	// CountMinted counts a token that an operator has minted.
	CountMinted func()
}

// TrustedIssuer is an issuer that a configuration trusts.
type TrustedIssuer struct {
	Name, URL string
	Audience  []string
	Issuer    *trust.Issuer
}

// running holds the configurations that have started. During a reload there are two; when a new configuration fails to start,
// the old one stays.
var running struct {
	mu   sync.Mutex
	list []*Target
}

// Add makes t the configuration that operators ask about.
func Add(t *Target) {
	running.mu.Lock()
	defer running.mu.Unlock()
	running.list = append(running.list, t)
}

// Withdraw takes t back. It is a no-op for a target that was not added.
func Withdraw(t *Target) {
	running.mu.Lock()
	defer running.mu.Unlock()
	running.list = slices.DeleteFunc(running.list, func(other *Target) bool { return other == t })
}

// IsNewest reports whether t is the configuration that started last; nil: whether none runs.
func IsNewest(t *Target) bool { return newest() == t }

// ReplacesOpenNode reports whether the configuration that t is to replace has another node, and an open one.
func ReplacesOpenNode(t *Target) bool {
	runs := newest()
	return runs != nil && runs.Node != nil && runs.Node != t.Node && runs.Node.IsOpen()
}

// newest returns the configuration that started last, or nil. No other package gets it: a Target can mint tokens.
func newest() *Target {
	running.mu.Lock()
	defer running.mu.Unlock()
	if len(running.list) == 0 {
		return nil
	}
	return running.list[len(running.list)-1]
}
