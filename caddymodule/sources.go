package caddymodule

import (
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// sourceOf tells where in a Caddyfile the word stands that was read last, as file:line.
func sourceOf(d *caddyfile.Dispenser) string {
	if d.File() == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", d.File(), d.Line())
}

// placed adds to an error where its cause stands. A configuration in JSON has no such places, and an error that says where
// something stands already knows better.
func placed(err error, source string) error {
	if err == nil || source == "" || strings.Contains(err.Error(), ", at ") {
		return err
	}
	return fmt.Errorf("%w, at %s", err, source)
}

// note keeps where a setting stands, of which more is known when all blocks have been read or the server starts. The words
// name the setting; of several places the first counts.
func (a *App) note(d *caddyfile.Dispenser, setting ...string) {
	name, source := strings.Join(setting, " "), sourceOf(d)
	if _, noted := a.Sources[name]; noted || source == "" {
		return
	}
	if a.Sources == nil {
		a.Sources = make(map[string]string)
	}
	a.Sources[name] = source
}

// at adds to an error where a setting stands that was noted.
func (a *App) at(err error, setting ...string) error {
	return placed(err, a.Sources[strings.Join(setting, " ")])
}
