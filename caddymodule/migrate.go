package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
)

// MigrateStore brings the schema of the store up to date, for `caddy oauth migrate`, and returns which database that was. The
// app has been read and not provisioned.
func (a *App) MigrateStore() (place string, err error) {
	settings, err := a.read()
	if err != nil {
		return "", err
	}
	if settings.engine.store == storeMemory {
		return "", errors.New("the memory store has no schema")
	}
	if place, err = storePlace(settings.engine); err != nil {
		return "", err
	}
	settings.engine.keepSchema = false
	return place, migrateStore(newEngine(settings.engine, settings.sealer))
}

// storePlace says which database is meant, and nothing secret of it. A file that does not exist is refused: opening it would
// make a new one, while the database that was meant, of another user or at another path, stays as it is.
func storePlace(s engineSettings) (string, error) {
	if s.store == storePostgres {
		return sqlstore.PostgresPlace(oauth.NewSecret(s.dsn))
	}
	if _, err := os.Stat(s.path); err != nil {
		return "", fmt.Errorf("there is no database to migrate: %w", err)
	}
	return s.path, nil
}

// migrateStore opens the store, which is what migrates it.
func migrateStore(e *engine) error {
	defer e.stop()
	ctx, cancel := context.WithTimeout(e.life, migrateTimeout)
	defer cancel()
	store, err := e.openStore(ctx)
	if err != nil {
		return err
	}
	return store.Close()
}
