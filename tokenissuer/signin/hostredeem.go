package signin

import (
	"context"
	"crypto/subtle"
	"errors"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Redeem exchanges the code of an attempt for a session of the host, and returns the session's id and cookie. It is one durable step. If
// the code was redeemed before, Redeem ends the session that it gave.
func (s *HostSessions) Redeem(ctx context.Context, code oauth.Secret, a HostAttempt, host oauth.Host) (id string, cookie oauth.Secret, err error) {
	fs := s.families()
	id, outcome, err := s.spend(ctx, code, a, host)
	switch {
	case err != nil:
		return "", oauth.Secret{}, err
	case outcome == store.Replayed:
		if err := fs.EndFamilies(ctx, store.FamilyFilter{ID: id}); err != nil {
			return "", oauth.Secret{}, err
		}
		return "", oauth.Secret{}, oauth.ErrCodeReplayed
	case outcome != store.Done:
		return "", oauth.Secret{}, hostRefused("code_expired")
	}
	return id, fs.Master.HostSession(id, host.Origin()), nil
}

// Burn ends a code that another browser received with its attempt, so that the browser of the attempt can no longer redeem it. It leaves a
// code unchanged that does not belong to the attempt or was already redeemed.
func (s *HostSessions) Burn(ctx context.Context, code oauth.Secret, a HostAttempt, host oauth.Host) error {
	id, outcome, err := s.spend(ctx, code, a, host)
	switch {
	case oauth.AsError(err).Code == oauth.InvalidGrant:
		return nil
	case err != nil:
		return err
	case outcome != store.Done:
		return nil
	}
	return s.families().EndFamilies(ctx, store.FamilyFilter{ID: id})
}

// spend redeems the code of an attempt. It returns the id of its session and the outcome.
func (s *HostSessions) spend(ctx context.Context, code oauth.Secret, a HostAttempt, host oauth.Host) (id string, outcome store.Outcome, err error) {
	fs := s.families()
	id, genuine := fs.Master.ReadCode(code)
	if !genuine {
		return "", outcome, hostRefused("code_unknown")
	}
	f, err := fs.Store.Family(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "", outcome, hostRefused("code_unknown")
	case err != nil:
		return "", outcome, err
	case f.Origin != store.HostSession || f.Code.RedirectURI != host.Callback() || a.Origin != host.Origin():
		return "", outcome, hostRefused("code_of_another_host")
	case !oauth.VerifierMatches(oauth.NewSecret(a.Verifier), f.Code.Challenge):
		return "", outcome, hostRefused("code_verifier_wrong")
	case subtle.ConstantTimeCompare([]byte(f.Code.Nonce), []byte(a.Nonce)) != 1:
		return "", outcome, hostRefused("nonce_wrong")
	}
	signIn, err := fs.Store.Family(ctx, f.SignIn.SessionID) // the host session ends with this sign-in
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "", outcome, hostRefused("code_expired")
	case err != nil:
		return "", outcome, err
	}
	outcome, _, err = fs.Store.RedeemCode(ctx, id, store.Redemption{At: fs.Now(), ExpiresAt: signIn.ExpiresAt, MaxFailures: 1})
	if err != nil {
		return "", outcome, err
	}
	return id, outcome, nil
}

// CountSignIn counts a sign-in at a provider against the address that it comes from, before the provider is asked. The caller must pass the
// result to settle.
func (s *HostSessions) CountSignIn(ctx context.Context, address string) (settle func(error), err error) {
	return s.signIns.CountSignIn(ctx, address)
}

// SignIn opens a session of the host for a user who has signed in at a provider, and returns its id and cookie. It is one durable step.
func (s *HostSessions) SignIn(ctx context.Context, who SignedIn, a HostAttempt, host oauth.Host) (id string, cookie oauth.Secret, err error) {
	id, err = s.sessions.OpenHostSession(ctx, who, host, a.Nonce)
	if err != nil {
		return "", oauth.Secret{}, err
	}
	return id, s.families().Master.HostSession(id, host.Origin()), nil
}

// hostRefused returns an error after which a new attempt may succeed.
func hostRefused(reason string) error { return oauth.NewError(oauth.InvalidGrant, reason) }

// End ends the session of a cookie and returns it, or nil if there is none. If the session depends on a session at our issuer, End ends
// that one, and so all host sessions that depend on it. Otherwise it ends the user's sessions through the same provider, at all hosts.
func (s *HostSessions) End(ctx context.Context, cookie string, host oauth.Host) (*Session, error) {
	session, err := s.session(ctx, cookie, host)
	if session == nil || err != nil {
		return nil, err
	}
	if session.Family.SignIn.SessionID == "" {
		if err := s.sessions.EndHostSessionsOf(ctx, session.User, session.Family.SignIn.Provider); err != nil {
			return nil, err
		}
		return session, s.sessions.EndSession(ctx, session)
	}
	signIn := &Session{Family: &store.TokenFamily{ID: session.Family.SignIn.SessionID}, User: session.User}
	if err := s.sessions.SignOut(ctx, signIn); err != nil {
		return nil, err
	}
	return session, s.sessions.EndSession(ctx, session)
}
