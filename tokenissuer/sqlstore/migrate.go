package sqlstore

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrate brings the schema to the version of this build. It refuses a schema that is newer: an old build that writes
// into it could break what the new one relies on.
//
// Processes that start at the same time may migrate at the same time. Each migration is a transaction, so one of them
// wins and the others fail on what is there already; they look again for as long as somebody makes progress.
func (s *Store) migrate(ctx context.Context) error {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return fmt.Errorf("migrating the schema: %w", err)
	}
	db := s.write
	if s.dialect.migrating != nil {
		db = s.dialect.migrating()
		defer func() { _ = db.Close() }() // what matters has been committed
	}
	provider, err := goose.NewProvider(s.dialect.goose, db, files,
		goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return fmt.Errorf("migrating the schema: %w", err)
	}
	for last := int64(-1); ; {
		current, target, err := provider.GetVersions(ctx)
		if err != nil {
			return fmt.Errorf("reading the schema version: %w", err)
		}
		if current > target {
			return fmt.Errorf("the database has schema version %d and this build knows versions up to %d: use a newer build", current, target)
		}
		if current == target {
			return nil
		}
		if _, err = provider.Up(ctx); err != nil && current == last {
			return fmt.Errorf("migrating the schema from version %d to %d: %w", current, target, err)
		}
		last = current
	}
}
