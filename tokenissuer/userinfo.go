package tokenissuer

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// UserInfo is what a client learns of the user of an access token (OpenID Connect Core §5.3.2).
type UserInfo struct {
	Token *token.AccessToken
	// Claims is a JSON object without sub, which is the token's subject.
	Claims jsontext.Value
}

// UserInfo returns what the holder of an access token may know of its user: what the token's scopes name, and the single claims
// for which the authorization request asked. The audience does not matter: no resource but this one takes what the scope openid gives.
// The error is invalid_token, insufficient_scope, or temporarily_unavailable.
func (is *Issuer) UserInfo(ctx context.Context, tok oauth.Secret) (*UserInfo, error) {
	// 1. The token is good, and the user has let the client know who they are.
	t, err := is.Verifier.VerifyForIssuer(tok.Reveal())
	if err != nil {
		return nil, err
	}
	if t.IsServerToken() || !t.Scopes.Has(oauth.ScopeOpenID) {
		return nil, oauth.MissingScope(oauth.ScopeOpenID)
	}
	// 2. The user is who they were. The directory says so at this moment, on every node.
	user, err := is.Directory.User(ctx, t.Subject)
	switch {
	case errors.Is(err, store.ErrNotFound) || err == nil && !user.IsActive():
		return nil, oauth.NewError(oauth.InvalidToken, "user_gone")
	case err != nil:
		return nil, err
	}
	// 3. The request from which the token came.
	f, err := is.familyFor(ctx, t, user)
	if err != nil {
		return nil, err
	}
	// 4. The claims.
	wanted, err := is.wantedBy(ctx, f)
	if err != nil {
		return nil, err
	}
	claims, err := token.IDClaims(user, t.Scopes, wanted.UserInfo)
	if err != nil {
		return nil, oauth.AsError(err)
	}
	return &UserInfo{t, claims}, nil
}

// familyFor returns the family of an access token; nil when the token has outlived its record. It is invalid_token for one that has
// ended, or whose user has changed.
func (is *Issuer) familyFor(ctx context.Context, t *token.AccessToken, user *store.User) (*store.TokenFamily, error) {
	f, _ := is.remembered(t.FamilyID, t.FamilyID != "")
	known := f != nil
	if !known {
		var err error
		if f, err = is.familyOf(ctx, t); f == nil || err != nil {
			return nil, err
		}
	}
	if !f.RevokedAt.IsZero() || f.UserVersion != user.Version || f.UserDeclared != user.Declared {
		return nil, errTokenRevoked()
	}
	if !known {
		is.Families.Put(f, user)
	}
	return f, nil
}

// wantedBy returns the single claims for which the request of a family asked, without those whose scope the operator has taken from the
// client since; nil has none.
func (is *Issuer) wantedBy(ctx context.Context, f *store.TokenFamily) (token.ClaimsRequest, error) {
	if f == nil || f.Claims == "" {
		return token.ClaimsRequest{}, nil
	}
	wanted, err := token.ParseClaimsRequest(f.Claims)
	if err != nil {
		return wanted, oauth.AsError(err)
	}
	client, err := is.Directory.Client(ctx, f.ClientID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return token.ClaimsRequest{}, nil
	case err != nil:
		return token.ClaimsRequest{}, err
	}
	return wanted.Within(client.Scopes), nil
}

// username returns the e-mail address of a user, empty when there is none of that id.
func (k *Records) username(ctx context.Context, userID string) (string, error) {
	now := k.Now()
	if known, ok := k.Usernames.Get(userID, now); ok {
		return known, nil
	}
	user, err := k.Directory.User(ctx, userID)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	k.Usernames.Put(userID, user.Email, now)
	return user.Email, nil
}
