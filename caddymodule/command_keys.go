package caddymodule

import (
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func keysCommand(admin *adminClient) *cobra.Command {
	return group("keys", "Shows, rotates and revokes the signing keys", keysList(admin), keysRotate(admin), keysRevoke(admin))
}

func keysList(admin *adminClient) *cobra.Command {
	var asJSON bool
	return jsonFlag(command("list", "Lists the signing keys, and those that were revoked", cobra.NoArgs,
		func(_ []string, _ io.Reader, out io.Writer) error {
			var keys []keyView
			if err := admin.call(http.MethodGet, "/oauth/keys", nil, &keys); err != nil {
				return err
			}
			if asJSON {
				return printJSON(out, keys)
			}
			table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			_, _ = fmt.Fprintln(table, "KID\tALGORITHM\tSTATE\tCREATED\tSIGNS FROM\tREVOKED\tENCRYPTED WITH")
			for _, k := range keys {
				_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
					k.ID, k.Algorithm, k.State, moment(k.CreatedAt), moment(k.ActiveFrom), moment(k.RevokedAt), k.SealedWith)
			}
			return table.Flush()
		}), &asJSON)
}

func keysRotate(admin *adminClient) *cobra.Command {
	var now, asJSON bool
	cmd := command("rotate [--now]", "Publishes a new signing key, which signs ten minutes later", cobra.NoArgs,
		func(_ []string, _ io.Reader, out io.Writer) error {
			var key keyView
			if err := admin.call(http.MethodPost, "/oauth/keys/rotate", map[string]bool{"now": now}, &key); err != nil {
				return err
			}
			if asJSON {
				return printJSON(out, key)
			}
			return printRows(out, [][2]string{{"kid", key.ID}, {"signs from", moment(key.ActiveFrom)}})
		})
	cmd.Flags().BoolVar(&now, "now", false, "Sign with it at once: who keeps the published keys for a while refuses its tokens until then")
	return jsonFlag(cmd, &asJSON)
}

func keysRevoke(admin *adminClient) *cobra.Command {
	return command("revoke KID", "Withdraws a signing key: whatever it has signed is refused from now on", cobra.ExactArgs(1),
		func(args []string, _ io.Reader, _ io.Writer) error {
			return admin.call(http.MethodPost, "/oauth/keys/revoke", map[string]string{"kid": args[0]}, nil)
		})
}
