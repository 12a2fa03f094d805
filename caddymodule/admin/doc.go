// Package admin answers operators, under /oauth/ of Caddy's admin endpoint. `caddy oauth …` asks there.
//
// target.go is the configuration that they ask about, which the oauth app fills. api.go serves the operations, of which each
// kind of thing has a file: clients.go, organisations.go, users.go, tokens.go, explain.go, keys.go, providers.go, backup.go, status.go,
// ready.go. metrics.go has the gauges of the running configuration.
package admin
