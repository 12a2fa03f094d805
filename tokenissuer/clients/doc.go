// Package clients establishes who a client is. authentication.go authenticates a client by its secret, assertion.go by a signed JWT, and
// open.go presents clients that nobody here has registered: by a metadata document or by dynamic registration. exchange.go checks the
// rules by which a client may exchange tokens.
package clients
