package command

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
)

// userInvite invites a user who exists, or adds one first.
func userInvite(api *apiClient) *cobra.Command {
	var id string
	cmd := queryCommand("invite EMAIL|ID [--name NAME] [--org ID] [--role ROLE]", "Gives a user a link to set the first password; adds the user if there is none with the address",
		cobra.ExactArgs(1),
		func(cmd *cobra.Command, args []string, link *admin.Link) error {
			request, err := userRequest(cmd)
			if err != nil {
				return err
			}
			request["user"] = args[0]
			if id != "" {
				request["id"] = id
			}
			return api.call(admin.InviteUser.For(), request, link)
		}, printLink)
	addUserFlags(cmd)
	for _, hidden := range []string{"status", "email"} { // a new user is active, and the address is the argument
		_ = cmd.Flags().MarkHidden(hidden)
	}
	cmd.Flags().StringVar(&id, "id", "", "User id of a new user (default: generated)")
	return cmd
}

func userRecover(api *apiClient) *cobra.Command {
	var mails bool
	cmd := queryCommand("recover ID|EMAIL [--mail]", "Gives a user who has lost everything a link to set a password; ends every token and session, and the link removes the second factors",
		cobra.ExactArgs(1),
		func(_ *cobra.Command, args []string, link *admin.Link) error {
			return api.call(admin.RecoverUser.For(args[0]), map[string]bool{"mail": mails}, link)
		}, printLink)
	cmd.Flags().BoolVar(&mails, "mail", false, "Mails the link to the user, and does not print it")
	return cmd
}

// printLink prints a link, or to whom it was mailed.
func printLink(out io.Writer, link *admin.Link) error {
	if link.Mailed {
		_, err := fmt.Fprintf(out, "A link was mailed to %s. It works once, until %s.\n", link.Email, moment(link.ExpiresAt))
		return err
	}
	_, err := fmt.Fprintf(out, "%s\n\nHand this link to %s alone: who opens it sets the password. It works once, until %s.\n", link.Link, link.Email, moment(link.ExpiresAt))
	return err
}
