package command

import (
	"net/http"
	"path/filepath"

	"github.com/spf13/cobra"
)

func backupCommand(api *apiClient) *cobra.Command {
	return command("backup FILE", "Writes a copy of the SQLite store into a new file, while Caddy runs", cobra.ExactArgs(1),
		func(_ *cobra.Command, args []string) error {
			path, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			return api.call(http.MethodPost, "/oauth/backup", map[string]string{"path": path}, nil)
		})
}
