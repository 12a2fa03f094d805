// Package setting reads single settings for the oauth block and the directives: from a Caddyfile, with errors that name file and line, and
// from a loaded configuration, with {env.NAME} and {file./path} replaced.
package setting

import (
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// OneArg returns the only argument of a line.
func OneArg(d *caddyfile.Dispenser) (string, error) {
	var value string
	if !d.AllArgs(&value) {
		return "", d.ArgErr()
	}
	if value == "" {
		return "", d.Errf("the value is empty; is a variable unset?")
	}
	return value, nil
}

// Once returns an error if the setting occurred before.
func Once(d *caddyfile.Dispenser, name string, isSet bool) error {
	if isSet {
		return d.Errf("%s is set twice", name)
	}
	return nil
}

// Text reads a setting with one argument.
func Text(d *caddyfile.Dispenser, value *string) (err error) {
	if err := Once(d, d.Val(), *value != ""); err != nil {
		return err
	}
	*value, err = OneArg(d)
	return err
}

// RefuseRequest returns an error for a placeholder of the request.
func RefuseRequest(d *caddyfile.Dispenser, value string) error {
	if strings.Contains(value, "{http.request.uri.path.file.") { // Caddy expands {file.NAME} to this
		return d.Errf("in a site block {file.NAME} is a part of the request's path: use {env.NAME} or {file./path}")
	}
	if strings.Contains(value, "{http.") {
		return d.Errf("%s comes from the request: use {env.NAME} or {file./path}", value)
	}
	return nil
}

// IsPlaceholder reports whether a value has a placeholder, which is resolved at the start.
func IsPlaceholder(value string) bool {
	return strings.Contains(value, "{") && strings.Contains(value, "}")
}

// IsReference reports whether a value is exactly one placeholder. The configuration then holds no part of a secret.
func IsReference(value string) bool {
	return strings.HasPrefix(value, "{") && strings.HasSuffix(value, "}") && strings.Count(value, "{") == 1
}

// Reference reports whether a secret is a reference. It returns an error for a malformed reference, and for a placeholder of the request.
func Reference(d *caddyfile.Dispenser, owner, what, value string) (bool, error) {
	if value == "" {
		return false, d.Errf("%s: the %s is empty; is a variable unset?", owner, what)
	}
	if strings.HasPrefix(value, "env.") || strings.HasPrefix(value, "file.") {
		return false, LooksLikePlaceholder(d, owner, value)
	}
	if err := RefuseRequest(d, value); err != nil {
		return false, err
	}
	if IsReference(value) {
		return true, nil
	}
	if strings.Contains(value, "{env.") || strings.Contains(value, "{file.") {
		return false, d.Errf("%s: a placeholder must be the whole %s", owner, what)
	}
	return false, nil
}

// LooksLikePlaceholder returns the error for a placeholder without its braces.
func LooksLikePlaceholder(d *caddyfile.Dispenser, owner, value string) error {
	return d.Errf("%s: %q looks like a placeholder without its braces: write {%s}", owner, value, value)
}

// Known returns the end of the error for an unknown option, which lists the known ones.
func Known(options iter.Seq[string]) string {
	names := slices.Sorted(options)
	switch len(names) {
	case 0:
		return ""
	case 1:
		return ": use " + names[0]
	}
	last := len(names) - 1
	return ": use " + strings.Join(names[:last], ", ") + " or " + names[last]
}

// Duration reads a duration in Caddy's notation: 90s, 15m, 2h or 28d.
func Duration(d *caddyfile.Dispenser) (time.Duration, error) {
	value, err := OneArg(d)
	if err != nil {
		return 0, err
	}
	return DurationOf(d, value)
}

// DurationOf parses a duration.
func DurationOf(d *caddyfile.Dispenser, value string) (time.Duration, error) {
	duration, err := caddy.ParseDuration(value)
	if err != nil {
		return 0, d.Errf("%q is no duration: write it as 90s, 15m, 2h or 28d", value)
	}
	return duration, nil
}

// RefusePlaceholders returns an error for placeholders in values that are not resolved.
func RefusePlaceholders(d *caddyfile.Dispenser, values []string) error {
	for _, value := range values {
		for _, prefix := range []string{"{http.", "{env.", "{file."} {
			if strings.Contains(value, prefix) {
				return d.Errf("%s: a rule compares with text and replaces no placeholder", value)
			}
		}
	}
	return nil
}

// Audience reads audiences; several lines add up.
func Audience(d *caddyfile.Dispenser, audience *[]string) error {
	values := d.RemainingArgs()
	if len(values) == 0 {
		return d.ArgErr()
	}
	for _, value := range values {
		if value == "" {
			return d.Errf("an audience must not be empty")
		}
		if err := RefuseRequest(d, value); err != nil {
			return err
		}
	}
	*audience = append(*audience, values...)
	return nil
}

// TextOrPlaceholder reads a setting with one argument, which may have placeholders except those of the request.
func TextOrPlaceholder(d *caddyfile.Dispenser, value *string) error {
	if err := Text(d, value); err != nil {
		return err
	}
	return RefuseRequest(d, *value)
}
