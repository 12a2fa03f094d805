// Package coverage finds out what protects the routes of a configuration.
//
// Examine is its door. walk.go follows a request through the routes of a server, and notes for each site (site.go) the gates and
// the handlers that answer from a backend, each with the conditions under which requests come there. condition.go compares
// conditions: whether a gate stands before a backend for every request, for some, or for none. verdict.go says what that is worth, in
// the Routes (route.go) that an operator is shown, and words.go says it in words.
//
// Two more know what the walk has found: warnings.go and warnings_issuer.go say what looks wrong, and metadata.go makes the metadata of what
// the gates guard (RFC 9728).
package coverage
