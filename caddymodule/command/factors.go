package command

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
)

func factorsCommand(api *apiClient) *cobra.Command {
	return group("factors", "Manages the second factors of users", factorsList(api), factorsRemove(api))
}

func factorsList(api *apiClient) *cobra.Command {
	return queryCommand("list ID|EMAIL", "Lists the second factors of a user", cobra.ExactArgs(1),
		func(_ *cobra.Command, args []string, factors *[]admin.Factor) error {
			return api.call(admin.ListFactors.For(args[0]), nil, factors)
		},
		func(out io.Writer, factors *[]admin.Factor) error {
			return printList(out, "ID\tKIND\tNAME\tADDED\tLAST USED", *factors, func(f *admin.Factor) []string {
				kind := string(f.Kind)
				if f.CodesLeft != nil {
					kind = fmt.Sprintf("%s (%d left)", kind, *f.CodesLeft)
				}
				return []string{f.ID, kind, f.Name, moment(f.CreatedAt), day(f.LastUsedAt)}
			})
		})
}

func factorsRemove(api *apiClient) *cobra.Command {
	var all bool
	cmd := command("remove ID|EMAIL FACTOR | --all", "Removes a second factor of a user, for example one that was lost; sessions go on", cobra.RangeArgs(1, 2),
		func(_ *cobra.Command, args []string) error {
			switch {
			case all == (len(args) == 2):
				return errors.New("name one factor, as `caddy oauth user factors list` shows it, or --all")
			case all:
				return api.call(admin.RemoveFactors.For(args[0]), nil, nil)
			}
			return api.call(admin.RemoveFactor.For(args...), nil, nil)
		})
	cmd.Flags().BoolVar(&all, "all", false, "Removes all second factors")
	return cmd
}
