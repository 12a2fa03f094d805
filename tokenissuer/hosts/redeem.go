package hosts

import (
	"context"
	"crypto/subtle"
	"errors"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/routes"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// lifetime is how long a session lives at most, counted from the sign-in, which lives as long; where nobody knows when that was, from
// the code.
const lifetime = 30 * store.Day

// Redeem turns the code of an attempt into a session of the host, and returns its id and its cookie. It is one durable step. A code
// that was redeemed before ends the session that came of it.
func (s *Sessions) Redeem(ctx context.Context, code oauth.Secret, a Attempt, host routes.Host) (id string, cookie oauth.Secret, err error) {
	is := s.issuer
	id, genuine := is.Master.ReadCode(code)
	if !genuine {
		return "", oauth.Secret{}, refused("code_unknown")
	}
	f, err := is.Store.Family(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "", oauth.Secret{}, refused("code_unknown")
	case err != nil:
		return "", oauth.Secret{}, oauth.Unavailable("store_unavailable", err)
	case f.Origin != store.HostSession || f.Code.RedirectURI != host.Callback() || a.Origin != host.Origin():
		return "", oauth.Secret{}, refused("code_of_another_host")
	case !oauth.VerifierMatches(oauth.NewSecret(a.Verifier), f.Code.Challenge):
		return "", oauth.Secret{}, refused("code_verifier_wrong")
	case subtle.ConstantTimeCompare([]byte(f.Code.Nonce), []byte(a.Nonce)) != 1:
		return "", oauth.Secret{}, refused("nonce_wrong")
	}
	since := f.AuthTime
	if since.IsZero() {
		since = f.CreatedAt
	}
	outcome, _, err := is.Store.RedeemCode(ctx, id, store.Redemption{At: is.Now(), ExpiresAt: since.Add(lifetime), MaxFailures: 1})
	switch {
	case err != nil:
		return "", oauth.Secret{}, oauth.Unavailable("store_unavailable", err)
	case outcome == store.Replayed:
		if err := is.EndFamilies(ctx, store.FamilyFilter{ID: id}); err != nil {
			return "", oauth.Secret{}, err
		}
		return "", oauth.Secret{}, refused(oauth.ReasonCodeReplayed)
	case outcome != store.Done:
		return "", oauth.Secret{}, refused("code_expired")
	}
	return id, is.Master.HostSession(id, host.Origin()), nil
}

// CountSignIn counts a sign-in at a provider against the address that it comes from, before the provider is asked. Settle is
// told how it went.
func (s *Sessions) CountSignIn(ctx context.Context, address string) (settle func(error), err error) {
	return s.issuer.CountSignIn(ctx, address)
}

// SignIn opens a session of the host for a user who has signed in at a provider, and returns its id and its cookie. It is
// one durable step.
func (s *Sessions) SignIn(ctx context.Context, who tokenissuer.SignedIn, a Attempt, host routes.Host) (id string, cookie oauth.Secret, err error) {
	id, err = s.issuer.OpenHostSession(ctx, who, host, a.Nonce)
	if err != nil {
		return "", oauth.Secret{}, err
	}
	return id, s.issuer.Master.HostSession(id, host.Origin()), nil
}

// refused is an error of which a new attempt may know nothing.
func refused(reason string) error { return oauth.NewError(oauth.InvalidGrant, reason) }

// End ends the session of a cookie, and returns it; nil: there was none. With a sign-in of our issuer it ends that, and with it the
// sessions of all hosts that came of it. Without one it ends those that the user has by the same provider, at all hosts.
func (s *Sessions) End(ctx context.Context, cookie string, host routes.Host) (*tokenissuer.Session, error) {
	session, err := s.session(ctx, cookie, host)
	if session == nil || err != nil {
		return nil, err
	}
	if session.Family.SessionID == "" {
		if err := s.issuer.EndHostSessionsOf(ctx, session.User, session.Family.Provider); err != nil {
			return nil, err
		}
		return session, s.issuer.EndSession(ctx, session)
	}
	signIn := &tokenissuer.Session{Family: &store.TokenFamily{ID: session.Family.SessionID}, User: session.User}
	if err := s.issuer.SignOut(ctx, signIn); err != nil {
		return nil, err
	}
	return session, s.issuer.EndSession(ctx, session)
}
