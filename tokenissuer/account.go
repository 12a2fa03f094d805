package tokenissuer

import (
	"context"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// RevokeApplication takes back what a user has allowed a client: its tokens, its codes, and the consent.
func (k *Records) RevokeApplication(ctx context.Context, user *store.User, clientID string) error {
	if clientID == "" {
		return oauth.MissingParameter("application")
	}
	if err := k.Store.DropConsent(ctx, user.ID, clientID); err != nil {
		return err
	}
	return k.EndFamilies(ctx, store.FamilyFilter{
		UserID: user.ID, ClientID: clientID, Origins: []oauth.GrantType{oauth.AuthorizationCode, oauth.PasswordGrant, store.AdminCreated},
	})
}

// EndSessionOf ends one of a user's sessions, with all that came of it, or those that came of one sign-in at a host. Another user's is left
// alone, as if it did not exist.
func (k *Records) EndSessionOf(ctx context.Context, user *store.User, sessionID string) error {
	f, err := k.family(ctx, sessionID)
	if err != nil || f == nil || f.UserID != user.ID || f.Origin != store.BrowserSession && f.Origin != store.HostSession {
		return err
	}
	if f.Origin == store.HostSession {
		same := func(other *store.TokenFamily) bool {
			return other.SessionID == f.SessionID && other.Code.RedirectURI == f.Code.RedirectURI
		}
		if err := k.endHostSessions(ctx, user, same); err != nil {
			return err
		}
	}
	return k.EndFamilies(ctx, store.FamilyFilter{ID: f.ID})
}

// SignOutEverywhere ends everything that acts for the user, and what the user has created for others.
func (k *Records) SignOutEverywhere(ctx context.Context, user *store.User) error {
	return k.EndPerson(ctx, user.ID)
}

// EndPerson ends every family of a user, and every one of which the user is the actor. Those go first, so that a session in
// which this failed lives and can repeat it; and once more when nothing is left that could create others.
func (k *Records) EndPerson(ctx context.Context, id string) error {
	for _, which := range []store.FamilyFilter{{ActorID: id}, {UserID: id}, {ActorID: id}} {
		if err := k.EndFamilies(ctx, which); err != nil {
			return err
		}
	}
	return nil
}
