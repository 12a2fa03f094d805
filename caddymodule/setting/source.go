package setting

import (
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// Source returns the position of the last token in the Caddyfile, as file:line.
func Source(d *caddyfile.Dispenser) string {
	if d.File() == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", d.File(), d.Line())
}

// At adds a position to an error, unless it is empty, as with JSON, or the error already has one.
func At(err error, source string) error {
	if err == nil || source == "" || strings.Contains(err.Error(), ", at ") {
		return err
	}
	return fmt.Errorf("%w, at %s", err, source)
}
