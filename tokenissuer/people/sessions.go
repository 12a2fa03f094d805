package people

import (
	"context"
	"errors"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// SignedIn is what lives of one sign-in or approval: the session of a browser, the session at a host, or what an application was granted.
type SignedIn struct {
	*store.TokenFamily
	Whose *store.User
	// Host is that of a session at a host; empty: it is something else.
	Host string
	// Idle reports that it has been unused for so long that it cannot be used itself any more. What depends on it may be in use.
	Idle bool
}

// Find returns a page of what lives, of everybody, and where the next page begins.
func (a Accounts) Find(ctx context.Context, q store.FamilyQuery) (list []SignedIn, next string, err error) {
	fs, limits := a.Sessions.Families, a.Sessions.Limits
	now := fs.Now()
	q.ExpireAfter = now
	page, err := fs.Store.FindFamilies(ctx, q)
	if err != nil {
		return nil, "", err
	}
	users := make(map[string]*store.User)
	for _, f := range page.Families {
		user, known := users[f.User.ID]
		if !known {
			user, err = fs.Directory.User(ctx, f.User.ID)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return nil, "", err
			}
			users[f.User.ID] = user
		}
		if user == nil || f.User.Version != user.Version || fs.Revocations.RevokedFamily(f, user.Organisation) {
			continue
		}
		in := SignedIn{TokenFamily: f, Whose: user}
		switch f.Origin {
		case store.BrowserSession:
			if limits.IsOver(f, now) {
				continue
			}
			in.Idle = limits.IsIdle(f, now)
		case store.HostSession:
			host, living := hostSession(f, limits, now)
			if !living {
				continue
			}
			in.Host = host.Host
		}
		list = append(list, in)
	}
	return list, page.Next, nil
}
