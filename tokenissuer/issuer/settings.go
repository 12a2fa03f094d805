package issuer

import (
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Settings are what an operator decides about an issuer.
type Settings struct {
	clients.Policy
	// Lifetimes apply to clients that have none of their own.
	Lifetimes store.Lifetimes
	// Sessions bound the sessions of browsers, at the issuer and at hosts.
	Sessions signin.Limits
	// Roles are the roles that users can have.
	Roles store.RoleCatalogue
	// DeclaredSchemes are the PasswordSchemes of users that no store keeps.
	DeclaredSchemes []string
	// PKCERequired refuses every authorization request without a code_challenge.
	PKCERequired bool
	// AcceptRules turn tokens of other issuers into tokens of this one, in the order in which they are tried.
	AcceptRules []clients.AcceptRule
	// PasswordGrant sets how the password grant works; nil: it is off.
	PasswordGrant *PasswordRules
}

// PasswordRules are the settings of the password grant. It is for clients that cannot open a browser: its users type their password into
// another application.
type PasswordRules struct {
	// Refresh gives refresh tokens too, to clients that may use them. Default: the grant gives access tokens only.
	Refresh bool `json:"refresh_tokens,omitempty"`
}
