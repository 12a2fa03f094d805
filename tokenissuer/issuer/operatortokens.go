package issuer

import (
	"context"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// OperatorTokens issues tokens at an operator's request, without the consent of client or user.
type OperatorTokens struct {
	UserTokens *UserTokens
	Registry   Registry
}

// Registry resolves the clients and users of an operator's request. Package people implements it.
type Registry interface {
	// MintableClient returns a client and the scopes of a token for it. A lifetime of 0 means the client's own.
	MintableClient(ctx context.Context, id, scope string, lifetime time.Duration, allowed func(oauth.Scope) bool) (*store.Client, oauth.Scopes, error)
	// MintableUser returns an active user by id or e-mail address.
	MintableUser(ctx context.Context, name string) (*store.User, error)
}

// MintServerToken issues a token for a client. The token endpoint's rules apply to the scopes. A lifetime of 0 means the client's own.
func (ot OperatorTokens) MintServerToken(ctx context.Context, clientID, scope string, lifetime time.Duration) (Tokens, error) {
	client, scopes, err := ot.Registry.MintableClient(ctx, clientID, scope, lifetime, func(s oauth.Scope) bool { return s.ServerTokens })
	if err != nil {
		return Tokens{}, err
	}
	return ot.UserTokens.Minter.Issue(Grant{Type: oauth.ClientCredentials, Client: client, Scopes: scopes, Lifetime: lifetime})
}

// MintUserToken is like MintServerToken for a token that acts for a user. It issues no refresh token.
func (ot OperatorTokens) MintUserToken(ctx context.Context, clientID, userID, scope string, lifetime time.Duration) (Tokens, error) {
	client, scopes, err := ot.Registry.MintableClient(ctx, clientID, scope, lifetime, oauth.AnyScope)
	if err != nil {
		return Tokens{}, err
	}
	user, err := ot.Registry.MintableUser(ctx, userID)
	if err != nil {
		return Tokens{}, err
	}
	return ot.UserTokens.IssueUnasked(ctx, client, user, scopes, lifetime)
}
