package admin

import (
	"errors"
	"net/http"
	"reflect"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var sessionOperations = map[Route]operation{
	ListSessions: shows[[]SessionOfAnybody]("Lists the sessions of browsers, at hosts and of applications", bare(listSessions)).by(reflect.TypeFor[sessionQuery]()),
	EndSession:   changes("Ends a session with everything that depends on it", bare(endSession)),
	EndSessions:  changes("Ends all sessions of a user, or all of an application", bare(endSessions)).by(reflect.TypeFor[endedSessions]()),
}

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

func userSessions(t *Target, r *http.Request) (int, any, error) {
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

// sessionQuery is the filter of the list of sessions.
type sessionQuery struct {
	User   string `json:"user" help:"Id or e-mail address of the user"`
	Client string `json:"client" help:"Id of the application"`
	Host   string `json:"host" help:"Host, as in the URL of the browser"`
	pageQuery
}

// SessionOfAnybody is the session of a browser or at a host, or what an application was granted.
type SessionOfAnybody struct {
	// ID is that of the family.
	ID string `json:"id"`
	// Kind is browser, host or application.
	Kind  SessionKind `json:"kind"`
	User  string      `json:"user"`
	Email string      `json:"email"`
	// Client is the application's, and Host that of a session at a host. Browser describes the browser of a session.
	Client  string `json:"client,omitzero"`
	Host    string `json:"host,omitzero"`
	Browser string `json:"browser,omitzero"`
	// Session is the session of a browser with which a session at a host ends.
	Session string `json:"session,omitzero"`
	// Provider is the identity provider at which the user has signed in; empty: with a password.
	Provider  string    `json:"provider,omitzero"`
	CreatedAt time.Time `json:"created_at"`
	LastSeen  time.Time `json:"last_seen"`
}

// SessionKind is a kind of session.
type SessionKind string

// The kinds of sessions. IdleBrowser is a browser's that is too long unused for the issuer's pages, and in which sessions at hosts may live.
const (
	AtBrowser     SessionKind = "browser"
	IdleBrowser   SessionKind = "browser, idle"
	AtHost        SessionKind = "host"
	OfApplication SessionKind = "application"
)

func viewOfSession(in people.SignedIn) SessionOfAnybody {
	view := SessionOfAnybody{
		ID: in.ID, User: in.Whose.ID, Email: in.Whose.Email, Provider: in.SignIn.Provider, CreatedAt: in.CreatedAt, LastSeen: in.Refresh.RotatedAt,
	}
	switch {
	case in.Origin == store.HostSession:
		view.Kind, view.Host, view.Session = AtHost, in.Host, in.SignIn.SessionID
	case in.Origin != store.BrowserSession:
		view.Kind, view.Client = OfApplication, in.ClientID
	case in.Idle:
		view.Kind, view.Browser = IdleBrowser, in.Note
	default:
		view.Kind, view.Browser = AtBrowser, in.Note
	}
	if view.LastSeen.IsZero() {
		view.LastSeen = in.CreatedAt
	}
	return view
}

func listSessions(t *Target, r *http.Request) (int, any, error) {
	asked, err := queryOf[sessionQuery](r)
	if err != nil {
		return 0, nil, err
	}
	q := store.FamilyQuery{ClientID: asked.Client, Host: asked.Host}
	if err := asked.read(&q.After, &q.Limit); err != nil {
		return 0, nil, err
	}
	if asked.User != "" {
		user, err := t.Registry.People.UserNamed(r.Context(), asked.User)
		if err != nil {
			return 0, nil, err
		}
		q.UserID = user.ID
	}
	found, after, err := people.Accounts{Sessions: t.Issuer.Sessions}.Find(r.Context(), q)
	status, sessions, err := listed(found, err, viewOfSession)
	return status, page{sessions, next(r, after)}, err
}

// endSession ends one family and what depends on it.
func endSession(t *Target, r *http.Request) (int, any, error) {
	f, err := t.Issuer.Families.Living(r.Context(), r.PathValue("id"))
	if err == nil && f == nil {
		err = store.ErrNotFound
	}
	if err == nil {
		err = t.Issuer.Families.EndFamilies(r.Context(), store.FamilyFilter{ID: f.ID})
	}
	if err != nil {
		return 0, nil, err
	}
	t.record(r.Context(), "sessions ended", zap.String("family", f.ID), zap.String("subject", f.User.ID))
	return http.StatusNoContent, nil, nil
}

// endedSessions says whose sessions to end.
type endedSessions struct {
	User   string `json:"user" help:"Id or e-mail address of the user"`
	Client string `json:"client" help:"Id of the application"`
}

func endSessions(t *Target, r *http.Request) (int, any, error) {
	asked, err := queryOf[endedSessions](r)
	if err != nil {
		return 0, nil, err
	}
	if (asked.User == "") == (asked.Client == "") {
		return 0, nil, store.InvalidInput(errors.New("name whose sessions to end: user or client"))
	}
	var field zap.Field
	if asked.User != "" {
		var user *store.User
		if user, err = t.Registry.People.UserNamed(r.Context(), asked.User); err == nil {
			field, err = zap.String("subject", user.ID), t.Issuer.Families.EndPerson(r.Context(), user.ID)
		}
	} else {
		var client *store.Client
		if client, err = t.Registry.Clients.Client(r.Context(), asked.Client); err == nil {
			field, err = zap.String("client_id", client.ID), t.Issuer.Families.EndFamilies(r.Context(), store.FamilyFilter{ClientID: client.ID})
		}
	}
	if err != nil {
		return 0, nil, err
	}
	t.record(r.Context(), "sessions ended", field)
	return http.StatusNoContent, nil, nil
}
