package command

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
)

func keysCommand(api *apiClient) *cobra.Command {
	return group("keys", "Shows, rotates and revokes the signing keys", keysList(api), keysRotate(api), keysRevoke(api))
}

func keysList(api *apiClient) *cobra.Command {
	return listCommand(api, "Lists the signing keys, and those that were revoked", admin.ListKeys,
		"KID\tALGORITHM\tSTATE\tCREATED\tSIGNS FROM\tREVOKED\tENCRYPTED WITH", func(k *admin.Key) []string {
			return []string{
				k.ID, string(k.Algorithm), string(k.State), moment(k.CreatedAt), moment(k.ActiveFrom), moment(k.RevokedAt), k.SealedWith,
			}
		})
}

func keysRotate(api *apiClient) *cobra.Command {
	var asked admin.NewKey
	cmd := queryCommand("rotate [--algorithm ALGORITHM] [--now]", "Publishes a new signing key, which signs ten minutes later", cobra.NoArgs,
		func(_ *cobra.Command, _ []string, key *admin.Key) error {
			return api.call(admin.RotateKeys.For(), asked, key)
		},
		func(out io.Writer, key *admin.Key) error {
			return printRows(out, [][]string{{"kid", key.ID}, {"algorithm", string(key.Algorithm)}, {"signs from", moment(key.ActiveFrom)}})
		})
	cmd.Flags().StringVar((*string)(&asked.Algorithm), "algorithm", "", "Of the keys for ID tokens, rotate that of this algorithm; without it the key for access tokens")
	cmd.Flags().BoolVar(&asked.Now, "now", false, "Sign with it at once: who keeps the published keys for a while refuses its tokens until then")
	return cmd
}

func keysRevoke(api *apiClient) *cobra.Command {
	return command("revoke KID", "Withdraws a signing key: whatever it has signed is refused from now on", cobra.ExactArgs(1),
		func(_ *cobra.Command, args []string) error {
			return api.call(admin.RevokeKey.For(), map[string]string{"kid": args[0]}, nil)
		})
}
