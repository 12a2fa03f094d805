// Package clients identifies, authenticates and registers clients. authentication.go authenticates a client by its secret or by a signed
// JWT, which signedassertion.go reads. open.go admits clients that no operator registered: metadata.go checks what they claim, and
// registrar.go registers them (RFC 7591, RFC 7592). registry.go is for operators. acceptrule.go has the rules for accepting tokens of other
// issuers as grants (RFC 7523), and exchange.go those for exchanging tokens (RFC 8693).
package clients
