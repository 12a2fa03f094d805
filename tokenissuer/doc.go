// Package tokenissuer is the map of an authorization server without its wire: the packages below it decide who gets which token, and know
// no HTTP, no SQL and no logger. Values go in and values come out; clocks, keys, directories and stores are fields.
//
// A request comes from package endpoint, the wire. The token endpoint is package grants: grants/grants.go walks a request, its steps numbered, and
// each grant type has the file of its name (grants/refreshtoken.go). Package issuer decides authorization requests (issuer/authorize.go),
// makes tokens (issuer/minter.go), revokes them (issuer/issuedtokens.go) and describes them (issuer/introspection.go). Package clients establishes who a client
// is (clients/authentication.go), and package signin who a person is (signin/signin.go), whose sessions are in signin/session.go.
//
// What they share is package families: token families with the users they act for. Below it, token makes and verifies access tokens and ID
// tokens, keys holds what both are signed with, store says what is kept and declares what a store has to do, passwords hashes, attempts
// limits, and oauth has the words that all of them use. sqlstore is the store.
//
// Beside issuer stands package people, the operator's and the users' own side. fetch is the one HTTP client; trust verifies tokens of other
// issuers by it, upstream and ldap ask where people sign in elsewhere, clientmetadata reads documents of clients, and backchannel tells
// applications of sign-outs.
package tokenissuer
