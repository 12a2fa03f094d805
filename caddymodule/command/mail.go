package command

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
)

func mailCommand(api *apiClient) *cobra.Command {
	return group("mail", "Tries how mail is sent", mailTest(api))
}

// mailTest sends a mail and prints what the server said. It fails if the server did not take it, for scripts.
func mailTest(api *apiClient) *cobra.Command {
	failed := false
	cmd := queryCommand("test ADDRESS", "Sends a mail to an address at once, and says what the mail server answered", cobra.ExactArgs(1),
		func(_ *cobra.Command, args []string, result *admin.MailTest) error {
			err := api.call(admin.TestMail.For(), admin.MailRequest{To: args[0]}, result)
			failed = result.Error != ""
			return err
		},
		func(out io.Writer, result *admin.MailTest) error {
			if result.Error != "" {
				_, err := fmt.Fprintf(out, "%s: %s\n", result.Server, result.Error)
				return err
			}
			_, err := fmt.Fprintf(out, "%s took the mail: %s\n", result.Server, result.Answer)
			return err
		})
	cmd.PostRunE = func(*cobra.Command, []string) error {
		if failed {
			return errors.New("the mail was not sent")
		}
		return nil
	}
	return cmd
}
