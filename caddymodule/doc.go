// Package caddymodule puts Gatehouse into Caddy: configuration in, HTTP handlers out.
//
// app.go is the app `oauth`: its JSON and what Caddy calls. others.go has the servers of others that the app names: trusted issuers,
// providers, directories and the keys of clients. service.go is our own issuer on its node, which issuer.go builds and start.go starts;
// lifecycle.go is how far that has come. server.go is the handler `oauth_server`, which serves the issuer's endpoints, cover.go examines
// the routes, and target.go is what the admin API sees.
//
// The parts stand in packages of their own: configuration reads the oauth block, node outlives a reload, gate is the handler `protect`,
// coverage examines routes, admin is the admin API, and command the command line.
package caddymodule

import (
	_ "github.com/gatehouse-auth/gatehouse/caddymodule/command"   // `caddy oauth …`
	_ "github.com/gatehouse-auth/gatehouse/caddymodule/logfilter" // the log filter `oauth`
)
