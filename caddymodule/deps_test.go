package caddymodule

import (
	_ "github.com/c2sp/wycheproof"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	_ "github.com/patrickmn/go-cache"
	_ "github.com/pressly/goose/v3"
	_ "go.uber.org/goleak"
	_ "golang.org/x/net/http2"
	_ "golang.org/x/oauth2/clientcredentials"
	_ "modernc.org/sqlite"
)
