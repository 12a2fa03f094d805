package configuration

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// parseLifetimes reads a block of lifetimes, the issuer's or a client's:
//
//	tokens {
//		authorization_code | client_credentials | password | admin_created <duration>
//		refresh | refresh_idle | code <duration>
//		refresh_grace <duration> [same_address] | 0
//	}
func parseLifetimes(d *caddyfile.Dispenser, l *store.Lifetimes) error {
	lines := make(options)
	for _, name := range store.LifetimeNames() {
		lines[name] = func(d *caddyfile.Dispenser) error { return parseLifetime(d, l, name) }
	}
	return lines.parseAlone(d, "unknown token lifetime %q")
}

// parseLifetime reads a duration. That of refresh_grace may be 0, and may be followed by same_address.
func parseLifetime(d *caddyfile.Dispenser, l *store.Lifetimes, name string) error {
	value := l.Named(name)
	if err := setting.Once(d, name, *value != 0); err != nil {
		return err
	}
	isGrace := value == &l.RefreshGrace
	args := d.RemainingArgs()
	if len(args) == 0 || len(args) > 2 || len(args) == 2 && !isGrace {
		return d.ArgErr()
	}
	if args[0] == "" {
		return d.Errf("the value is empty; is a variable unset?")
	}
	duration, err := setting.DurationOf(d, args[0])
	switch {
	case err != nil:
		return err
	case duration == 0 && isGrace:
		duration = store.NoGrace
	case duration == store.NoGrace && isGrace: // as it is written it is negative, and no grace is 0
		duration--
	case duration == 0:
		return d.Errf("token lifetime %s 0s: use at least 1s", name)
	}
	if len(args) == 2 && args[1] != "same_address" {
		return d.Errf("unknown option %q of refresh_grace: use same_address", args[1])
	}
	*value, l.SameAddress = duration, l.SameAddress || len(args) == 2
	if err := l.Validate(); err != nil {
		return d.Errf("%v", err)
	}
	return nil
}

// readLifetimes returns the lifetimes of the block, with defaults for those that it leaves out.
func readLifetimes(own *store.Lifetimes) (store.Lifetimes, error) {
	if own == nil {
		return store.DefaultLifetimes, nil
	}
	return own.Or(store.DefaultLifetimes), own.Validate()
}

// parsePasswordGrant reads `password_grant { refresh_tokens }`.
func parsePasswordGrant(d *caddyfile.Dispenser, rules **issuer.PasswordRules, _ *Sources) error {
	if err := setting.Once(d, "password_grant", *rules != nil); err != nil {
		return err
	}
	return options{"refresh_tokens": flag(&orNew(rules).Refresh)}.parseAlone(d, "unknown password_grant option %q")
}
