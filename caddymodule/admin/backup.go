package admin

import (
	"errors"
	"net/http"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var backupOperations = map[Route]operation{WriteBackup: changes("Writes a copy of the SQLite store into a new file", withBody(writeBackup))}

// newBackup is the request for a backup of the store.
type newBackup struct {
	Path string `json:"path"`
}

// writeBackup writes a copy of the store on this machine. Sealed keys stay sealed in it.
func writeBackup(t *Target, r *http.Request, request newBackup) (int, any, error) {
	if !filepath.IsAbs(request.Path) {
		return 0, nil, store.InvalidInput(errors.New("the path of the new file must be absolute"))
	}
	if err := t.Node.Store().Backup(r.Context(), request.Path); err != nil {
		if errors.As(err, new(sqlstore.NoBackup)) {
			err = store.InvalidInput(err)
		}
		return 0, nil, err
	}
	t.record(r.Context(), "backup written", zap.String("path", request.Path))
	return http.StatusNoContent, nil, nil
}
