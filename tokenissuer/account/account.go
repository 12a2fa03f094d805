// Package account is what a user sees of what they have allowed.
package account

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
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
func hostSession(f *store.TokenFamily, limits tokenissuer.SessionLimits, now time.Time) (HostSession, bool) {
	callback, err := url.Parse(f.Code.RedirectURI)
	if err != nil || f.Code.SpentAt.IsZero() || limits.HasRested(f, now) {
		return HostSession{}, false
	}
	return HostSession{ID: f.ID, Host: callback.Host, Since: f.CreatedAt, LastUsed: f.RotatedAt}, true
}

// Of lists the applications that may act for a user, by name, and the browsers in which the user is signed in,
// the newest first.
func Of(ctx context.Context, is *tokenissuer.Issuer, user *store.User) (Account, error) {
	now := is.Now()
	families, err := is.Store.FamiliesOf(ctx, user.ID, now)
	if err != nil {
		return Account{}, err
	}
	account := Account{Hosts: make(map[string][]HostSession)}
	byClient := make(map[string]*Application)
	for _, f := range families {
		switch {
		case f.UserVersion != user.Version || is.Revocations.RevokedFamily(f, user.Organisation):
		case f.Origin == store.BrowserSession:
			account.Sessions = append(account.Sessions, f)
		case f.Origin == store.HostSession:
			if host, ok := hostSession(f, is.Sessions, now); ok {
				account.Hosts[f.SessionID] = withHost(account.Hosts[f.SessionID], host)
			}
		default:
			byClient[f.ClientID] = byClient[f.ClientID].with(f)
		}
	}
	// One that rests here may be in use at a host.
	account.Sessions = slices.DeleteFunc(account.Sessions, func(f *store.TokenFamily) bool {
		return is.Sessions.IsOver(f, now) || is.Sessions.HasRested(f, now) && len(account.Hosts[f.ID]) == 0
	})
	for id, application := range byClient {
		application.Client, err = is.Clients().Find(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			continue // a client that was removed can do nothing any more
		}
		if err != nil {
			return Account{}, err
		}
		account.Applications = append(account.Applications, *application)
	}
	if account.Told, err = toldOf(ctx, is, account.Sessions); err != nil {
		return Account{}, err
	}
	slices.SortFunc(account.Applications, func(a, b Application) int {
		return strings.Compare(a.Client.Name+"\x00"+a.Client.ID, b.Client.Name+"\x00"+b.Client.ID)
	})
	return account, nil
}

// withHost adds a host session to those of one sign-in. A browser may get another session of a host that it has one of, as with the back
// button; to its user they are one, which EndSessionOf ends as one.
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

// toldOf returns the applications that are told when the sessions end, by session.
func toldOf(ctx context.Context, is *tokenissuer.Issuer, sessions []*store.TokenFamily) (map[string][]*store.Client, error) {
	if !is.OpenID || len(sessions) == 0 {
		return nil, nil
	}
	ids := make([]string, len(sessions))
	for i, f := range sessions {
		ids[i] = f.ID
	}
	noted, err := is.Store.SessionClients(ctx, ids...)
	if err != nil {
		return nil, err
	}
	told := make(map[string][]*store.Client)
	for session, clients := range noted {
		for _, id := range clients {
			client, err := is.Clients().Find(ctx, id)
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
