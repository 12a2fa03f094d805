package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
)

// checkBefore looks at the schema and changes nothing. It is done when nothing is to be migrated, and refuses what cannot
// be: a schema that others look after, and one in which this role may not make tables.
func (s *Store) checkBefore(ctx context.Context, db *sql.DB, provider *goose.Provider) (done bool, err error) {
	current, err := schemaVersion(ctx, db)
	if err != nil {
		return false, fmt.Errorf("reading the schema version: %w", err)
	}
	sources := provider.ListSources()
	target := sources[len(sources)-1].Version
	switch {
	case current == target:
		return true, nil
	case current < target && s.options.KeepSchema:
		return false, fmt.Errorf("the database has schema version %d and this build needs %d: run `caddy oauth migrate`", current, target)
	case current == 0 && s.dialect.concurrent:
		var may bool
		err := db.QueryRowContext(ctx, `SELECT has_schema_privilege(current_schema(), 'CREATE')`).Scan(&may)
		if err == nil && !may {
			return false, errors.New("the role may not create tables in the schema: let one that may run `caddy oauth migrate`, " +
				"or GRANT CREATE ON SCHEMA public TO this one")
		}
	}
	return false, nil // what cannot be asked will be seen
}

// schemaVersion is 0 in a database that nobody has migrated yet.
func schemaVersion(ctx context.Context, db *sql.DB) (version int64, err error) {
	err = db.QueryRowContext(ctx, `SELECT COALESCE(MAX(version_id), 0) FROM goose_db_version WHERE is_applied`).Scan(&version)
	var refusal *pgconn.PgError
	switch {
	case errors.As(err, &refusal) && refusal.Code == "42P01", isMissingTable(err):
		return 0, nil
	case errors.As(err, &refusal) && refusal.Code == "42501":
		return 0, fmt.Errorf("the role may not read the tables: GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public "+
			"TO it, as their owner: %w", err)
	}
	return version, err
}
