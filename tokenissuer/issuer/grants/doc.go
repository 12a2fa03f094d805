// Package grants implements the token endpoint (RFC 6749 §3.2). grants.go processes a request from client authentication to the issued
// tokens. Each grant type is a struct in a file of its name.
package grants
