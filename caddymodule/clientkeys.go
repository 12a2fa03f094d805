package caddymodule

import (
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
)

// clientKeys hold what clients publish at their jwks_uri, once for each setting of allow_private_network. They outlive a reload.
var clientKeys = newRunningPool[*fetch.KeySets]()

// provisionClientKeys takes the keys of clients from the pool. It opens nothing.
func (a *App) provisionClientKeys() error {
	private := a.ClientKeys != nil && a.ClientKeys.AllowPrivateNetwork
	use, err := clientKeys.Take(private, func() (*running[*fetch.KeySets], error) {
		return newRunning(fetch.ClientKeys(fetch.ReachOf(private), fetch.Options{Now: node.Clock, Warn: warnOf("client_keys", "jwks_uri")})), nil
	})
	if err != nil {
		return err
	}
	a.uses, a.clientKeys = append(a.uses, use), use.Value
	return nil
}

// startClientKeys has the keys of clients be kept in the configuration's storage.
func (a *App) startClientKeys() {
	if a.clientKeys != nil {
		a.clientKeys.start(storedSnapshots{a.ctx.Storage(), "oauth/client_keys/"})
	}
}
