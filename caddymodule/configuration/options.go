package configuration

import (
	"maps"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
)

// options are the parsers for the lines of a block, by their first word. Each reads the rest of its line, and the block that the line may
// open.
type options map[string]func(d *caddyfile.Dispenser) error

// parse reads a block of such lines. Unknown is the error for any other line, with a %q for its first word. parse adds the known words.
func (o options) parse(d *caddyfile.Dispenser, unknown string) error {
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		parse, ok := o[d.Val()]
		if !ok {
			return d.Errf(unknown+setting.Known(maps.Keys(o)), d.Val())
		}
		if err := parse(d); err != nil {
			return err
		}
	}
	return nil
}

// parseAlone reads the block of a line with one word.
func (o options) parseAlone(d *caddyfile.Dispenser, unknown string) error {
	if d.NextArg() {
		return d.ArgErr()
	}
	return o.parse(d, unknown)
}

// with is an option of the oauth block: parse reads the setting at value.
func with[T any](value T, at *Sources, parse func(*caddyfile.Dispenser, T, *Sources) error) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error { return parse(d, value, at) }
}

// flag is an option without a value.
func flag(value *bool) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		if d.NextArg() {
			return d.ArgErr()
		}
		*value = true
		return nil
	}
}

// checkedText is an option with one text, which passes check unless that is nil.
func checkedText(value *string, check func(string) error) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		if err := setting.Text(d, value); err != nil || check == nil {
			return err
		}
		if err := check(*value); err != nil {
			return d.Errf("%v", err)
		}
		return nil
	}
}

// checkedList is an option with several texts, which each pass check unless that is nil. Several lines add up.
func checkedList(values *[]string, check func(string) error) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		args := d.RemainingArgs()
		if len(args) == 0 {
			return d.ArgErr()
		}
		for _, value := range args {
			if check == nil {
				break
			}
			if err := check(value); err != nil {
				return d.Errf("%v", err)
			}
		}
		*values = append(*values, args...)
		return nil
	}
}

// parseOnce reads a duration that was not set before.
func parseOnce(d *caddyfile.Dispenser, value *caddy.Duration) error {
	if err := setting.Once(d, d.Val(), *value != 0); err != nil {
		return err
	}
	duration, err := setting.Duration(d)
	*value = caddy.Duration(duration)
	return err
}

// orNew returns the value of a pointer. It creates the value if the pointer is nil.
func orNew[T any](value **T) *T {
	if *value == nil {
		*value = new(T)
	}
	return *value
}

// lookup is setting.Resolve or standIn.
type lookup func(name, text string) (string, error)

// placeholderURL is the value of placeholders for standIn.
const placeholderURL = "https://known-later.example"

// standIn replaces setting.Resolve while a Caddyfile is adapted. Values of placeholders are known only when the server starts, so it returns
// values that pass the checks.
func standIn(name, text string) (string, error) {
	if setting.IsPlaceholder(text) {
		switch name {
		case directoryURL:
			return "ldap://localhost", nil
		case directoryDN:
			return "cn=known later", nil
		case directoryCA:
			return "", nil
		}
		return placeholderURL, nil
	}
	return setting.Resolve(name, text)
}
