package issuer

import (
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Settings are the operator's choices for an issuer.
type Settings struct {
	clients.Policy
	// Lifetimes apply to clients without lifetimes of their own.
	Lifetimes store.Lifetimes
	// Sessions bound the sessions of browsers, at the issuer and at hosts.
	Sessions signin.Limits
	// Factors are the second factors with which people sign in.
	Factors signin.FactorPolicy
	// Roles are the roles that users can have.
	Roles store.RoleCatalogue
	// DeclaredSchemes are the PasswordSchemes of declared users, which are not in the store.
	DeclaredSchemes []string
	// PKCERequired refuses every authorization request without a code_challenge.
	PKCERequired bool
	// AcceptRules determine which tokens of other issuers are accepted as grants. They are tried in order.
	AcceptRules []clients.AcceptRule
	// PasswordGrant configures the password grant. It is off if nil.
	PasswordGrant *PasswordRules
}

// PasswordRules configure the password grant. It is for clients that cannot open a browser: users enter their password into another
// application.
type PasswordRules struct {
	// Refresh issues refresh tokens too, to clients that may use them. By default the grant issues access tokens only.
	Refresh bool `json:"refresh_tokens,omitempty"`
}
