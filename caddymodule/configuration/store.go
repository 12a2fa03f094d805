package configuration

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore/postgres"
)

// Store is the database.
type Store struct {
	// Type is `sqlite` (default: durable, one node), `postgres` (durable, any number of nodes) or `memory` (demos and
	// tests: all data is lost at exit).
	Type string `json:"type,omitempty"`
	// Path is the SQLite file. Default: oauth/gatehouse.db in Caddy's data directory. It must be on a local disk.
	Path string `json:"path,omitempty"`
	// DSN is the connection string of PostgreSQL: a URL, or key=value words. The PG… environment variables are the defaults of its
	// parameters. Give one with a password as {env.NAME} or {file./path}: Caddy stores the value of this member.
	DSN string `json:"dsn,omitempty"`
	// Pool bounds the connections of this node to PostgreSQL. Default 16, at least 5.
	Pool int `json:"pool,omitempty"`
	// KeepSchema turns migrations at the start off. A node then refuses to start until `caddy oauth migrate` has brought the schema up
	// to date. Default: every node migrates.
	KeepSchema bool `json:"keep_schema,omitempty"`
}

const defaultPool = 16

// parseStore reads:
//
//	store sqlite [<path>] {
//		migrate off
//	}
//	store postgres <dsn> {
//		pool    <connections>
//		migrate off
//	}
//	store memory
func parseStore(d *caddyfile.Dispenser, store **Store, at *Sources) error {
	if err := setting.Once(d, "store", *store != nil); err != nil {
		return err
	}
	args := d.RemainingArgs()
	if len(args) == 0 {
		return d.ArgErr()
	}
	c := &Store{Type: args[0]}
	known, most := options{"migrate": c.parseMigrate}, 2
	switch c.Type {
	case node.SQLite:
	case node.Postgres:
		if len(args) == 1 {
			return d.Errf("store postgres needs a connection string, as in postgres://user@host/database")
		}
		if len(args) > 2 { // the usual message quotes the last word, which may be the password
			return d.Errf("put the connection string in quotes: it has spaces")
		}
		known["pool"] = c.parsePool
	case node.Memory:
		known, most = nil, 1
	default:
		return d.Errf("unknown store %q: use sqlite, postgres or memory", c.Type)
	}
	if len(args) > most {
		return d.ArgErr()
	}
	if len(args) == 2 {
		if err := c.parsePlace(d, args[1]); err != nil {
			return err
		}
	}
	*store = c
	at.note(d, "store")
	return known.parse(d, "store "+c.Type+" has no option %q")
}

// parsePlace reads a path or a connection string.
func (c *Store) parsePlace(d *caddyfile.Dispenser, value string) error {
	err := setting.RefuseRequest(d, value)
	if c.Type == node.SQLite {
		if c.Path = value; value == "" {
			return d.Errf("the store's path is empty; is a variable unset?")
		}
		return err
	}
	c.DSN = value
	switch {
	case value == "":
		return d.Errf("the connection string is empty; is a variable unset?")
	case err != nil && !setting.IsReference(value): // the error quotes all of it
		return d.Errf("the connection string has a part that comes from the request: use {env.NAME} or {file./path}")
	case err != nil:
		return err
	}
	warnSubstituted(d, "connection string", value, 2)
	if !setting.IsPlaceholder(value) {
		if err := postgres.Parse(oauth.NewSecret(value)); err != nil {
			return d.WrapErr(err)
		}
	}
	return nil
}

func (c *Store) parsePool(d *caddyfile.Dispenser) error {
	value, err := setting.OneArg(d)
	if err != nil {
		return err
	}
	if c.Pool, err = strconv.Atoi(value); err != nil || c.Pool < sqlstore.LeastPostgresPool {
		return d.Errf("pool %q: use a number of connections, %d or more", value, sqlstore.LeastPostgresPool)
	}
	return nil
}

func (c *Store) parseMigrate(d *caddyfile.Dispenser) error {
	value, err := setting.OneArg(d)
	if err == nil && value != "off" {
		err = d.Errf("migrate %q: use off, or leave it out", value)
	}
	c.KeepSchema = err == nil
	return err
}

func (c *Store) read(s *node.Settings) error {
	if c == nil {
		c = new(Store)
	}
	s.Store, s.KeepSchema = c.Type, c.KeepSchema
	switch c.Type {
	case "", node.SQLite:
		s.Store = node.SQLite
		return c.readSQLite(s)
	case node.Postgres:
		return c.readPostgres(s)
	case node.Memory:
		if *c != (Store{Type: node.Memory}) {
			return errors.New("store memory has no path, no dsn and no other setting")
		}
		return nil
	}
	return fmt.Errorf("unknown store %q: use sqlite, postgres or memory", c.Type)
}

func (c *Store) readSQLite(s *node.Settings) (err error) {
	if c.DSN != "" || c.Pool != 0 {
		return errors.New("store sqlite has no dsn and no pool: they are for postgres")
	}
	path := filepath.Join(caddy.AppDataDir(), "oauth", "gatehouse.db")
	if c.Path != "" {
		if path, err = setting.Resolve("store path", c.Path); err != nil {
			return err
		}
	}
	s.Path, err = filepath.Abs(path)
	return err
}

var errBraces = errors.New("store postgres: what stands in braces gives nothing: use {env.NAME} or {file./path}, and write braces " +
	"of a password as %7B and %7D")

func (c *Store) readPostgres(s *node.Settings) (err error) {
	if c.Path != "" {
		return errors.New("store postgres has no path: that is for sqlite")
	}
	if c.DSN == "" {
		return errors.New("store postgres needs a connection string, as in postgres://user@host/database")
	}
	if s.DSN, err = setting.Resolve("store postgres", c.DSN); err != nil {
		if _, ofFile := errors.AsType[setting.FileError](err); ofFile || setting.IsReference(c.DSN) {
			return err
		}
		return errBraces // the error may quote a part of the password
	}
	if err := postgres.Parse(oauth.NewSecret(s.DSN)); err != nil {
		return fmt.Errorf("store postgres: %w", err)
	}
	s.Pool = c.Pool
	switch {
	case c.Pool == 0:
		s.Pool = defaultPool
	case c.Pool < sqlstore.LeastPostgresPool:
		return fmt.Errorf("store postgres: a pool of %d is too small: use %d or more", c.Pool, sqlstore.LeastPostgresPool)
	}
	return nil
}

var (
	// kept matches a placeholder, whose value is not in the configuration.
	kept = regexp.MustCompile(`\{(env|file)\.[^{}]*\}`)
	// passwordWord matches a password among key=value words, or among the parameters of a URL.
	passwordWord = regexp.MustCompile(`(?:^|[\s?&])(?:ssl)?password\s*=\s*('[^']*'|[^\s&]+)`)
)

// tellsPassword reports whether the configuration holds a password of the database, or a part of one.
func (c *Store) tellsPassword() bool {
	const elsewhere = "{}"
	dsn := kept.ReplaceAllLiteralString(c.DSN, elsewhere)
	if _, rest, isURL := strings.Cut(dsn, "://"); isURL {
		authority, _, _ := strings.Cut(rest, "/")
		if i := strings.LastIndex(authority, "@"); i >= 0 {
			if _, password, _ := strings.Cut(authority[:i], ":"); password != "" && password != elsewhere {
				return true
			}
		}
	}
	for _, found := range passwordWord.FindAllStringSubmatch(dsn, -1) {
		if password := strings.Trim(found[1], "'"); password != "" && password != elsewhere {
			return true
		}
	}
	return false
}
