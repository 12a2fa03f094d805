package issuer

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// UserInfo is the content of a userinfo response (OpenID Connect Core §5.3.2).
type UserInfo struct {
	Token *token.AccessToken
	// Claims is a JSON object without sub, which is the token's subject.
	Claims jsontext.Value
}

// UserInfo returns the claims about the user that the holder of an access token may see: those of the token's scopes, and the single claims
// that the authorization request named. It ignores the audience, because only this resource serves the scope openid. The error is
// invalid_token, insufficient_scope, or temporarily_unavailable.
func (it *IssuedTokens) UserInfo(ctx context.Context, tok oauth.Secret) (*UserInfo, error) {
	// 1. The token is valid, and has the scope openid.
	t, err := it.Verifier.VerifyForIssuer(tok.Reveal())
	if err != nil {
		return nil, err
	}
	if t.IsServerToken() || !t.Scopes.Has(oauth.ScopeOpenID) {
		return nil, oauth.MissingScope(oauth.ScopeOpenID)
	}
	// 2. The user is active, by the directory's current state.
	user, err := it.Families.Directory.User(ctx, t.Subject)
	switch {
	case errors.Is(err, store.ErrNotFound) || err == nil && !user.IsActive():
		return nil, oauth.NewError(oauth.InvalidToken, "user_gone")
	case err != nil:
		return nil, err
	}
	// 3. The family, with the claims of its authorization request.
	f, err := it.familyFor(ctx, t, user)
	if err != nil {
		return nil, err
	}
	// 4. The claims.
	wanted, err := it.wantedBy(ctx, f)
	if err != nil {
		return nil, err
	}
	claims, err := token.IDClaims(user, t.Scopes, wanted.UserInfo)
	if err != nil {
		return nil, oauth.AsError(err)
	}
	return &UserInfo{t, claims}, nil
}

// familyFor returns the family of an access token, or nil if the token has outlived the family's record. The error is invalid_token if the
// family has ended or its user has changed.
func (it *IssuedTokens) familyFor(ctx context.Context, t *token.AccessToken, user *store.User) (*store.TokenFamily, error) {
	f, _ := it.Families.Recall(t.FamilyID)
	known := f != nil
	if !known {
		var err error
		if f, err = it.Families.OfToken(ctx, t); f == nil || err != nil {
			return nil, err
		}
	}
	if !f.RevokedAt.IsZero() || f.User.Version != user.Version || f.User.Declared != user.Declared {
		return nil, errTokenRevoked()
	}
	if !known {
		it.Families.Remembered.Put(f, user)
	}
	return f, nil
}

// wantedBy returns the single claims that the request of a family named, without those whose scope the client may no longer hold. A nil
// family has none.
func (it *IssuedTokens) wantedBy(ctx context.Context, f *store.TokenFamily) (token.ClaimsRequest, error) {
	if f == nil || f.Claims == "" {
		return token.ClaimsRequest{}, nil
	}
	wanted, err := token.ParseClaimsRequest(f.Claims)
	if err != nil {
		return wanted, oauth.AsError(err)
	}
	client, err := it.Families.Directory.Client(ctx, f.ClientID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return token.ClaimsRequest{}, nil
	case err != nil:
		return token.ClaimsRequest{}, err
	}
	return wanted.Within(client.Scopes), nil
}

// username returns the e-mail address of a user, or "" if there is no such user.
func (it *IssuedTokens) username(ctx context.Context, userID string) (string, error) {
	now := it.Families.Now()
	if known, ok := it.Usernames.Get(userID, now); ok {
		return known, nil
	}
	user, err := it.Families.Directory.User(ctx, userID)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	it.Usernames.Put(userID, user.Email, now)
	return user.Email, nil
}
