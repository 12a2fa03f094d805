package caddymodule

import (
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

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
