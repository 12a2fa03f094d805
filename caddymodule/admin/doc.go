// Package admin is the API for operators under /oauth/ of Caddy's admin endpoint. `caddy oauth …` is its client.
//
// target.go is the running configuration, which the oauth app fills. route.go has the routes, which the document (openapi.go) and the command
// line take from there. operation.go is what operations share, page.go is what lists share that are read in pages, and api.go serves them. Each
// kind of thing has a file: clients.go, organisations.go, users.go, sessions.go, tokens.go, explain.go, keys.go, providers.go, backup.go,
// status.go, ready.go; imports.go changes many users at once. metrics.go has the gauges of the running configuration.
package admin
