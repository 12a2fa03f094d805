package caddymodule

import (
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2"
)

// oauthApp returns the configuration's oauth block, for the directive that needs it, which stands at the source.
func oauthApp(ctx caddy.Context, directive, source string) (any, error) {
	app, err := ctx.AppIfConfigured("oauth")
	if errors.Is(err, caddy.ErrNotConfigured) {
		return nil, placed(fmt.Errorf("%s needs an oauth block in the global options, with `issuer` or `trust`", directive), source)
	}
	return app, err
}
