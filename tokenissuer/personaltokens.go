package tokenissuer

import (
	"context"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// PersonalTokens are access tokens of ours that are not signed and belong to no client.
type PersonalTokens interface {
	// IsToken reports whether a text is meant to be one.
	IsToken(text string) bool
	// Token returns what a token says that is good and for one of the audiences, as Verifier.VerifyAdmitted does.
	Token(ctx context.Context, text string, audiences []string, admit token.Admission) (*token.AccessToken, error)
	// Find returns what a token says by the store's state of this moment; nil: it is not good.
	Find(ctx context.Context, text string) (*token.AccessToken, error)
	// End ends the tokens that match, and reports whether there was one.
	End(ctx context.Context, which store.PersonalTokenFilter) (bool, error)
}

// isPersonal reports whether a token is meant to be a personal access token, where there are some.
func (se *Settings) isPersonal(token oauth.Secret) bool {
	return se.PersonalTokens != nil && se.PersonalTokens.IsToken(token.Reveal())
}

// VerifyBearer returns the access token with which somebody calls one of the issuer's own resources.
func (is *Issuer) VerifyBearer(ctx context.Context, tok oauth.Secret) (*token.AccessToken, error) {
	if is.isPersonal(tok) {
		return is.PersonalTokens.Token(ctx, tok.Reveal(), is.Audience, nil)
	}
	return is.Verifier.Verify(tok.Reveal(), is.Audience)
}

// introspectPersonal looks at a personal access token. It belongs to no client, so every client that has proved itself with its secret may ask
// about one that it holds; who asks with an access token may ask about tokens of the same user.
func (it IssuedTokens) introspectPersonal(ctx context.Context, asker Asker, token oauth.Secret) (*Introspection, error) {
	t, err := it.settings.PersonalTokens.Find(ctx, token.Reveal())
	if t == nil || err != nil || asker.Bearer != nil && asker.Bearer.Subject != t.Subject {
		return nil, err
	}
	result := &Introspection{Access: t}
	result.Username, err = it.records.username(ctx, t.Subject)
	if err != nil {
		return nil, err
	}
	return result, nil
}
