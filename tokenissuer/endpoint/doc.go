// Package endpoint is the wire of Gatehouse: it reads HTTP requests into the values of tokenissuer, and writes what
// tokenissuer decides as HTTP responses.
//
// Handler serves the issuer's endpoints; endpoint.go has its routes, and each route has the file of its name: token.go
// (RFC 6749 §3.2), revoke.go (RFC 7009), introspect.go (RFC 7662), tokeninfo.go, metadata.go (RFC 8414, RFC 9728,
// RFC 7517). form.go and multipart.go are the only readers of a body, basic.go of client credentials, bearer.go of an
// access token. errors.go is the only writer of errors: there stands the status of each code, and its form as OAuth
// JSON, as Bearer challenge and as JSON:API document. audit.go writes the one log line of each decision.
package endpoint
