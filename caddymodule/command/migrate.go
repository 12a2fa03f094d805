package command

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"
)

// migrator is an oauth app that is not provisioned.
type migrator interface {
	// MigrateStore brings the schema of the configuration's store up to date, and names the database.
	MigrateStore() (place string, err error)
}

// migrateCommand brings the schema of a configuration's store up to date. Unlike other commands it opens the store itself: nodes with
// `migrate off` do not start before it has run.
func migrateCommand(api *apiClient) *cobra.Command {
	return command("migrate", "Brings the schema of the store that --config names up to date", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error {
			app, err := loadApp(api.config, api.adapter)
			if err != nil {
				return err
			}
			place, err := app.MigrateStore()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "The schema is up to date: %s.\n", place)
			return err
		})
}

// loadApp reads the oauth app of a configuration file.
func loadApp(file, adapter string) (migrator, error) {
	text, _, err := loadConfig(file, adapter)
	if err != nil {
		return nil, err
	}
	if len(text) == 0 {
		return nil, errors.New("there is no configuration here: give it with --config")
	}
	var config struct {
		Apps struct {
			OAuth json.RawMessage `json:"oauth"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	if config.Apps.OAuth == nil {
		return nil, errors.New("the configuration has no oauth block: give the right one with --config")
	}
	module, err := caddy.GetModule("oauth")
	if err != nil {
		return nil, err
	}
	app := module.New().(migrator)
	if err := json.Unmarshal(config.Apps.OAuth, app); err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	return app, nil
}
