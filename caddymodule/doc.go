// Package caddymodule puts Gatehouse into Caddy: configuration in, HTTP handlers out.
//
// app.go is the app `oauth`. server.go is the handler `oauth_server`, which serves the issuer's endpoints. start.go begins to
// serve, and lifecycle.go is how far that has come.
//
// What a configuration is made of stands below, each in a package: configuration reads it, node outlives a reload, gate is the handler `protect`, coverage
// looks at the routes, admin is the admin API, command the command line. App hands each of them what it needs: app.go the gates,
// cover.go the routes, app_target.go the operator.
package caddymodule

import (
	_ "github.com/gatehouse-auth/gatehouse/caddymodule/command"   // `caddy oauth …`
	_ "github.com/gatehouse-auth/gatehouse/caddymodule/logfilter" // the log filter `oauth`
)
