package issuer

import (
	"context"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// OperatorTokens issues tokens to an operator, without asking their client or user.
type OperatorTokens struct {
	UserTokens *UserTokens
	Registry   Registry
}

// Registry checks what an operator asks a token for. Package registry has one.
type Registry interface {
	// MintableClient returns a client with the scopes of a token for it. A lifetime of 0 is the client's own.
	MintableClient(ctx context.Context, id, scope string, lifetime time.Duration, allowed func(oauth.Scope) bool) (*store.Client, oauth.Scopes, error)
	// MintableUser returns an active user by id or e-mail address.
	MintableUser(ctx context.Context, name string) (*store.User, error)
}

// MintServerToken issues a token for a client. The scopes are checked by the rules of the token endpoint. A lifetime of 0 is the client's own.
func (ot OperatorTokens) MintServerToken(ctx context.Context, clientID, scope string, lifetime time.Duration) (Tokens, error) {
	client, scopes, err := ot.Registry.MintableClient(ctx, clientID, scope, lifetime, func(s oauth.Scope) bool { return s.ServerTokens })
	if err != nil {
		return Tokens{}, err
	}
	return ot.UserTokens.Minter.Issue(Grant{Type: oauth.ClientCredentials, Client: client, Scopes: scopes, Lifetime: lifetime})
}

// MintUserToken is MintServerToken for a token that acts for a user. There is no refresh token.
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
