package issuer

import (
	"context"
	"errors"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// IssuedTokens revokes and describes issued tokens. Its fields are set before use.
type IssuedTokens struct {
	Families *families.Families
	Clients  *clients.Clients
	Verifier *token.Verifier
	// Personal handles personal access tokens. It is nil if there are none.
	Personal PersonalTokens
	// Imported are the access tokens of another server. It is nil if there are none.
	Imported *ImportedTokens
	// Usernames caches the e-mail addresses of users. If it is nil, the directory is read each time.
	Usernames *token.UsernameCache
	// Limits bound how many tokens a client can revoke one by one.
	Limits *attempts.Limits
}

// RevokeFor revokes an access or refresh token at its client's request (RFC 7009 §2). A token that is unknown, already revoked or not of
// this issuer is not an error. Another client's token is refused and stays valid. Revoking a token ends its family, even if the access
// token has expired: a client that signs out late still has a refresh token. Revoking an access token from before the last refresh ends
// that token alone, within the limit of revokeAlone, because clients revoke tokens that they have replaced. RevokeFor returns the token
// that it found, for the audit log, or nil.
func (it *IssuedTokens) RevokeFor(ctx context.Context, client *store.Client, tok oauth.Secret) (*token.AccessToken, error) {
	t, err := it.revocable(ctx, tok)
	if t == nil || err != nil {
		return nil, err
	}
	if t.ClientID != client.ID {
		return nil, oauth.NewError(oauth.TokenNotYours, "token_of_another_client")
	}
	if it.IsPersonal(tok) {
		_, err := it.Personal.End(ctx, store.PersonalTokenFilter{ID: t.ID})
		return t, err
	}
	if t.FamilyID == "" || t.IsExchanged() { // its subject token was issued to another client
		return t, it.revokeAlone(ctx, t, it.Limits.RevocationLimit, it.serverTokensUpTo(t)...)
	}
	f, err := it.Families.OfToken(ctx, t)
	switch {
	case err != nil:
		return nil, err
	case f != nil && !f.RevokedAt.IsZero():
		return nil, it.Families.CatchUp(ctx)
	case f != nil && hasSuperseded(f, t):
		return t, it.revokeAlone(ctx, t, supersededLimit, families.RevocationOfTokens(f, token.GenerationOf(t.ID), it.Families.Ending()))
	}
	return t, it.Families.EndFamilies(ctx, store.FamilyFilter{ID: t.FamilyID})
}

// supersededLimit bounds how many superseded access tokens of one user a client can revoke one by one. Such tokens may live for weeks.
// Revoking more of them than requested affects nothing in use.
var supersededLimit = attempts.Limit{Failures: 60, Window: time.Hour}

// revokeAlone revokes a single token. Beyond the limit it records wider instead, which covers the token and earlier ones. So a revocation
// is never refused, and the number of records is bounded.
func (it *IssuedTokens) revokeAlone(ctx context.Context, t *token.AccessToken, most attempts.Limit, wider ...store.Revocation) error {
	b := attempts.Bucket{Name: "alone\x00" + t.ClientID + "\x00" + t.Subject, Limit: most}
	if it.Limits.Reserve(ctx, it.Limits.Limited(b), "revocations_throttled", it.Families.Now()) != nil {
		return it.Families.Revoke(ctx, wider...)
	}
	return it.Families.Revoke(ctx, store.Revocation{Kind: store.RevokeToken, ID: t.ID, ExpiresAt: t.ExpiresAt.Add(store.RevocationMargin)})
}

// serverTokensUpTo returns the revocations of a server token and of its client's earlier ones. For an exchanged token they include
// everything issued so far from tokens that its client obtained by exchange.
func (it *IssuedTokens) serverTokensUpTo(t *token.AccessToken) []store.Revocation {
	end := it.Families.Ending()
	wider := []store.Revocation{{Kind: store.RevokeServerTokens, ID: t.ClientID, IssuedUntil: t.IssuedAt, ExpiresAt: end.Until}}
	if t.IsExchanged() {
		wider = append(wider, store.Revocation{Kind: store.RevokeCameOf, ID: t.ClientID, IssuedUntil: end.At, ExpiresAt: end.Until})
	}
	return wider
}

// hasSuperseded reports whether the family was refreshed since the access token was issued.
func hasSuperseded(f *store.TokenFamily, t *token.AccessToken) bool {
	generation := token.GenerationOf(t.ID)
	return generation > 0 && generation < f.Refresh.Generation
}

// RevokingClient returns the client that requests a revocation. Any holder can revoke a token of the built-in client. For other clients'
// tokens the client must authenticate.
func (it *IssuedTokens) RevokingClient(ctx context.Context, a clients.Authentication, token oauth.Secret) (*store.Client, error) {
	client, err := it.Clients.Authenticate(ctx, a)
	if !errors.Is(err, clients.ErrMissing) {
		return client, err
	}
	t, tokenErr := it.revocable(ctx, token)
	if tokenErr != nil {
		return nil, tokenErr
	}
	if t == nil || t.ClientID != store.BuiltInClientID {
		return nil, err
	}
	return it.Clients.BuiltIn(), nil
}

// revocable returns the content of an access or refresh token, or nil if there is nothing to revoke. For a refresh token it has only
// client, subject and family.
func (it *IssuedTokens) revocable(ctx context.Context, tok oauth.Secret) (*token.AccessToken, error) {
	if it.IsPersonal(tok) {
		return it.Personal.Find(ctx, tok.Reveal())
	}
	f, genuine, err := it.refreshable(ctx, tok)
	switch {
	case err != nil:
		return nil, err
	case f != nil:
		return &token.AccessToken{ClientID: f.ClientID, Subject: f.User.ID, SignIn: token.SignIn{FamilyID: f.ID}}, nil
	case genuine:
		return nil, it.Families.CatchUp(ctx)
	}
	t, err := it.verifyForIssuer(ctx, tok)
	if errors.Is(err, token.ErrTokenExpired) {
		t, err = it.outlived(ctx, tok)
	}
	if err != nil && oauth.AsError(err).Code == oauth.InvalidToken {
		return nil, nil
	}
	return t, err
}

// outlived returns the content of an expired access token whose family has not ended. Otherwise nothing is left to revoke, and it returns
// nil. It also returns nil for a token of the built-in client: its revocation needs no client authentication, so an old token from a log
// could sign a user out.
func (it *IssuedTokens) outlived(ctx context.Context, tok oauth.Secret) (*token.AccessToken, error) {
	t, err := it.Verifier.ReadExpired(tok.Reveal())
	if err != nil || t.FamilyID == "" || t.ClientID == store.BuiltInClientID {
		return nil, err
	}
	f, err := it.Families.Living(ctx, t.FamilyID)
	switch {
	case err != nil:
		return nil, err
	case f == nil: // this node may accept later tokens of the family until it learns that it has ended
		return nil, it.Families.CatchUp(ctx)
	case hasSuperseded(f, t):
		return nil, nil
	}
	return t, nil
}

// refreshable returns the family of a genuine refresh token, or nil if it has ended. genuine reports whether this issuer issued the token.
func (it *IssuedTokens) refreshable(ctx context.Context, token oauth.Secret) (f *store.TokenFamily, genuine bool, err error) {
	id, _, genuine, err := it.Families.ReadRefreshToken(ctx, token)
	if !genuine || err != nil {
		return nil, false, err
	}
	f, err = it.Families.Living(ctx, id)
	return f, true, err
}
