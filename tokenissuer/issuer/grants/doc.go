// Package grants is the token endpoint (RFC 6749 §3.2). grants.go walks a request from its client to its tokens; each grant type has a
// struct with what it needs, in the file of its name.
package grants
