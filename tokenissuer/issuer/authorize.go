package issuer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Authorizations decides authorization requests (RFC 6749 §4.1). Its fields are set before use.
type Authorizations struct {
	Families *families.Families
	Clients  *clients.Clients
	// Keys verify an id_token_hint.
	Keys *keys.Set
	// PKCERequired refuses every request without a code_challenge.
	PKCERequired bool
	// Resources are those for which clients can request tokens.
	Resources *oauth.Resources
	// TwoFactors reports that people can sign in with two factors.
	TwoFactors bool
	// Hosts are those at which browsers can sign in through the gate.
	Hosts *oauth.Hosts
	// Registers reports that people can make accounts, which a request can ask for (OpenID Connect Initiating User Registration 1.0).
	Registers bool
}

// Step is what an authorization request needs next.
type Step int

// The steps, in order.
const (
	// AskSignIn shows the sign-in page.
	AskSignIn Step = iota
	// AskFactor asks for a second factor, beside the sign-in of the session.
	AskFactor
	// AskConsent shows the consent page.
	AskConsent
	// GrantNow needs nothing further: the caller calls Approve.
	GrantNow
)

// NextStep returns what a request needs next. Every page of the authorization endpoint calls it. s is the user's session, or nil without
// one. If the request forbids showing a page and a page is needed, NextStep returns an error, which goes to the target.
func (az *Authorizations) NextStep(ctx context.Context, r *AuthorizationRequest, client *store.Client, s *signin.Session) (Step, error) {
	silent := r.IsSilent()
	if s == nil || s.User.ID == client.ID || r.asksForSignIn(s.Family, az.Families.Now()) || r.asksForAnother(s) {
		if silent {
			return AskSignIn, oauth.NewError(oauth.LoginRequired, "login_required")
		}
		return AskSignIn, nil
	}
	if !r.allows(s.User.ID) { // the user who has signed in since is not the requested one
		return AskSignIn, oauth.NewError(oauth.LoginRequired, "user_not_the_hinted")
	}
	if !r.allowsClass(s.Family) && r.WantsTwoFactors() {
		if silent {
			return AskFactor, oauth.NewError(oauth.LoginRequired, "factor_required")
		}
		return AskFactor, nil
	}
	if !r.allowsClass(s.Family) { // the sign-in since is not of a requested class
		return AskSignIn, oauth.NewError(oauth.UnmetAuthentication, "acr_essential")
	}
	if r.Device != nil { // RFC 8628 §5.4: the user has to see which device asks
		return AskConsent, nil
	}
	consented, err := az.hasConsent(ctx, r, client, s.User)
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

// asksForSignIn reports whether the request requires a new sign-in of a user who has a session. A sign-in after the request always
// suffices. Otherwise a user who decides slowly would be asked repeatedly. For the choice of an account it suffices that the session began
// after the request. Ages are compared in whole seconds, as for a token's auth_time, so that the gate reaches the same result (RFC 9470
// §5).
func (r *AuthorizationRequest) asksForSignIn(session *store.TokenFamily, now time.Time) bool {
	at := session.SignIn.Time
	switch {
	case !at.Before(r.At):
		return false
	case r.Prompt.Has(promptLogin), session.CreatedAt.Before(r.At) && (r.ChoosesAccount() || !r.allowsClass(session) && !r.WantsTwoFactors()):
		return true
	}
	return r.MaxAge != nil && (*r.MaxAge == 0 || at.IsZero() || now.Unix()-at.Unix() > *r.MaxAge)
}

// hasConsent reports whether the user need not be asked. This holds for the operator's own client, and for a confidential client to which
// the user has granted these scopes before. The user is always asked about a public client, because anyone can use its id. The user is also
// always asked about a client that made itself known, because only the user can judge it.
func (az *Authorizations) hasConsent(ctx context.Context, r *AuthorizationRequest, client *store.Client, user *store.User) (bool, error) {
	if client.FirstParty && client.Origin == store.FromOperator {
		return true, nil
	}
	if client.IsPublic() || client.Origin != store.FromOperator {
		return false, nil
	}
	allowed, err := az.Families.Store.Consent(ctx, user.ID, client.ID)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return allowed.Missing(r.Asked()...) == "", nil
}

// Approve grants a request and returns the code, which is empty for a device. allowed lists the scopes that the user allowed. Approve ignores those beyond the request
// and those that the client has lost meanwhile. It denies the request if no scope is left, or if the request includes openid and the user
// did not allow it. A request can be decided only once.
func (az *Authorizations) Approve(ctx context.Context, r *AuthorizationRequest, client *store.Client, s *signin.Session, allowed oauth.Scopes) (oauth.Secret, error) {
	granted := slices.DeleteFunc(r.Asked(), func(name string) bool { return !allowed.Has(name) || !client.Scopes.Has(name) })
	scopes := slices.DeleteFunc(slices.Clone(granted), func(name string) bool { return !r.Scopes.Has(name) })
	if len(scopes) == 0 || r.Scopes.Has(oauth.ScopeOpenID) && !scopes.Has(oauth.ScopeOpenID) {
		return oauth.Secret{}, az.Deny(ctx, r, s)
	}
	now := az.Families.Now()
	if r.Device.hasExpired(now) {
		return oauth.Secret{}, errDeviceExpired
	}
	f := az.Families.New(s.User, client, r.origin(), s.Family.SignIn.Time)
	f.CreatedAt = later(f.CreatedAt, s.Family.CreatedAt)
	f.Scopes, f.Audience = scopes, r.Audience
	f.Preconditions.SessionID, f.SignIn.Provider, f.SignIn.Proof = s.Family.ID, s.Family.SignIn.Provider, s.Family.SignIn.Proof
	f.Code = store.CodeBinding{
		RequestID: r.ID, RedirectURI: r.RedirectURI, Challenge: r.Challenge,
		Refreshable: client.GetsRefresh(scopes) && !refreshDeclined(r.Scopes, scopes), ExpiresAt: now.Add(az.Families.LifetimesOf(client).Code),
	}
	if r.Device != nil {
		f.ID, f.Code.ExpiresAt = r.ID, r.Device.ExpiresAt
	}
	f.ExpiresAt = beforeTokens(f.Code.ExpiresAt)
	switch {
	case client.ID == store.BuiltInClientID:
		r.bindHost(f)
	case az.Clients.OpenID && scopes.Has(oauth.ScopeOpenID):
		r.bind(f, client, granted)
	}
	if err := az.Clients.Admit(ctx, client); err != nil {
		return oauth.Secret{}, err
	}
	if err := az.Families.Add(ctx, f, s.User); err != nil {
		return oauth.Secret{}, err
	}
	if r.Device != nil { // its code is the device code
		return oauth.Secret{}, nil
	}
	if !client.IsPublic() && !client.FirstParty && client.Origin == store.FromOperator {
		// The request is decided and cannot be decided again. If this fails, the user is asked at the next request.
		_ = az.rememberConsent(ctx, s.User, client, r.Asked(), granted, now)
	}
	return az.Families.Master.Code(f.ID), nil
}

// refreshDeclined reports whether the user declined a requested refresh token.
func refreshDeclined(asked, allowed oauth.Scopes) bool {
	return slices.ContainsFunc(asked, oauth.AsksForRefresh) && !slices.ContainsFunc(allowed, oauth.AsksForRefresh)
}

// rememberConsent stores which of the requested scopes the user allowed. Earlier consent to other scopes remains.
func (az *Authorizations) rememberConsent(ctx context.Context, user *store.User, client *store.Client, asked, allowed oauth.Scopes, now time.Time) error {
	before, err := az.Families.Store.Consent(ctx, user.ID, client.ID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if before.Missing(allowed...) == "" && len(asked) == len(allowed) {
		return nil // nothing has changed
	}
	others := slices.DeleteFunc(slices.Clone(before), asked.Has)
	return az.Families.Store.PutConsent(ctx, user.ID, client.ID, append(others, allowed...), now)
}

// beforeTokens returns the expiry of a record from which no access token was issued. Records are kept for MaxLifetime beyond their expiry,
// because access tokens may outlive them.
func beforeTokens(end time.Time) time.Time { return end.Add(-store.MaxLifetime) }

// Deny records that the session's user has denied the request. It returns access_denied for the client.
func (az *Authorizations) Deny(ctx context.Context, r *AuthorizationRequest, s *signin.Session) error {
	now := az.Families.Now()
	if r.ID == "" { // it was not sealed, so no browser can present it
		return oauth.NewError(oauth.Denied, "denied_by_user")
	}
	if err := az.Families.Limits.ReserveGrant(ctx, r.origin(), s.User.ID, now); err != nil {
		return err
	}
	switch outcome, err := az.Families.Store.DecideRequest(ctx, r.ID, beforeTokens(now.Add(2*keys.WrapLifetime))); {
	case err != nil:
		return err
	case outcome != store.Done:
		return oauth.ErrDecided
	}
	return oauth.NewError(oauth.Denied, "denied_by_user")
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// bindHost turns a family approved for the built-in client into the session of a host.
func (r *AuthorizationRequest) bindHost(f *store.TokenFamily) {
	f.Origin, f.SignIn.SessionID, f.Code.Nonce, f.Code.Refreshable = store.HostSession, f.Preconditions.SessionID, r.Nonce, false
}
