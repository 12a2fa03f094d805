package command

import (
	"bufio"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
)

func userGroup(api *apiClient) *cobra.Command {
	return group("group", "Puts many users into a group, or takes them out",
		groupChange(api, "add GROUP --user ID|EMAIL… | --from FILE", "Puts users into a group, each in a step of its own; who was not in it loses every token and session",
			func(change *admin.GroupChange, users []string) { change.Add = users }),
		groupChange(api, "remove GROUP --user ID|EMAIL… | --from FILE", "Takes users out of a group, each in a step of its own; who was in it loses every token and session",
			func(change *admin.GroupChange, users []string) { change.Remove = users }))
}

func groupChange(api *apiClient, use, short string, set func(*admin.GroupChange, []string)) *cobra.Command {
	var named []string
	var from string
	var asJSON bool
	cmd := command(use, short, cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		users := slices.Clone(named)
		if from != "" {
			listed, err := usersIn(cmd, from)
			if err != nil {
				return err
			}
			users = append(users, listed...)
		}
		if len(users) == 0 {
			return errors.New("name the users, with --user or --from")
		}
		counts := make(map[admin.Outcome]int)
		for batch := range slices.Chunk(users, batchUsers) {
			change := admin.GroupChange{Group: args[0]}
			set(&change, batch)
			var results []admin.Imported
			if err := api.call(admin.ChangeGroups.For(), change, &results); err != nil {
				return err
			}
			for _, result := range results {
				counts[result.Result]++
				if asJSON {
					if err := printJSON(cmd.OutOrStdout(), result); err != nil {
						return err
					}
					continue
				}
				_, _ = fmt.Fprintln(cmd.OutOrStdout(), resultInWords(result))
			}
		}
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), countsInWords(counts))
		if n := counts[admin.Refused]; n > 0 {
			return fmt.Errorf("%d users were refused", n)
		}
		return nil
	})
	cmd.Flags().StringArrayVar(&named, "user", nil, "User, by id or e-mail address; repeat it for more")
	cmd.Flags().StringVar(&from, "from", "", `File with a user on each line; "-" is standard input`)
	cmd.Flags().BoolVar(&asJSON, "json", false, "Print JSON")
	return cmd
}

// usersIn reads names of users, one a line, without empty lines.
func usersIn(cmd *cobra.Command, name string) (users []string, err error) {
	in, closes, err := openInput(cmd, name)
	if err != nil {
		return nil, err
	}
	defer closes()
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if user := strings.TrimSpace(strings.TrimPrefix(lines.Text(), "\ufeff")); user != "" {
			users = append(users, user)
		}
	}
	return users, lines.Err()
}
