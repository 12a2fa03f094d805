package caddymodule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
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
			settings.engine.keepSchema = false
			if err := migrateStore(newEngine(settings.engine, settings.sealer)); err != nil {
				return err
			}
			_, err = fmt.Fprintln(out, "The schema is up to date.")
			return err
		})
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
	text, _, _, err := caddycmd.LoadConfig(file, adapter)
	if err != nil {
		return settings{}, err
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
