package tokenissuer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// IssuedTokens ends tokens that were issued, and says what they are, for the clients that got them.
type IssuedTokens struct {
	Clients
	credentials *Credentials
}

// IssuedTokens returns what ends and describes the issuer's tokens.
func (is *Issuer) IssuedTokens() IssuedTokens { return IssuedTokens{is.Clients(), &is.Credentials} }

// RevokeFor ends a token, access or refresh, at its client's request (RFC 7009 §2). A token that is not ours, unknown or
// dead already is no error: nothing is left to do. Another client's token is refused and stays as it is. A token with a
// family takes the family with it, also an access token that has expired: who signs out late still has a refresh token. An
// access token issued before the last refresh ends alone, as far as revokeAlone goes: clients revoke what they have replaced. The
// result says what was found, for the audit log; nil: nothing.
func (it IssuedTokens) RevokeFor(ctx context.Context, client *store.Client, tok oauth.Secret) (*token.AccessToken, error) {
	t, err := it.revocable(ctx, tok)
	if t == nil || err != nil {
		return nil, err
	}
	if t.ClientID != client.ID {
		return nil, oauth.NewError(oauth.TokenNotYours, "token_of_another_client")
	}
	if it.settings.isPersonal(tok) {
		_, err := it.settings.PersonalTokens.End(ctx, store.PersonalTokenFilter{ID: t.ID})
		return t, err
	}
	if t.FamilyID == "" || t.IsExchanged() { // what it came from was issued to somebody else
		return t, it.revokeAlone(ctx, t, it.limits.RevocationLimit, it.serverTokensUpTo(t)...)
	}
	f, err := it.records.familyOf(ctx, t)
	switch {
	case err != nil:
		return nil, err
	case f != nil && !f.RevokedAt.IsZero():
		return nil, it.records.catchUp(ctx)
	case f != nil && hasSuperseded(f, t):
		return t, it.revokeAlone(ctx, t, supersededLimit, tokensUpTo(f, token.GenerationOf(t.ID), it.records.Ending()))
	}
	return t, it.records.EndFamilies(ctx, store.FamilyFilter{ID: t.FamilyID})
}

// supersededLimit is how many access tokens of before a refresh one user of a client ends one by one. They may live for weeks, and
// ending some more of them takes away nothing that is used.
var supersededLimit = attempts.Limit{Failures: 60, Window: time.Hour}

// revokeAlone ends a token and no other. Beyond the limit it records wider instead, which ends the token and those issued before
// it: ending a token is never refused, and the number of records is bounded all the same.
func (it IssuedTokens) revokeAlone(ctx context.Context, t *token.AccessToken, most attempts.Limit, wider ...store.Revocation) error {
	b := attempts.Bucket{Name: "alone\x00" + t.ClientID + "\x00" + t.Subject, Limit: most}
	if it.limits.Reserve(ctx, it.limits.Limited(b), "revocations_throttled", it.records.Now()) != nil {
		return it.records.Revoke(ctx, wider...)
	}
	return it.records.Revoke(ctx, store.Revocation{Kind: store.RevokeToken, ID: t.ID, ExpiresAt: t.ExpiresAt.Add(store.RevocationMargin)})
}

// serverTokensUpTo are the revocations of a server token and of those that its client got before it; of an exchanged one also of all that
// came until now of those that its client has got by exchanges.
func (it IssuedTokens) serverTokensUpTo(t *token.AccessToken) []store.Revocation {
	end := it.records.Ending()
	wider := []store.Revocation{{Kind: store.RevokeServerTokens, ID: t.ClientID, IssuedUntil: t.IssuedAt, ExpiresAt: end.Until}}
	if t.IsExchanged() {
		wider = append(wider, store.Revocation{Kind: store.RevokeCameOf, ID: t.ClientID, IssuedUntil: end.At, ExpiresAt: end.Until})
	}
	return wider
}

