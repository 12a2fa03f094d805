// Package console lets operators see and change a configuration in a browser, below /oauth/admin.
//
// handler.go is the handler, which stands behind a gate; directive.go is the line of the Caddyfile that makes both. operator.go knows who
// asks, and bounds.go what an operator of one organisation may ask. sheet.go is a page, and form.go one with a form. routes.go lists the
// pages, whose files are named after the places of the console. Everything is asked of package admin, as the command line does, and shown by
// package pages.
package console
