package moving

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// database is a source in an SQL database.
type database struct {
	db *sql.DB
	// quote stands around names, and parameter for the argument of a query.
	quote, parameter string
	name             string // of the source
}

// nameOf returns a name for a database: the ids of two services are alike, and whoever took one for the other would mix up their people.
func nameOf(host, database string) string {
	sum := sha256.Sum256([]byte(host + "\x00" + database))
	letters := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return -1
	}, strings.ToLower(database))
	return fmt.Sprintf("%.32s-%x", letters, sum[:4])
}

// pageTimeout is how long a page may take.
const pageTimeout = time.Minute

func openPostgres(ctx context.Context, from string) (Source, error) {
	config, err := pgx.ParseConfig(from)
	if err != nil {
		return nil, errors.New("the URL of the source is malformed") // the driver's error may have the password
	}
	return opened(ctx, &database{stdlib.OpenDB(*config), `"`, "$1", nameOf(fmt.Sprintf("%s:%d", config.Host, config.Port), config.Database)})
}

func openMySQL(ctx context.Context, from string) (Source, error) {
	u, err := url.Parse(from)
	if err != nil || u.Host == "" && u.Query().Get("socket") == "" || len(u.Path) < 2 {
		return nil, errors.New("the URL of the source is malformed: write it as mysql://user:password@host:3306/database")
	}
	config := mysql.NewConfig()
	config.User, config.DBName, config.ParseTime, config.Loc = u.User.Username(), u.Path[1:], true, time.UTC
	config.Passwd, _ = u.User.Password()
	config.Net, config.Addr = "tcp", u.Host
	if socket := u.Query().Get("socket"); socket != "" {
		config.Net, config.Addr = "unix", socket
	} else if u.Port() == "" {
		config.Addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	if config.TLSConfig = u.Query().Get("tls"); config.TLSConfig == "" && config.Net == "tcp" {
		config.TLSConfig = "preferred"
	}
	config.Timeout, config.ReadTimeout = 10*time.Second, pageTimeout
	config.Params = map[string]string{"time_zone": "'+00:00'"} // of TIMESTAMP columns, which would be in the zone of the server
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, errors.New("the URL of the source is malformed")
	}
	return opened(ctx, &database{sql.OpenDB(connector), "`", "?", nameOf(config.Addr, config.DBName)})
}

func opened(ctx context.Context, d *database) (Source, error) {
	d.db.SetMaxOpenConns(1)
	if err := d.db.PingContext(ctx); err != nil {
		_ = d.db.Close()
		return nil, fmt.Errorf("connecting to the source: %w", err)
	}
	return d, nil
}

// Page reads the rows in a transaction that cannot write.
func (d *database) Page(ctx context.Context, table string, after Row) ([]Row, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	tx, err := d.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	var args []any
	where := ""
	if after != nil {
		key := after["id"]
		if _, isNumber := key.(int64); !isNumber {
			key = after.Text("id")
		}
		where, args = " WHERE id > "+d.parameter, []any{key}
	}
	rows, err := tx.QueryContext(ctx, fmt.Sprintf("SELECT * FROM %s%s ORDER BY id LIMIT %d", d.quoted(table), where, PageRows), args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err returns the error
	return scanRows(rows)
}

// quoted quotes the name of a table, with or without that of its schema.
func (d *database) quoted(table string) string {
	parts := strings.Split(table, ".")
	for i, part := range parts {
		parts[i] = d.quote + strings.ReplaceAll(part, d.quote, d.quote+d.quote) + d.quote
	}
	return strings.Join(parts, ".")
}

// scanRows reads all rows with all columns, whatever the version of the schema.
func scanRows(rows *sql.Rows) ([]Row, error) {
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var list []Row
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		row := make(Row, len(columns))
		for i, column := range columns {
			row[column] = values[i]
		}
		list = append(list, row)
	}
	return list, rows.Err()
}

// IsWhole returns true.
func (d *database) IsWhole() bool { return true }

// Name returns a name made of those of the database and its host.
func (d *database) Name() string { return d.name }

// Close closes the connections.
func (d *database) Close() error { return d.db.Close() }
