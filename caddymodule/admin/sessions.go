package admin

import (
	"net/http"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
)

// Session is a browser in which a user is signed in.
type Session struct {
	// ID is that of the family: `token revoke --family` ends it. It is the sid of the ID tokens that were issued in it.
	ID        string    `json:"id"`
	Browser   string    `json:"browser"`
	CreatedAt time.Time `json:"created_at"`
	LastSeen  time.Time `json:"last_seen"`
	// Provider is the identity provider at which the user has signed in; empty: with a password.
	Provider string `json:"provider,omitempty"`
	// Hosts are the host sessions of this session, which end with it.
	Hosts []HostSession `json:"hosts,omitempty"`
	// Told are the clients that get a logout token when the session ends.
	Told []string `json:"told,omitempty"`
}

// HostSession is the session at a host. `token revoke --family` with its ID ends only this one.
type HostSession struct {
	ID        string    `json:"id"`
	Host      string    `json:"host"`
	CreatedAt time.Time `json:"created_at"`
	LastSeen  time.Time `json:"last_seen"`
}

func listSessions(t *Target, r *http.Request) (int, any, error) {
	user, err := t.Registry.People.UserNamed(r.Context(), r.PathValue("id"))
	if err != nil {
		return 0, nil, err
	}
	allowed, err := people.Accounts{Sessions: t.Issuer.Sessions}.Of(r.Context(), user)
	if err != nil {
		return 0, nil, err
	}
	views := make([]Session, 0, len(allowed.Sessions))
	for _, f := range allowed.Sessions {
		view := Session{ID: f.ID, Browser: f.Note, CreatedAt: f.CreatedAt, LastSeen: f.Refresh.RotatedAt, Provider: f.SignIn.Provider}
		for _, host := range allowed.Hosts[f.ID] {
			view.Hosts = append(view.Hosts, HostSession{ID: host.ID, Host: host.Host, CreatedAt: host.Since, LastSeen: host.LastUsed})
		}
		for _, client := range allowed.Told[f.ID] {
			view.Told = append(view.Told, client.ID)
		}
		views = append(views, view)
	}
	return http.StatusOK, views, nil
}
