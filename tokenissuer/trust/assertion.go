package trust

import (
	"context"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// assertionTypes are the values of typ that an assertion may have; which of them a rule takes it says itself.
var assertionTypes = []string{token.TypeJWT, token.TypeNone, token.TypeAccessToken, token.TypeJAG}

// VerifyAssertion returns what the issuer says in a JWT whose one audience is that, for a token endpoint (RFC 7523 §3). It does not look
// at typ beyond refusing what is neither a token nor an identity assertion grant. The error is an *oauth.Error: invalid_token, or
// temporarily_unavailable if that cannot be decided. It waits for a key as Verify does.
func (i *Issuer) VerifyAssertion(ctx context.Context, text, audience string) (*token.AccessToken, error) {
	verify := func() (*token.AccessToken, error) {
		t, err := i.assertions.Verify(text, []string{audience})
		if err == nil && len(t.Audience) != 1 {
			return nil, oauth.NewError(oauth.InvalidToken, "audience_several")
		}
		return t, err
	}
	known := i.keys.Known()
	t, err := verify()
	if err == nil || !fetch.Missing(err) || i.keys.Quiet(known) || !i.claims(text) {
		return t, err
	}
	return fetch.Awaited(ctx, i.keys, verify)
}
