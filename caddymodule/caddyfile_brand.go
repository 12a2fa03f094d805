package caddymodule

import "github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

func (a *App) parseBrand(d *caddyfile.Dispenser) error {
	if err := once(d, "brand", a.Brand != nil); err != nil {
		return err
	}
	a.Brand = new(BrandConfig)
	args := d.RemainingArgs()
	if len(args) > 1 {
		return d.ArgErr()
	}
	if len(args) == 1 {
		if a.Brand.Name = args[0]; a.Brand.Name == "" {
			return d.Errf("the brand is empty; is a variable unset?")
		}
	}
	first := *d
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if d.Val() != "logo" {
			return d.Errf("unknown brand option %q", d.Val())
		}
		a.note(d, "logo")
		if err := a.Brand.parseLogo(d); err != nil {
			return err
		}
	}
	if *a.Brand == (BrandConfig{}) {
		return first.ArgErr()
	}
	return nil
}

func (c *BrandConfig) parseLogo(d *caddyfile.Dispenser) error {
	if err := text(d, &c.Logo); err != nil {
		return err
	}
	if err := refuseRequest(d, c.Logo); err != nil {
		return err
	}
	if isPlaceholder(c.Logo) { // its suffix is known only when the server starts
		return nil
	}
	if _, err := logoType(c.Logo); err != nil {
		return d.Errf("%v", err)
	}
	return nil
}
