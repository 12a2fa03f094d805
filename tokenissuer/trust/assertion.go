package trust

import (
	"context"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// assertionTypes are the values of typ that an assertion may have. Each rule restricts them further.
var assertionTypes = []string{token.TypeJWT, token.TypeNone, token.TypeAccessToken, token.TypeJAG}

// VerifyAssertion returns the issuer's statement in a JWT whose only audience is audience, for a token endpoint (RFC
// 7523 §3). It accepts every typ of a token or of an identity assertion grant. The error is an *oauth.Error:
// invalid_token, or temporarily_unavailable if that cannot be decided. It waits for a key as Verify does.
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
