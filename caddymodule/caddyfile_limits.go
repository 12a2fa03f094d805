package caddymodule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

func (a *App) parseRevocation(d *caddyfile.Dispenser) error {
	if a.Revocation == nil {
		a.Revocation = new(RevocationConfig)
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if d.Val() != "max_staleness" {
			return d.Errf("unknown revocation option %q", d.Val())
		}
		if err := once(d, "max_staleness", a.Revocation.MaxStaleness != 0); err != nil {
			return err
		}
		duration, err := parseDuration(d)
		if err != nil {
			return err
		}
		if duration < leastStaleness {
			return d.Errf("max_staleness %s: use at least %s, for the store is read once a second", duration, leastStaleness)
		}
		a.Revocation.MaxStaleness = caddy.Duration(duration)
	}
	return nil
}

func (a *App) parseLimits(d *caddyfile.Dispenser) error {
	if a.Limits == nil {
		a.Limits = new(LimitsConfig)
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		var err error
		switch d.Val() {
		case "client":
			err = parseOneLimit(d, &a.Limits.Client, "20/1m", "ip")
		case "login":
			err = a.Limits.parseLogin(d)
		case "grants":
			err = parseOneLimit(d, &a.Limits.Grants, "60/1m", "user")
		case "revocations":
			err = parseOneLimit(d, &a.Limits.Revocations, "60/1m", "client")
		case "gate":
			err = parseOneLimit(d, &a.Limits.Gate, "60/3s", "ip")
		default:
			err = d.Errf("unknown limit %q", d.Val())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// parseOneLimit reads a limit that is set by one line, as in the example.
func parseOneLimit(d *caddyfile.Dispenser, limit **LimitConfig, example, per string) (err error) {
	name := d.Val()
	if err := once(d, "limits "+name, *limit != nil); err != nil {
		return err
	}
	*limit, _, err = parseLimit(d, fmt.Sprintf("write a limit as `%s %s per %s`, or as `%s off`", name, example, per, name), per)
	return err
}

func (c *LimitsConfig) parseLogin(d *caddyfile.Dispenser) error {
	limit, per, err := parseLimit(d, "write limits as `login 10/1m per account` and `login 30/1m per ip`, or as `login off`",
		"account", "ip")
	if err != nil {
		return err
	}
	if per != "ip" {
		if err := once(d, "limits login per account", c.LoginAccount != nil); err != nil {
			return err
		}
		c.LoginAccount = limit
	}
	if per != "account" {
		if err := once(d, "limits login per ip", c.LoginAddress != nil); err != nil {
			return err
		}
		c.LoginAddress = limit
	}
	return nil
}

// parseLimit reads `<number>/<window> per …`, or `off`, which is per nothing in particular.
func parseLimit(d *caddyfile.Dispenser, usage string, known ...string) (limit *LimitConfig, per string, err error) {
	args := d.RemainingArgs()
	if len(args) == 1 && args[0] == "off" {
		return &LimitConfig{Off: true}, "", nil
	}
	if len(args) != 3 || !strings.Contains(args[0], "/") || args[1] != "per" || !slices.Contains(known, args[2]) {
		return nil, "", d.Errf("%s", usage)
	}
	count, window, _ := strings.Cut(args[0], "/")
	failures, err := strconv.Atoi(count)
	if err != nil || failures < 1 {
		return nil, "", d.Errf("%q is no number", count)
	}
	duration, err := caddy.ParseDuration(window)
	if err != nil || duration < time.Second {
		return nil, "", d.Errf("%q is no window: write it as 30s, 1m or 1h", window)
	}
	return &LimitConfig{Failures: failures, Window: caddy.Duration(duration)}, args[2], nil
}
