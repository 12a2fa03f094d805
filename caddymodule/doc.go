// Package caddymodule puts Gatehouse into Caddy: configuration in, HTTP handlers out.
//
// app.go is the app `oauth`; config.go reads its settings; engine.go holds the state that outlives a reload. server.go
// is the handler `oauth_server`, which serves the issuer's endpoints. protect.go is the handler `protect`: it guards the
// request (identity.go, headernames.go, path.go, method.go, cookies.go), verifies its token, asks the rules (rules.go)
// and tells the upstream who is calling. The files caddyfile*.go hold the grammar, admin.go and command.go
// the administration.
package caddymodule
