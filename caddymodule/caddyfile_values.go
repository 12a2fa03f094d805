package caddymodule

import (
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// oneArg returns the only argument of a line.
func oneArg(d *caddyfile.Dispenser) (string, error) {
	var value string
	if !d.AllArgs(&value) {
		return "", d.ArgErr()
	}
	if value == "" {
		return "", d.Errf("the value is empty; is a variable unset?")
	}
	return value, nil
}

// once refuses a setting that is there already.
func once(d *caddyfile.Dispenser, name string, isSet bool) error {
	if isSet {
		return d.Errf("%s is set twice", name)
	}
	return nil
}

// text reads a setting that is one text.
func text(d *caddyfile.Dispenser, value *string) (err error) {
	if err := once(d, d.Val(), *value != ""); err != nil {
		return err
	}
	*value, err = oneArg(d)
	return err
}

// refuseRequest refuses placeholders that a request would fill.
func refuseRequest(d *caddyfile.Dispenser, value string) error {
	if strings.Contains(value, "{http.request.uri.path.file.") { // what Caddy makes of it
		return d.Errf("in a site block {file.NAME} is a part of the request's path: use {env.NAME} or {file./path}")
	}
	if strings.Contains(value, "{http.") {
		return d.Errf("%s comes from the request: use {env.NAME} or {file./path}", value)
	}
	return nil
}

// isPlaceholder reports whether a value is known only when the server starts.
func isPlaceholder(value string) bool {
	return strings.Contains(value, "{") && strings.Contains(value, "}")
}

// isReference reports whether a value is a placeholder and nothing beside it, so that no part of a secret is written out.
func isReference(value string) bool {
	return strings.HasPrefix(value, "{") && strings.HasSuffix(value, "}") && strings.Count(value, "{") == 1
}

// parseReference reports whether a secret of an owner is a reference, which is kept as it is for Provision to resolve. It
// refuses one that is nearly a reference, or that a request would fill.
func parseReference(d *caddyfile.Dispenser, owner, what, value string) (bool, error) {
	if value == "" {
		return false, d.Errf("%s: the %s is empty; is a variable unset?", owner, what)
	}
	if strings.HasPrefix(value, "env.") || strings.HasPrefix(value, "file.") {
		return false, looksLikePlaceholder(d, owner, value)
	}
	if err := refuseRequest(d, value); err != nil {
		return false, err
	}
	if isReference(value) {
		return true, nil
	}
	if strings.Contains(value, "{env.") || strings.Contains(value, "{file.") {
		return false, d.Errf("%s: a placeholder must be the whole %s", owner, what)
	}
	return false, nil
}

func looksLikePlaceholder(d *caddyfile.Dispenser, owner, value string) error {
	return d.Errf("%s: %q looks like a placeholder without its braces: write {%s}", owner, value, value)
}

func parseDuration(d *caddyfile.Dispenser) (time.Duration, error) {
	value, err := oneArg(d)
	if err != nil {
		return 0, err
	}
	return durationOf(d, value)
}

func durationOf(d *caddyfile.Dispenser, value string) (time.Duration, error) {
	duration, err := caddy.ParseDuration(value)
	if err != nil {
		return 0, d.Errf("%q is no duration: write it as 90s, 15m, 2h or 28d", value)
	}
	return duration, nil
}

// refusePlaceholders refuses placeholders where nothing replaces them: what they name would never be compared.
func refusePlaceholders(d *caddyfile.Dispenser, values []string) error {
	for _, value := range values {
		for _, prefix := range []string{"{http.", "{env.", "{file."} {
			if strings.Contains(value, prefix) {
				return d.Errf("%s: a rule compares with text and replaces no placeholder", value)
			}
		}
	}
	return nil
}

func parseAudience(d *caddyfile.Dispenser, audience *[]string) error {
	values := d.RemainingArgs()
	if len(values) == 0 {
		return d.ArgErr()
	}
	for _, value := range values {
		if value == "" {
			return d.Errf("an audience must not be empty")
		}
		if err := refuseRequest(d, value); err != nil {
			return err
		}
	}
	*audience = append(*audience, values...)
	return nil
}

// parseSetting reads a text that may be a placeholder, but not one that a request would fill.
func parseSetting(d *caddyfile.Dispenser, value *string) error {
	if err := text(d, value); err != nil {
		return err
	}
	return refuseRequest(d, *value)
}
