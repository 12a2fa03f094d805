package caddymodule

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

func (a *App) parseKeys(d *caddyfile.Dispenser) error {
	if a.Keys == nil {
		a.Keys = new(KeysConfig)
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	options := map[string]func(*caddyfile.Dispenser) error{
		"algorithm": a.Keys.parseAlgorithm, "rotate": a.Keys.parseRotate,
		"encrypt_with": func(d *caddyfile.Dispenser) error {
			a.note(d, "encrypt_with")
			return a.Keys.parseEncryptWith(d)
		},
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		parse, ok := options[d.Val()]
		if !ok {
			return d.Errf("unknown keys option %q", d.Val())
		}
		if err := parse(d); err != nil {
			return err
		}
	}
	return nil
}

func (c *KeysConfig) parseAlgorithm(d *caddyfile.Dispenser) error {
	if err := text(d, &c.Algorithm); err != nil {
		return err
	}
	if _, err := oauth.ParseAlgorithm(c.Algorithm); err != nil {
		return d.Errf("%v", err)
	}
	return nil
}

func (c *KeysConfig) parseRotate(d *caddyfile.Dispenser) error {
	if err := once(d, "rotate", c.Rotate != nil); err != nil {
		return err
	}
	var every caddy.Duration
	if c.Rotate = &every; d.CountRemainingArgs() == 1 && d.NextArg() {
		if d.Val() == "off" {
			return nil
		}
		d.Prev()
	}
	duration, err := parseDuration(d)
	if err == nil && (duration == 0 || !isRotation(duration)) {
		err = d.Errf("rotate %s: %v", duration, errRotation)
	}
	every = caddy.Duration(duration)
	return err
}

// parseEncryptWith reads the key-encryption key of now, and older ones behind it.
func (c *KeysConfig) parseEncryptWith(d *caddyfile.Dispenser) error {
	if err := once(d, "encrypt_with", c.EncryptWith != ""); err != nil {
		return err
	}
	references := d.RemainingArgs()
	if len(references) == 0 {
		return d.ArgErr()
	}
	for _, reference := range references {
		if reference == "" {
			return d.Errf("the value is empty; is a variable unset?")
		}
		if err := refuseRequest(d, reference); err != nil {
			return err
		}
		if !isReference(reference) {
			return d.Errf("%v", errLiteralKey)
		}
	}
	c.EncryptWith, c.DecryptWith = references[0], references[1:]
	if len(c.DecryptWith) == 0 {
		c.DecryptWith = nil
	}
	return nil
}
