// Package requests parses HTTP requests, each part in a single way: the body with its parameters (form.go, multipart.go), the client's
// credentials (basic.go) and a bearer token (bearer.go). path.go lists the ways in which an upstream could read a path. The package refuses
// ambiguous input, with a status from error.go. It does not verify what it has parsed.
package requests
