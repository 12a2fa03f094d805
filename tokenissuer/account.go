package tokenissuer

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Application is a client that may act for a user, with what it may do.
type Application struct {
	Client *store.Client
	Scopes oauth.Scopes
	// Since is when the first family that still lives was made, LastUsed when one was refreshed last.
	Since, LastUsed time.Time
}

// Account is what a user sees of what they have allowed.
type Account struct {
	Applications []Application
	Sessions     []*store.TokenFamily
	// Hosts are the host sessions that came of a session, by its id, the newest first.
	Hosts map[string][]HostSession
	// Told are the applications that are told when a session ends, by the id of the session and in the order of their ids.
	Told map[string][]*store.Client
}

// HostSession is a host behind the gate at which a session is used.
type HostSession struct {
	ID string
	// Host is what the browser names it: the authority of its URL.
	Host            string
	Since, LastUsed time.Time
}

// hostSession returns what a user sees of a host session; false when it is none that can be used.
func hostSession(f *store.TokenFamily, now time.Time) (HostSession, bool) {
	callback, err := url.Parse(f.Code.RedirectURI)
	if err != nil || f.Code.SpentAt.IsZero() || !now.Before(f.RotatedAt.Add(sessionIdle)) {
		return HostSession{}, false
	}
	return HostSession{ID: f.ID, Host: callback.Host, Since: f.CreatedAt, LastUsed: f.RotatedAt}, true
}

// AccountOf lists the applications that may act for a user, by name, and the browsers in which the user is signed in,
// the newest first.
func (is *Issuer) AccountOf(ctx context.Context, user *store.User) (Account, error) {
	now := is.Now()
	families, err := is.Store.FamiliesOf(ctx, user.ID, now)
	if err != nil {
		return Account{}, oauth.Unavailable("store_unavailable", err)
	}
	account := Account{Hosts: make(map[string][]HostSession)}
	byClient := make(map[string]*Application)
	for _, f := range families {
		switch {
		case f.UserVersion != user.Version || is.Revocations.RevokedFamily(f, user.Organisation):
		case f.Origin == store.BrowserSession:
			account.Sessions = append(account.Sessions, f)
		case f.Origin == store.HostSession:
			if host, ok := hostSession(f, now); ok {
				account.Hosts[f.SessionID] = append(account.Hosts[f.SessionID], host)
			}
		default:
			byClient[f.ClientID] = byClient[f.ClientID].with(f)
		}
	}
	// One that rests here may be in use at a host.
	account.Sessions = slices.DeleteFunc(account.Sessions, func(f *store.TokenFamily) bool {
		return !now.Before(f.RotatedAt.Add(sessionIdle)) && len(account.Hosts[f.ID]) == 0
	})
	for id, application := range byClient {
		application.Client, err = is.Clients().find(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			continue // a client that was removed can do nothing any more
		}
		if err != nil {
			return Account{}, oauth.Unavailable("directory_unavailable", err)
		}
		account.Applications = append(account.Applications, *application)
	}
	if account.Told, err = is.toldOf(ctx, account.Sessions); err != nil {
		return Account{}, err
	}
	slices.SortFunc(account.Applications, func(a, b Application) int {
		return strings.Compare(a.Client.Name+"\x00"+a.Client.ID, b.Client.Name+"\x00"+b.Client.ID)
	})
	return account, nil
}

// toldOf returns the applications that are told when the sessions end, by session.
func (is *Issuer) toldOf(ctx context.Context, sessions []*store.TokenFamily) (map[string][]*store.Client, error) {
	if !is.OpenID || len(sessions) == 0 {
		return nil, nil
	}
	ids := make([]string, len(sessions))
	for i, f := range sessions {
		ids[i] = f.ID
	}
	noted, err := is.Store.SessionClients(ctx, ids...)
	if err != nil {
		return nil, oauth.Unavailable("store_unavailable", err)
	}
	told := make(map[string][]*store.Client)
	for session, clients := range noted {
		for _, id := range clients {
			client, err := is.Clients().find(ctx, id)
			switch {
			case errors.Is(err, store.ErrNotFound):
				continue
			case err != nil:
				return nil, oauth.Unavailable("directory_unavailable", err)
			case client.Disabled || client.OpenID.BackchannelLogoutURI == "":
				continue
			}
			told[session] = append(told[session], client)
		}
	}
	return told, nil
}

// with adds a family to an application, which may be nil.
func (a *Application) with(f *store.TokenFamily) *Application {
	if a == nil {
		a = &Application{Since: f.CreatedAt}
	}
	for _, name := range f.Scopes {
		if !a.Scopes.Has(name) {
			a.Scopes = append(a.Scopes, name)
		}
	}
	if f.CreatedAt.Before(a.Since) {
		a.Since = f.CreatedAt
	}
	if f.RotatedAt.After(a.LastUsed) {
		a.LastUsed = f.RotatedAt
	}
	return a
}

// RevokeApplication takes back what a user has allowed a client: its tokens, its codes, and the consent.
func (k *Records) RevokeApplication(ctx context.Context, user *store.User, clientID string) error {
	if clientID == "" {
		return oauth.MissingParameter("application")
	}
	if err := k.Store.DropConsent(ctx, user.ID, clientID); err != nil {
		return oauth.Unavailable("store_unavailable", err)
	}
	return k.EndFamilies(ctx, store.FamilyFilter{
		UserID: user.ID, ClientID: clientID, Origins: []oauth.GrantType{oauth.AuthorizationCode, oauth.PasswordGrant, store.AdminCreated},
	})
}

// EndSessionOf ends one of a user's sessions, with all that came of it, or one at a host. Another user's is left alone, as if it did not
// exist.
func (k *Records) EndSessionOf(ctx context.Context, user *store.User, sessionID string) error {
	f, err := k.family(ctx, sessionID)
	if err != nil || f == nil || f.UserID != user.ID || f.Origin != store.BrowserSession && f.Origin != store.HostSession {
		return err
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
