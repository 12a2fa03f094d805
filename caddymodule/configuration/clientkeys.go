package configuration

import (
	"errors"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// ClientKeys restricts the URLs of clients' keys.
type ClientKeys struct {
	// AllowPrivateNetwork allows loopback, private and link-local addresses in a jwks_uri, and plain http on loopback.
	AllowPrivateNetwork bool `json:"allow_private_network,omitempty"`
}

// parseClientKeys reads the setting for the keys of all clients.
//
//	client_keys {
//		allow_private_network
//	}
func parseClientKeys(d *caddyfile.Dispenser, keys **ClientKeys, _ *Sources) error {
	return options{"allow_private_network": flag(&orNew(keys).AllowPrivateNetwork)}.parseAlone(d, "unknown client_keys option %q")
}

// readKeys resolves the keys of a declared client.
func readKeys(k store.ClientKeys, lookup lookup) (store.ClientKeys, error) {
	var err error
	if k.JWKSURI != "" {
		if k.JWKSURI, err = lookup("jwks_uri", k.JWKSURI); err != nil {
			return k, err
		}
	}
	if setting.IsReference(string(k.JWKS)) && !jsontext.Value(k.JWKS).IsValid() {
		text, err := lookup("jwks", string(k.JWKS))
		if err != nil {
			return k, err
		}
		if k.JWKS = store.KeySet(text); text == placeholderURL { // known later
			k.JWKS = "{}"
			return k, nil
		}
	}
	if isPEM(string(k.JWKS)) {
		return k, errors.New("jwks: this is a PEM file: write the key as a JSON Web Key Set")
	}
	return k, clients.CheckKeySet(&store.Client{ClientKeys: k})
}
