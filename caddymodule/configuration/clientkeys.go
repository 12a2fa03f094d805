package configuration

import (
	"errors"
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/assertion"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// ClientKeys says where the keys of clients may be.
type ClientKeys struct {
	// AllowPrivateNetwork lets a jwks_uri be at a loopback, private or link-local address, and on loopback without TLS.
	AllowPrivateNetwork bool `json:"allow_private_network,omitempty"`
}

// parseClientKeys reads what holds for the keys of all clients.
//
//	client_keys {
//		allow_private_network
//	}
func (b *Block) parseClientKeys(d *caddyfile.Dispenser) error {
	if b.ClientKeys == nil {
		b.ClientKeys = new(ClientKeys)
	}
	return options{"allow_private_network": flag(&b.ClientKeys.AllowPrivateNetwork)}.parseAlone(d, "unknown client_keys option %q")
}

// parseJWKS reads a JWK Set, or a placeholder for one.
func (c *Client) parseJWKS(d *caddyfile.Dispenser) error {
	if err := setting.Once(d, "jwks", len(c.JWKS) > 0); err != nil {
		return err
	}
	text, err := setting.OneArg(d)
	if err != nil {
		return err
	}
	if strings.HasPrefix(text, "{env.") || strings.HasPrefix(text, "{file.") {
		c.JWKS, err = jsontext.AppendQuote(nil, text)
	} else if c.JWKS = jsontext.Value(text); !c.JWKS.IsValid() || c.JWKS.Kind() != '{' {
		err = errors.New("jwks: write the JSON Web Key Set in backquotes, or {file./path/to/keys.json}")
	}
	if err != nil {
		return d.Errf("client %s: %v", c.ID, err)
	}
	return nil
}

// readKeys reads the keys of a declared client.
func (c *Client) readKeys(client *store.Client, lookup lookup) (err error) {
	if c.JWKSURI != "" {
		if client.JWKSURI, err = lookup("jwks_uri", c.JWKSURI); err != nil {
			return err
		}
	}
	switch c.JWKS.Kind() {
	case 0, 'n':
	case '"':
		var text string
		if err := json.Unmarshal(c.JWKS, &text); err != nil {
			return err
		}
		if client.JWKS, err = lookup("jwks", text); err != nil {
			return err
		}
		if client.JWKS == placeholderURL { // known later
			client.JWKS = "{}"
			return nil
		}
	default:
		client.JWKS = string(c.JWKS)
	}
	if isPEM(client.JWKS) {
		return fmt.Errorf("jwks: %w", errors.New("this is a PEM file: write the key as a JSON Web Key Set"))
	}
	return assertion.CheckSet(client)
}
