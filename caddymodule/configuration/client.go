package configuration

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Client declares a client: the members of a store.Client, and its secret.
type Client struct {
	store.Client
	// Secret is the client secret as {env.NAME} or {file./path}: Caddy stores the value of this member.
	Secret string `json:"secret,omitempty"`
	// SecretSHA256 is the hex SHA-256 of the secret, instead of Secret. A secret that is written out in a Caddyfile is converted to
	// it, so that the running configuration does not hold the secret.
	SecretSHA256 string `json:"secret_sha256,omitempty"`
}

// parseClient reads a client. It checks all that does not depend on other blocks or on placeholders, so that errors name the line.
//
//	client <id> [<secret>] {
//		<member> <value>...
//	}
func (b *Block) parseClient(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) == 0 || len(args) > 2 {
		return d.ArgErr()
	}
	c, first := Client{Client: store.Client{ID: args[0]}}, *d
	b.Sources.note(d, "client", c.ID)
	if err := b.refuseTaken(d, "client", c.ID); err != nil {
		return err
	}
	if len(args) == 2 {
		if err := c.parseSecret(d, args[1]); err != nil {
			return err
		}
	}
	lines := memberOptions("client "+c.ID, &c.Client, c.ValidateMember)
	scopes := lines["scopes"]
	lines["scopes"] = func(d *caddyfile.Dispenser) error {
		before := len(c.Scopes)
		err := scopes(d)
		for _, name := range c.Scopes[before:] { // readClients checks that they are declared
			if _, known := (oauth.ScopeCatalogue{}).Find(name); !known {
				b.Sources.note(d, "scope", name, "of client", c.ID)
			}
		}
		return err
	}
	if err := lines.parse(d, "unknown client option %q"); err != nil {
		return err
	}
	client, err := c.read(standIn)
	if err == nil {
		err = client.Validate()
	}
	if err != nil { // concerns the client as a whole: the error names its first line
		return first.Errf("client %s: %v", c.ID, err)
	}
	b.Clients = append(b.Clients, c)
	return nil
}

// errPEM is the error for a key file in place of a secret.
var errPEM = errors.New("this is a PEM file, not a client secret")

// isPEM reports whether a text holds a key or a certificate.
func isPEM(text string) bool { return strings.Contains(text, "-----BEGIN") }

// parseSecret keeps a placeholder, which Provision resolves. Of a secret that is written out it keeps the SHA-256: Caddy shows its
// configuration to administrators and saves it to disk.
func (c *Client) parseSecret(d *caddyfile.Dispenser, secret string) error {
	owner := "client " + c.ID
	if isPEM(secret) {
		return d.Errf("%s: %v", owner, errPEM)
	}
	if strings.HasPrefix(secret, "$") {
		return setting.LooksLikePlaceholder(d, owner, secret)
	}
	reference, err := setting.Reference(d, owner, "secret", secret)
	switch {
	case err != nil:
		return err
	case reference:
		c.Secret = secret
		return nil
	}
	warnSubstituted(d, "secret of "+owner, secret, 2)
	warnGuessable(caddy.Log().Named("oauth"), setting.Source(d), c.ID, secret)
	digest := oauth.NewSecret(secret).Digest()
	c.SecretSHA256 = hex.EncodeToString(digest[:])
	return nil
}

// readClients reads the declared clients.
func (b *Block) readClients(s *Settings) ([]*store.Client, error) {
	if err := oauth.CheckPKCE(b.PKCE); err != nil {
		return nil, err
	}
	clients := make([]*store.Client, 0, len(b.Clients))
	for _, c := range b.Clients {
		client, err := c.read(setting.Resolve)
		for i := 0; err == nil && i < len(client.Scopes); i++ {
			err = b.Sources.At(s.Issuer.Scopes.Check(client.Scopes[i:i+1]), "scope", client.Scopes[i], "of client", c.ID)
		}
		if err == nil {
			err = s.Issuer.CheckExchange(client)
		}
		if err == nil && !s.Issuer.OpenID {
			err = client.CheckWithoutOpenID()
		}
		if err != nil {
			return nil, b.Sources.At(fmt.Errorf("client %q: %w", c.ID, err), "client", c.ID)
		}
		clients = append(clients, client)
	}
	return clients, nil
}

// read returns the client, with its placeholders resolved.
func (c *Client) read(lookup lookup) (*store.Client, error) {
	client := c.Client
	var err error
	if client.ClientKeys, err = readKeys(c.ClientKeys, lookup); err != nil {
		return nil, err
	}
	if client.Exchange, err = readExchange(c.Exchange, lookup); err != nil {
		return nil, err
	}
	client.SetDefaults()
	client.Secrets, err = c.readSecret(lookup)
	if err == nil && client.SignsAssertions() && len(client.Secrets) > 0 {
		err = errors.New("a client with keys of its own has no secret: take one of the two away")
	}
	return &client, err
}

// readExchange resolves the audiences in the token exchange rules of a declared client.
func readExchange(declared []store.ExchangeRule, lookup lookup) (rules []store.ExchangeRule, err error) {
	for _, rule := range declared {
		rule.Audiences, rule.From = slices.Clone(rule.Audiences), slices.Clone(rule.From)
		for _, list := range [][]string{rule.Audiences, rule.From} {
			for i, text := range list {
				if list[i], err = lookup("may_exchange", text); err != nil {
					return nil, err
				}
			}
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// readSecret reads the one secret of a declared client.
func (c *Client) readSecret(lookup lookup) ([]store.ClientSecret, error) {
	var declared store.ClientSecret
	switch {
	case c.Secret != "" && c.SecretSHA256 != "":
		return nil, errors.New("set secret or secret_sha256, not both")
	case c.Secret != "":
		text, err := lookup("secret", c.Secret)
		if err != nil {
			return nil, err
		}
		if isPEM(text) {
			return nil, fmt.Errorf("secret: %w", errPEM)
		}
		declared.Digest = oauth.NewSecret(text).Digest()
	case c.SecretSHA256 != "":
		digest, err := hex.DecodeString(c.SecretSHA256)
		if err != nil || len(digest) != len(declared.Digest) {
			return nil, errors.New("secret_sha256: use 64 hex digits")
		}
		declared.Digest = [32]byte(digest)
	default:
		return nil, nil
	}
	return []store.ClientSecret{declared}, nil
}
