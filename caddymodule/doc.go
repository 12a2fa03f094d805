// Package caddymodule puts Gatehouse into Caddy: configuration in, HTTP handlers out.
//
// app.go is the app `oauth`. config.go reads its configuration, of which each block has a file: issuer.go, store.go, keys.go,
// tokens.go, scope.go, client.go, role.go, people.go, trust.go, introspection.go, limits.go, brand.go. package node holds the state that outlives a reload. server.go
// is the handler `oauth_server`, which serves the issuer's endpoints. protect.go has the settings of the handler
// `protect` and decide.go its walk: it guards the request (identity.go, headernames.go, path.go, method.go, cookies.go),
// finds the issuer of its token (issuers.go, trusted.go) and has it verified, asks the rules (rules.go, rule_*.go), and tells
// the upstream who is calling (forward.go, assertion.go, tokenexchange.go). cover.go asks package coverage what the routes leave
// open. app_target.go hands package admin what operators ask: the admin API and the command line.
package caddymodule

import _ "github.com/gatehouse-auth/gatehouse/caddymodule/logfilter" // the log filter `oauth`
