// Package clients establishes who a client is. authentication.go authenticates a client by its secret or by a signed JWT, which
// signedassertion.go reads. open.go admits clients that are not registered by an operator: metadata.go says what they may claim, and
// registrar.go registers them (RFC 7591, RFC 7592). registry.go is the operator's side. acceptrule.go has the rules by which tokens of other
// issuers are accepted as grants (RFC 7523), and exchange.go those by which a client may exchange tokens (RFC 8693).
package clients
