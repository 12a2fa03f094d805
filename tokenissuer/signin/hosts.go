package signin

import (
	"context"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// HostClientID is the client id of sign-ins at hosts.
const HostClientID = store.BuiltInClientID

// OpenHostSession opens a host session for a user who has signed in at an identity provider and has no session at the issuer. It returns
// the session's id. It is one durable step. attempt identifies the sign-in, which can open only one session.
func (ss *Sessions) OpenHostSession(ctx context.Context, who SignedIn, host oauth.Host, attempt string) (id string, err error) {
	now, f := ss.Families.Now(), ss.begin(who, store.HostSession)
	f.Code = store.CodeBinding{RequestID: attempt, RedirectURI: host.Callback(), ExpiresAt: now, SpentAt: now}
	return f.ID, ss.Families.Add(ctx, f, who.User)
}

// EndHostSessionsOf ends a user's sessions at hosts through a provider, in every browser.
func (ss *Sessions) EndHostSessionsOf(ctx context.Context, user *store.User, provider string) error {
	return ss.endHostSessions(ctx, user, func(f *store.TokenFamily) bool { return f.SignIn.SessionID == "" && f.SignIn.Provider == provider })
}

// endHostSessions ends a user's sessions at hosts for which meant returns true.
func (ss *Sessions) endHostSessions(ctx context.Context, user *store.User, meant func(*store.TokenFamily) bool) error {
	families, err := ss.Families.Store.FamiliesOf(ctx, user.ID, ss.Families.Now())
	if err != nil {
		return err
	}
	for _, f := range families {
		if f.Origin != store.HostSession || !meant(f) {
			continue
		}
		if err := ss.Families.EndFamilies(ctx, store.FamilyFilter{ID: f.ID}); err != nil {
			return err
		}
	}
	return nil
}

// EndSessionOf ends one of a user's sessions with everything that depends on it. For a host session, it ends the user's sessions at the
// same host that depend on the same session. Another user's session is left unchanged, as if it did not exist. EndSessionOf reports whether the
// user had that session.
func (ss *Sessions) EndSessionOf(ctx context.Context, user *store.User, sessionID string) (bool, error) {
	f, err := ss.Families.Living(ctx, sessionID)
	if err != nil || f == nil || f.User.ID != user.ID || f.Origin != store.BrowserSession && f.Origin != store.HostSession {
		return false, err
	}
	if f.Origin == store.HostSession {
		same := func(other *store.TokenFamily) bool {
			return other.SignIn.SessionID == f.SignIn.SessionID && other.Code.RedirectURI == f.Code.RedirectURI
		}
		if err := ss.endHostSessions(ctx, user, same); err != nil {
			return false, err
		}
	}
	return true, ss.Families.EndFamilies(ctx, store.FamilyFilter{ID: f.ID})
}
