package caddymodule

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
)

var backupOperations = map[string]operation{"POST /oauth/backup": writeBackup}

// backer is a store that can write a copy of itself; see sqlstore.Store.
type backer interface {
	Backup(ctx context.Context, path string) error
}

// writeBackup writes a copy of the store on this machine. It holds all that the store does, sealed keys as sealed keys.
func writeBackup(t *Target, r *http.Request) (int, any, error) {
	var request struct {
		Path string `json:"path"`
	}
	if err := readAdmin(r, &request); err != nil {
		return 0, nil, err
	}
	if !filepath.IsAbs(request.Path) {
		return 0, nil, tokenissuer.InvalidInput(errors.New("the path of the new file must be absolute"))
	}
	store, ok := t.Node.Store().(backer)
	if !ok {
		return 0, nil, tokenissuer.InvalidInput(errors.New("the store does not last: there is nothing to back up"))
	}
	if err := store.Backup(r.Context(), request.Path); err != nil {
		if errors.Is(err, sqlstore.ErrNoBackup) {
			err = tokenissuer.InvalidInput(err)
		}
		return 0, nil, err
	}
	t.record("backup written", zap.String("path", request.Path))
	return http.StatusNoContent, nil, nil
}

func backupCommand(admin *adminClient) *cobra.Command {
	return command("backup FILE", "Writes a copy of the SQLite store into a new file, while Caddy runs", cobra.ExactArgs(1),
		func(_ *cobra.Command, args []string) error {
			path, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			return admin.call(http.MethodPost, "/oauth/backup", map[string]string{"path": path}, nil)
		})
}
