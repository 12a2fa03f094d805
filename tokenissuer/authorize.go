package tokenissuer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Step is what an authorization request needs next.
type Step int

// The steps, in their order.
const (
	// AskSignIn shows the sign-in page.
	AskSignIn Step = iota
	// AskConsent shows the consent page.
	AskConsent
	// GrantNow asks nobody any more: Approve can follow.
	GrantNow
)

// NextStep is the one dispatcher of the authorization endpoint, to which every page returns: it looks at the request and
// at who is signed in, and says what comes next. For a request that wants no page shown, what would need one is an error
// for the target.
func (is *Issuer) NextStep(ctx context.Context, r *AuthorizationRequest, client *store.Client, s *Session) (Step, error) {
	silent := r.IsSilent()
	if s == nil || s.User.ID == client.ID || r.asksForSignIn(s.Family, is.Now()) || r.asksForAnother(s) {
		if silent {
			return AskSignIn, oauth.NewError(oauth.LoginRequired, "login_required")
		}
		return AskSignIn, nil
	}
	if !r.allows(s.User.ID) { // who has signed in since is another than was asked for
		return AskSignIn, oauth.NewError(oauth.LoginRequired, "user_not_the_hinted")
	}
	if !r.allowsClass(s.Family) { // nor is the sign-in since of a class that was asked for
		return AskSignIn, oauth.NewError(oauth.UnmetAuthentication, "acr_essential")
	}
	consented, err := is.hasConsent(ctx, r, client, s.User)
	if err != nil {
		return AskConsent, err
	}
	if consented && !r.Prompt.Has(promptConsent) {
		return GrantNow, nil
	}
	if silent {
		return AskConsent, oauth.NewError(oauth.ConsentRequired, "consent_required")
	}
	return AskConsent, nil
}

// asksForSignIn reports whether the request wants a sign-in even of somebody who has a session. A sign-in since the request came
// always will do, or who needs long to decide would be asked again and again. For the choice of an account it is enough that the
// session has begun since. Ages are compared in the whole seconds that a token's auth_time has, so that the gate comes to the same
// answer (RFC 9470 §5).
func (r *AuthorizationRequest) asksForSignIn(session *store.TokenFamily, now time.Time) bool {
	at := session.AuthTime
	switch {
	case !at.Before(r.At):
		return false
	case r.Prompt.Has(promptLogin), session.CreatedAt.Before(r.At) && (r.Prompt.Has(promptSelectAccount) || !r.allowsClass(session)):
		return true
	}
	return r.MaxAge != nil && (*r.MaxAge == 0 || at.IsZero() || now.Unix()-at.Unix() > *r.MaxAge)
}

// hasConsent reports whether the user need not be asked: the client is the operator's own, or a confidential one that was
// allowed as much before. A client without a secret is always asked about, because anybody can use its id, and so is one that made itself
// known, because nobody but the user can judge it.
func (k *Records) hasConsent(ctx context.Context, r *AuthorizationRequest, client *store.Client, user *store.User) (bool, error) {
	if client.FirstParty && client.Origin == store.FromOperator {
		return true, nil
	}
	if client.IsPublic() || client.Origin != store.FromOperator {
		return false, nil
	}
	allowed, err := k.Store.Consent(ctx, user.ID, client.ID)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return allowed.Missing(r.Asked()...) == "", nil
}

// Approve grants a request and returns the code. Scopes are those that the user allowed; names beyond the request's are
// ignored, and so are those that the client has lost since it asked. With none of them the request is denied. A request
// is decided once. A request for openid is denied unless openid is allowed.
func (is *Issuer) Approve(ctx context.Context, r *AuthorizationRequest, client *store.Client, s *Session, allowed oauth.Scopes) (oauth.Secret, error) {
	granted := slices.DeleteFunc(r.Asked(), func(name string) bool { return !allowed.Has(name) || !client.Scopes.Has(name) })
	scopes := slices.DeleteFunc(slices.Clone(granted), func(name string) bool { return !r.Scopes.Has(name) })
	if len(scopes) == 0 || r.Scopes.Has(oauth.ScopeOpenID) && !scopes.Has(oauth.ScopeOpenID) {
		return oauth.Secret{}, is.Deny(ctx, r, s)
	}
	now := is.Now()
	f := is.newFamily(s.User, client, oauth.AuthorizationCode, s.Family.AuthTime)
	f.CreatedAt = later(f.CreatedAt, s.Family.CreatedAt)
	f.Scopes, f.Audience = scopes, r.Audience
	f.Preconditions.SessionID, f.Provider, f.Proof = s.Family.ID, s.Family.Provider, s.Family.Proof
	f.Code = store.CodeBinding{
		RequestID: r.ID, RedirectURI: r.RedirectURI, Challenge: r.Challenge,
		Refreshable: client.GetsRefresh(scopes) && !refreshDeclined(r.Scopes, scopes), ExpiresAt: now.Add(is.lifetimes(client).Code),
	}
	f.ExpiresAt = beforeTokens(f.Code.ExpiresAt)
	switch {
	case client.ID == store.BuiltInClientID:
		r.bindHost(f)
	case is.OpenID && scopes.Has(oauth.ScopeOpenID):
		r.bind(f, client, granted)
	}
	if err := is.admit(ctx, client); err != nil {
		return oauth.Secret{}, err
	}
	if err := is.addFamily(ctx, f, s.User); err != nil {
		return oauth.Secret{}, err
	}
	if !client.IsPublic() && !client.FirstParty && client.Origin == store.FromOperator {
		// The request is decided, and cannot be decided again. When this is not remembered, the next one asks.
		_ = is.remember(ctx, s.User, client, r.Asked(), granted, now)
	}
	return is.Master.Code(f.ID), nil
}

// refreshDeclined reports whether a request asked for a refresh token and the user has taken that out.
func refreshDeclined(asked, allowed oauth.Scopes) bool {
	return slices.ContainsFunc(asked, oauth.AsksForRefresh) && !slices.ContainsFunc(allowed, oauth.AsksForRefresh)
}

// remember keeps what the user has said of the scopes that were asked about. What was said of others before stays.
func (k *Records) remember(ctx context.Context, user *store.User, client *store.Client, asked, allowed oauth.Scopes, now time.Time) error {
	before, err := k.Store.Consent(ctx, user.ID, client.ID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if before.Missing(allowed...) == "" && len(asked) == len(allowed) {
		return nil // as when nobody was asked
	}
	others := slices.DeleteFunc(slices.Clone(before), asked.Has)
	return k.Store.PutConsent(ctx, user.ID, client.ID, append(others, allowed...), now)
}

// beforeTokens is the expiry of a record of which no access token has come: records are kept for MaxLifetime beyond their expiry,
// because of the access tokens that may outlive them.
func beforeTokens(end time.Time) time.Time { return end.Add(-store.MaxLifetime) }

// Deny records that the user of the session said no. The error is what the client is told: access_denied.
func (is *Issuer) Deny(ctx context.Context, r *AuthorizationRequest, s *Session) error {
	now := is.Now()
	if r.ID == "" { // nobody can come back with it
		return oauth.NewError(oauth.Denied, "denied_by_user")
	}
	if err := is.ReserveGrant(ctx, oauth.AuthorizationCode, s.User.ID, now); err != nil {
		return err
	}
	switch outcome, err := is.Store.DecideRequest(ctx, r.ID, beforeTokens(now.Add(2*keys.WrapLifetime))); {
	case err != nil:
		return err
	case outcome != store.Done:
		return oauth.ErrDecided
	}
	return oauth.NewError(oauth.Denied, "denied_by_user")
}
