package command

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
)

func backupCommand(api *apiClient) *cobra.Command {
	cmd := command("backup FILE", "Writes a copy of the SQLite store into a new file, while Caddy runs", cobra.ExactArgs(1),
		func(_ *cobra.Command, args []string) error {
			path, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			return api.call(admin.WriteBackup.For(), map[string]string{"path": path}, nil)
		})
	cmd.ValidArgsFunction = nil // a file
	return cmd
}
