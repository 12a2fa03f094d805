package setting

import (
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// Source tells where in a Caddyfile the word stands that was read last, as file:line.
func Source(d *caddyfile.Dispenser) string {
	if d.File() == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", d.File(), d.Line())
}

// At adds to an error where its cause stands. A configuration in JSON has no such places, and an error that says where
// something stands already knows better.
func At(err error, source string) error {
	if err == nil || source == "" || strings.Contains(err.Error(), ", at ") {
		return err
	}
	return fmt.Errorf("%w, at %s", err, source)
}
