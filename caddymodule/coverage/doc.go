// Package coverage determines what protects the routes of a configuration.
//
// Examine is its entry point. walk.go follows a request through the routes of a server. For each site (site.go) it
// records the gates and the handlers that answer from a backend, each with the conditions that lead to it.
// condition.go compares conditions: whether a gate stands before a backend for every request, for some, or for none.
// verdict.go turns that into the verdict in a Route (route.go), and words.go describes conditions in words.
//
// warnings.go and warnings_issuer.go report likely mistakes, and metadata.go makes the metadata of the guarded
// resources (RFC 9728).
package coverage
