package issuer

import (
	"context"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// PersonalTokens are opaque access tokens of this issuer, which belong to no client.
type PersonalTokens interface {
	// IsToken reports whether text has the form of a personal access token.
	IsToken(text string) bool
	// Token returns the content of a valid token for one of the audiences, like Verifier.VerifyAdmitted.
	Token(ctx context.Context, text string, audiences []string, admit token.Admission) (*token.AccessToken, error)
	// Find returns the content of a token by the current state of the store, or nil if the token is not valid.
	Find(ctx context.Context, text string) (*token.AccessToken, error)
	// End ends the tokens that match, and reports whether there was one.
	End(ctx context.Context, which store.PersonalTokenFilter) (bool, error)
}

// IsPersonal reports whether personal access tokens are enabled and a token has the form of one.
func (it *IssuedTokens) IsPersonal(token oauth.Secret) bool {
	return it.Personal != nil && it.Personal.IsToken(token.Reveal())
}

// VerifyBearer returns the content of the access token in a call to one of the issuer's own resources.
func (it *IssuedTokens) VerifyBearer(ctx context.Context, tok oauth.Secret) (*token.AccessToken, error) {
	if it.IsPersonal(tok) {
		return it.Personal.Token(ctx, tok.Reveal(), it.Clients.Audience, nil)
	}
	if it.Imported.MayBeToken(tok.Reveal()) {
		if t, err := it.Imported.Token(ctx, tok.Reveal(), it.Clients.Audience, nil); t != nil || err != nil {
			return t, err
		}
	}
	return it.Verifier.Verify(tok.Reveal(), it.Clients.Audience)
}

// introspectPersonal describes a personal access token. It belongs to no client, so every authenticated client may ask about one that it
// holds. The holder of an access token may ask about tokens of the same user.
func (it *IssuedTokens) introspectPersonal(ctx context.Context, asker Asker, token oauth.Secret) (*Introspection, error) {
	t, err := it.Personal.Find(ctx, token.Reveal())
	if t == nil || err != nil || asker.Bearer != nil && asker.Bearer.Subject != t.Subject {
		return nil, err
	}
	result := &Introspection{Access: t}
	result.Username, err = it.username(ctx, t.Subject)
	if err != nil {
		return nil, err
	}
	return result, nil
}
