// Package assertion reads what clients and other issuers sign for our token endpoint (RFC 7521, RFC 7523): the JWT by which a client
// authenticates, and the rules by which a token of a trusted issuer becomes one of ours.
package assertion
