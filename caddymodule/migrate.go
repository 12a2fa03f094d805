package caddymodule

import (
	"errors"
	"fmt"
	"os"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore/postgres"
)

// MigrateStore brings the schema of the store up to date, for `caddy oauth migrate`, and returns which database that was. The
// app has been read and not provisioned.
func (a *App) MigrateStore() (place string, err error) {
	settings, err := a.Read()
	if err != nil {
		return "", err
	}
	if settings.Node.Store == node.Memory {
		return "", errors.New("the memory store has no schema")
	}
	if place, err = storePlace(settings.Node); err != nil {
		return "", err
	}
	return place, node.Migrate(settings.Node)
}

// storePlace names the database without secrets. It refuses a file that does not exist: opening it would create a new database, while the
// one that was meant, at another path, stays as it is.
func storePlace(s node.Settings) (string, error) {
	if s.Store == node.Postgres {
		return postgres.Place(oauth.NewSecret(s.DSN))
	}
	if _, err := os.Stat(s.Path); err != nil {
		return "", fmt.Errorf("there is no database to migrate: %w", err)
	}
	return s.Path, nil
}