// familyOf returns the family of an access token, whatever its state; nil when the token has outlived its record, and for a
// refresh token, whose family has just been read.
func (k *Records) familyOf(ctx context.Context, t *token.AccessToken) (*store.TokenFamily, error) {
	if t.ID == "" {
		return nil, nil
	}
	f, err := k.Store.Family(ctx, t.FamilyID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return f, nil
}

// hasSuperseded reports whether the family was refreshed since the access token was issued.
func hasSuperseded(f *store.TokenFamily, t *token.AccessToken) bool {
	generation := token.GenerationOf(t.ID)
	return generation > 0 && generation < f.Generation
}

// RevokingClient returns the client at whose request a token is to end. A token that belongs to no application can be
// ended by whoever holds it; for every other one the client proves who it is.
func (it IssuedTokens) RevokingClient(ctx context.Context, a ClientAuthentication, token oauth.Secret) (*store.Client, error) {
	client, err := it.AuthenticateClient(ctx, a)
	if !errors.Is(err, errNoClient) {
		return client, err
	}
	t, tokenErr := it.revocable(ctx, token)
	if tokenErr != nil {
		return nil, tokenErr
	}
	if t == nil || t.ClientID != store.BuiltInClientID {
		return nil, err
	}
	return it.settings.builtInClient(), nil
}

// catchUp learns of all that was revoked until now. What another node has ended must not be accepted here after this one has
// said that it is over, too.
func (k *Records) catchUp(ctx context.Context) error {
	if k.Refresh == nil {
		return nil
	}
	return k.Refresh(ctx)
}

// revocable returns what a token, access or refresh, is; nil when there is nothing to revoke. Of a refresh token only
// client, subject and family are known.
func (it IssuedTokens) revocable(ctx context.Context, tok oauth.Secret) (*token.AccessToken, error) {
	if it.settings.isPersonal(tok) {
		return it.settings.PersonalTokens.Find(ctx, tok.Reveal())
	}
	f, genuine, err := it.refreshable(ctx, tok)
	switch {
	case err != nil:
		return nil, err
	case f != nil:
		return &token.AccessToken{ClientID: f.ClientID, Subject: f.UserID, SignIn: token.SignIn{FamilyID: f.ID}}, nil
	case genuine:
		return nil, it.records.catchUp(ctx)
	}
	t, err := it.credentials.Verifier.VerifyForIssuer(tok.Reveal())
	if errors.Is(err, token.ErrTokenExpired) {
		t, err = it.outlived(ctx, tok)
	}
	if err != nil && oauth.AsError(err).Code == oauth.InvalidToken {
		return nil, nil
	}
	return t, err
}

// outlived returns what an expired access token is whose family has not ended; nil for any other, of which nothing is left to
// end. What belongs to no application has no client that would have to prove who it is: a token that has lain in a log for
// months must not be enough to sign somebody out.
func (it IssuedTokens) outlived(ctx context.Context, tok oauth.Secret) (*token.AccessToken, error) {
	t, err := it.credentials.Verifier.ReadExpired(tok.Reveal())
	if err != nil || t.FamilyID == "" || t.ClientID == store.BuiltInClientID {
		return nil, err
	}
	f, err := it.records.family(ctx, t.FamilyID)
	switch {
	case err != nil:
		return nil, err
	case f == nil: // younger tokens of it may be good here until this node has heard of its end
		return nil, it.records.catchUp(ctx)
	case hasSuperseded(f, t):
		return nil, nil
	}
	return t, nil
}

// refreshable returns the family of a refresh token that was issued and whose family has not ended; nil for any other, of
// which genuine says whether it was issued.
func (it IssuedTokens) refreshable(ctx context.Context, token oauth.Secret) (f *store.TokenFamily, genuine bool, err error) {
	id, _, genuine := it.credentials.Master.ReadRefreshToken(token)
	if !genuine {
		return nil, false, nil
	}
	f, err = it.records.family(ctx, id)
	return f, true, err
}

// RevocationOf returns a revocation that hits every token of that id issued until now. A token, a family or a key is
// revoked whenever its tokens were issued.
func (is *Issuer) RevocationOf(kind store.RevocationKind, id string) store.Revocation {
	// Families are as old as the issuer's clock says, tokens as the earlier of the two: none that exists may seem younger.
	now := is.Now()
	if here := is.Verifier.Now(); here.After(now) {
		now = here
	}
	r := store.Revocation{Kind: kind, ID: id, ExpiresAt: now.Add(store.MaxLifetime + store.RevocationMargin)}
	switch kind {
	case store.RevokeUser, store.RevokeClient, store.RevokeOrganisation:
		// Families that were born before are refused for as long as they could be refreshed.
		r.IssuedUntil, r.ExpiresAt = now, now.Add(store.MaxFamilyLifetime+store.RevocationMargin)
	}
	return r
}

// Revoke records revocations and, once they are durable, applies them here. It is temporarily_unavailable, and nothing is
// promised, when the store cannot record them.
func (k *Records) Revoke(ctx context.Context, revocations ...store.Revocation) error {
	if slices.ContainsFunc(revocations, func(r store.Revocation) bool { return r.ID == "" }) {
		return errors.New("a revocation needs an id")
	}
	if err := k.Store.Revoke(ctx, revocations...); err != nil {
		return err
	}
	k.Revocations.Add(revocations...)
	return nil
}

// Introspection is what an active token is (RFC 7662 §2.2).
type Introspection struct {
	// Access is the access token; nil: the token is a refresh token.
	Access *token.AccessToken
	// Family and ExpiresAt are those of a refresh token.
	Family    *store.TokenFamily
	ExpiresAt time.Time
	// Username is the e-mail address of the user, empty on a server token.
	Username string
}

// Asker is who introspects a token.
type Asker struct {
	ClientID string
	// Bearer is the access token with which the client asks; nil: it has proved itself with its secret.
	Bearer *token.AccessToken
}

// mayKnow reports whether the asker may learn of tokens with that client and subject. Who shows an access token is not the
// client itself, but somebody who uses it, and learns of nobody else.
func (a Asker) mayKnow(clientID, subject string) bool {
	return a.ClientID == clientID && (a.Bearer == nil || a.Bearer.Subject == subject)
}

// Introspect looks at a token, access or refresh (RFC 7662 §2.2). It returns nil for a token that is inactive, whatever
// the reason, and for one of which the asker may know nothing. Unlike the gate, which goes on for a while with what it
// knows, it answers from the store's state of this moment, and is temporarily_unavailable without it.
func (it IssuedTokens) Introspect(ctx context.Context, asker Asker, token oauth.Secret) (*Introspection, error) {
	if err := it.records.catchUp(ctx); err != nil {
		return nil, err
	}
	if it.settings.isPersonal(token) {
		return it.introspectPersonal(ctx, asker, token)
	}
	f, _, err := it.refreshable(ctx, token)
	if err != nil {
		return nil, err
	}
	if f != nil {
		return it.introspectRefresh(ctx, asker, f, token)
	}
	t, err := it.credentials.Verifier.VerifyForIssuer(token.Reveal())
	if err != nil {
		if oauth.AsError(err).Code == oauth.InvalidToken {
			return nil, nil
		}
		return nil, err
	}
	if !asker.mayKnow(t.ClientID, t.Subject) {
		return nil, nil
	}
	result := &Introspection{Access: t}
	if !t.IsServerToken() {
		result.Username, err = it.records.username(ctx, t.Subject)
	}
	if err != nil {
		return nil, err
	}
	return result, nil
}

// introspectRefresh looks at a refresh token of a family that has not ended. What would be served is active: the newest one,
// and within the grace the one before it, or a thief who holds that one could see when its owner refreshes. A client without
// a secret learns nothing of refresh tokens, because anybody can use its id.
func (it IssuedTokens) introspectRefresh(ctx context.Context, asker Asker, f *store.TokenFamily, token oauth.Secret) (*Introspection, error) {
	if !asker.mayKnow(f.ClientID, f.UserID) {
		return nil, nil
	}
	now := it.records.Now()
	client := it.records.Authenticated.Recall(f.ClientID, now) // it has just proved who it is, or shown a token
	if client == nil {
		var err error
		if client, err = it.Find(ctx, f.ClientID); errors.Is(err, store.ErrNotFound) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
	}
	lifetimes := it.settings.lifetimes(client)
	_, generation, _ := it.credentials.Master.ReadRefreshToken(token)
	if client.IsPublic() || generation != f.Generation && !repeatable(f, generation, lifetimes.RefreshGrace, now) {
		return nil, nil
	}
	expires := f.RotatedAt.Add(lifetimes.RefreshIdle)
	if f.ExpiresAt.Before(expires) {
		expires = f.ExpiresAt
	}
	user, err := it.records.livingUser(ctx, f)
	if user == nil || err != nil || !now.Before(expires) {
		return nil, err
	}
	return &Introspection{Family: f, ExpiresAt: expires, Username: user.Email}, nil
}
