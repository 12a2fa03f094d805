package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/pressly/goose/v3"

	"github.com/gatehouse-auth/gatehouse/internal/failpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore/postgres"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore/sqlite"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrate brings the schema to the version of this build.
//
// Processes that start at the same time may migrate at the same time. Each migration is a transaction: one process succeeds and the
// others fail because the objects exist. They check again as long as the version increases.
func (d *database) migrate(ctx context.Context) error {
	return d.migrateTo(ctx, migrationFiles)
}

// makeSchema creates the schema in an empty database that ends with the process. It takes a tenth of the time of migrate, which must
// consider other processes and other builds.
func makeSchema(ctx context.Context, db *sql.DB) error {
	err := eachMigration(migrationFiles, func(_ int64, text string) error {
		_, err := db.ExecContext(ctx, "BEGIN;\n"+text+"\nCOMMIT")
		return err
	})
	if err != nil {
		return fmt.Errorf("making the schema: %w", err)
	}
	return nil
}

// eachMigration calls do with the version and the text of each migration, in their order. A text is run as a whole: the library's own
// parser of SQL files takes 4 MiB for a line of them.
func eachMigration(files fs.FS, do func(version int64, text string) error) error {
	names, err := fs.Glob(files, "*/*.sql")
	for _, name := range names {
		var version int64
		var text []byte
		if version, err = goose.NumericComponent(name); err == nil {
			text, err = fs.ReadFile(files, name)
		}
		if err == nil {
			err = do(version, string(text))
		}
		if err != nil {
			break
		}
	}
	return err
}

func (d *database) migrateTo(ctx context.Context, files fs.FS) error {
	db := d.write
	if d.dialect.server != nil {
		db = d.dialect.server.Unlimited()
		defer func() { _ = db.Close() }() // everything that matters has been committed
	}
	var migrations []*goose.Migration
	err := eachMigration(files, func(version int64, text string) error {
		migrations = append(migrations, goose.NewGoMigration(version, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, text)
			if err == nil && version == searchVersion {
				err = addSearchTerms(ctx, session{querier: tx})
			}
			return err
		}}, nil))
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading the migrations: %w", err)
	}
	provider, err := goose.NewProvider(d.dialect.goose, db, nil,
		goose.WithDisableGlobalRegistry(true), goose.WithGoMigrations(migrations...), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return fmt.Errorf("migrating the schema: %w", err)
	}
	if done, err := d.checkBefore(ctx, db, provider); done || err != nil {
		return err
	}
	last := int64(-1)
	for tries := 0; ; {
		current, target, err := provider.GetVersions(ctx)
		switch {
		case err != nil && tries < maxVersionTries && ctx.Err() == nil && !postgres.IsUnreachable(err):
			tries++ // another process has just created the table of versions
			continue
		case err != nil:
			return fmt.Errorf("reading the schema version: %w", err)
		case current > target:
			return d.checkNewer(ctx, db, current, target)
		case current == target:
			return nil
		}
		err = migrateOne(ctx, provider, current+1)
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("migrating the schema from version %d to %d takes longer than the time for it: run `caddy oauth migrate`: %w: %w",
				current, target, ctx.Err(), err)
		}
		if err != nil && current == last {
			return fmt.Errorf("migrating the schema from version %d to %d: %w", current, target, err)
		}
		last = current
	}
}

// migrateOne runs the next migration.
func migrateOne(ctx context.Context, provider *goose.Provider, version int64) error {
	name := strconv.FormatInt(version, 10)
	failpoint.Hit("before migration", name)
	_, err := provider.UpByOne(ctx)
	if err == nil {
		failpoint.Hit("after migration", name)
	}
	return err
}

// searchVersion is the first version that has user_terms and client_terms.
const searchVersion = 2

// addSearchTerms stores the terms of all users and clients, of which none has any.
func addSearchTerms(ctx context.Context, tx session) error {
	err := addAllTerms(ctx, tx, searchedUsers, selectUsers, standInUser, scanUser, func(u *store.User) (string, []string) { return u.ID, userTerms(u) })
	if err != nil {
		return err
	}
	return addAllTerms(ctx, tx, searchedClients, `SELECT `+clientColumns+` FROM clients`, standIn, scanClient, func(c *store.Client) (string, []string) { return c.ID, clientTerms(c) })
}

// maxVersionTries is how often the version is queried. Processes that create the table at the same time can make each other fail once.
const maxVersionTries = 5

// checkNewer reports whether this build may work with a schema that is newer than itself. This happens while the nodes of a cluster are
// upgraded one after the other, and after a rollback. The newest migration records its own version and the oldest version whose builds
// can read and write the data safely. checkNewer refuses a schema without this record.
func (d *database) checkNewer(ctx context.Context, db *sql.DB, current, target int64) error {
	var newest, oldest int64
	err := db.QueryRowContext(ctx, `SELECT n.position, o.position FROM counters n, counters o
		WHERE n.name = 'newest_schema' AND o.name = 'oldest_schema'`).Scan(&newest, &oldest)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("asking which builds the schema is for: %w", err)
	}
	if err != nil || newest != current || target < oldest {
		return fmt.Errorf("the database has schema version %d and this build knows versions up to %d: use a newer build", current, target)
	}
	d.options.warn("the database has schema version %d, which is newer than this build's %d and works with it", current, target)
	return nil
}

// checkBefore inspects the schema and changes nothing. It reports done when no migration is needed, and refuses what cannot be migrated:
// a schema that is migrated separately, and one in which the role may not create tables.
func (d *database) checkBefore(ctx context.Context, db *sql.DB, provider *goose.Provider) (done bool, err error) {
	current, err := schemaVersion(ctx, db)
	if err != nil {
		return false, fmt.Errorf("reading the schema version: %w", err)
	}
	sources := provider.ListSources()
	target := sources[len(sources)-1].Version
	switch {
	case current == target:
		return true, nil
	case current < target && d.options.KeepSchema:
		return false, fmt.Errorf("the database has schema version %d and this build needs %d: run `caddy oauth migrate`", current, target)
	case current == 0 && d.dialect.concurrent():
		var may bool
		err := db.QueryRowContext(ctx, `SELECT has_schema_privilege(current_schema(), 'CREATE')`).Scan(&may)
		if err == nil && !may {
			return false, errors.New("the role may not create tables in the schema: let one that may run `caddy oauth migrate`, " +
				"or GRANT CREATE ON SCHEMA public TO this one")
		}
	}
	return false, nil // the migration will show what cannot be queried here
}

// schemaVersion returns 0 for a database without a schema.
func schemaVersion(ctx context.Context, db *sql.DB) (version int64, err error) {
	err = db.QueryRowContext(ctx, `SELECT COALESCE(MAX(version_id), 0) FROM goose_db_version WHERE is_applied`).Scan(&version)
	switch code := postgres.Code(err); {
	case code == "42P01", sqlite.IsMissingTable(err):
		return 0, nil
	case code == "42501":
		return 0, fmt.Errorf("the role may not read the tables: GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public "+
			"TO it, as their owner: %w", err)
	}
	return version, err
}
