package caddymodule

import (
	"strconv"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/trust"
)

// clientKeys hold what clients publish at their jwks_uri. They outlive a reload.
var clientKeys = caddy.NewUsagePool()

// clientKeysKey is the name in the pool: every setting that makes a difference.
func (a *App) clientKeysKey() string {
	return strconv.FormatBool(a.ClientKeys != nil && a.ClientKeys.AllowPrivateNetwork)
}

// provisionClientKeys takes the keys of clients from the pool. It opens nothing.
func (a *App) provisionClientKeys() error {
	key := a.clientKeysKey()
	value, _, err := clientKeys.LoadOrNew(key, func() (caddy.Destructor, error) {
		return newPooled(trust.NewClientKeys(key == "true", trust.Options{Now: node.Clock, Warn: warnOf("client_keys", "jwks_uri")})), nil
	})
	if err != nil {
		return err
	}
	a.clientKeys = value.(*pooled[*trust.ClientKeys])
	return nil
}

// startClientKeys has the keys of clients be kept in the configuration's storage.
func (a *App) startClientKeys() {
	if a.clientKeys != nil {
		a.clientKeys.start(storedSnapshots{a.ctx.Storage(), "oauth/client_keys/"})
	}
}

// releaseClientKeys gives the keys of clients back to the pool.
func (a *App) releaseClientKeys() error {
	if a.clientKeys == nil {
		return nil
	}
	_, err := clientKeys.Delete(a.clientKeysKey())
	return err
}
