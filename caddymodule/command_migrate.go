package caddymodule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
)

// migrateCommand brings the schema of a configuration's store up to date. Unlike the others it works on the store itself:
// nodes that leave the schema alone do not start before it has run.
func migrateCommand(admin *adminClient) *cobra.Command {
	return command("migrate", "Brings the schema of the store that --config names up to date", cobra.NoArgs,
		func(_ []string, _ io.Reader, out io.Writer) error {
			settings, err := loadSettings(admin.config, admin.adapter)
			if err != nil {
				return err
			}
			if settings.engine.store == storeMemory {
				return errors.New("the memory store has no schema")
			}
			place, err := storePlace(settings.engine)
			if err != nil {
				return err
			}
			settings.engine.keepSchema = false
			if err := migrateStore(newEngine(settings.engine, settings.sealer)); err != nil {
				return err
			}
			_, err = fmt.Fprintf(out, "The schema is up to date: %s.\n", place)
			return err
		})
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

// loadSettings reads the oauth app of a configuration file.
func loadSettings(file, adapter string) (settings, error) {
	text, _, err := loadConfig(file, adapter)
	if err != nil {
		return settings{}, err
	}
	if len(text) == 0 {
		return settings{}, errors.New("there is no configuration here: give it with --config")
	}
	var config struct {
		Apps struct {
			OAuth *App `json:"oauth"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return settings{}, fmt.Errorf("reading the configuration: %w", err)
	}
	if config.Apps.OAuth == nil {
		return settings{}, errors.New("the configuration has no oauth block: give the right one with --config")
	}
	return config.Apps.OAuth.read()
}
