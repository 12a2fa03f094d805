package caddymodule

import (
	"encoding/hex"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// parseClient reads a client; what can be said of it without starting the server is said here, with its line.
func (a *App) parseClient(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) == 0 || len(args) > 2 {
		return d.ArgErr()
	}
	client, first := ClientConfig{ID: args[0]}, *d
	a.note(d, "client", client.ID)
	if err := a.refuseTaken(d, "client", client.ID); err != nil {
		return err
	}
	if len(args) == 2 {
		if err := client.parseSecret(d, args[1]); err != nil {
			return err
		}
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		before := len(client.Scopes)
		if err := client.parseOption(d); err != nil {
			return err
		}
		for _, name := range client.Scopes[before:] {
			if _, known := (oauth.ScopeCatalogue{}).Find(name); !known {
				a.note(d, "scope", name, "of client", client.ID)
			}
		}
	}
	read := client
	if read.Secret != "" { // known only when the server starts; any digest will do for the check
		read.Secret, read.SecretSHA256 = "", strings.Repeat("0", 64)
	}
	c, err := read.read()
	if err == nil {
		err = c.Validate()
	}
	if err != nil { // of the client as a whole: the line is its first
		return first.Errf("client %s: %v", client.ID, err)
	}
	a.Clients = append(a.Clients, client)
	return nil
}

// parseSecret keeps a placeholder as it is, for Provision to resolve. A secret that is written out is kept as its
// SHA-256: Caddy shows its configuration to its administrators and saves it to disk.
func (c *ClientConfig) parseSecret(d *caddyfile.Dispenser, secret string) error {
	owner := "client " + c.ID
	if strings.Contains(secret, "-----BEGIN") {
		return d.Errf("%s: this is a PEM file, not a client secret", owner)
	}
	if strings.HasPrefix(secret, "$") {
		return looksLikePlaceholder(d, owner, secret)
	}
	resolved, err := parseReference(d, owner, "secret", secret)
	if err != nil {
		return err
	}
	if resolved {
		c.Secret = secret
		return nil
	}
	warnSubstituted(d, "secret of client "+c.ID, secret, 2)
	warnGuessable(caddy.Log().Named("oauth"), sourceOf(d), c.ID, secret)
	digest := oauth.NewSecret(secret).Digest()
	c.SecretSHA256 = hex.EncodeToString(digest[:])
	return nil
}

func (c *ClientConfig) parseOption(d *caddyfile.Dispenser) error {
	list := func(values *[]string, check func(string) error) error {
		args := d.RemainingArgs()
		if len(args) == 0 {
			return d.ArgErr()
		}
		for _, value := range args {
			if err := check(value); err != nil {
				return d.Errf("client %s: %v", c.ID, err)
			}
		}
		*values = append(*values, args...)
		return nil
	}
	switch d.Val() {
	case "name":
		return text(d, &c.Name)
	case "type":
		if err := text(d, &c.Type); err != nil {
			return err
		}
		if err := store.ClientType(c.Type).Validate(); err != nil {
			return d.Errf("client %s: %v", c.ID, err)
		}
	case "grants":
		return list(&c.Grants, func(name string) error { return oauth.GrantType(name).Validate() })
	case "scopes": // which of them there are is known only when every block has been read
		return list(&c.Scopes, func(string) error { return nil })
	case "redirect_uris":
		return list(&c.RedirectURIs, oauth.ValidateRedirectURI)
	case "cors_origins":
		return list(&c.CORSOrigins, oauth.ValidateOrigin)
	case "first_party":
		if d.NextArg() {
			return d.ArgErr()
		}
		c.FirstParty = true
	case "revoke_previous_access_token":
		if d.NextArg() {
			return d.ArgErr()
		}
		c.RevokePreviousAccessToken = true
	case "pkce":
		return parsePKCE(d, &c.PKCE)
	case "tokens":
		return parseTokens(d, &c.Tokens)
	default:
		return d.Errf("unknown client option %q", d.Val())
	}
	return nil
}
