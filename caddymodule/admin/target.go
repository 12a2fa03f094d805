package admin

import (
	"context"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/auditlog"
	"github.com/gatehouse-auth/gatehouse/caddymodule/coverage"
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/trust"
)

// Target is a configuration as operators see it.
type Target struct {
	Logger *zap.Logger
	// OwnIssuer is nil in a gate for tokens of other issuers.
	*OwnIssuer
	// Trusted are the other issuers whose tokens routes can take.
	Trusted []TrustedIssuer
	// Providers are the providers at which people sign in.
	Providers []IdentityProvider
	// Unreadiness lists why this node cannot serve; none: it can.
	Unreadiness func() []string
	// OpenStreams returns the number of streams that end with their token.
	OpenStreams func() int
	// MailState returns how the mail server has answered; nil: there is no mail.
	MailState func() signin.State
	// SendTestMail sends a mail at once; nil: there is no mail.
	SendTestMail func(ctx context.Context, to string) (MailTest, error)
	// Routes returns what protects each route, and Warnings likely mistakes in it.
	Routes   func() []coverage.Route
	Warnings func() []string
	// Version is that of Gatehouse.
	Version string
}

// OwnIssuer is the issuer of a configuration.
type OwnIssuer struct {
	// Issuer and Registry have their store once IsServing returns true.
	Issuer   *issuer.Parts
	Registry *people.Registry
	Node     *node.Node
	// PersonalTokens are the personal access tokens; nil: there are none.
	PersonalTokens *people.PersonalTokens
	// SessionsOnly reports that the issuer only keeps sessions of browsers that sign in at providers, and issues nothing.
	SessionsOnly bool
	// IsServing reports whether the issuer has its store. It waits a moment for it.
	IsServing func(context.Context) bool
	// ExplainSession explains the cookie of a host session and returns its host, which is empty if the text is not such a cookie.
	ExplainSession func(ctx context.Context, cookie string) (x token.Explanation, host string, err error)
	// Metadata are the issuer's, as clients get them at DiscoveryURL; nil if SessionsOnly.
	Metadata     []byte
	DiscoveryURL string
	// LogoutsToPrivate reports that logout tokens are sent to private addresses too.
	LogoutsToPrivate bool
	// Audit says which events of the audit log are kept.
	Audit auditlog.Retention
	// CountMinted counts a token that an operator has minted.
	CountMinted func()
}

// TrustedIssuer is an issuer that a configuration trusts.
type TrustedIssuer struct {
	Name, URL string
	Audience  []string
	Issuer    *trust.Issuer
}

// running lists the configurations that have started, the newest last. During a reload there are two.
var running struct {
	mu   sync.Mutex
	list []*Target
}

// Add makes t the configuration that operators ask about. Its node keeps the audit log as t says.
func Add(t *Target) {
	running.mu.Lock()
	defer running.mu.Unlock()
	running.list = append(running.list, t)
	t.useAudit()
}

// Withdraw removes t. It is a no-op for a target that was not added. If t was the newest, as after a reload that failed, the audit log is
// kept as the one before says.
func Withdraw(t *Target) {
	running.mu.Lock()
	defer running.mu.Unlock()
	running.list = slices.DeleteFunc(running.list, func(other *Target) bool { return other == t })
	if last := len(running.list) - 1; last >= 0 {
		running.list[last].useAudit()
	}
}

func (t *Target) useAudit() {
	if t.OwnIssuer != nil {
		t.Node.Audit.Use(t.Audit)
	}
}

// IsNewest reports whether t is the configuration that started last.
func IsNewest(t *Target) bool { return newest() == t }

// ReplacesOpenNode reports whether the configuration that t is to replace has another node, and an open one.
func ReplacesOpenNode(t *Target) bool {
	runs := newest()
	return runs != nil && runs.OwnIssuer != nil && runs.Node != t.Node && runs.Node.IsOpen()
}

// newest returns the configuration that started last, or nil. It is not exported: a Target can mint tokens.
func newest() *Target {
	running.mu.Lock()
	defer running.mu.Unlock()
	if len(running.list) == 0 {
		return nil
	}
	return running.list[len(running.list)-1]
}
