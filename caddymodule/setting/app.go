package setting

import (
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2"
)

// App returns the configuration's oauth block. Directive and source, its position, are for errors.
func App(ctx caddy.Context, directive, source string) (any, error) {
	app, err := ctx.AppIfConfigured("oauth")
	if errors.Is(err, caddy.ErrNotConfigured) {
		return nil, At(fmt.Errorf("%s needs an oauth block in the global options, with `issuer`, `trust` or `sign_in`", directive), source)
	}
	return app, err
}
