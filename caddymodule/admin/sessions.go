package admin

import (
	"net/http"
	"time"
)

// Session is a browser in which a user is signed in.
type Session struct {
	// ID is that of the family: `token revoke --family` ends it. It is the sid of the ID tokens that were issued in it.
	ID        string    `json:"id"`
	Browser   string    `json:"browser"`
	CreatedAt time.Time `json:"created_at"`
	LastSeen  time.Time `json:"last_seen"`
	// Told are the clients that are told when the session ends.
	Told []string `json:"told,omitempty"`
}

func listSessions(t *Target, r *http.Request) (int, any, error) {
	user, err := t.Registry.UserNamed(r.Context(), r.PathValue("id"))
	if err != nil {
		return 0, nil, err
	}
	account, err := t.Issuer.AccountOf(r.Context(), user)
	if err != nil {
		return 0, nil, err
	}
	views := make([]Session, 0, len(account.Sessions))
	for _, f := range account.Sessions {
		view := Session{ID: f.ID, Browser: f.Note, CreatedAt: f.CreatedAt, LastSeen: f.RotatedAt}
		for _, client := range account.Told[f.ID] {
			view.Told = append(view.Told, client.ID)
		}
		views = append(views, view)
	}
	return http.StatusOK, views, nil
}
