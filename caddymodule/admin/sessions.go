package admin

import (
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// sessionView is a browser in which a user is signed in.
type sessionView struct {
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
	views := make([]sessionView, 0, len(account.Sessions))
	for _, f := range account.Sessions {
		view := sessionView{ID: f.ID, Browser: f.Note, CreatedAt: f.CreatedAt, LastSeen: f.RotatedAt}
		for _, client := range account.Told[f.ID] {
			view.Told = append(view.Told, client.ID)
		}
		views = append(views, view)
	}
	return http.StatusOK, views, nil
}

func userSessions(admin *apiClient) *cobra.Command {
	return queryCommand("sessions ID|EMAIL", "Lists the browsers in which a user is signed in, and which applications are told when that ends", cobra.ExactArgs(1),
		func(_ *cobra.Command, args []string, sessions *[]sessionView) error {
			return admin.call(http.MethodGet, idPath("users", args[0])+"/sessions", nil, sessions)
		},
		func(out io.Writer, sessions *[]sessionView) error {
			return printList(out, "ID\tBROWSER\tSINCE\tLAST SEEN\tTOLD", *sessions, func(s *sessionView) []string {
				return []string{s.ID, s.Browser, moment(s.CreatedAt), moment(s.LastSeen), strings.Join(s.Told, " ")}
			})
		})
}
