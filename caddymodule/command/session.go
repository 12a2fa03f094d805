package command

import (
	"cmp"
	"errors"
	"io"
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
)

func sessionCommand(api *apiClient) *cobra.Command {
	return group("session", "Lists and ends the sessions of browsers, at hosts and of applications", sessionList(api), sessionEnd(api))
}

func sessionList(api *apiClient) *cobra.Command {
	filters := []struct{ name, help string }{
		{"user", "Sessions of the user, by id or e-mail address"},
		{"client", "What the application was granted, by its id"},
		{"host", "Sessions at the host, as in the URL of the browser"},
	}
	cmd := queryCommand("list", "Lists the sessions of everybody, those used last first", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string, sessions *[]admin.SessionOfAnybody) error {
			query := url.Values{}
			for _, filter := range filters {
				if cmd.Flags().Changed(filter.name) { // an empty one is refused: it would list everything
					value, _ := cmd.Flags().GetString(filter.name)
					query.Set(filter.name, value)
				}
			}
			err := allOf(api, admin.ListSessions, query, sessions)
			slices.SortStableFunc(*sessions, func(a, b admin.SessionOfAnybody) int { return b.LastSeen.Compare(a.LastSeen) })
			return err
		},
		func(out io.Writer, sessions *[]admin.SessionOfAnybody) error {
			return printList(out, "ID\tKIND\tUSER\tEMAIL\tWHERE\tSINCE\tLAST SEEN", *sessions, func(s *admin.SessionOfAnybody) []string {
				return []string{s.ID, string(s.Kind), s.User, s.Email, cmp.Or(s.Host, s.Client, s.Browser), moment(s.CreatedAt), moment(s.LastSeen)}
			})
		})
	for _, filter := range filters {
		cmd.Flags().String(filter.name, "", filter.help)
	}
	return cmd
}

func sessionEnd(api *apiClient) *cobra.Command {
	var user, client string
	cmd := command("end ID | --user ID|EMAIL | --client ID", "Ends a session, or all of a user, or all of an application, with what depends on them", cobra.MaximumNArgs(1),
		func(cmd *cobra.Command, args []string) error {
			switch byUser, byClient := cmd.Flags().Changed("user"), cmd.Flags().Changed("client"); {
			case len(args) == 1 && !byUser && !byClient:
				return api.call(admin.EndSession.For(args[0]), nil, nil)
			case len(args) == 0 && byUser && !byClient:
				return api.call(admin.EndSessions.For().With(url.Values{"user": {user}}), nil, nil)
			case len(args) == 0 && byClient && !byUser:
				return api.call(admin.EndSessions.For().With(url.Values{"client": {client}}), nil, nil)
			}
			return errors.New("name one session, as `caddy oauth session list` shows it, or one of --user and --client")
		})
	cmd.Long = `Ends a session, or all of a user, or all of an application. The session of a
browser ends with its sessions at hosts, and applications are told. What an
application was granted ends with its tokens.`
	cmd.Flags().StringVar(&user, "user", "", "User whose sessions to end, with everything granted to applications")
	cmd.Flags().StringVar(&client, "client", "", "Application whose grants to end, of every user")
	return cmd
}
