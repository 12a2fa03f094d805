package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// check verifies the settings on which durability depends, and that the file is sound. Where a file system does not support the requested
// journal mode, SQLite silently keeps another one.
func (d *Database) check(ctx context.Context, options Options) error {
	for _, check := range []struct{ pragma, want, otherwise string }{
		{"journal_mode", "wal", "the file system does not allow a write-ahead log: use a local disk"},
		{"synchronous", "2", "commits would not be durable"},
		{"foreign_keys", "1", "references would not be checked"},
	} {
		var got string
		if err := d.Write.QueryRowContext(ctx, "PRAGMA "+check.pragma).Scan(&got); err != nil {
			return fmt.Errorf("asking for %s: %w", check.pragma, err)
		}
		if got != check.want {
			return fmt.Errorf("%s (%s is %q)", check.otherwise, check.pragma, got)
		}
	}
	info, err := os.Stat(d.path)
	if err != nil {
		return err
	}
	if d.Checked = info.Size() <= options.CheckedAtOnce; d.Checked {
		return checkSound(ctx, d.Write, "1")
	}
	return d.checkAllBut(ctx, options.LargeTables)
}

// CheckAll checks the complete file for damage. The file may be in use.
func (d *Database) CheckAll(ctx context.Context) error { return checkSound(ctx, d.Read, "1") }

// checkAllBut checks all other tables for damage.
func (d *Database) checkAllBut(ctx context.Context, large []string) error {
	tables, err := d.tables(ctx)
	for _, table := range tables {
		if !slices.Contains(large, table) && !strings.HasPrefix(table, "sqlite_") {
			err = errors.Join(err, checkSound(ctx, d.Write, table))
		}
	}
	return err
}

func (d *Database) tables(ctx context.Context) (names []string, err error) {
	rows, err := d.Write.QueryContext(ctx, `SELECT name FROM sqlite_schema WHERE type = 'table'`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err returns the error
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

// checkSound checks a table for damage, or everything when what is "1".
func checkSound(ctx context.Context, db *sql.DB, what string) error {
	var got string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check("+what+")").Scan(&got); err != nil {
		return fmt.Errorf("looking for damage: %w", err)
	}
	if got != "ok" {
		return fmt.Errorf("the file is damaged: restore a backup (%q)", got)
	}
	return nil
}
