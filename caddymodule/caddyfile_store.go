package caddymodule

import (
	"strconv"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
)

// parseStore reads where state is kept:
//
//	store sqlite [<path>] {
//		migrate off
//	}
//	store postgres <dsn> {
//		pool    <connections>
//		migrate off
//	}
//	store memory
func (a *App) parseStore(d *caddyfile.Dispenser) error {
	if err := once(d, "store", a.Store != nil); err != nil {
		return err
	}
	args := d.RemainingArgs()
	if len(args) == 0 {
		return d.ArgErr()
	}
	store := &StoreConfig{Type: args[0]}
	setting := &store.Path
	switch store.Type {
	case storeSQLite:
	case storePostgres:
		if len(args) == 1 {
			return d.Errf("store postgres needs a connection string, as in postgres://user@host/database")
		}
		setting = &store.DSN
	case storeMemory:
		if len(args) > 1 {
			return d.ArgErr()
		}
	default:
		return d.Errf("unknown store %q: use sqlite, postgres or memory", store.Type)
	}
	switch len(args) {
	case 1:
	case 2:
		*setting = args[1]
		if err := checkStoreSetting(d, store.Type, args[1]); err != nil {
			return err
		}
	default:
		if store.Type == storePostgres { // the usual message quotes the last word, which may be the password
			return d.Errf("put the connection string in quotes: it has spaces")
		}
		return d.ArgErr()
	}
	a.Store = store
	a.note(d, "store")
	return store.parseBlock(d)
}

// checkStoreSetting refuses a path or a connection string that cannot be one.
func checkStoreSetting(d *caddyfile.Dispenser, kind, value string) error {
	switch {
	case value == "" && kind == storePostgres:
		return d.Errf("the connection string is empty; is a variable unset?")
	case value == "":
		return d.Errf("the store's path is empty; is a variable unset?")
	}
	if err := refuseRequest(d, value); err != nil {
		if kind == storePostgres && !isReference(value) { // the error quotes all of it
			return d.Errf("the connection string has a part that comes from the request: use {env.NAME} or {file./path}")
		}
		return err
	}
	if kind == storePostgres {
		warnSubstituted(d, "connection string", value, 2)
	}
	if kind == storePostgres && !isPlaceholder(value) {
		if err := sqlstore.ParsePostgres(oauth.NewSecret(value)); err != nil {
			return d.WrapErr(err)
		}
	}
	return nil
}

func (c *StoreConfig) parseBlock(d *caddyfile.Dispenser) error {
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		option := d.Val()
		if c.Type == storeMemory || option == "pool" && c.Type != storePostgres {
			return d.Errf("store %s has no option %q", c.Type, option)
		}
		value, err := oneArg(d)
		if err != nil {
			return err
		}
		switch option {
		case "pool":
			if c.Pool, err = strconv.Atoi(value); err != nil || c.Pool < sqlstore.LeastPostgresPool {
				return d.Errf("pool %q: use a number of connections, %d or more", value, sqlstore.LeastPostgresPool)
			}
		case "migrate":
			if value != "off" {
				return d.Errf("migrate %q: use off, or leave it out", value)
			}
			c.KeepSchema = true
		default:
			return d.Errf("store %s has no option %q", c.Type, option)
		}
	}
	return nil
}
