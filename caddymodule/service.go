package caddymodule

import (
	"context"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/configuration"
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clientmetadata"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
)

// service is the issuer of a configuration, on its node: it is built in Provision, gets its store in Start, and ends with Stop.
type service struct {
	settings configuration.Settings
	sources  configuration.Sources
	logger   *zap.Logger
	audit    *endpoint.Audit
	life     *lifecycle

	// These are nil where no state is kept.
	node     *node.Node
	issuer   *issuer.Parts
	personal *people.PersonalTokens // nil: there are none
	handler  *endpoint.Handler
	registry *people.Registry
	// documents are the metadata documents of clients.
	documents *clientmetadata.Documents
	// unchecked is the error of the check of the store in Provision, when the store was already open. Start does not repeat that check.
	unchecked error
}

// issues reports whether there is an issuer of our own for applications and people.
func (s *service) issues() bool { return s.settings.Issues() }

// enterNode registers a use of the node's store. The function that it returns ends the use.
func (s *service) enterNode(ctx context.Context) (context.Context, func(), error) {
	if !s.node.Life.Enter() {
		return nil, nil, oauth.Unavailable("shutting_down", nil)
	}
	return sqlstore.WithTimeout(ctx), s.node.Life.Leave, nil
}

// accounts finds the users of outside accounts, and logs each user that it adds or changes.
func (s *service) accounts() signin.Accounts {
	return signin.Accounts{Families: s.issuer.Families, Users: s.registry.People, Changed: func(c signin.Change) {
		fields, what := []zap.Field{zap.String("subject", c.UserID)}, "user added"
		if !c.Added {
			fields, what = append(fields, zap.Strings("changed", c.Members)), "user updated"
		}
		s.logger.Named("audit").Info(what, append(fields, zap.String("by", "provider "+c.Provider))...)
	}}
}
