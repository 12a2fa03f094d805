package people

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Application is a client that may act for a user, with its scopes.
type Application struct {
	Client *store.Client
	Scopes oauth.Scopes
	// Since is when its first living family was created. LastUsed is when one of them was last refreshed.
	Since, LastUsed time.Time
}

// Accounts lists and ends what acts for users.
type Accounts struct {
	Sessions *signin.Sessions
}

// Account lists what acts for a user and where the user is signed in.
type Account struct {
	Applications []Application
	Sessions     []*store.TokenFamily
	// Hosts maps the id of a session to the host sessions that depend on it, newest first.
	Hosts map[string][]HostSession
	// Told maps the id of a session to the applications that are notified when it ends, sorted by id.
	Told map[string][]*store.Client
}

// HostSession is a host behind the gate at which a session is used.
type HostSession struct {
	ID string
	// Host is the host as the browser names it: the authority of its URL.
	Host            string
	Since, LastUsed time.Time
}

// hostSession returns the user's view of a host session. It returns false if the session can no longer be used.
func hostSession(f *store.TokenFamily, limits signin.Limits, now time.Time) (HostSession, bool) {
	callback, err := url.Parse(f.Code.RedirectURI)
	if err != nil || f.Code.SpentAt.IsZero() || limits.IsIdle(f, now) {
		return HostSession{}, false
	}
	return HostSession{ID: f.ID, Host: callback.Host, Since: f.CreatedAt, LastUsed: f.Refresh.RotatedAt}, true
}

// Of lists the applications that may act for a user, sorted by name, and the browsers in which the user is signed in, newest first.
func (a Accounts) Of(ctx context.Context, user *store.User) (Account, error) {
	fs, limits := a.Sessions.Families, a.Sessions.Limits
	now := fs.Now()
	families, err := fs.Store.FamiliesOf(ctx, user.ID, now)
	if err != nil {
		return Account{}, err
	}
	account := Account{Hosts: make(map[string][]HostSession)}
	byClient := make(map[string]*Application)
	for _, f := range families {
		switch {
		case f.User.Version != user.Version || fs.Revocations.RevokedFamily(f, user.Organisation):
		case f.Origin == store.BrowserSession:
			account.Sessions = append(account.Sessions, f)
		case f.Origin == store.HostSession:
			if host, ok := hostSession(f, limits, now); ok {
				account.Hosts[f.SignIn.SessionID] = withHost(account.Hosts[f.SignIn.SessionID], host)
			}
		default:
			byClient[f.ClientID] = byClient[f.ClientID].with(f)
		}
	}
	// A session that is idle here may be in use at a host.
	account.Sessions = slices.DeleteFunc(account.Sessions, func(f *store.TokenFamily) bool {
		return limits.IsOver(f, now) || limits.IsIdle(f, now) && len(account.Hosts[f.ID]) == 0
	})
	for id, application := range byClient {
		application.Client, err = a.Sessions.Clients.Find(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			continue // a removed client can do nothing
		}
		if err != nil {
			return Account{}, err
		}
		account.Applications = append(account.Applications, *application)
	}
	if account.Told, err = a.toldOf(ctx, account.Sessions); err != nil {
		return Account{}, err
	}
	slices.SortFunc(account.Applications, func(a, b Application) int {
		return strings.Compare(a.Client.Name+"\x00"+a.Client.ID, b.Client.Name+"\x00"+b.Client.ID)
	})
	return account, nil
}

// withHost adds a host session to those of one sign-in. A browser may have several sessions at one host, for example after the back button.
// They are shown as one, and signin.Sessions.EndSessionOf ends them as one.
func withHost(hosts []HostSession, host HostSession) []HostSession {
	i := slices.IndexFunc(hosts, func(h HostSession) bool { return h.Host == host.Host })
	if i < 0 {
		return append(hosts, host)
	}
	if host.LastUsed.After(hosts[i].LastUsed) {
		hosts[i].LastUsed = host.LastUsed
	}
	if host.Since.Before(hosts[i].Since) {
		hosts[i].Since = host.Since
	}
	return hosts
}

// toldOf returns, by session, the applications that are notified when the session ends.
func (a Accounts) toldOf(ctx context.Context, sessions []*store.TokenFamily) (map[string][]*store.Client, error) {
	if !a.Sessions.Clients.OpenID || len(sessions) == 0 {
		return nil, nil
	}
	ids := make([]string, len(sessions))
	for i, f := range sessions {
		ids[i] = f.ID
	}
	noted, err := a.Sessions.Families.Store.SessionClients(ctx, ids...)
	if err != nil {
		return nil, err
	}
	told := make(map[string][]*store.Client)
	for session, clients := range noted {
		for _, id := range clients {
			client, err := a.Sessions.Clients.Find(ctx, id)
			switch {
			case errors.Is(err, store.ErrNotFound):
				continue
			case err != nil:
				return nil, err
			case client.Disabled || client.BackchannelLogoutURI == "":
				continue
			}
			told[session] = append(told[session], client)
		}
	}
	return told, nil
}

// with adds a family to an application. a may be nil.
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
	if f.Refresh.RotatedAt.After(a.LastUsed) {
		a.LastUsed = f.Refresh.RotatedAt
	}
	return a
}

// RevokeApplication revokes what a user allowed a client: its tokens, its codes and the consent. It reports whether the user had allowed it anything.
func (a Accounts) RevokeApplication(ctx context.Context, user *store.User, clientID string) (bool, error) {
	if clientID == "" {
		return false, oauth.MissingParameter("application")
	}
	fs := a.Sessions.Families
	consent, err := fs.Store.Consent(ctx, user.ID, clientID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, err
	}
	families, err := fs.Store.FamiliesOf(ctx, user.ID, fs.Now())
	if err != nil {
		return false, err
	}
	if err := fs.Store.PutConsent(ctx, user.ID, clientID, nil, fs.Now()); err != nil {
		return false, err
	}
	had := len(consent) > 0 || slices.ContainsFunc(families, func(f *store.TokenFamily) bool { return f.ClientID == clientID })
	return had, fs.EndFamilies(ctx, store.FamilyFilter{
		UserID: user.ID, ClientID: clientID, Origins: []oauth.GrantType{oauth.AuthorizationCode, oauth.DeviceCode, oauth.PasswordGrant, store.AdminCreated},
	})
}
